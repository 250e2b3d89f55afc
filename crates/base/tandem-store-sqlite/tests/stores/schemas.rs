//! A database of another schema: an older one is brought up to date, a newer one or another
//! program's is left alone. Not here: all that an earlier version wrote (`carried_over.rs`).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::certificate::Certificate;
use crate::support::filled::{PATIENCE, assert_works, database, fill, leaf, open, open_well};
use crate::support::stores::{NOW, days, site};
use rusqlite::{Connection, params};
use tandem_store::{Digest, Keeping, Kind, ObjectId, Store};
use tandem_store_sqlite::{StoreError, Warning, admin};
use tempfile::TempDir;

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
