//! What reports and refused records do to a member. Is not: how a record is refused.

use super::super::evidence::{LOOKS_PER_PROOF, LOOKS_PER_REPORT, LOOKS_REPORTED, Ruling};
use super::*;

const HOUR: u64 = 3600;

fn with_healthy(numbers: std::ops::RangeInclusive<u8>) -> Roster {
    let mut roster = roster();
    for number in numbers {
        join(&mut roster, member(number)).expect("there is room");
        make_healthy(&mut roster, &member(number));
    }
    roster
}

fn is_shown(roster: &Roster, number: u8) -> bool {
    let shown = |turn| roster.addresses(Family::V4, turn);
    (0..64).any(|turn| shown(turn).contains(&member(number).address))
}

fn altered(roster: &mut Roster, number: u8, wall: u64) -> Option<Ruling> {
    let entry = roster.of(&member(number).key).next();
    let there = entry.map_or(member(number), |entry| entry.member);
    roster.note_altered(&there, "/", UnixTime(wall))
}

#[test]
fn an_honest_member_of_which_clients_lie_for_ever_is_looked_at_more_often_and_stays() {
    let mut roster = with_healthy(1..=2);
    let before = roster.version();
    let mut looks = 0;
    for _ in 0..1000 {
        assert!(roster.report(&member(1).key, "/large"));
        for suspect in roster.suspects() {
            assert_eq!(suspect.member, member(1), "nobody else is looked at");
            looks += 1;
            roster.note(&suspect.member, Outcome::Good);
        }
    }
    assert_eq!(looks, 1000, "one in a turn, however often it is reported");
    assert_eq!(roster.version(), before);
    assert!(is_shown(&roster, 1));
}

#[test]
fn a_report_is_followed_by_some_looks_and_no_more() {
    let mut roster = with_healthy(1..=40);
    for number in 1..=40 {
        assert!(roster.report(&member(number).key, "/"));
    }
    let mut counts = BTreeMap::new();
    loop {
        let suspects = roster.suspects();
        if suspects.is_empty() {
            break;
        }
        assert!(suspects.len() <= LOOKS_REPORTED);
        for suspect in suspects {
            *counts.entry(suspect.member.key).or_insert(0) += 1;
        }
    }
    assert_eq!(counts.len(), 40);
    assert!(counts.values().all(|looks| *looks == LOOKS_PER_REPORT));
    assert!(!roster.report(&PublicKey([99; 32]), "/"), "it is no member");
    join(&mut roster, member(41)).expect("there is room");
    assert!(
        !roster.report(&member(41).key, "/"),
        "nobody is sent there yet"
    );
}

#[test]
fn two_refused_records_bar_a_member_also_with_good_looks_between_them() {
    let mut roster = with_healthy(1..=2);
    let before = roster.version();
    assert_eq!(altered(&mut roster, 1, 100), Some(Ruling::Noted));
    assert!(is_shown(&roster, 1), "one may be the way between");
    assert_eq!(roster.suspects().len(), 1, "it is looked at again soon");
    make_healthy(&mut roster, &member(1));
    assert_eq!(
        altered(&mut roster, 1, 5_000),
        Some(Ruling::Barred(HOUR)),
        "whatever was between"
    );
    assert!(!is_shown(&roster, 1) && is_shown(&roster, 2));
    assert!(roster.version() > before);
    assert!(roster.suspects().is_empty());
    assert_eq!(altered(&mut roster, 1, 5_001), None);
}

#[test]
fn a_term_holds_for_every_member_of_the_address_and_ends_for_all() {
    let mut roster = roster();
    let host = |number: u8| {
        let address: IpAddr = format!("2001:db8::{number}").parse().expect("an address");
        at(address, member(number))
    };
    let elsewhere = at("2001:db8:0:1::1".parse().expect("one"), member(9));
    for one in [host(1), host(2), elsewhere] {
        join(&mut roster, one).expect("there is room");
        make_healthy(&mut roster, &one);
    }
    assert!(roster.report(&host(2).key, "/"));
    altered(&mut roster, 1, 100);
    let before = roster.version();
    assert_eq!(altered(&mut roster, 1, 200), Some(Ruling::Barred(HOUR)));
    assert_eq!(roster.addresses(Family::V6, 0), [elsewhere.address]);
    assert_eq!(roster.list(UnixTime(200)).members, [Peer::from(elsewhere)]);
    assert_eq!(roster.version(), before + 1);
    assert!(roster.suspects().is_empty());
    roster.evidence.release(UnixTime(200 + HOUR));
    assert_eq!(roster.looks(Group::Unproven).len(), 2);
    make_healthy(&mut roster, &host(2));
    let listed = [host(2), elsewhere].map(Peer::from);
    assert_eq!(roster.list(UnixTime(200)).members, listed);
}

