//! What cannot be shown with real SHA-256 digests, or from outside: prefixes that name more than
//! one thing, counts that must come out even, rows that make no sense.

use super::*;

const NOW: UnixTime = UnixTime(1_749_988_800);

/// A digest of our choice.
fn digest(first: u8, last: u8) -> Digest {
    let mut bytes = [first; 32];
    bytes[31] = last;
    Digest::from_bytes(bytes)
}

fn key(digest: Digest) -> Key {
    Key {
        id: ObjectId::from_digest(digest),
        kind: Kind::Chain,
    }
}

fn chain(certificates: &[Digest]) -> ObjectEntry {
    ObjectEntry::new(certificates.to_vec(), LeafFacts::default(), NOW)
}

#[test]
fn chains_that_no_site_showed_are_listed_with_the_newest_first() {
    let mut catalogue = Catalogue::new(Limits::default());
    let site: Site = "www.example".parse().expect("a site");
    let id = |n| key(digest(n, 0));
    for n in 0..4 {
        catalogue.add(id(n), &[10], chain(&[digest(n, 1)]));
    }
    catalogue.observe(&site, &id(2), NOW);
    assert!(catalogue.refresh(&id(0), NOW));
    assert_eq!(
        catalogue.unexpected(Kind::Chain, 9),
        [id(0).id, id(3).id, id(1).id]
    );
    assert_eq!(catalogue.unexpected(Kind::Chain, 2), [id(0).id, id(3).id]);
    catalogue.remove_where(|removed, _| *removed == id(3));
    assert_eq!(catalogue.unexpected(Kind::Chain, 9), [id(0).id, id(1).id]);
}

#[test]
fn a_prefix_that_names_more_than_one_thing_names_none() {
    let mut catalogue = Catalogue::new(Limits::default());
    let (first, twin, other) = (digest(1, 1), digest(1, 2), digest(2, 1));
    let ids = [first, twin, other].map(key);
    for (id, certificate) in ids.iter().zip([first, twin, other]) {
        catalogue.add(*id, &[10], chain(&[certificate]));
    }
    assert_eq!(catalogue.part_by_prefix(&first.prefix16()), None);
    assert_eq!(catalogue.part_by_prefix(first.as_bytes()), Some(first));
    assert_eq!(catalogue.part_by_prefix(&other.prefix16()), Some(other));
    assert_eq!(catalogue.part_by_prefix(&[3; 16]), None);
    assert_eq!(catalogue.object_by_prefix(&first.prefix4()), None);
    assert_eq!(catalogue.object_by_prefix(&other.prefix4()), Some(ids[2]));
    catalogue.remove_where(|id, _| *id == ids[1]);
    assert_eq!(catalogue.part_by_prefix(&first.prefix16()), Some(first));
    assert_eq!(catalogue.object_by_prefix(&first.prefix4()), Some(ids[0]));
}

#[test]
fn what_is_removed_leaves_nothing_behind() {
    let mut catalogue = Catalogue::new(Limits::default());
    let shared = digest(9, 9);
    let names = vec![crate::site::Pattern::new("www.example").expect("a name")];
    for n in 0..20 {
        let id = key(digest(n, 0));
        let facts = LeafFacts {
            names: names.clone(),
            not_after: None,
        };
        // The same certificate twice in a chain, as no sane server does.
        let certificates = vec![digest(n, 1), shared, shared];
        catalogue.add(
            id,
            &[10, 20, 20],
            ObjectEntry::new(certificates, facts, NOW),
        );
        let site: Site = format!("n{n}.example").parse().expect("a site");
        catalogue.observe(&site, &id, NOW);
        catalogue.observe(&"all.example".parse().expect("a site"), &id, NOW);
    }
    let single = |digest| Key {
        kind: Kind::Certificate,
        ..key(digest)
    };
    for (digest, length) in [(shared, 20), (digest(99, 99), 5)] {
        catalogue.add(single(digest), &[length], chain(&[digest]));
    }
    assert_eq!(catalogue.parts.len(), 22);
    catalogue.remove_where(|key, _| key.kind == Kind::Chain);
    assert_eq!(catalogue.parts.len(), 2);
    catalogue.remove_parts(&[shared].into());
    let left: Vec<_> = catalogue.parts.keys().collect();
    assert_eq!(left, [&digest(99, 99)]);
    catalogue.remove_where(|_, _| true);
    let Catalogue {
        parts,
        objects,
        expectations,
        recency,
        bytes,
        ..
    } = &catalogue;
    assert!(parts.is_empty() && objects.is_empty());
    assert!(expectations.is_empty() && recency.is_empty());
    assert_eq!(*bytes, 0);
    assert_eq!(
        catalogue
            .names
            .find(&"www.example".parse().expect("a name"))
            .count(),
        0
    );
}

