//! What an operator may ask of a store on disk, with and without a daemon that has it open.

use std::fs;
use std::path::PathBuf;

use crate::support::certificate::Certificate;
use crate::support::disk::open;
use crate::support::stores::{NOW, days, learn, learn_part, site};
use tandem_store::{Digest, Kind, Limits, MemoryStore, ObjectId, Purge, Purged, Site, Store};
use tandem_store_sqlite::admin::{self, Exported, Format, Import, Imported, Several};
use tandem_store_sqlite::{Place, StoreError};
use tempfile::TempDir;

fn leaf() -> Vec<u8> {
    let dns_names = &["www.example", "*.example.org"];
    Certificate {
        issuer: "Intermediate",
        dns_names,
        not_after: "20300101000000Z",
        ..Certificate::default()
    }
    .der()
}

fn intermediate() -> Vec<u8> {
    Certificate {
        issuer: "Root",
        common_name: "Intermediate",
        ..Certificate::default()
    }
    .der()
}

fn root() -> Vec<u8> {
    Certificate {
        issuer: "Root",
        common_name: "Root",
        ..Certificate::default()
    }
    .der()
}

fn pem(label: &str, der: &[u8]) -> String {
    let base64 = data_encoding::BASE64.encode(der);
    let lines: Vec<&str> = base64
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).expect("ASCII"))
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// A directory for a store, and for files beside it.
struct Desk {
    home: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            home: TempDir::new().expect("a directory"),
        }
    }

    fn store(&self) -> PathBuf {
        self.home.path().join("store")
    }

    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, contents).expect("writable");
        path
    }

    fn import(&self, contents: impl AsRef<[u8]>, how: &Import) -> Result<Imported, StoreError> {
        let file = self.file("import", contents);
        admin::import(&self.store(), &Limits::default(), &[file], how, NOW).map(
            |(imported, warnings)| {
                assert_eq!(warnings, []);
                imported
            },
        )
    }

    fn purge(&self, what: &Purge) -> Result<Purged, StoreError> {
        admin::purge(&self.store(), &Limits::default(), what).map(|(purged, _)| purged)
    }
}

#[test]
fn what_is_beside_a_chain_is_not_called_a_certificate_and_goes_with_its_site() {
    let desk = Desk::new();
    let mut store = open(&desk.home, &Limits::default());
    let www = site("www.example");
    learn(&mut store, &www, &[leaf(), intermediate()], NOW);
    let issuers = learn_part(&mut store, Kind::Issuers, &Site::Any, &intermediate(), NOW);
    let messages = [22, 0, 0, 2, 1, 1].to_vec();
    let beside = learn_part(&mut store, Kind::Messages, &www, &messages, NOW);
    assert!(store.sync(core::time::Duration::from_secs(30)));
    drop(store);

    let listing = admin::list(&desk.store()).expect("a store");
    let kinds: Vec<Kind> = listing.chains.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [Kind::Messages, Kind::Issuers, Kind::Chain]);
    let shown = admin::show(&desk.store(), &beside.to_string()).expect("it is there");
    assert!(shown.certificates[0].contents.is_none());
    assert_eq!(
        shown.certificates[0].pem,
        pem("TLS HANDSHAKE MESSAGES", &messages)
    );
    let alone = admin::show(&desk.store(), &Digest::of(&messages).to_string());
    assert!(matches!(alone, Err(StoreError::NotFound { .. })));
    let mut text = Vec::new();
    admin::export(&desk.store(), Format::Pem, &mut text).expect("memory");
    let text = String::from_utf8(text).expect("ASCII");
    assert_eq!(text.matches("-----BEGIN CERTIFICATE-----").count(), 2);
    assert_eq!(text.matches("-----BEGIN").count(), 2);

    // Out and in again, the site finds all of it; and after a purge none.
    let mut lines = Vec::new();
    admin::export(&desk.store(), Format::JsonLines, &mut lines).expect("memory");
    let other = Desk::new();
    other.import(lines, &Import::default()).expect("our own");
    let mut held = open(&other.home, &Limits::default());
    assert_eq!(held.expected(Kind::Messages, &www, NOW, 9), [beside]);
    assert_eq!(held.expected(Kind::Issuers, &Site::Any, NOW, 9), [issuers]);
    drop(held);
    let purged = other
        .purge(&Purge::Site(www.clone()))
        .expect("nobody has it");
    assert_eq!((purged.of(Kind::Messages), purged.total()), (1, 2));
    let mut held = open(&other.home, &Limits::default());
    assert_eq!(held.expected(Kind::Messages, &www, NOW, 9), []);
    assert_eq!(held.expected(Kind::Issuers, &Site::Any, NOW, 9), [issuers]);
}

