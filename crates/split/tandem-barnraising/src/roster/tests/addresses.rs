//! A volunteer with an address of each family: what they have in common, and what each has by
//! itself.

use super::*;
use crate::roster::evidence::{LOOKS_PER_REPORT, Ruling};
use crate::shares::{ROSTER_NARROW, ROSTER_WIDE};

fn six(site: u16, host: u16) -> IpAddr {
    [0x2001, 0xdb8, site, 0, 0, 0, 0, host].into()
}

/// The same volunteer at an address of IPv6.
fn further(member: Member) -> Member {
    at(six(u16::from(member.key.0[0]), 1), member)
}

/// With both, well.
fn with_both(numbers: std::ops::RangeInclusive<u8>) -> Roster {
    let mut roster = roster();
    for number in numbers {
        let (four, six) = (member(number), further(member(number)));
        assert_eq!(join(&mut roster, four), Ok(Joined::New));
        assert_eq!(join(&mut roster, six), Ok(Joined::Further));
        make_healthy(&mut roster, &four);
        make_healthy(&mut roster, &six);
    }
    roster
}

fn shown(roster: &Roster) -> [Vec<IpAddr>; 2] {
    [Family::V4, Family::V6].map(|family| roster.addresses(family, 0))
}

fn is_shown(roster: &Roster, member: Member) -> bool {
    shown(roster)
        .iter()
        .flatten()
        .any(|one| *one == member.address)
}

fn both(four: Member) -> Peer {
    Peer::from(four).and(further(four).peers)
}

fn fails(roster: &mut Roster, member: Member) {
    for _ in 0..Thresholds::default().down {
        roster.note(&member, Outcome::Bad);
    }
}

#[test]
fn who_joins_from_both_addresses_is_one_volunteer_in_the_list() {
    let mut roster = with_both(1..=1);
    let (four, six) = (member(1), further(member(1)));
    assert_eq!(shown(&roster), [[four.address], [six.address]]);
    assert_eq!(roster.list(UnixTime(0)).members, [both(four)]);
    assert_eq!(join(&mut roster, four), Ok(Joined::Renewed));
    assert_eq!(join(&mut roster, six), Ok(Joined::Renewed));
    assert!(roster.leave(&four.key), "with both");
    assert_eq!(roster.members().len(), 0);
}

#[test]
fn an_address_from_which_nobody_joined_is_nobodys() {
    let mut roster = roster();
    let (four, six) = (member(1), further(member(1)));
    join(&mut roster, four).expect("room");
    let named = roster.join(six, four.address, Instant::ZERO, UnixTime(0));
    assert_eq!(named, Err(Refused::Address));
    make_healthy(&mut roster, &six);
    make_healthy(&mut roster, &four);
    assert_eq!(shown(&roster), [vec![four.address], Vec::new()]);
}

#[test]
fn one_address_that_fails_takes_nothing_from_the_other() {
    for family in [Family::V4, Family::V6] {
        let mut roster = with_both(1..=2);
        let (ill, well) = match family {
            Family::V4 => (member(1), further(member(1))),
            Family::V6 => (further(member(1)), member(1)),
        };
        let before = roster.version();
        fails(&mut roster, ill);
        assert!(!is_shown(&roster, ill) && is_shown(&roster, well));
        assert_eq!(roster.version(), before + 1);
        let listed = roster.list(UnixTime(0)).members;
        assert_eq!(listed, [Peer::from(well), both(member(2))]);
        make_healthy(&mut roster, &ill);
        assert!(is_shown(&roster, ill) && is_shown(&roster, well));
    }
}

#[test]
fn an_address_that_is_not_renewed_is_forgotten_and_the_other_stays() {
    let mut roster = with_both(1..=1);
    let (four, six) = (member(1), further(member(1)));
    let later = UnixTime(101 + Settings::default().lease);
    roster
        .join(four, four.address, Instant::ZERO, later)
        .expect("it is known");
    assert_eq!(roster.forget_silent(later), 1);
    assert!(is_shown(&roster, four) && !is_shown(&roster, six));
}

#[test]
fn an_address_that_moves_begins_anew_and_the_other_goes_on() {
    let mut roster = with_both(1..=1);
    let (four, six) = (member(1), further(member(1)));
    let moved = at([198, 51, 100, 1].into(), four);
    assert_eq!(join(&mut roster, moved), Ok(Joined::Moved));
    assert_eq!(shown(&roster), [Vec::new(), vec![six.address]]);
    make_healthy(&mut roster, &four);
    assert!(!is_shown(&roster, moved), "what is well is where it was");
    make_healthy(&mut roster, &moved);
    assert_eq!(shown(&roster), [[moved.address], [six.address]]);
}

