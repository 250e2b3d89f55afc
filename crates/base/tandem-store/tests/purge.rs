//! What goes on purpose, for its age or for want of room, and that nothing else goes with it.

#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/stores.rs"]
mod stores;

use certificate::Certificate;
use stores::{NOW, days, learn, learn_part, site};
use tandem_store::{KINDS, Kind, Limits, MemoryStore, ObjectId, Purge, Site, Store, Unexpected};
use tandem_wire::clock::UnixTime;

/// A leaf that ends at noon of this day of June 2025; [`NOW`] is the fifteenth.
fn ending(day: u32, name: &str) -> Vec<u8> {
    Certificate {
        serial: day,
        dns_names: &[name],
        not_after: &format!("202506{day:02}120000Z"),
        ..Certificate::default()
    }
    .der()
}

/// A chain that ended, one that ends now and one to come, each seen at its own site a day apart.
fn three() -> (MemoryStore, [ObjectId; 3]) {
    let mut store = MemoryStore::default();
    let ids = [(14, "past", -2), (15, "now", -1), (16, "future", 0)].map(|(day, name, seen)| {
        let name = format!("{name}.example");
        learn(&mut store, &site(&name), &[ending(day, &name)], days(seen))
    });
    (store, ids)
}

fn held(store: &mut MemoryStore, ids: &[ObjectId]) -> Vec<bool> {
    let is_held = |id| store.object(Kind::Chain, id).is_some();
    ids.iter().map(is_held).collect()
}

#[test]
fn a_purge_removes_what_it_says_and_no_more() {
    for (what, left) in [
        (Purge::All, [false, false, false]),
        (Purge::ExpiredBefore(NOW), [false, true, true]),
        (
            Purge::ExpiredBefore(UnixTime(NOW.0 + 1)),
            [false, false, true],
        ),
        (Purge::NotSeenSince(days(-1)), [false, true, true]),
        (Purge::NotSeenSince(NOW), [false, false, true]),
        (Purge::Site(site("now.example")), [true, false, true]),
        (Purge::Site(site("other.example")), [true, true, true]),
    ] {
        let (mut store, ids) = three();
        let gone = left.iter().filter(|left| !**left).count();
        let purged = store.purge(&what);
        assert_eq!(held(&mut store, &ids), left, "{what:?}");
        assert_eq!(purged.of(Kind::Chain), gone, "{what:?}");
        assert_eq!(purged.of(Kind::Ticket), 0);
        assert_eq!(purged.total(), gone);
    }
}

#[test]
fn purged_objects_are_counted_by_kind() {
    let mut store = MemoryStore::default();
    let www = site("www.example");
    for part in [b"one", b"two"] {
        learn_part(&mut store, Kind::Staple, &www, part, NOW);
    }
    learn_part(&mut store, Kind::Ticket, &www, b"three", NOW);
    let purged = store.purge(&Purge::All);
    let counts = [Kind::Staple, Kind::Ticket, Kind::Chain].map(|kind| purged.of(kind));
    assert_eq!((counts, purged.total()), ([2, 1, 0], 3));
}

#[test]
fn what_a_leaf_says_of_a_purged_site_goes_and_its_neighbours_under_the_name_stay() {
    let mut store = MemoryStore::default();
    let (one, other) = (site("one.example"), site("other.example"));
    let leaf = |serial| {
        let dns_names = &["shared.example"];
        let leaf = Certificate {
            serial,
            dns_names,
            ..Certificate::default()
        };
        leaf.der()
    };
    let gone = learn(&mut store, &one, &[leaf(1)], NOW);
    let left = learn(&mut store, &other, &[leaf(2)], NOW);
    store.purge(&Purge::Site(one));
    assert_eq!(held(&mut store, &[gone, left]), [false, true]);
    let shared = site("shared.example");
    assert_eq!(store.expected(Kind::Chain, &shared, NOW, 9), [left]);
    store.purge(&Purge::Site(shared));
    assert_eq!(held(&mut store, &[left]), [false]);
}

#[test]
fn what_ended_and_was_seen_long_ago_expires() {
    let keep = Limits::default().keep_expired.as_secs();
    // The chain that ended two days ago: kept for so long after that, and after it was seen.
    let ended = days(-1);
    for (now, expired) in [(ended.0 + keep, 0), (ended.0 + keep + 1, 1)] {
        let mut store = MemoryStore::default();
        let chain = [ending(14, "past.example")];
        let id = learn(&mut store, &site("past.example"), &chain, days(-2));
        assert_eq!(store.expire(UnixTime(now)), expired);
        assert_eq!(held(&mut store, &[id]), [expired == 0]);
        // Seen again: it is somebody's chain, whatever its end.
        let id = learn(&mut store, &site("past.example"), &chain, UnixTime(now));
        assert_eq!(store.expire(UnixTime(now + 1)), 0);
        assert_eq!(held(&mut store, &[id]), [true]);
    }
    let (mut store, ids) = three();
    assert_eq!(store.expire(UnixTime(NOW.0 + keep)), 1);
    assert_eq!(store.expire(UnixTime(NOW.0 + keep + 1)), 1);
    assert_eq!(held(&mut store, &ids), [false, false, true]);
}

