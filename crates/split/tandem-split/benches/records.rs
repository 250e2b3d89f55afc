//! How fast records are vouched for and made, on one core: for each suite the origin's MACs, the
//! volunteer's records, the origin's opening of a client's request; and the digest that a payload
//! is checked by when it comes from a disk.
//!
//! Prints a line for people and a JSON line for scripts per figure. Wall time is reported and gates
//! nothing.
//!
//! - `seal`: full records of 16 KiB into runs.
//! - `splice`: the same, from payloads in memory to TLS records.
//! - `open`: records of 500 bytes, about a browser's request, with the work that hides where they
//!   went wrong.
//! - `check`: SHA-256 over chunks of 16 KiB.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a bench measures time and prints"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tandem_split::keys::{KeyBlock, TrafficKeys};
use tandem_split::message::{Channel, Encodings, Greeting, KeyExpose};
use tandem_split::object::CHUNK_LEN;
use tandem_split::open::Opener;
use tandem_split::splice::Limits;
use tandem_split::stub::StubWriter;
use tandem_split::suite::Format;
use tandem_split::{List, Payload, PayloadName, RecordType, Sealer, Splicer, Suite, Want};

/// How long each figure is measured.
const MEASURE: Duration = Duration::from_secs(1);
/// Records of a run that is measured: 1 MiB.
const RECORDS: usize = 64;
/// Bytes of a request with its headers, about.
const REQUEST_LEN: usize = 500;

fn main() {
    let object: Vec<u8> = (0..RECORDS * CHUNK_LEN)
        .map(|at| (at * 31 / 8) as u8)
        .collect();
    let list = Arc::new(List::of(&object).expect("short"));
    let payloads: Vec<Payload> = object
        .chunks(CHUNK_LEN)
        .map(|chunk| Payload::new(chunk).expect("short"))
        .collect();
    for suite in Suite::ALL {
        let (sealer, keys) = keys(suite);
        let mut writer = StubWriter::new(sealer, Encodings::DEFAULT);
        let mut out = Vec::new();
        let sealed = per_second(|| {
            out.clear();
            seal(&mut writer, &object, &list, &mut out);
        });
        report("seal", suite, sealed * RECORDS as f64, CHUNK_LEN);
        let run = out.clone();
        let spliced = per_second(|| {
            out.clear();
            splice(&keys, &run, &list, &payloads, &mut out);
        });
        report("splice", suite, spliced * RECORDS as f64, CHUNK_LEN);
        let opened = open(suite);
        report("open", suite, opened, REQUEST_LEN);
    }
    let mut chunks = payloads.iter().cycle();
    let checked = per_second(|| {
        let payload = chunks.next().expect("they go round");
        assert!(black_box(payload.name()).names(payload.bytes()));
    });
    line("check", "SHA-256", checked, CHUNK_LEN);
    assert!(matches!(payloads[0].name(), PayloadName::Sha256(_)));
}

fn keys(suite: Suite) -> (Sealer, KeyExpose) {
    match suite.format() {
        Format::Cbc => {
            let block = vec![7; KeyBlock::len_of(suite)];
            let block = KeyBlock::new(suite, &block).expect("its length");
            (block.sealer(0), block.key_expose())
        }
        Format::Integrity => {
            let keys = TrafficKeys::expand(suite, &vec![7; suite.mac_len()]).expect("its length");
            let expose = KeyExpose::new(suite, &[]).expect("there is no key");
            (keys.sealer(0), expose)
        }
    }
}

fn seal(writer: &mut StubWriter, object: &[u8], list: &List, out: &mut Vec<u8>) {
    let mut run = writer.run(list.name(), 0, CHUNK_LEN).expect("a length");
    for record in object.chunks(CHUNK_LEN) {
        run.record(record).expect("there is room");
    }
    run.finish(out);
}

fn splice(keys: &KeyExpose, run: &[u8], list: &Arc<List>, payloads: &[Payload], out: &mut Vec<u8>) {
    let mut channel = Vec::new();
    Greeting::new(Channel::Connection, Encodings::DEFAULT).write(&mut channel);
    keys.write(&mut channel);
    let mut splicer = Splicer::new(Encodings::DEFAULT, Limits::default());
    assert_eq!(splicer.push(&channel), Ok(channel.len()));
    assert_eq!(splicer.push(run), Ok(run.len()));
    let mut next = 0;
    while !splicer.is_drained() {
        while let Some(want) = splicer.poll_want() {
            match want {
                // They are wanted in order.
                Want::Payload(_) => {
                    splicer.give(&payloads[next]);
                    next += 1;
                }
                Want::List { .. } => {
                    splicer.give_list(list);
                }
            }
        }
        splicer
            .write_records(out, usize::MAX, || [9; 16])
            .expect("all is there");
    }
}

/// Records per second. Those of one connection are made before: the opener counts them.
fn open(suite: Suite) -> f64 {
    const BATCH: usize = 2_000;
    let (mac_key, key) = (vec![7; suite.mac_len()], vec![7; suite.key_len()]);
    let opener = || match suite.format() {
        Format::Cbc => Opener::tls12(suite, &mac_key, &key, 0).expect("its keys"),
        Format::Integrity => Opener::tls13(suite, &mac_key, &mac_key, 0).expect("its keys"),
    };
    let sealer = match suite.format() {
        Format::Cbc => Sealer::tls12(suite, &mac_key, 0),
        Format::Integrity => Sealer::tls13(suite, &mac_key, &mac_key, 0),
    };
    let expose = KeyExpose::new(suite, &key).expect("its key");
    let mut writer = StubWriter::new(sealer.expect("its keys"), Encodings::DEFAULT);
    let mut splicer = Splicer::new(Encodings::DEFAULT, Limits::default());
    let (mut channel, mut records) = (Vec::new(), Vec::new());
    Greeting::new(Channel::Connection, Encodings::DEFAULT).write(&mut channel);
    expose.write(&mut channel);
    for _ in 0..BATCH {
        writer
            .literal(&mut channel, RecordType::ApplicationData, &[1; REQUEST_LEN])
            .expect("short");
        assert_eq!(splicer.push(&channel), Ok(channel.len()));
        splicer
            .write_records(&mut records, usize::MAX, || [9; 16])
            .expect("all is there");
        channel.clear();
    }
    let record_len = records.len() / BATCH;
    let batches = per_second(|| {
        let mut opener = opener();
        for record in records.chunks(record_len) {
            let mut fragment = record[5..].to_vec();
            let opened = opener.open(RecordType::ApplicationData, &mut fragment);
            assert!(black_box(opened).is_ok());
        }
    });
    batches * BATCH as f64
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

fn report(what: &str, suite: Suite, records: f64, len: usize) {
    line(what, &suite.to_string(), records, len);
}

fn line(what: &str, suite: &str, records: f64, len: usize) {
    let bytes = records * len as f64;
    println!(
        "{what:<8} {suite:<40} {records:>10.0} records/s {:>8.0} MB/s",
        bytes / 1e6
    );
    println!(
        r#"{{"bench":"split_{what}","suite":"{suite}","value":{bytes:.0},"unit":"bytes/s","record_len":{len}}}"#
    );
}
