//! What it costs to have a key on another machine, over loopback: one signature after the other,
//! and as many as there can be, by the key itself and by a key server, whose audit log is on.
//!
//! Is not: a whole handshake, nor a network.

#![allow(missing_docs, reason = "a bench has no interface")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Place, Served, allow, message};
use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::Signer;
use tandem_channel::crypto;
use tandem_keyclient::{Client, Options};
use tandem_testkit::bench::{median, report};

/// Signatures one after the other; a warm-up of a tenth comes before.
const SAMPLES: usize = 2_000;
/// As many at once as a busy web server has waiting.
const WAITING: usize = 64;
const CAPACITY_FOR: Duration = Duration::from_secs(3);

fn main() {
    let place = Place::new(&["p256", "rsa"]);
    let rules = place.peer("web", 1_000_000) + &allow("web", "p256") + &allow("web", "rsa");
    place.settings("a", &["p256", "rsa"], &rules);
    let served = Served::start(&place, "a");
    let client = Client::new(Options {
        max_waiting: 2 * WAITING,
        ..Options::new(place.channel_key("web"), vec![served.as_server()])
    });
    for (name, scheme) in [
        ("p256", SignatureScheme::ECDSA_NISTP256_SHA256),
        ("rsa", SignatureScheme::RSA_PSS_SHA256),
    ] {
        let der = PrivateKeyDer::from_pem_file(place.path(&format!("{name}.key")));
        let own = crypto::sign::any_supported_type(&der.expect("a key")).expect("a key");
        let remote = client.certified_key(place.chain(name)).expect("a key").key;
        let own = Arc::from(own.choose_scheme(&[scheme]).expect("its scheme"));
        let remote = Arc::from(remote.choose_scheme(&[scheme]).expect("its scheme"));
        let (alone, asked) = (one_by_one(&own), one_by_one(&remote));
        report(&format!("{name}, own key"), alone, "us");
        report(&format!("{name}, key server"), asked, "us");
        report(&format!("{name}, added"), asked - alone, "us");
        let processors = thread::available_parallelism().map_or(1, usize::from);
        report(
            &format!("{name}, own key, capacity"),
            at_once(&own, processors),
            "1/s",
        );
        report(
            &format!("{name}, key server, capacity"),
            at_once(&remote, WAITING),
            "1/s",
        );
    }
}

/// The median, in microseconds.
fn one_by_one(signer: &Arc<dyn Signer>) -> f64 {
    let message = message();
    let mut times: Vec<f64> = (0..SAMPLES + SAMPLES / 10)
        .map(|_| {
            let begun = Instant::now();
            signer.sign(&message).expect("a signature");
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    median(&mut times[SAMPLES / 10..])
}

/// Signatures a second by so many threads.
fn at_once(signer: &Arc<dyn Signer>, threads: usize) -> f64 {
    let (count, is_over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let all: Vec<_> = (0..threads)
        .map(|_| {
            let (signer, count) = (Arc::clone(signer), Arc::clone(&count));
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    signer.sign(&message()).expect("a signature");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let begun = Instant::now();
    thread::sleep(CAPACITY_FOR);
    let rate = count.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    all.into_iter()
        .for_each(|each| each.join().expect("no panic"));
    rate
}