#[test]
fn staples_go_when_there_are_newer_ones_or_nobody_sent_them_for_long() {
    let limits = Limits::default();
    let mut store = MemoryStore::new(limits.clone());
    let www = site("www.example");
    for day in 0..100u8 {
        learn_part(&mut store, Kind::Messages, &www, &[22, day], NOW);
    }
    let kept = u64::try_from(limits.objects_per_site).expect("small");
    assert_eq!(store.health().objects, kept);
    assert_eq!(store.expire(days(29)), 0);
    assert_eq!(store.expire(days(31)), limits.objects_per_site);
}

#[test]
fn a_listing_says_what_a_running_daemon_has_written() {
    let desk = Desk::new();
    let mut daemon = open(&desk.home, &Limits::default());
    let older = learn(
        &mut daemon,
        &site("old.example"),
        &[b"no certificate".to_vec()],
        days(-2),
    );
    let newer = learn(
        &mut daemon,
        &site("www.example"),
        &[leaf(), intermediate()],
        days(-1),
    );
    learn(
        &mut daemon,
        &site("b.example.org"),
        &[leaf(), intermediate()],
        NOW,
    );
    assert!(daemon.sync(core::time::Duration::from_secs(30)));

    let listing = admin::list(&desk.store()).expect("a store");
    assert_eq!(
        listing.chains.iter().map(|row| row.id).collect::<Vec<_>>(),
        [newer, older]
    );
    let row = &listing.chains[0];
    assert_eq!(row.sites, [site("b.example.org"), site("www.example")]);
    assert_eq!(row.names, ["www.example", "*.example.org"]);
    assert_eq!(
        row.certificates,
        [Digest::of(&leaf()), Digest::of(&intermediate())]
    );
    assert_eq!(
        row.bytes,
        u64::try_from(leaf().len() + intermediate().len()).expect("small")
    );
    assert_eq!(
        (row.first_seen, row.last_seen, row.hits),
        (days(-1).0, NOW.0, 1)
    );
    assert_eq!(row.not_after, Some(1_893_456_000));
    assert_eq!(listing.chains[1].not_after, None);
    assert_eq!(listing.bytes, daemon.health().bytes);

    let json = serde_json::to_value(&listing).expect("plain data");
    assert_eq!(json["chains"][0]["id"], newer.to_string());
    assert_eq!(json["chains"][0]["sites"][1], "www.example");
    assert_eq!(json["chains"][0]["last_seen"], NOW.0);
}

#[test]
fn one_chain_or_certificate_is_shown_by_the_beginning_of_its_name() {
    let desk = Desk::new();
    let mut store = open(&desk.home, &Limits::default());
    let id = learn(
        &mut store,
        &site("www.example"),
        &[leaf(), intermediate(), b"odd".to_vec()],
        NOW,
    );
    drop(store);
    let shown = admin::show(&desk.store(), &id.to_string()[..9].to_uppercase()).expect("there");
    assert_eq!(shown.chain.map(|chain| chain.id), Some(id));
    let [leaf_details, _, odd] = &shown.certificates[..] else {
        panic!("three certificates");
    };
    let contents = leaf_details.contents.as_ref().expect("X.509");
    assert_eq!(
        (contents.subject.as_str(), contents.issuer.as_str()),
        ("CN=Test Subject", "CN=Intermediate")
    );
    assert_eq!(contents.names, ["www.example", "*.example.org"]);
    assert_eq!(
        (contents.not_before, contents.not_after),
        (1_577_836_800, 1_893_456_000)
    );
    assert_eq!(leaf_details.pem, pem("CERTIFICATE", &leaf()));
    assert!(odd.contents.is_none() && odd.bytes == 3);

    let alone = admin::show(&desk.store(), &Digest::of(&leaf()).to_string()).expect("there");
    assert!(alone.chain.is_none() && alone.certificates.len() == 1);
    assert!(matches!(
        admin::show(&desk.store(), ""),
        Err(StoreError::Ambiguous { count: 4, .. })
    ));
    assert!(matches!(
        admin::show(&desk.store(), "no digits"),
        Err(StoreError::NotFound { .. })
    ));
}

