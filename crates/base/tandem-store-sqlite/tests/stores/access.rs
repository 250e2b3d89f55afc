//! Who may open a store's directory and its files: one process at a time, their owner, nobody where
//! there is no directory. Not here: disks that cannot be written to (`disks.rs`).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::filled::{PATIENCE, assert_works, database, fill, mode, open, open_well};
use rusqlite::Connection;
use tandem_store::{Keeping, Limits, Purge, Store};
use tandem_store_sqlite::{SqliteStore, StoreError, Warning, admin};
use tempfile::TempDir;

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
