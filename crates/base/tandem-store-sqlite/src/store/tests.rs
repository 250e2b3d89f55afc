//! Faults that are injected from within: a database that may not grow.

use tandem_store::{MemoryStore, ObjectId};
use tempfile::TempDir;

use super::*;
use crate::testing::Certificate;

const NOW: UnixTime = UnixTime(1_749_988_800);
const PATIENCE: Duration = Duration::from_secs(30);

fn leaf(serial: u32) -> Vec<u8> {
    Certificate {
        serial,
        dns_names: &["www.example"],
        ..Certificate::default()
    }
    .der()
}

fn open(home: &TempDir, limits: Limits) -> SqliteStore {
    let (store, warnings) =
        SqliteStore::open(&home.path().join("store"), limits).expect("a directory of its own");
    assert_eq!(warnings, []);
    store
}

fn limit_pages(store: &mut SqliteStore, pages: u32) {
    let disk = store.disk.as_mut().expect("on disk");
    disk.writer.give(Job::LimitPages(pages));
    disk.writer
        .answer(PATIENCE)
        .expect("in time")
        .expect("a pragma");
}

/// Learns new chains, one a second, until `done`.
fn learn_until(store: &mut SqliteStore, done: impl Fn(&SqliteStore) -> bool) -> Vec<ObjectId> {
    let mut learned = Vec::new();
    for serial in 0..10_000 {
        if done(store) {
            return learned;
        }
        learned.push(store.learn(
            Kind::Chain,
            None,
            &[&leaf(serial)],
            UnixTime(NOW.0 + u64::from(serial)),
        ));
        store.maintain(NOW);
        // Hear the answer now, so that the test does not depend on how fast the disk is.
        store.hear(PATIENCE);
    }
    panic!("never done");
}

#[test]
fn disk_full_store_answers_from_memory_and_writes_when_there_is_room() {
    let home = TempDir::new().expect("a directory");
    let mut store = open(&home, Limits::default());
    limit_pages(&mut store, 40);
    let learned = learn_until(&mut store, |store| store.health().disk_errors > 2);
    let warnings = store.take_warnings();
    assert!(
        matches!(&warnings[..], [Warning::WriteFailed { reason, .. }] if reason.contains("full")),
        "{warnings:?}"
    );
    let health = store.health();
    assert_eq!(health.keeping, Keeping::DiskFailing);
    assert!(health.unwritten_bytes > 0);
    for id in &learned {
        let chain = store.object(Kind::Chain, id).expect("learned");
        assert!(store.part(&chain.parts[0]).is_some());
    }
    assert!(!store.sync(PATIENCE));

    limit_pages(&mut store, 1 << 20);
    assert!(store.sync(PATIENCE));
    assert!(matches!(
        &store.take_warnings()[..],
        [Warning::WriteRecovered { .. }]
    ));
    let health = store.health();
    assert_eq!((health.keeping, health.unwritten_bytes), (Keeping::Disk, 0));
    drop(store);
    let mut store = open(&home, Limits::default());
    for id in &learned {
        let chain = store.object(Kind::Chain, id).expect("written");
        assert!(store.part(&chain.parts[0]).is_some());
    }
}

#[test]
fn disk_full_for_ever_memory_stays_bounded() {
    let home = TempDir::new().expect("a directory");
    let limits = Limits {
        front_bytes: 50_000,
        ..Limits::default()
    };
    let mut store = open(&home, limits);
    limit_pages(&mut store, 30);
    let learned = learn_until(&mut store, |store| {
        store.health().keeping == Keeping::Memory
    });
    let warnings = store.take_warnings();
    assert!(
        matches!(
            &warnings[..],
            [Warning::WriteFailed { .. }, Warning::GaveUp { .. }]
        ),
        "{warnings:?}"
    );
    let newest = learned.last().expect("many");
    let chain = store
        .object(Kind::Chain, newest)
        .expect("the newest is kept");
    assert!(store.part(&chain.parts[0]).is_some());
    for serial in 20_000..20_500 {
        store.learn(Kind::Chain, None, &[&leaf(serial)], NOW);
        store.maintain(NOW);
        assert!(store.health().bytes <= 50_000);
        assert!(store.memory.bodies.pinned_bytes() <= 50_000);
    }
    assert!(
        store.memory.catalogue.take_changes(9).is_empty(),
        "nothing is noted that nobody will write"
    );
}

