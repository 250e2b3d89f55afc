//! Stores on disk that tests fill and then harm, and what each must still do after that.
//!
//! Not here: the harm; file systems of a test's own (`mounts.rs`).

use core::time::Duration;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tandem_store::{Keeping, Kind, Limits, ObjectId, Store};
use tandem_store_sqlite::{SqliteStore, Warning};

use super::certificate::Certificate;
use super::stores::{NOW, learn, site};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn leaf(serial: u32) -> Vec<u8> {
    Certificate {
        serial,
        dns_names: &["*.example.com"],
        ..Certificate::default()
    }
    .der()
}

pub(crate) fn open(path: &Path) -> (SqliteStore, Vec<Warning>) {
    SqliteStore::open(path, Limits::default()).expect("a directory, or none yet")
}

/// Opens a store that must be in order.
pub(crate) fn open_well(path: &Path) -> SqliteStore {
    open_well_with(path, &Limits::default())
}

/// The same with these limits.
pub(crate) fn open_well_with(path: &Path, limits: &Limits) -> SqliteStore {
    let until = Instant::now() + PATIENCE;
    let (store, warnings) = loop {
        let opened = SqliteStore::open(path, limits.clone()).expect("a directory");
        // Between fork and exec, a child that another test starts has a copy of each lock.
        let own = Some(std::process::id());
        match opened.1[..] {
            [Warning::InUse { process, .. }] if process == own && Instant::now() < until => {}
            _ => break opened,
        }
        std::thread::yield_now();
    };
    assert_eq!(warnings, []);
    assert_eq!(store.health().keeping, Keeping::Disk);
    store
}

/// Makes a store with `count` chains, and closes it.
pub(crate) fn fill(path: &Path, count: u32) -> Vec<ObjectId> {
    let mut store = open_well(path);
    let www = site("www.example.com");
    let ids = (0..count)
        .map(|serial| learn(&mut store, &www, &[leaf(serial)], NOW))
        .collect();
    assert!(store.sync(PATIENCE));
    ids
}

/// A store with such a disk answers like any other.
pub(crate) fn assert_works(store: &mut SqliteStore) {
    let (www, der) = (site("works.example.com"), leaf(1_000_000));
    let id = learn(store, &www, std::slice::from_ref(&der), NOW);
    store.maintain(NOW);
    assert_eq!(store.expected(Kind::Chain, &www, NOW, 1), [id]);
    let chain = store.object_by_prefix(&id.prefix4()).expect("learned");
    assert_eq!(store.part(&chain.parts[0]).as_deref(), Some(&der[..]));
}

pub(crate) fn database(path: &Path) -> PathBuf {
    path.join("store.sqlite")
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o777
}
