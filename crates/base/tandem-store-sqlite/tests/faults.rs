//! What may go wrong with a store's disk, and what must then happen: a warning, and no lost answer.
//!
//! A disk that is full is also tested within the crate, where no file system need be mounted for
//! it.

#[path = "../../tandem-store/tests/support/certificate.rs"]
mod certificate;
#[path = "support/mounts.rs"]
mod mounts;
#[path = "../../tandem-store/tests/support/stores.rs"]
mod stores;

use core::time::Duration;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use certificate::Certificate;
use mounts::{make_read_only, with_small_disk};
use proptest::prelude::*;
use rusqlite::{Connection, params};
use stores::{NOW, days, learn, site};
use tandem_store::{Digest, Keeping, Kind, Limits, ObjectId, Purge, Store};
use tandem_store_sqlite::{SqliteStore, StoreError, Warning, admin};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

fn leaf(serial: u32) -> Vec<u8> {
    Certificate {
        serial,
        dns_names: &["*.example.com"],
        ..Certificate::default()
    }
    .der()
}

fn open(path: &Path) -> (SqliteStore, Vec<Warning>) {
    SqliteStore::open(path, Limits::default()).expect("a directory, or none yet")
}

/// Opens a store that must be in order.
fn open_well(path: &Path) -> SqliteStore {
    let (store, warnings) = open(path);
    assert_eq!(warnings, []);
    assert_eq!(store.health().keeping, Keeping::Disk);
    store
}

/// Makes a store with `count` chains, and closes it.
fn fill(path: &Path, count: u32) -> Vec<ObjectId> {
    let mut store = open_well(path);
    let www = site("www.example.com");
    let ids = (0..count)
        .map(|serial| learn(&mut store, &www, &[leaf(serial)], NOW))
        .collect();
    assert!(store.sync(PATIENCE));
    ids
}

/// A store with such a disk answers like any other.
fn assert_works(store: &mut SqliteStore) {
    let (www, der) = (site("works.example.com"), leaf(1_000_000));
    let id = learn(store, &www, std::slice::from_ref(&der), NOW);
    store.maintain(NOW);
    assert_eq!(store.expected(Kind::Chain, &www, NOW, 1), [id]);
    let chain = store.object_by_prefix(&id.prefix4()).expect("learned");
    assert_eq!(store.part(&chain.parts[0]).as_deref(), Some(&der[..]));
}

fn database(path: &Path) -> PathBuf {
    path.join("store.sqlite")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn corrupted_file_is_moved_aside_and_the_store_begins_anew() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("another kind of file", |bytes| {
            bytes[..16].copy_from_slice(b"#!/bin/sh\n######")
        }),
        ("cut off", |bytes| bytes.truncate(bytes.len() / 2)),
        ("zeros in the middle", |bytes| {
            let half = bytes.len() / 2;
            bytes[4_096..half].fill(0);
        }),
        ("noise in the schema", |bytes| {
            bytes[100..4_096].iter_mut().for_each(|byte| *byte ^= 0x5a)
        }),
    ];
    for (what, damage) in damages {
        let home = TempDir::new().expect("a directory");
        let path = home.path().join("store");
        fill(&path, 100);
        let mut bytes = fs::read(database(&path)).expect("a database");
        damage(&mut bytes);
        fs::write(database(&path), bytes).expect("writable");
        let (mut store, warnings) = open(&path);
        let [Warning::Corrupt { moved_to, .. }] = &warnings[..] else {
            panic!("{what}: {warnings:?}");
        };
        assert_eq!(*moved_to, path.join("store.sqlite.corrupt-1"), "{what}");
        assert_eq!(mode(moved_to), 0o600);
        assert_eq!(store.health().keeping, Keeping::Disk, "{what}");
        assert_works(&mut store);
        drop(store);
        assert_eq!(open_well(&path).health().objects, 1, "{what}");
    }
}