#[test]
fn what_has_no_end_expires_by_when_it_was_seen() {
    let keep = Limits::default().keep_expired.as_secs();
    let mut store = MemoryStore::default();
    let id = learn_part(
        &mut store,
        Kind::Staple,
        &site("www.example"),
        b"staple",
        NOW,
    );
    assert_eq!(store.expire(UnixTime(NOW.0 + keep)), 0);
    assert_eq!(store.expire(UnixTime(NOW.0 + keep + 1)), 1);
    assert_eq!(store.object(Kind::Staple, &id), None);
}

#[test]
fn at_the_limit_nothing_goes_and_past_it_what_was_not_used() {
    let www = site("www.example");
    let parts: [&[u8]; 3] = [b"first", b"other", b"third"];
    let mut store = MemoryStore::default();
    for part in &parts[..2] {
        learn_part(&mut store, Kind::Certificate, &www, part, NOW);
    }
    let two = store.health().bytes;
    for used in 0..2 {
        let mut store = MemoryStore::new(Limits {
            bytes: two,
            ..Limits::default()
        });
        let ids = [0, 1].map(|n| learn_part(&mut store, Kind::Certificate, &www, parts[n], NOW));
        assert_eq!((store.health().objects, store.health().evicted), (2, 0));
        // By its digest, as a copy is resolved.
        assert!(store.part(ids[used].digest()).is_some());
        learn_part(&mut store, Kind::Certificate, &www, parts[2], NOW);
        let left = ids.map(|id| store.part(id.digest()).is_some());
        assert_eq!(left, [used == 0, used == 1]);
        assert_eq!(store.health().evicted, 1);
    }
}

#[test]
fn an_object_that_another_site_still_shows_stays() {
    let limits = Limits {
        objects_per_site: 1,
        ..Limits::default()
    };
    let (www, other) = (site("www.example"), site("other.example"));
    for row in KINDS
        .iter()
        .filter(|row| row.unexpected == Unexpected::Goes)
    {
        let mut store = MemoryStore::new(limits.clone());
        let older = learn_part(&mut store, row.kind, &www, b"older", NOW);
        learn_part(&mut store, row.kind, &other, b"older", NOW);
        learn_part(&mut store, row.kind, &www, b"newer", NOW);
        assert_eq!(
            store.expected(row.kind, &other, NOW, 9),
            [older],
            "{}",
            row.name
        );
    }
}

#[test]
fn names_beyond_the_limits_lead_nowhere() {
    let names = ["one.example", "two.example"];
    let leaf = Certificate {
        dns_names: &names,
        ..Certificate::default()
    }
    .der();
    for (names_per_leaf, objects_per_name, found) in [
        (2, 1, [true, true]),
        (1, 1, [true, false]),
        (0, 1, [false, false]),
        (2, 0, [false, false]),
    ] {
        let limits = Limits {
            names_per_leaf,
            objects_per_name,
            ..Limits::default()
        };
        let mut store = MemoryStore::new(limits);
        store.learn(Kind::Chain, None, &[&leaf], NOW);
        let is_found = |name| !store.expected(Kind::Chain, &site(name), NOW, 9).is_empty();
        assert_eq!(
            names.map(is_found),
            found,
            "{names_per_leaf} {objects_per_name}"
        );
    }
}

#[test]
fn without_limits_what_is_beyond_the_defaults_is_held() {
    let long = vec![7; Limits::default().object_bytes + 1];
    for (limits, held) in [(Limits::default(), 0), (Limits::none(), 1)] {
        let mut store = MemoryStore::new(limits);
        store.learn(Kind::Staple, None, &[&long], NOW);
        assert_eq!(store.health().objects, held);
    }
}

#[test]
fn a_store_behind_a_reference_is_the_same_store() {
    fn asked(mut store: impl Store, id: &ObjectId, www: &Site) {
        let object = store.object(Kind::Staple, id).expect("held");
        assert_eq!(object.parts, [*id.digest()]);
        assert_eq!(store.object_by_prefix(&id.prefix4()), Some(object));
        assert_eq!(store.part(id.digest()).as_deref(), Some(&b"staple"[..]));
        let found = store.part_by_prefix(&id.prefix16()).expect("held");
        assert_eq!((found.0, &*found.1), (*id.digest(), &b"staple"[..]));
        assert_eq!(store.expected(Kind::Staple, www, NOW, 9), [*id]);
        let lone = store.learn(Kind::Staple, None, &[b"lone"], NOW);
        assert_eq!(store.unexpected(Kind::Staple, 9), [lone]);
        assert_eq!(store.health().objects, 2);
    }
    let www = site("www.example");
    let mut store = MemoryStore::default();
    let id = learn_part(&mut store, Kind::Staple, &www, b"staple", NOW);
    asked(&mut store, &id, &www);
    asked(&mut store as &mut dyn Store, &id, &www);
}