#[test]
fn a_disk_that_refuses_is_asked_less_and_less_often() {
    let home = TempDir::new().expect("a directory");
    let mut store = open(&home, Limits::default());
    limit_pages(&mut store, 1);
    let mut errors_at = Vec::new();
    for call in 0..200 {
        store.learn(Kind::Chain, None, &[&leaf(call)], NOW);
        let before = store.disk_errors;
        store.maintain(NOW);
        store.hear(PATIENCE);
        if store.disk_errors > before {
            errors_at.push(call);
        }
    }
    let pauses: Vec<u32> = errors_at
        .windows(2)
        .map(|pair| pair[1] - pair[0] - 1)
        .collect();
    assert_eq!(pauses[..6], [1, 2, 4, 8, 16, 32], "{errors_at:?}");
}

#[test]
fn bytes_are_let_go_only_when_they_are_on_disk() {
    let home = TempDir::new().expect("a directory");
    let mut store = open(
        &home,
        Limits {
            front_bytes: 0,
            ..Limits::default()
        },
    );
    let der = leaf(1);
    store.learn(Kind::Chain, None, &[&der], NOW);
    let digest = Digest::of(&der);
    assert!(store.part(&digest).is_some());
    assert_eq!(store.health().disk_reads, 0, "nowhere but in memory");
    store.write();
    assert!(store.part(&digest).is_some());
    store.hear(PATIENCE);
    assert_eq!(store.health().unwritten_bytes, 0);
    assert!(store.part(&digest).is_some());
    assert_eq!(store.health().disk_reads, 1, "nowhere but on disk");
}

#[test]
fn what_is_removed_and_learned_again_while_it_is_being_written_is_there_in_the_end() {
    let home = TempDir::new().expect("a directory");
    let mut store = open(
        &home,
        Limits {
            front_bytes: 0,
            ..Limits::default()
        },
    );
    let der = leaf(1);
    let id = store.learn(Kind::Chain, None, &[&der], NOW);
    store.write();
    store.purge(&Purge::All);
    store.learn(Kind::Chain, None, &[&der], NOW);
    assert!(store.sync(PATIENCE));
    assert!(store.part(&Digest::of(&der)).is_some());
    drop(store);
    let mut store = open(&home, Limits::default());
    assert!(store.object(Kind::Chain, &id).is_some());
    assert!(store.part(&Digest::of(&der)).is_some());
}

#[test]
fn a_full_store_grows_no_more_on_disk() {
    let home = TempDir::new().expect("a directory");
    let mut store = open(
        &home,
        Limits {
            bytes: 300_000,
            ..Limits::default()
        },
    );
    let length = |name: &str| {
        let path = home.path().join("store").join(name);
        path.metadata().map_or(0, |metadata| metadata.len())
    };
    for serial in 0..6_000 {
        let site = format!("n{serial}.example").parse().expect("a site");
        store.learn(Kind::Chain, Some(&site), &[&leaf(serial)], NOW);
        if serial % 20 == 0 {
            store.maintain(NOW);
            store.hear(PATIENCE);
        }
    }
    assert!(store.sync(PATIENCE));
    assert!(store.health().evicted > 5_000);
    let (database, journal) = (length("store.sqlite"), length("store.sqlite-wal"));
    assert!(database < 900_000, "{database} bytes on disk for 300,000");
    assert!(journal < 8_000_000, "{journal} bytes of journal");
}

#[test]
fn a_store_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<SqliteStore>();
    is_send::<MemoryStore>();
}

#[test]
fn a_known_chain_that_is_seen_again_is_written_once_a_minute() {
    let home = TempDir::new().expect("a directory");
    let mut store = open(&home, Limits::default());
    let writes = |store: &SqliteStore| store.disk.as_ref().expect("on disk").in_flight.is_some();
    store.learn(Kind::Chain, None, &[&leaf(1)], NOW);
    store.maintain(NOW);
    assert!(writes(&store), "what is new is written at once");
    assert!(store.sync(PATIENCE));
    let later = |seconds| UnixTime(NOW.0 + seconds);
    store.learn(Kind::Chain, None, &[&leaf(1)], later(1));
    store.maintain(later(1));
    assert!(!writes(&store), "seen again is nothing new");
    store.maintain(later(REFRESH_INTERVAL));
    assert!(writes(&store));
}