#[test]
fn corrupted_file_again_and_again_keeps_no_more_than_three() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    fs::create_dir(&path).expect("a new directory");
    fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("our own");
    for _ in 0..5 {
        fs::write(database(&path), [0x5a; 8_192]).expect("writable");
        let (store, warnings) = open(&path);
        assert!(
            matches!(&warnings[..], [Warning::Corrupt { .. }]),
            "{warnings:?}"
        );
        drop(store);
    }
    let names = fs::read_dir(&path).expect("a directory");
    let names = names.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("ASCII")
    });
    let mut names: Vec<String> = names.filter(|name| name.contains("corrupt")).collect();
    names.sort();
    assert_eq!(
        names,
        [1, 2, 3].map(|n| format!("store.sqlite.corrupt-{n}"))
    );
    // They hold names, too: who purges everything means them.
    let mut store = open_well(&path);
    store.purge(&Purge::All);
    assert_eq!(store.take_warnings(), []);
    assert!(names.iter().all(|name| !path.join(name).exists()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn corrupted_file_of_whatever_kind_gives_no_wrong_byte(
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let home = TempDir::new().expect("a directory");
        let path = home.path().join("store");
        let ids = fill(&path, 20);
        let mut bytes = fs::read(database(&path)).expect("a database");
        for (at, with) in damages {
            let at = at.index(bytes.len());
            bytes[at] = with;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(database(&path), bytes).expect("writable");
        let (mut store, _) = open(&path);
        for id in &ids {
            if let Some(chain) = store.object(Kind::Chain, id) {
                let ders: Option<Vec<_>> = chain.parts.iter().map(|digest| store.part(digest)).collect();
                if let Some(ders) = ders {
                    let ders: Vec<&[u8]> = ders.iter().map(|der| &**der).collect();
                    prop_assert!(chain.parts.iter().zip(&ders).all(|(digest, der)| Digest::of(der) == *digest));
                }
            }
        }
        assert_works(&mut store);
        store.sync(PATIENCE);
    }
}

#[test]
fn corrupted_certificate_in_a_sound_file_is_forgotten_and_the_others_stay() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let ids = fill(&path, 10);
    let damaged = Digest::of(&leaf(3));
    let connection = Connection::open(database(&path)).expect("a database");
    connection
        .execute(
            "UPDATE parts SET bytes = ?1 WHERE digest = ?2",
            params![leaf(4), damaged.as_bytes()],
        )
        .expect("a table of parts");
    drop(connection);
    let (mut store, warnings) = open(&path);
    assert!(
        matches!(&warnings[..], [Warning::CorruptEntries { count: 1, .. }]),
        "{warnings:?}"
    );
    assert_eq!(store.part(&damaged), None);
    assert_eq!(
        ids.iter()
            .filter(|id| store.object(Kind::Chain, id).is_none())
            .collect::<Vec<_>>(),
        [&ids[3]]
    );
    assert_works(&mut store);
    learn(&mut store, &site("www.example.com"), &[leaf(3)], NOW);
    drop(store);
    assert_eq!(
        open_well(&path).part(&damaged).as_deref(),
        Some(&leaf(3)[..])
    );
}

#[test]
fn read_only_directory_the_store_is_in_memory() {
    with_small_disk(4_096, |disk| {
        let (path, missing) = (disk.join("store"), disk.join("missing"));
        fill(&path, 3);
        make_read_only(disk);
        for path in [&path, &missing] {
            let (mut store, warnings) = open(path);
            let reason = "Read-only file system";
            assert!(
                matches!(&warnings[..], [Warning::Unwritable { reason: given, .. }] if given.contains(reason)),
                "{warnings:?}"
            );
            assert_eq!(store.health().keeping, Keeping::Memory);
            assert_works(&mut store);
        }
    });
}

#[test]
fn read_only_file_the_store_is_in_memory() {
    with_small_disk(4_096, |disk| {
        let path = disk.join("store");
        fill(&path, 3);
        make_read_only(&database(&path));
        let (mut store, warnings) = open(&path);
        assert!(
            matches!(&warnings[..], [Warning::Unwritable { .. }]),
            "{warnings:?}"
        );
        assert_eq!(store.health().keeping, Keeping::Memory);
        assert_works(&mut store);
    });
}

#[test]
fn disk_full_from_the_start_the_store_is_in_memory() {
    with_small_disk(4, |disk| {
        let path = disk.join("store");
        let (mut store, warnings) = open(&path);
        assert!(
            matches!(&warnings[..], [Warning::Unwritable { .. }]),
            "{warnings:?}"
        );
        assert_works(&mut store);
    });
}

#[test]
fn disk_full_meanwhile_costs_a_warning_and_nothing_else() {
    with_small_disk(1_024, |disk| {
        let path = disk.join("store");
        let mut store = open_well(&path);
        let ballast = disk.join("ballast");
        fs::write(&ballast, vec![0; 512 << 10]).expect("room");
        let www = site("www.example.com");
        let mut ids = Vec::new();
        while store.health().keeping == Keeping::Disk {
            ids.push(learn(
                &mut store,
                &www,
                &[leaf(u32::try_from(ids.len()).expect("few"))],
                NOW,
            ));
            store.maintain(NOW);
            assert!(ids.len() < 100_000, "the disk never filled up");
        }
        let warnings = store.take_warnings();
        assert!(
            matches!(&warnings[..], [Warning::WriteFailed { .. }]),
            "{warnings:?}"
        );
        assert_works(&mut store);
        assert!(ids.iter().all(|id| store.object(Kind::Chain, id).is_some()));
        fs::remove_file(ballast).expect("ours");
        assert!(store.sync(PATIENCE), "{:?}", store.take_warnings());
        drop(store);
        let mut store = open_well(&path);
        assert!(ids.iter().all(|id| store.object(Kind::Chain, id).is_some()));
    });
}

#[test]
fn directory_removed_meanwhile_costs_a_warning_and_nothing_else() {
    let removed = |path: &Path| fs::remove_dir_all(path).expect("it is ours");
    let replaced = |path: &Path| {
        fs::rename(database(path), path.join("other")).expect("it is there");
        fs::write(database(path), b"").expect("it is ours");
    };
    for harm in [&removed as &dyn Fn(&Path), &replaced] {
        let directory = TempDir::new().expect("a place");
        let path = directory.path().join("store");
        let held = fill(&path, 2);
        let mut store = open_well(&path);
        harm(&path);
        assert_works(&mut store);
        assert!(!store.sync(PATIENCE));
        assert_eq!(store.health().keeping, Keeping::Memory);
        let warnings = store.take_warnings();
        assert!(
            matches!(&warnings[..], [Warning::GaveUp { reason, .. }] if reason.contains("removed")),
            "{warnings:?}"
        );
        assert!(
            held.iter()
                .all(|id| store.object(Kind::Chain, id).is_some())
        );
        assert_works(&mut store);
    }
}

#[test]
fn locked_by_another_the_second_is_in_memory_and_says_who_has_it() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let mut first = open_well(&path);
    let (mut second, warnings) = open(&path);
    assert_eq!(
        warnings,
        [Warning::InUse {
            path: path.clone(),
            process: Some(std::process::id())
        }]
    );
    assert_eq!(second.health().keeping, Keeping::Memory);
    assert_works(&mut second);
    assert_works(&mut first);
    drop(second);
    assert!(
        matches!(&open(&path).1[..], [Warning::InUse { .. }]),
        "the second took nothing away"
    );
    drop(first);
    open_well(&path);
}