#[test]
fn text_of_strangers_does_nothing_to_a_terminal() {
    let desk = Desk::new();
    let mut store = open(&desk.home, &Limits::default());
    let common_name = "\x1b[2Jred\u{202e}gnp.exe\n\u{9b}31m";
    let id = store.learn(
        Kind::Chain,
        None,
        &[&Certificate {
            common_name,
            dns_names: &["a\x07b"],
            ..Certificate::default()
        }
        .der()],
        NOW,
    );
    drop(store);
    let shown = serde_json::to_string(&admin::show(&desk.store(), &id.to_string()).expect("there"))
        .expect("plain");
    let contents = admin::show(&desk.store(), &id.to_string())
        .expect("there")
        .certificates
        .remove(0)
        .contents
        .expect("X.509");
    for text in [&contents.subject, &contents.issuer, &contents.names[0]] {
        assert!(
            !text.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{text:?}"
        );
    }
    assert!(shown.contains("red"));
}

#[test]
fn one_certificate_in_pem_or_der_is_taken_in_alone_and_several_are_a_chain() {
    let desk = Desk::new();
    let how = Import::default();
    let one = Imported {
        certificates: 1,
        ..Imported::default()
    };
    let chain = Imported {
        chains: 1,
        ..Imported::default()
    };
    let preface = "Certificate chain\n 0 s:CN = www.example\n";
    let key = pem("PRIVATE KEY", b"not to be stored");
    let in_pem = [
        preface,
        &pem("CERTIFICATE", &leaf()),
        &key,
        &pem("CERTIFICATE", &intermediate()),
    ]
    .concat();
    assert_eq!(desk.import(root(), &how).expect("DER"), one);
    assert_eq!(
        desk.import(pem("CERTIFICATE", &root()), &how).expect("PEM"),
        one
    );
    assert_eq!(desk.import(in_pem, &how).expect("PEM"), chain);
    assert_eq!(
        desk.import([leaf(), intermediate()].concat(), &how)
            .expect("DER"),
        chain
    );
    let listing = admin::list(&desk.store()).expect("a store");
    assert_eq!(
        listing
            .singles
            .iter()
            .map(|row| row.digest)
            .collect::<Vec<_>>(),
        [Digest::of(&root())]
    );
    assert_eq!(
        listing.chains.iter().map(|row| row.id).collect::<Vec<_>>(),
        [ObjectId::of(&[&leaf(), &intermediate()])]
    );
    let stored = fs::read(desk.store().join("store.sqlite")).expect("a file");
    assert!(
        !stored
            .windows(16)
            .any(|window| window == b"not to be stored")
    );

    let mut daemon = open(&desk.home, &Limits::default());
    assert_eq!(
        daemon.expected(Kind::Chain, &site("a.example.org"), NOW, 3),
        [listing.chains[0].id]
    );
    assert_eq!(
        daemon.part(&Digest::of(&root())).as_deref(),
        Some(&root()[..])
    );
}

#[test]
fn a_site_may_be_named_for_what_is_taken_in() {
    let desk = Desk::new();
    let how = Import {
        site: Some("[2001:db8::1]:443".parse().expect("a site")),
        ..Import::default()
    };
    assert_eq!(desk.import(leaf(), &how).expect("DER").chains, 1);
    let mut daemon = open(&desk.home, &Limits::default());
    assert_eq!(
        daemon.expected(Kind::Chain, how.site.as_ref().expect("named"), NOW, 3),
        [ObjectId::of(&[&leaf()])]
    );
}

#[test]
fn a_bundle_of_authorities_is_taken_in_as_single_certificates_when_asked() {
    let desk = Desk::new();
    let bundle = [pem("CERTIFICATE", &root()), pem("CERTIFICATE", &leaf())].concat();
    let how = Import {
        several: Several::Certificates,
        ..Import::default()
    };
    assert_eq!(desk.import(bundle, &how).expect("PEM").certificates, 2);
    assert_eq!(
        admin::list(&desk.store()).expect("a store").singles.len(),
        2
    );
}

