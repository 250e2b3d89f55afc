//! How long a handshake waits for the store: which chains to expect, one chain, its three
//! certificates; and learning.
//!
//! Wall time is reported, not judged. The thesis's proxies took 200 ms for each handshake, 90 % of
//! it in SQLite (sections 4.2 and 4.2.1). `cargo bench -p tandem-store-sqlite` prints a line for
//! each figure, and one of JSON for what the daemons' store takes of a handshake.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

#[path = "../../tandem-store/tests/support/certificate.rs"]
mod certificate;

use std::hint::black_box;
use std::time::{Duration, Instant};

use certificate::Certificate;
use tandem_store::{Digest, HostName, Kind, Limits, MemoryStore, Site, Store};
use tandem_store_sqlite::SqliteStore;
use tandem_wire::clock::UnixTime;

const NOW: UnixTime = UnixTime(1_749_988_800);
/// Chains in the store: somewhat fewer than the store in memory lets in by default.
const CHAINS: u32 = 3_000;
/// Names in each leaf, as on the web on average.
const NAMES: usize = 36;
const ROUNDS: usize = 20_000;

/// The store that daemons have: SQLite, with what is in use in memory.
const DAEMON: &str = "sqlite";

fn main() {
    let home = tempfile::TempDir::new().expect("a directory");
    let chains: Vec<Vec<Vec<u8>>> = (0..CHAINS).map(chain).collect();
    let mut memory = MemoryStore::default();
    measure("memory", &mut memory, &chains);

    let path = home.path().join("store");
    let (mut disk, warnings) = SqliteStore::open(&path, Limits::default()).expect("a directory");
    assert_eq!(warnings, []);
    measure(DAEMON, &mut disk, &chains);
    let started = Instant::now();
    assert!(disk.sync(Duration::from_secs(60)));
    println!(
        "sqlite: writing all {CHAINS} chains: {:?}",
        started.elapsed()
    );
    let started = Instant::now();
    look_up_all(&mut disk, &chains);
    disk.maintain(NOW);
    println!(
        "sqlite: maintain, handing over {CHAINS} changed chains: {:?}",
        started.elapsed()
    );
    drop(disk);

    let started = Instant::now();
    let (mut disk, _) = SqliteStore::open(&path, Limits::default()).expect("a store");
    println!("sqlite: opening it again: {:?}", started.elapsed());
    look_ups("sqlite, after a restart", &mut disk, &chains);
    println!(
        "sqlite: {} look-ups went to the disk",
        disk.health().disk_reads
    );
    drop(disk);
    let (mut disk, _) = SqliteStore::open(
        &path,
        Limits {
            front_bytes: 0,
            ..Limits::default()
        },
    )
    .expect("a store");
    look_ups("sqlite, with nothing in memory", &mut disk, &chains);
}

fn measure(kind: &str, store: &mut dyn Store, chains: &[Vec<Vec<u8>>]) {
    for (what, rounds) in [("learn, new", 1), ("learn, seen again", 2)] {
        let times = chains.iter().enumerate().map(|(n, chain)| {
            let ders: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
            let site = site(n);
            time(|| store.learn(Kind::Chain, Some(&site), &ders, UnixTime(NOW.0 + rounds)))
        });
        report(kind, what, times.collect());
    }
    look_ups(kind, store, chains);
}

fn look_ups(kind: &str, store: &mut dyn Store, chains: &[Vec<Vec<u8>>]) {
    let times = (0..ROUNDS).map(|round| {
        let site = site(round * 7_919 % chains.len());
        time(|| handshake(store, &site))
    });
    let median = report(
        kind,
        "expect, one chain, three certificates",
        times.collect(),
    );
    if kind == DAEMON {
        let micros = median.as_secs_f64() * 1e6;
        println!(r#"{{"bench":"stage_store","value":{micros},"unit":"µs/handshake"}}"#);
    }
    let times = (0..ROUNDS).map(|round| {
        let digest = Digest::of(&chains[round * 7_919 % chains.len()][0]);
        let prefix = digest.prefix16();
        time(|| assert!(store.part_by_prefix(&prefix).is_some()))
    });
    report(kind, "one certificate by its prefix", times.collect());
}

fn look_up_all(store: &mut dyn Store, chains: &[Vec<Vec<u8>>]) {
    (0..chains.len()).for_each(|n| handshake(store, &site(n)));
}

/// What the client-side proxy asks for one handshake.
fn handshake(store: &mut dyn Store, site: &Site) {
    let expected = store.expected(Kind::Chain, site, NOW, 3);
    let chain = store.object(Kind::Chain, &expected[0]).expect("held");
    assert_eq!(chain.parts.len(), 3);
    for digest in &chain.parts {
        black_box(store.part(digest).expect("held"));
    }
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    black_box(work());
    started.elapsed()
}

/// Prints a line; the median.
fn report(kind: &str, what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 1_000];
    println!(
        "{kind}: {what}: median {:?}, 99 % {:?}, 99.9 % {:?}",
        at(500),
        at(990),
        at(999)
    );
    at(500)
}

fn site(n: usize) -> Site {
    Site::Name(HostName::new(&format!("www.site-{n}.example")).expect("a host name"))
}

/// A leaf of its own, and two issuers of which there are a hundred and ten.
fn chain(serial: u32) -> Vec<Vec<u8>> {
    let names: Vec<String> = (0..NAMES)
        .map(|n| format!("n{n}.site-{serial}.example"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let leaf = Certificate {
        serial,
        dns_names: &names,
        ..Certificate::default()
    };
    let issuer = Certificate {
        serial: serial % 100,
        common_name: "Issuer",
        ..Certificate::default()
    };
    let root = Certificate {
        serial: serial % 10,
        common_name: "Root",
        ..Certificate::default()
    };
    vec![leaf.der(), issuer.der(), root.der()]
}