#[test]
fn bytes_are_what_is_held_and_so_much_for_each_entry() {
    let mut catalogue = Catalogue::new(Limits::default());
    let id = key(digest(1, 0));
    let facts = LeafFacts {
        names: vec![crate::site::Pattern::new("www.example").expect("a name")],
        not_after: None,
    };
    let parts = vec![digest(1, 1), digest(1, 2)];
    catalogue.add(id, &[10, 20], ObjectEntry::new(parts, facts, NOW));
    // An object, its two parts, a link to each, a name of eleven letters.
    let object = 6 * ENTRY_COST + 10 + 20 + 11;
    assert_eq!(catalogue.bytes(), object);
    catalogue.observe(&"n.example".parse().expect("a site"), &id, NOW);
    assert_eq!(catalogue.bytes(), object + ENTRY_COST + 9);
    let address = "192.0.2.1:443".parse().expect("an address");
    catalogue.observe(&Site::Address(address), &id, NOW);
    assert_eq!(catalogue.bytes(), object + 2 * ENTRY_COST + 9);
    catalogue.limit_bytes(object);
    assert_eq!((catalogue.bytes(), catalogue.evicted()), (0, 1));
}

#[test]
fn a_limit_on_bytes_is_only_ever_lowered() {
    let mut catalogue = Catalogue::new(Limits::default());
    let limit = catalogue.limits().bytes;
    catalogue.limit_bytes(limit + 1);
    assert_eq!(catalogue.limits().bytes, limit);
    catalogue.limit_bytes(7);
    assert_eq!(catalogue.limits().bytes, 7);
}

#[test]
fn last_seen_times_never_go_back() {
    let mut catalogue = Catalogue::new(Limits::default());
    let id = key(digest(1, 0));
    let site: Site = "www.example".parse().expect("a site");
    catalogue.add(id, &[10], chain(&[digest(1, 1)]));
    let earlier = UnixTime(NOW.0 - 1_000);
    for (now, expected) in [
        (NOW, NOW),
        (earlier, NOW),
        (UnixTime(NOW.0 + 5), UnixTime(NOW.0 + 5)),
    ] {
        assert!(catalogue.refresh(&id, now));
        catalogue.observe(&site, &id, now);
        assert_eq!(catalogue.objects[&id].last_seen, expected);
        assert_eq!(
            catalogue
                .expectation(&site, &id)
                .map(|shown| shown.last_seen),
            Some(expected)
        );
    }
}

#[test]
fn rows_that_make_no_sense_are_not_put_back() {
    let mut catalogue = Catalogue::new(Limits::default());
    let (held, orphan) = (digest(1, 1), digest(2, 2));
    catalogue.restore_part(held, 10, NOW);
    catalogue.restore_part(orphan, 10, NOW);
    let id = |n| key(digest(n, 0));
    assert!(catalogue.restore_object(id(1), chain(&[held])));
    assert!(
        !catalogue.restore_object(id(2), chain(&[held, digest(3, 3)])),
        "a certificate is missing"
    );
    assert!(!catalogue.restore_object(id(3), chain(&[])));
    let shown = |key: Key| Expectation {
        object: key.id,
        seen: u64::MAX,
        last_seen: UnixTime(u64::MAX),
    };
    let site = "www.example".parse().expect("a site");
    assert!(catalogue.restore_expectation(&site, Kind::Chain, shown(id(1))));
    assert!(
        !catalogue.restore_expectation(&site, Kind::Chain, shown(id(2))),
        "its chain is missing"
    );
    catalogue.finish_restoring();
    assert_eq!(catalogue.parts.keys().collect::<Vec<_>>(), [&held]);
    // Turns have come to their end in that file; nothing overflows.
    assert!(catalogue.refresh(&id(1), NOW));
    catalogue.observe(&site, &id(1), NOW);
    assert_eq!(catalogue.expected(Kind::Chain, &site, NOW, 3), [id(1).id]);
}

#[test]
fn changes_come_in_pieces_that_can_be_written_one_after_another() {
    let mut catalogue = Catalogue::new(Limits::default());
    let site: Site = "www.example".parse().expect("a site");
    let id = |n| key(digest(n, 0));
    for n in 0..10 {
        catalogue.add(id(n), &[10, 10], chain(&[digest(n, 1), digest(99, 99)]));
        catalogue.observe(&site, &id(n), NOW);
    }
    catalogue.remove_where(|removed, _| *removed == id(0));
    let mut parts = BTreeSet::<Digest>::new();
    let mut objects = BTreeSet::<Key>::new();
    let mut pieces = 0;
    loop {
        let piece = catalogue.take_changes(3);
        if piece.is_empty() {
            break;
        }
        pieces += 1;
        assert!(piece.objects.len() <= 3);
        parts.extend(&piece.parts);
        objects.extend(&piece.objects);
        for held in piece
            .objects
            .iter()
            .filter_map(|id| catalogue.objects.get(id))
        {
            assert!(held.parts.iter().all(|digest| parts.contains(digest)));
        }
        assert!(
            piece
                .expectations
                .iter()
                .all(|(_, chain)| objects.contains(chain))
        );
        if piece.parts.contains(&digest(0, 1)) {
            assert!(objects.contains(&id(0)), "gone, but not before its chain");
        }
    }
    assert_eq!((parts.len(), objects.len()), (11, 10));
    assert!((4..=6).contains(&pieces), "{pieces}");
}