#[test]
fn a_wrong_file_says_where_it_is_wrong_and_nothing_is_taken_in() {
    let desk = Desk::new();
    let misordered = [leaf(), root()].concat();
    let json = |line: &str| format!("{{\"chain\":[]}}\n\n{line}\n");
    let trailing = [leaf(), b"trailing".to_vec()].concat();
    let cases: [(&str, Vec<u8>, Place, &str); 11] = [
        (
            "not issued",
            misordered,
            Place::Certificate(1),
            "issued by \"CN=Intermediate\", but the next is \"CN=Root\"",
        ),
        (
            "no DER",
            b"text".to_vec(),
            Place::Certificate(1),
            "not a certificate",
        ),
        (
            "trailing bytes",
            trailing.clone(),
            Place::Certificate(2),
            "not a certificate",
        ),
        (
            "PEM of no DER",
            pem("CERTIFICATE", b"text").into_bytes(),
            Place::Certificate(1),
            "not a certificate",
        ),
        (
            "trailing in PEM",
            pem("CERTIFICATE", &trailing).into_bytes(),
            Place::Certificate(1),
            "bytes after it",
        ),
        (
            "only a key",
            pem("PRIVATE KEY", b"key").into_bytes(),
            Place::Certificate(1),
            "there is none",
        ),
        (
            "cut off",
            pem("CERTIFICATE", &leaf()).into_bytes()[..200].to_vec(),
            Place::Certificate(1),
            "",
        ),
        ("no JSON", json("{").into_bytes(), Place::Line(3), ""),
        (
            "neither",
            json("{}").into_bytes(),
            Place::Line(3),
            "needs one",
        ),
        (
            "no Base64",
            json("{\"chain\":[\"*\"]}").into_bytes(),
            Place::Line(3),
            "not Base64",
        ),
        (
            "no site",
            json("{\"chain\":[],\"site\":\"a b\"}").into_bytes(),
            Place::Line(3),
            "not a host name",
        ),
    ];
    let good = desk.file("good", root());
    for (what, contents, expected, reason) in cases {
        let bad = desk.file("bad", contents);
        let files = [good.clone(), bad.clone()];
        let error = admin::import(
            &desk.store(),
            &Limits::default(),
            &files,
            &Import::default(),
            NOW,
        );
        let text = error.as_ref().expect_err(what).to_string();
        assert!(
            matches!(&error, Err(StoreError::Malformed { path, place, .. }) if *path == bad && *place == expected),
            "{what}: {text}"
        );
        assert!(text.contains(reason), "{what}: {text}");
    }
    assert!(matches!(
        admin::list(&desk.store()),
        Err(StoreError::NoStore { .. })
    ));
    let missing = admin::import(
        &desk.store(),
        &Limits::default(),
        &[desk.store().join("x")],
        &Import::default(),
        NOW,
    );
    assert!(matches!(missing, Err(StoreError::Unreadable { .. })));
}

#[test]
fn json_lines_and_pem_come_out_as_they_went_in() {
    let desk = Desk::new();
    let mut store = open(&desk.home, &Limits::default());
    learn(
        &mut store,
        &site("www.example"),
        &[leaf(), intermediate()],
        NOW,
    );
    store.learn(Kind::Chain, None, &[b"no certificate"], NOW);
    drop(store);
    desk.import(root(), &Import::default()).expect("DER");

    let mut lines = Vec::new();
    assert_eq!(
        admin::export(&desk.store(), Format::JsonLines, &mut lines).expect("a store"),
        Exported {
            written: 3,
            damaged: 0
        }
    );
    let base64 = |der: &[u8]| data_encoding::BASE64.encode(der);
    let expected = [
        format!(
            "{{\"site\":\"www.example\",\"not_before\":\"2020-01-01\",\"chain\":[\"{}\",\"{}\"]}}\n",
            base64(&leaf()),
            base64(&intermediate())
        ),
        format!(
            "{{\"site\":null,\"not_before\":null,\"chain\":[\"{}\"]}}\n",
            base64(b"no certificate")
        ),
        format!("{{\"certificate\":\"{}\"}}\n", base64(&root())),
    ];
    assert_eq!(
        String::from_utf8(lines.clone()).expect("JSON"),
        expected.concat()
    );
    let second = Desk::new();
    assert_eq!(
        second.import(&lines, &Import::default()).expect("our own"),
        Imported {
            chains: 2,
            certificates: 1,
            refused: 0
        }
    );
    let mut again = Vec::new();
    admin::export(&second.store(), Format::JsonLines, &mut again).expect("a store");
    assert_eq!(again, lines);

    let mut bundle = Vec::new();
    admin::export(&desk.store(), Format::Pem, &mut bundle).expect("a store");
    let bundle = String::from_utf8(bundle).expect("text");
    for der in [leaf(), intermediate(), root()] {
        assert!(bundle.contains(&pem("CERTIFICATE", &der)));
    }
}

