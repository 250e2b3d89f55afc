//! Stores on disk for tests.
//!
//! Not here: faults. Invariant: a store on disk lives in a directory that goes with it.

use tandem_store::{Limits, MemoryStore, Store};
use tandem_store_sqlite::SqliteStore;
use tempfile::TempDir;

/// A store of each kind, with what each needs to live.
pub(crate) fn each_kind(limits: &Limits) -> Vec<(Option<TempDir>, Box<dyn Store>)> {
    let directory = TempDir::new().expect("a directory");
    let on_disk = open(&directory, limits);
    vec![
        (None, Box::new(MemoryStore::new(limits.clone()))),
        (Some(directory), Box::new(on_disk)),
    ]
}

/// A store on disk, opened without any warning.
pub(crate) fn open(directory: &TempDir, limits: &Limits) -> SqliteStore {
    let path = directory.path().join("store");
    let (store, warnings) =
        SqliteStore::open(&path, limits.clone()).expect("a directory of its own");
    assert_eq!(warnings, []);
    store
}