#[test]
fn locked_for_long_by_somebody_who_writes_costs_a_warning() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let mut store = open_well(&path);
    let intruder = Connection::open(database(&path)).expect("a database");
    intruder
        .execute_batch("BEGIN IMMEDIATE")
        .expect("nobody writes");
    assert_works(&mut store);
    assert!(!store.sync(PATIENCE));
    assert!(matches!(
        &store.take_warnings()[..],
        [Warning::WriteFailed { .. }]
    ));
    assert_works(&mut store);
    intruder.execute_batch("ROLLBACK").expect("it was begun");
    assert!(store.sync(PATIENCE));
    assert!(matches!(
        &store.take_warnings()[..],
        [Warning::WriteRecovered { .. }]
    ));
}

#[test]
fn a_damaged_store_that_is_looked_into_is_called_damaged() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    fill(&path, 30);
    let mut bytes = fs::read(database(&path)).expect("a file");
    // Behind the header, so that it is still a database, and ours.
    bytes[100..].fill(0xff);
    fs::write(database(&path), bytes).expect("writable");
    let mut output = Vec::new();
    let export = admin::export(&path, admin::Format::JsonLines, &mut output).map(drop);
    for looked in [
        admin::list(&path).map(drop),
        admin::show(&path, "00").map(drop),
        export,
    ] {
        assert!(
            matches!(looked, Err(StoreError::Damaged { .. })),
            "{looked:?}"
        );
    }
}