#[test]
fn refused_records_of_one_minute_are_one() {
    let mut roster = with_healthy(1..=1);
    for wall in [100, 100, 130, 159] {
        assert_eq!(altered(&mut roster, 1, wall), Some(Ruling::Noted));
        make_healthy(&mut roster, &member(1));
    }
    // Looks of five seconds each, some of them after this minute.
    const { assert!(LOOKS_PER_PROOF * 5 > 60) };
    for _ in 0..LOOKS_PER_PROOF {
        assert_eq!(roster.suspects().len(), 1);
    }
    assert!(roster.suspects().is_empty());
    assert_eq!(altered(&mut roster, 1, 160), Some(Ruling::Barred(HOUR)));
}

/// What the next looks fetch.
fn fetched(roster: &mut Roster, looks: u32) -> Vec<Option<String>> {
    (0..looks)
        .flat_map(|_| roster.suspects())
        .map(|suspect| suspect.path)
        .collect()
}

#[test]
fn a_few_reported_paths_take_turns_and_one_look_of_six_is_the_brokers_own() {
    let mut roster = with_healthy(1..=1);
    for path in ["/a", "/b", "/a", "/c", "/d", "/e"] {
        assert!(roster.report(&member(1).key, path));
    }
    let paths = fetched(&mut roster, LOOKS_PER_REPORT);
    let count = |path: Option<&str>| paths.iter().filter(|it| it.as_deref() == path).count();
    assert_eq!(count(None), 1);
    assert_eq!(count(Some("/a")) + count(Some("/b")), 1, "{paths:?}");
    for path in ["/c", "/d", "/e"] {
        assert!(count(Some(path)) >= 1, "{paths:?}");
    }
    // Also where each look is followed by the next report.
    let mut paths = Vec::new();
    for _ in 0..LOOKS_PER_REPORT {
        assert!(roster.report(&member(1).key, "/x"));
        paths.extend(fetched(&mut roster, 1));
    }
    assert!(paths.contains(&None) && paths.contains(&Some("/x".to_owned())));
}

#[test]
fn where_a_record_was_refused_is_looked_at_again() {
    let mut roster = with_healthy(1..=1);
    assert!(roster.report(&member(1).key, "/chosen"));
    roster.note_altered(&member(1), "/changed", UnixTime(100));
    let paths = fetched(&mut roster, LOOKS_PER_REPORT);
    let again = paths.iter().flatten().filter(|path| *path == "/changed");
    assert_eq!(again.count(), 5, "{paths:?}");
}

#[test]
fn refused_records_a_day_apart_are_one_each() {
    let mut roster = with_healthy(1..=1);
    for day in 0..10 {
        let wall = 100 + day * 25 * HOUR;
        assert_eq!(altered(&mut roster, 1, wall), Some(Ruling::Noted));
        make_healthy(&mut roster, &member(1));
    }
}

#[test]
fn a_term_holds_for_another_key_at_the_address_and_ends_and_the_next_is_longer() {
    let mut roster = with_healthy(1..=2);
    let mut wall = 100;
    for term in [1, 2, 4, 8, 16, 24, 24] {
        altered(&mut roster, 1, wall - 60);
        let ruling = altered(&mut roster, 1, wall);
        assert_eq!(ruling, Some(Ruling::Barred(term * HOUR)));
        let again = at(member(1).address, member(3));
        roster.leave(&member(1).key);
        join(&mut roster, again).expect("it may join");
        make_healthy(&mut roster, &again);
        assert!(roster.is_barred(&again) && !is_shown(&roster, 1));
        assert!(!roster.looks(Group::Unproven).contains(&again));
        wall += term * HOUR;
        roster.evidence.release(UnixTime(wall - 1));
        assert!(roster.is_barred(&again));
        roster.evidence.release(UnixTime(wall));
        assert!(!roster.is_barred(&again));
        assert!(!is_shown(&roster, 1), "what was seen before does not count");
        roster.leave(&again.key);
        join(&mut roster, member(1)).expect("it may join");
        make_healthy(&mut roster, &member(1));
        assert!(is_shown(&roster, 1));
    }
    roster.evidence.release(UnixTime(wall + 7 * 24 * HOUR));
    altered(&mut roster, 1, wall + 8 * 24 * HOUR);
    let ruling = altered(&mut roster, 1, wall + 8 * 24 * HOUR + 60);
    assert_eq!(ruling, Some(Ruling::Barred(HOUR)), "it is forgotten");
}
