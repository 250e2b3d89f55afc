//! A database that was damaged: it is moved aside and the store begins anew, or what is damaged in
//! it is forgotten, and no wrong byte comes out.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::support::filled::{PATIENCE, assert_works, database, fill, leaf, mode, open, open_well};
use crate::support::stores::{NOW, learn, site};
use proptest::prelude::*;
use rusqlite::{Connection, params};
use tandem_store::{Digest, Keeping, Kind, Purge, Store};
use tandem_store_sqlite::{StoreError, Warning, admin};
use tempfile::TempDir;

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