#[test]
fn a_store_that_may_not_be_looked_into_is_not_said_to_be_missing() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    fill(&path, 1);
    let may_not = |mode_of: &Path| {
        let before = fs::metadata(mode_of).expect("there").permissions();
        fs::set_permissions(mode_of, Permissions::from_mode(0o000)).expect("our own");
        // Whoever is root may look anywhere: for this thread alone, be nobody.
        let (list, purge) = std::thread::scope(|scope| {
            let looked = scope.spawn(|| {
                nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
                let purge = admin::purge(&path, &Limits::default(), &Purge::All);
                (admin::list(&path).map(drop), purge.map(drop))
            });
            looked.join().expect("no panic")
        });
        fs::set_permissions(mode_of, before).expect("our own");
        (list, purge)
    };
    let forbids =
        |answer: &Result<(), StoreError>| matches!(answer, Err(StoreError::Forbidden { .. }));
    let (list, purge) = may_not(&path);
    assert!(forbids(&list) && forbids(&purge), "{list:?} {purge:?}");
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).expect("our own");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("our own");
    let (list, _) = may_not(&database(&path));
    assert!(forbids(&list), "{list:?}");
}

/// The tables of version 1, and rows in them. One chain lacks a certificate.
fn make_version_1(path: &Path) -> [ObjectId; 2] {
    fs::create_dir(path).expect("a new directory");
    fs::set_permissions(path, Permissions::from_mode(0o700)).expect("our own");
    let connection = Connection::open(database(path)).expect("a new database");
    connection
        .execute_batch(
            "PRAGMA application_id = 0x544e444d; PRAGMA user_version = 1;
             CREATE TABLE certificates (digest BLOB PRIMARY KEY, der BLOB NOT NULL, inserted INTEGER NOT NULL);
             CREATE TABLE chains (id BLOB PRIMARY KEY, certificates BLOB NOT NULL, last_seen INTEGER NOT NULL);
             CREATE TABLE sites (site TEXT, chain BLOB, last_seen INTEGER NOT NULL, PRIMARY KEY (site, chain));",
        )
        .expect("tables");
    let issuer = Certificate {
        common_name: "Test Issuer",
        ..Certificate::default()
    }
    .der();
    let certificate = |der: &[u8]| {
        let digest = Digest::of(der);
        let row = params![digest.as_bytes(), der, NOW.0.cast_signed()];
        connection
            .execute(
                "INSERT OR IGNORE INTO certificates VALUES (?1, ?2, ?3)",
                row,
            )
            .expect("a row");
    };
    let chain = |ders: &[&[u8]], last_seen: u64| {
        let id = ObjectId::of(ders);
        let digests: Vec<u8> = ders
            .iter()
            .flat_map(|der| *Digest::of(der).as_bytes())
            .collect();
        let last_seen = last_seen.cast_signed();
        connection
            .execute(
                "INSERT INTO chains VALUES (?1, ?2, ?3)",
                params![id.as_bytes(), digests, last_seen],
            )
            .expect("a row");
        connection
            .execute(
                "INSERT INTO sites VALUES ('shop.example', ?1, ?2)",
                params![id.as_bytes(), last_seen],
            )
            .expect("a row");
        id
    };
    [&leaf(1), &leaf(2), &issuer, &b"in no chain".to_vec()]
        .into_iter()
        .for_each(|der| certificate(der));
    let newer = chain(&[&leaf(2), &issuer], days(-1).0);
    let older = chain(&[&leaf(1), &issuer], days(-2).0);
    chain(&[&leaf(3), b"missing"], NOW.0);
    [newer, older]
}

