//! A store that an earlier version of this program wrote is read whole: `fixtures/schema-2.sqlite`
//! holds one of each thing that schema 2 knew, put there by [`fill`], a sync and an import of
//! [`single`], with the code of that time. `fixtures/schema-2.jsonl` is that store as that version
//! exports it: all in chains, with `extras:` or `issuers:` before the site.

use std::fs;
use std::path::PathBuf;

use crate::support::certificate::Certificate;
use crate::support::stores::{NOW, days, site};
use tandem_store::{Digest, KINDS, Keeping, Kind, Limits, MemoryStore, Site, Store};
use tandem_store_sqlite::admin::{self, Import};
use tandem_store_sqlite::{SqliteStore, Warning};
use tandem_wire::clock::UnixTime;
use tempfile::TempDir;

const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/schema-2.sqlite"
);
const EXPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/schema-2.jsonl");
/// What a site sent in clear beside its chain: a staple, in shape.
const STAPLE: &[u8] = b"\x16\x00\x00\x0cstaple staple";
/// The same from a site without a name: a request for a certificate, in shape.
const REQUEST: &[u8] = b"\x0d\x00\x00\x09a request";

fn der(serial: u32, names: &[&str]) -> Vec<u8> {
    Certificate {
        serial,
        dns_names: names,
        ..Certificate::default()
    }
    .der()
}

/// A chain of three, the leaf with these names.
fn chain(serial: u32, names: &[&str]) -> [Vec<u8>; 3] {
    [der(serial, names), der(100, &[]), der(101, &[])]
}

fn named() -> Site {
    site("www.one.example")
}

fn addressed(text: &str) -> Site {
    text.parse().expect("an address and a port")
}

/// Everything in the fixture but the single certificate, in the order in which it was learned.
fn fill(store: &mut dyn Store) {
    fill_on(store, days);
}

/// The same, each thing at the time that `at` gives for its day.
fn fill_on(store: &mut dyn Store, at: fn(i64) -> UnixTime) {
    let mut learn = |kind, site: Option<&Site>, parts: &[Vec<u8>], day| {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        store.learn(kind, site, &parts, at(day));
    };
    let first = chain(1, &["www.one.example", "*.one.example"]);
    let second = chain(2, &["www.one.example"]);
    for day in [0, 1] {
        learn(Kind::Chain, Some(&named()), &first, day);
        learn(Kind::Issuers, Some(&Site::Any), &first[1..], day);
        let staple = [STAPLE.to_vec()];
        learn(Kind::Messages, Some(&named()), &staple, day);
    }
    learn(Kind::Chain, Some(&named()), &second, 2);
    let bare = addressed("192.0.2.1:443");
    learn(Kind::Chain, Some(&bare), &first, 3);
    let six = addressed("[2001:db8::1]:8443");
    learn(Kind::Chain, Some(&six), &chain(3, &[]), 3);
    learn(Kind::Messages, Some(&six), &[REQUEST.to_vec()], 3);
    // A client's own chain: no site shows it.
    learn(Kind::Chain, None, &[der(4, &[]), der(102, &[])], 4);
}

/// The single certificate.
fn single() -> Vec<u8> {
    der(200, &[])
}

/// The fixture in a directory of its own.
fn fixture() -> TempDir {
    let home = TempDir::new().expect("a directory");
    let directory = home.path().join("store");
    fs::create_dir(&directory).expect("a directory");
    fs::set_permissions(
        &directory,
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .expect("a mode");
    fs::copy(FIXTURE, directory.join("store.sqlite")).expect("the fixture");
    home
}

#[test]
fn a_store_of_schema_2_answers_as_if_all_had_been_learned_now() {
    let home = fixture();
    let path = home.path().join("store");
    let (mut store, warnings) = SqliteStore::open(&path, Limits::default()).expect("a directory");
    assert!(
        matches!(&warnings[..], [Warning::Migrated { from: 2, .. }]),
        "{warnings:?}"
    );
    assert_as_filled(&mut store);
    drop(store);
    let (mut store, warnings) = SqliteStore::open(&path, Limits::default()).expect("a directory");
    assert_eq!(warnings, []);
    assert_as_filled(&mut store);
}

#[test]
fn an_export_of_schema_2_is_imported_as_if_all_had_been_learned_at_once() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let files = [PathBuf::from(EXPORT)];
    let limits = Limits::default();
    let (imported, warnings) =
        admin::import(&path, &limits, &files, &Import::default(), NOW).expect("an export");
    assert_eq!(warnings, []);
    let counts = (imported.chains, imported.certificates, imported.refused);
    assert_eq!(counts, (8, 1, 0));
    let (mut store, warnings) = SqliteStore::open(&path, limits).expect("a directory");
    assert_eq!(warnings, []);
    let mut fresh = MemoryStore::default();
    fill_on(&mut fresh, |_| NOW);
    assert_same(&mut store, &mut fresh, Order::Any);
}

/// The store answers as one that has just learned what is in the fixture.
fn assert_as_filled(store: &mut SqliteStore) {
    let mut fresh = MemoryStore::default();
    fill(&mut fresh);
    assert_same(store, &mut fresh, Order::Same);
}

/// Whether a site's objects are expected in the same order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Same,
    /// An export has each object once, where it was last seen, whichever site showed it then.
    Any,
}

/// The store answers as `fresh`, and holds the single certificate besides.
fn assert_same(store: &mut SqliteStore, fresh: &mut MemoryStore, order: Order) {
    assert_eq!(store.health().keeping, Keeping::Disk);
    let sites = [
        named(),
        addressed("192.0.2.1:443"),
        addressed("[2001:db8::1]:8443"),
        site("other.one.example"),
        Site::Any,
    ];
    for (site, row) in sites
        .iter()
        .flat_map(|site| KINDS.iter().map(move |row| (site, row)))
    {
        for now in [NOW, days(10), days(32), days(60)] {
            let mut expected = fresh.expected(row.kind, site, now, 9);
            let mut held = store.expected(row.kind, site, now, 9);
            if order == Order::Any {
                expected.sort();
                held.sort();
            }
            assert_eq!(held, expected, "{} of {site} {now:?}", row.name);
            for id in expected {
                let object = fresh.object(row.kind, &id).expect("learned");
                assert_eq!(store.object(row.kind, &id).as_ref(), Some(&object));
                let contents = fresh.contents(&object).expect("learned");
                assert_eq!(store.contents(&object), Some(contents));
            }
        }
    }
    assert_eq!(store.expected(Kind::Issuers, &Site::Any, NOW, 9).len(), 1);
    assert_eq!(store.expected(Kind::Messages, &named(), NOW, 9).len(), 1);
    assert_eq!(store.expected(Kind::Chain, &named(), NOW, 9).len(), 2);
    assert_eq!(
        store.unexpected(Kind::Chain, 9),
        fresh.unexpected(Kind::Chain, 9)
    );
    assert_eq!(store.unexpected(Kind::Chain, 9).len(), 1);
    let single = single();
    let id = Kind::Certificate.id_of(&[&single]);
    assert!(store.object(Kind::Certificate, &id).is_some());
    assert_eq!(
        store.part(&Digest::of(&single)).as_deref(),
        Some(&single[..])
    );
    let (held, learned) = (store.health(), fresh.health());
    assert_eq!(held.objects, learned.objects + 1);
    assert_eq!(held.parts, learned.parts + 1);
}