#[test]
fn each_address_counts_in_its_own_network() {
    let mut roster = roster();
    // As many keys as there are, each with an address of IPv4 somewhere, and all with one of IPv6
    // in one /48, each in a /64 of its own.
    let crowd = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let mut key = [0xcc; 32];
        key[..2].copy_from_slice(&[high, low]);
        Member {
            key: PublicKey(key),
            ..at([11 + low % 32, high, low, 1].into(), member(0))
        }
    };
    let numbers = 0..u16::try_from(2 * ROSTER_WIDE).expect("few");
    let mut taken = 0;
    for number in numbers {
        assert_eq!(join(&mut roster, crowd(number)), Ok(Joined::New));
        let address = [0x2001, 0xdb8, 9, number, 0, 0, 0, 1].into();
        taken += usize::from(join(&mut roster, at(address, crowd(number))).is_ok());
    }
    assert_eq!(
        taken, ROSTER_WIDE,
        "one /48 has no more for coming by another way, too"
    );
    let host = |host: u16| at(six(8, host), crowd(host));
    let narrow = (0..u16::try_from(2 * ROSTER_NARROW).expect("few")).filter(|number| {
        // Who has moved there has left its place in the other /48.
        join(&mut roster, host(*number)).is_ok()
    });
    assert_eq!(narrow.count(), ROSTER_NARROW);
    assert_eq!(join(&mut roster, further(member(1))), Ok(Joined::New));
}

#[test]
fn a_second_address_does_not_push_out_who_is_well() {
    let mut roster = roster();
    let address = |host: u16| at(six(1, host), member(0));
    let keyed = |host: u16| {
        let mut key = [0xdd; 32];
        key[..2].copy_from_slice(&host.to_be_bytes());
        Member {
            key: PublicKey(key),
            ..address(host)
        }
    };
    for host in 0..u16::try_from(ROSTER_NARROW).expect("few") {
        join(&mut roster, keyed(host)).expect("room");
        make_healthy(&mut roster, &keyed(host));
    }
    assert_eq!(join(&mut roster, member(1)), Ok(Joined::New));
    make_healthy(&mut roster, &member(1));
    let second = at(six(1, 999), member(1));
    assert_eq!(join(&mut roster, second), Err(Refused::Full));
    assert!(is_shown(&roster, member(1)));
}

#[test]
fn what_was_changed_through_one_address_bars_both() {
    let mut roster = with_both(1..=2);
    let (four, six) = (member(1), further(member(1)));
    let altered = |roster: &mut Roster, member: Member, wall: u64| {
        roster.note_altered(&member, "/", UnixTime(wall))
    };
    // One through each: they count together.
    assert_eq!(altered(&mut roster, six, 100), Some(Ruling::Noted));
    assert_eq!(altered(&mut roster, four, 200), Some(Ruling::Barred(3600)));
    assert!(!is_shown(&roster, four) && !is_shown(&roster, six));
    assert_eq!(roster.list(UnixTime(200)).members, [both(member(2))]);
    // Nor does a new key help at either.
    for address in [four.address, six.address] {
        let again = at(address, member(7));
        join(&mut roster, again).expect("nobody who is well is there");
        assert!(roster.is_barred(&again));
        make_healthy(&mut roster, &again);
        assert!(!is_shown(&roster, again));
    }
    assert_eq!(altered(&mut roster, six, 300), None, "it is out");
}

#[test]
fn who_is_reported_is_looked_at_at_each_address() {
    let mut roster = with_both(1..=1);
    let (four, six) = (member(1), further(member(1)));
    assert!(roster.report(&four.key, "/large"));
    let mut looks = Vec::new();
    loop {
        let suspects = roster.suspects();
        if suspects.is_empty() {
            break;
        }
        let paths: BTreeSet<_> = suspects.iter().map(|one| one.path.clone()).collect();
        assert_eq!(paths.len(), 1, "the same is fetched through both");
        looks.extend(suspects.into_iter().map(|suspect| suspect.member));
    }
    let each = |one: Member| looks.iter().filter(|member| **member == one).count();
    let expected = usize::try_from(LOOKS_PER_REPORT).expect("few");
    assert_eq!([each(four), each(six)], [expected; 2]);
    fails(&mut roster, six);
    roster.report(&four.key, "/large");
    let suspects = roster.suspects();
    assert!(suspects.iter().all(|suspect| suspect.member == four));
}

#[test]
fn both_addresses_are_taken_back_after_a_restart() {
    let mut roster = roster();
    let (four, six) = (member(1), further(member(1)));
    for member in [four, six] {
        assert!(roster.restore(member, Health::known_as_well(), UnixTime(0)));
    }
    let other = at([198, 51, 100, 1].into(), four);
    assert!(
        !roster.restore(other, Health::default(), UnixTime(0)),
        "a second of IPv4"
    );
    assert_eq!(roster.list(UnixTime(0)).members, [both(four)]);
}