#[test]
fn older_schema_is_brought_up_to_date_and_keeps_what_it_held() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let ids = make_version_1(&path);
    let (mut store, warnings) = open(&path);
    assert_eq!(
        warnings,
        [Warning::Migrated {
            path: database(&path),
            from: 1,
            to: 3
        }]
    );
    assert_eq!(
        store.expected(Kind::Chain, &site("shop.example"), NOW, 9),
        ids
    );
    assert_eq!(
        store.expected(Kind::Chain, &site("by-name.example.com"), NOW, 9),
        ids
    );
    assert_eq!(
        store.expected(Kind::Chain, &site("shop.example"), days(28), 9),
        ids
    );
    assert_eq!(
        store.expected(Kind::Chain, &site("shop.example"), days(29), 9),
        ids[..1]
    );
    let health = store.health();
    assert_eq!((health.objects, health.parts), (2, 3));
    assert_works(&mut store);
    drop(store);
    let mut store = open_well(&path);
    assert_eq!(store.health().objects, 3);
    assert_eq!(
        store.expected(Kind::Chain, &site("shop.example"), NOW, 2),
        ids
    );
}

#[test]
fn older_schema_that_cannot_be_brought_up_to_date_is_left_as_it_was() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    make_version_1(&path);
    let connection = Connection::open(database(&path)).expect("a database");
    connection
        .execute_batch("DROP TABLE sites")
        .expect("a table");
    drop(connection);
    let (mut store, warnings) = open(&path);
    let [Warning::Corrupt { moved_to, .. }] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert_works(&mut store);
    let old = Connection::open(moved_to).expect("a database");
    let chains: i64 = old
        .query_row("SELECT count(*) FROM chains", [], |row| row.get(0))
        .expect("its table");
    assert_eq!(chains, 3);
}

#[test]
fn newer_schema_is_left_alone() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    fill(&path, 3);
    let connection = Connection::open(database(&path)).expect("a database");
    connection
        .pragma_update(None, "user_version", 99)
        .expect("ours");
    connection
        .pragma_update(None, "journal_mode", "DELETE")
        .expect("ours");
    drop(connection);
    let before = fs::read(database(&path)).expect("a file");
    let (mut store, warnings) = open(&path);
    assert_eq!(
        warnings,
        [Warning::NewerSchema {
            path: database(&path),
            found: 99,
            known: 3
        }]
    );
    assert_eq!(store.health().keeping, Keeping::Memory);
    assert_works(&mut store);
    drop(store);
    assert_eq!(fs::read(database(&path)).expect("a file"), before);
    assert!(matches!(
        admin::list(&path),
        Err(StoreError::Unusable(Warning::NewerSchema { .. }))
    ));
}

#[test]
fn objects_of_a_kind_that_a_later_version_added_are_removed() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let ids = fill(&path, 2);
    let connection = Connection::open(database(&path)).expect("a database");
    connection
        .execute_batch(
            "PRAGMA foreign_keys = OFF;
             UPDATE objects SET kind = 'later' WHERE seen = (SELECT max(seen) FROM objects);
             UPDATE links SET kind = 'later'
                 WHERE object = (SELECT id FROM objects WHERE kind = 'later');
             UPDATE expectations SET kind = 'later'
                 WHERE object = (SELECT id FROM objects WHERE kind = 'later');",
        )
        .expect("our tables");
    assert_eq!(admin::list(&path).expect("a store").chains.len(), 1);
    let mut store = open_well(&path);
    assert_eq!(
        store.expected(Kind::Chain, &site("www.example.com"), NOW, 9),
        ids[..1]
    );
    assert_works(&mut store);
    assert!(store.sync(PATIENCE));
    drop(store);
    let rows = |table: &str| {
        let count = format!("SELECT count(*) FROM {table}");
        let count = connection.query_row(&count, [], |row| row.get::<_, i64>(0));
        count.expect("our table")
    };
    assert_eq!(
        ["objects", "links", "expectations", "parts"].map(rows),
        [2; 4]
    );
}

