//! How fast HMAC-SHA-1 of full records is, on one core: one record after the other, and all that
//! are there.
//!
//! Prints a line for people and a JSON line for scripts per figure. Wall time is reported and gates
//! nothing.
#![allow(clippy::print_stdout, reason = "a bench prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tandem_sha1_lanes::{Key, Message, is_wide, macs};

/// How long each figure is measured.
const MEASURE: Duration = Duration::from_secs(1);
/// Bytes of a full record.
const RECORD_LEN: usize = 1 << 14;
/// Records of a piece of a body: 1 MiB.
const RECORDS: usize = 64;

fn main() {
    let key = Key::new(&[7; 20]).expect("a short key");
    let content: Vec<u8> = (0..RECORDS * RECORD_LEN).map(|at| (at / 7) as u8).collect();
    let messages: Vec<Message<'_>> = content
        .chunks(RECORD_LEN)
        .map(|body| Message {
            head: &[3; 13],
            body,
        })
        .collect();
    println!("side by side: {}", is_wide());
    for at_once in [1, 2, 3, 4, RECORDS] {
        let rate = per_second(|| {
            for messages in messages.chunks(at_once) {
                black_box(macs(&key, messages));
            }
        });
        let bytes = rate * content.len() as f64;
        println!("{at_once:>3} at once {:>8.0} MB/s", bytes / 1e6);
        println!(
            r#"{{"bench":"split_macs","at_once":{at_once},"value":{bytes:.0},"unit":"bytes/s"}}"#
        );
    }
}

fn per_second(mut work: impl FnMut()) -> f64 {
    work();
    let started = Instant::now();
    let mut rounds = 0_u32;
    while started.elapsed() < MEASURE {
        work();
        rounds += 1;
    }
    f64::from(rounds) / started.elapsed().as_secs_f64()
}
