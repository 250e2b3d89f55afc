//! Every kind of the table is held, expected and found alike; what a row says makes the difference.

#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/stores.rs"]
mod stores;

use certificate::Certificate;
use stores::{NOW, learn, learn_part, site};
use tandem_store::{Digest, KINDS, Kind, Limits, MemoryStore, Site, Store, Unexpected};

#[test]
fn an_object_of_each_kind_is_expected_of_its_site_and_resolves_to_what_it_is_named_by() {
    let (www, other) = (site("www.example"), site("other.example"));
    let mut store = MemoryStore::default();
    let ids = KINDS.map(|row| learn_part(&mut store, row.kind, &www, row.name.as_bytes(), NOW));
    assert_eq!(store.health().objects, 9);
    for (row, id) in KINDS.iter().zip(ids) {
        assert_eq!(store.expected(row.kind, &www, NOW, 9), [id], "{}", row.name);
        assert_eq!(store.expected(row.kind, &other, NOW, 9), []);
        let object = store.object_by_prefix(&id.prefix16()).expect("learned");
        assert_eq!((object.kind, object.id), (row.kind, id));
        let contents = store.contents(&object).expect("whole");
        assert_eq!(Digest::of(&contents), *id.digest());
    }
}

#[test]
fn what_each_site_showed_last_is_told_newest_first() {
    let (www, other) = (site("www.example"), site("other.example"));
    let mut store = MemoryStore::default();
    learn_part(&mut store, Kind::Chain, &www, b"older", NOW);
    let second = learn_part(&mut store, Kind::Chain, &other, b"other", NOW);
    let first = learn_part(&mut store, Kind::Chain, &www, b"newer", NOW);
    learn_part(&mut store, Kind::Staple, &www, b"staple", NOW);
    let latest = store.latest(Kind::Chain, 9).into_iter();
    let latest: Vec<_> = latest
        .map(|it| (it.site, it.object, it.last_seen))
        .collect();
    assert_eq!(latest, [(www.clone(), first, NOW), (other, second, NOW)]);
    assert_eq!(store.latest(Kind::Chain, 1).len(), 1);
}

#[test]
fn the_same_list_may_be_one_sites_chain_and_the_issuers_of_others() {
    let list = [Certificate::default().der()];
    let www = site("www.example");
    let mut store = MemoryStore::default();
    let id = learn(&mut store, &www, &list, NOW);
    let issuers = learn_part(&mut store, Kind::Issuers, &Site::Any, &list[0], NOW);
    assert_eq!(id, issuers);
    let health = store.health();
    assert_eq!((health.objects, health.parts), (2, 1));
    let found = store.object_by_prefix(&id.prefix4()).expect("one name");
    assert_eq!(found.id, id);
    assert_eq!(store.expected(Kind::Chain, &www, NOW, 9), [id]);
    assert_eq!(store.expected(Kind::Issuers, &www, NOW, 9), []);
    assert_eq!(store.expected(Kind::Issuers, &Site::Any, NOW, 9), [id]);
    assert_eq!(store.unexpected(Kind::Issuers, 9), []);
}

#[test]
fn names_in_issuers_and_single_certificates_lead_nowhere() {
    let dns_names = &["ca.example"];
    let der = Certificate {
        dns_names,
        ..Certificate::default()
    }
    .der();
    let mut store = MemoryStore::default();
    for kind in [Kind::Issuers, Kind::Certificate] {
        learn_part(&mut store, kind, &Site::Any, &der, NOW);
    }
    for row in &KINDS {
        assert_eq!(store.expected(row.kind, &site("ca.example"), NOW, 9), []);
    }
}

#[test]
fn an_object_that_is_no_longer_expected_stays_or_goes_as_its_row_says() {
    let limits = Limits {
        objects_per_site: 1,
        ..Limits::default()
    };
    for row in &KINDS {
        let mut store = MemoryStore::new(limits.clone());
        let www = site("www.example");
        let older = learn_part(&mut store, row.kind, &www, b"older", NOW);
        let newer = learn_part(&mut store, row.kind, &www, b"newer", NOW);
        assert_eq!(store.expected(row.kind, &www, NOW, 9), [newer]);
        let stays = store.object(row.kind, &older).is_some();
        assert_eq!(stays, row.unexpected == Unexpected::Stays, "{}", row.name);
    }
}

#[test]
fn an_object_that_is_one_whole_has_one_part() {
    let mut store = MemoryStore::default();
    let id = store.learn(Kind::Staple, None, &[b"one", b"other"], NOW);
    assert_eq!(store.object(Kind::Staple, &id), None);
    assert_eq!(store.health().bytes, 0);
}

#[test]
fn asking_whether_an_object_is_held_is_no_use_of_it() {
    let www = site("www.example");
    let learned = |store: &mut MemoryStore, byte: u8| {
        learn_part(store, Kind::Dictionary, &www, &[byte; 1_000], NOW)
    };
    let mut roomy = MemoryStore::default();
    learned(&mut roomy, 1);
    let room = Limits {
        bytes: roomy.health().bytes * 5 / 2,
        ..Limits::default()
    };
    let mut store = MemoryStore::new(room);
    let ids = [1, 2].map(|byte| learned(&mut store, byte));
    assert!(ids.iter().all(|id| store.holds(Kind::Dictionary, id)));
    assert!(!store.holds(Kind::Template, &ids[0]), "of another kind");
    assert!(store.holds(Kind::Dictionary, &ids[0]));
    learned(&mut store, 3);
    let held = ids.map(|id| store.holds(Kind::Dictionary, &id));
    assert_eq!(held, [false, true], "the one used longest ago goes");
}