#[test]
fn database_of_another_program_is_left_alone() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    fs::create_dir(&path).expect("a new directory");
    fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("our own");
    let connection = Connection::open(database(&path)).expect("a new database");
    connection
        .execute_batch("CREATE TABLE certificates (theirs TEXT)")
        .expect("a table");
    drop(connection);
    let before = fs::read(database(&path)).expect("a file");
    let (mut store, warnings) = open(&path);
    assert_eq!(
        warnings,
        [Warning::NotOurs {
            path: database(&path)
        }]
    );
    assert_works(&mut store);
    drop(store);
    assert_eq!(fs::read(database(&path)).expect("a file"), before);
}

#[test]
fn path_of_something_else_is_an_error_that_says_what_to_do() {
    let home = TempDir::new().expect("a directory");
    let file = home.path().join("file");
    fs::write(&file, "text").expect("writable");
    for path in [
        file.clone(),
        file.join("below"),
        file.join("below/that"),
        PathBuf::new(),
    ] {
        let error = SqliteStore::open(&path, Limits::default()).expect_err("no directory");
        assert!(matches!(error, StoreError::NotADirectory { .. }), "{error}");
        assert!(
            error.to_string().contains("give the path of one"),
            "{error}"
        );
    }
    assert_eq!(fs::read_to_string(&file).expect("still there"), "text");
}

#[test]
fn files_are_for_their_owner_only() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("var/store");
    let mut store = open_well(&path);
    assert_works(&mut store);
    assert!(store.sync(PATIENCE));
    assert_eq!(
        [mode(&path), mode(path.parent().expect("made too"))],
        [0o700, 0o700]
    );
    for name in [
        "store.sqlite",
        "store.sqlite-wal",
        "store.sqlite-shm",
        "lock",
    ] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
    drop(store);
    fs::set_permissions(database(&path), Permissions::from_mode(0o644)).expect("ours");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
    let (mut store, warnings) = open(&path);
    assert_eq!(
        warnings,
        [Warning::OpenDirectory {
            path: path.clone(),
            mode: 0o755
        }]
    );
    assert_works(&mut store);
    assert!(store.sync(PATIENCE));
    assert_eq!(mode(&path), 0o755, "a directory may be shared on purpose");
    for name in ["store.sqlite", "store.sqlite-wal", "store.sqlite-shm"] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
}

#[test]
fn clock_moved_far_forward_and_back_keeps_what_is_in_use() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    fill(&path, 3);
    let mut store = open_well(&path);
    store.maintain(days(-20_000));
    assert_eq!(store.health().objects, 3);
    // In the year 2104 these have expired. What is seen there stays, for it was just seen.
    let www = site("www.example.com");
    learn(&mut store, &www, &[leaf(0)], days(29_000));
    store.maintain(days(29_000));
    assert_eq!(store.health().objects, 1);
    assert_eq!(store.expected(Kind::Chain, &www, days(29_000), 9), []);
    store.maintain(NOW);
    assert_eq!(store.expected(Kind::Chain, &www, NOW, 9).len(), 1);
    assert_works(&mut store);
}

