//! A disk that cannot be written to, from the start or meanwhile: that costs a warning, and the
//! store answers from memory. A full disk is also tested within the crate, without any mount.

use std::fs;
use std::path::Path;

use crate::support::filled::{PATIENCE, assert_works, database, fill, leaf, open, open_well};
use crate::support::mounts::{make_read_only, with_small_disk};
use crate::support::stores::{NOW, learn, site};
use tandem_store::{Keeping, Kind, Store};
use tandem_store_sqlite::Warning;
use tempfile::TempDir;

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