#[test]
fn a_purge_removes_what_it_says_and_no_more() {
    let fill = || {
        let desk = Desk::new();
        let mut store = open(&desk.home, &Limits::default());
        learn(
            &mut store,
            &site("old.example"),
            &[leaf(), intermediate()],
            days(-40),
        );
        let expired = Certificate {
            not_after: "20250101000000Z",
            ..Certificate::default()
        }
        .der();
        learn(
            &mut store,
            &site("expired.example"),
            &[expired, intermediate()],
            days(-1),
        );
        learn(
            &mut store,
            &site("recent.example"),
            &[b"no certificate".to_vec()],
            NOW,
        );
        drop(store);
        desk.import(root(), &Import::default()).expect("DER");
        desk
    };
    let left = |desk: &Desk| {
        let listing = admin::list(&desk.store()).expect("a store");
        let sites: Vec<String> = listing
            .chains
            .iter()
            .flat_map(|row| &row.sites)
            .map(ToString::to_string)
            .collect();
        (sites.join(" "), listing.singles.len())
    };
    let cases = [
        (Purge::All, (3, 1), "", 0),
        (
            Purge::ExpiredBefore(NOW),
            (1, 0),
            "recent.example old.example",
            1,
        ),
        (
            Purge::NotSeenSince(days(-30)),
            (1, 0),
            "recent.example expired.example",
            1,
        ),
        (
            Purge::Site(site("recent.example")),
            (1, 0),
            "expired.example old.example",
            1,
        ),
        // By a name in the leaf of what another site showed.
        (
            Purge::Site(site("a.example.org")),
            (1, 0),
            "recent.example expired.example",
            1,
        ),
        (
            Purge::Site(site("unknown.example")),
            (0, 0),
            "recent.example expired.example old.example",
            1,
        ),
    ];
    for (what, purged, sites, singles) in cases {
        let desk = fill();
        let removed = desk.purge(&what).expect("a store");
        let removed = (removed.of(Kind::Chain), removed.of(Kind::Certificate));
        assert_eq!(removed, purged, "{what:?}");
        assert_eq!(left(&desk), (sites.to_owned(), singles), "{what:?}");
        open(&desk.home, &Limits::default());
    }
}

#[test]
fn changing_a_store_that_a_daemon_has_says_who_has_it_and_what_to_do() {
    let desk = Desk::new();
    let daemon = open(&desk.home, &Limits::default());
    for error in [
        desk.purge(&Purge::All).expect_err("in use"),
        desk.import(root(), &Import::default()).expect_err("in use"),
    ] {
        assert!(
            matches!(error, StoreError::InUse { process: Some(process), .. } if process == std::process::id())
        );
        assert!(
            error.to_string().contains("stop the daemon first"),
            "{error}"
        );
    }
    drop(daemon);
    desk.import(root(), &Import::default()).expect("free again");
}

#[test]
fn a_command_with_little_room_gives_up_nothing_that_is_held() {
    let desk = Desk::new();
    let mut store = open(&desk.home, &Limits::default());
    for serial in 0..50 {
        store.learn(
            Kind::Chain,
            None,
            &[&Certificate {
                serial,
                ..Certificate::default()
            }
            .der()],
            NOW,
        );
    }
    drop(store);
    let little = Limits {
        bytes: 1_000,
        ..Limits::default()
    };
    admin::purge(
        &desk.store(),
        &little,
        &Purge::Site(site("unknown.example")),
    )
    .expect("a store");
    assert_eq!(
        admin::list(&desk.store()).expect("a store").chains.len(),
        50
    );
}

#[test]
fn where_there_is_no_store_none_is_made_by_looking() {
    let desk = Desk::new();
    let mut output = Vec::new();
    for error in [
        admin::list(&desk.store()).expect_err("none"),
        admin::show(&desk.store(), "00").expect_err("none"),
        admin::export(&desk.store(), Format::Pem, &mut output).expect_err("none"),
        desk.purge(&Purge::All).expect_err("none"),
    ] {
        assert!(matches!(error, StoreError::NoStore { .. }), "{error}");
    }
    assert!(!desk.store().exists());
}