#[test]
fn what_was_purged_leaves_no_trace_on_disk() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let mut store = open_well(&path);
    let secret = Certificate {
        dns_names: &["secret-name.example"],
        ..Certificate::default()
    }
    .der();
    learn(&mut store, &site("secret-site.example"), &[secret], NOW);
    for serial in 0..300 {
        learn(&mut store, &site("public.example"), &[leaf(serial)], NOW);
    }
    assert!(store.sync(PATIENCE));
    let traces = |word: &str| {
        let files = fs::read_dir(&path)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path());
        let has_word = |path: &PathBuf| {
            let bytes = fs::read(path).expect("readable");
            bytes
                .windows(word.len())
                .any(|window| window == word.as_bytes())
        };
        files.filter(has_word).count()
    };
    assert!(traces("secret-name") > 0 && traces("secret-site") > 0);
    let purged = store.purge(&Purge::Site(site("secret-site.example")));
    assert_eq!((purged.of(Kind::Chain), purged.total()), (1, 1));
    assert!(store.sync(PATIENCE));
    assert_eq!(
        (traces("secret-name"), traces("secret-site")),
        (0, 0),
        "while the store is open"
    );
    assert!(traces("public") > 0);
    let before = fs::metadata(database(&path)).expect("a file").len();
    store.purge(&Purge::All);
    assert!(store.sync(PATIENCE));
    assert!(
        fs::metadata(database(&path)).expect("a file").len() < before / 2,
        "free pages go back"
    );
    assert_eq!(traces("public"), 0);
}

#[test]
fn what_is_in_use_is_found_without_the_disk_also_after_a_restart() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let ids = fill(&path, 500);
    let mut store = open_well(&path);
    for id in &ids {
        let chain = store.object(Kind::Chain, id).expect("written");
        assert!(
            chain
                .parts
                .iter()
                .all(|digest| store.part(digest).is_some())
        );
    }
    assert_eq!(store.health().disk_reads, 0);
    drop(store);
    // With room for a tenth of them, those that were used last are there first.
    let limits = Limits {
        front_bytes: 50 * u64::try_from(leaf(0).len()).expect("small"),
        ..Limits::default()
    };
    let (mut store, _) = SqliteStore::open(&path, limits).expect("a store");
    for (count, id) in ids.iter().enumerate().rev() {
        let chain = store.object(Kind::Chain, id).expect("written");
        assert!(store.part(&chain.parts[0]).is_some());
        assert_eq!(store.health().disk_reads == 0, count >= 450, "{count}");
    }
}

#[test]
fn unwritten_bytes_are_written_when_the_store_is_dropped() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let mut store = open_well(&path);
    let id = learn(&mut store, &site("www.example.com"), &[leaf(1)], NOW);
    drop(store);
    assert!(open_well(&path).object(Kind::Chain, &id).is_some());
}

/// Set for the process that the test below kills: where its store is.
const VICTIM: &str = "TANDEM_STORE_VICTIM";

#[test]
fn killed_while_writing_loses_the_last_seconds_and_nothing_else() {
    if let Some(path) = std::env::var_os(VICTIM) {
        return write_until_killed(Path::new(&path));
    }
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let mut held = 0;
    for _ in 0..4 {
        let myself = std::env::current_exe().expect("a test program");
        let mut victim = Command::new(myself)
            .args([
                "--exact",
                "killed_while_writing_loses_the_last_seconds_and_nothing_else",
            ])
            .env(VICTIM, &path)
            .stdout(Stdio::null())
            .spawn()
            .expect("a second process");
        let before = held;
        while held < before + 50 {
            held = admin::list(&path).map_or(held, |listing| listing.chains.len());
        }
        victim.kill().expect("still running");
        victim.wait().expect("killed");
        let mut store = open_well(&path);
        assert!(store.health().objects >= u64::try_from(held).expect("few"));
        held = usize::try_from(store.health().objects).expect("few");
        for row in admin::list(&path).expect("a store").chains {
            let chain = store.object(Kind::Chain, &row.id).expect("listed");
            assert!(
                chain
                    .parts
                    .iter()
                    .all(|digest| store.part(digest).is_some())
            );
        }
    }
}

/// Ends by itself after a while, should nobody kill it.
fn write_until_killed(path: &Path) {
    let mut store = open_well(path);
    let first = u32::try_from(store.health().objects).expect("few");
    for serial in first..first + 100_000 {
        learn(
            &mut store,
            &site("www.example.com"),
            &[leaf(serial), vec![7; 3_000]],
            NOW,
        );
        store.maintain(NOW);
    }
}
