//! Shares of networks: what a flood of joins from one of them costs the others.

use super::*;
use crate::shares::{
    ANSWER_NARROW, LIST_NARROW, LIST_WIDE, LOOKS_UNPROVEN, LOOKS_WELL, ROSTER_NARROW, ROSTER_WIDE,
};

/// A member with this address and a key that follows from it.
fn of(address: IpAddr) -> Member {
    let mut key = [0xee; 32];
    match address {
        IpAddr::V4(address) => key[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => key[..16].copy_from_slice(&address.octets()),
    }
    Member {
        key: PublicKey(key),
        address,
        peers: (address, 9).into(),
    }
}

/// In 2001:db8:SITE:SUBNET::/64.
fn six(site: u16, subnet: u16, host: u16) -> Member {
    of([0x2001, 0xdb8, site, subnet, 0, 0, 0, host].into())
}

/// In 10.SITE.0.0/16.
fn four(site: u8, host: u16) -> Member {
    let [high, low] = host.to_be_bytes();
    of([10, site, high, low].into())
}

/// Somebody in a network of its own.
fn honest() -> Member {
    six(0xffff, 1, 1)
}

fn joined(roster: &mut Roster, members: impl IntoIterator<Item = Member>) -> usize {
    let taken = |member| join(roster, member).is_ok();
    members
        .into_iter()
        .map(taken)
        .filter(|taken| *taken)
        .count()
}

fn all_healthy(roster: &mut Roster, members: impl IntoIterator<Item = Member>) {
    for member in members {
        assert_eq!(join(roster, member), Ok(Joined::New));
        make_healthy(roster, &member);
    }
}

fn is_in(roster: &Roster, member: &Member) -> bool {
    let family = Family::of(member.address);
    roster.member(&member.key, family).is_some()
}

#[test]
fn a_flood_from_one_48_takes_no_place_no_look_and_no_answer_from_others() {
    let mut roster = roster();
    let flood = (0..4096).map(|subnet| six(1, subnet, 1));
    assert_eq!(joined(&mut roster, flood.clone()), ROSTER_WIDE);
    assert_eq!(join(&mut roster, honest()), Ok(Joined::New));
    for turn in 0..Thresholds::default().up {
        // It goes on, under other addresses.
        joined(&mut roster, (0..100).map(|subnet| six(1, subnet, 2)));
        let looks = roster.looks(Group::Unproven);
        assert_eq!(looks.len(), LOOKS_UNPROVEN);
        assert!(looks.contains(&honest()), "looked at in turn {turn}");
        for member in looks {
            let outcome = match member == honest() {
                true => Outcome::Good,
                false => Outcome::Bad,
            };
            roster.note(&member, outcome);
        }
    }
    assert_eq!(roster.addresses(Family::V6, 0), [honest().address]);
    assert_eq!(roster.list(UnixTime(100)).members, [Peer::from(honest())]);
    assert!(roster.members().len() <= ROSTER_WIDE + 1);
}

#[test]
fn a_64_has_no_more_than_its_share_of_the_roster_and_of_answers() {
    let mut roster = roster();
    let flood = (0..4096).map(|host| six(1, 1, host));
    assert_eq!(joined(&mut roster, flood.clone()), ROSTER_NARROW);
    for member in flood {
        make_healthy(&mut roster, &member);
    }
    all_healthy(&mut roster, [honest()]);
    for turn in 0..420 {
        let answer = roster.addresses(Family::V6, turn);
        assert!(answer.contains(&honest().address), "{answer:?}");
        assert!(answer.len() <= ANSWER_NARROW + 1, "{answer:?}");
    }
}

#[test]
fn a_16_of_ipv4_has_its_share() {
    let mut roster = roster();
    let flood = (0..4096).map(|host| four(1, host));
    assert_eq!(joined(&mut roster, flood), ROSTER_WIDE);
    assert_eq!(join(&mut roster, four(2, 1)), Ok(Joined::New));
    let moved = at(four(1, 4000).address, four(2, 1));
    assert_eq!(join(&mut roster, moved), Err(Refused::Full));
    assert!(is_in(&roster, &four(2, 1)), "where it was");
}

#[test]
fn who_is_healthy_never_goes_for_who_never_was() {
    let mut roster = roster();
    let most = u16::try_from(ROSTER_NARROW).expect("few");
    let (well, ill) = (most / 2, most - 1);
    all_healthy(&mut roster, (0..well).map(|host| six(1, 1, host)));
    // One was, and is not any more; the others never were.
    all_healthy(&mut roster, [six(1, 1, ill)]);
    for _ in 0..Thresholds::default().down {
        roster.note(&six(1, 1, ill), Outcome::Bad);
    }
    let never = (well..ill).map(|host| six(1, 1, host));
    assert_eq!(joined(&mut roster, never.clone()), usize::from(ill - well));
    let version = roster.version();
    assert_eq!(
        join(&mut roster, six(1, 1, 999)),
        Err(Refused::Full),
        "each is given a look first"
    );
    for member in never.clone() {
        roster.note(&member, Outcome::Bad);
    }
    assert_eq!(join(&mut roster, six(1, 1, 1000)), Ok(Joined::New));
    assert!(!is_in(&roster, &six(1, 1, well)), "the first that joined");
    assert_eq!(roster.evicted(), 1);
    for host in 1001..1100 {
        let newcomer = six(1, 1, host);
        assert_eq!(join(&mut roster, newcomer), Ok(Joined::New), "{host}");
        roster.note(&newcomer, Outcome::Bad);
    }
    assert_eq!(roster.members().len(), ROSTER_NARROW);
    assert!(is_in(&roster, &six(1, 1, ill)), "it was healthy once");
    assert!((0..well).all(|host| is_in(&roster, &six(1, 1, host))));
    assert_eq!(roster.version(), version, "the list is as it was");
}

#[test]
fn where_all_are_healthy_nobody_goes() {
    let mut roster = roster();
    let most = u16::try_from(ROSTER_NARROW).expect("few");
    all_healthy(&mut roster, (0..most).map(|host| six(1, 1, host)));
    assert_eq!(join(&mut roster, six(1, 1, most)), Err(Refused::Full));
    assert_eq!(join(&mut roster, six(1, 2, most)), Ok(Joined::New));
    assert_eq!(roster.evicted(), 0);
}

/// As many as a roster has, none of them well, in as few /16s as can be.
fn full() -> Roster {
    let mut roster = roster();
    for number in 0..u16::try_from(MAX_MEMBERS).expect("16 bits") {
        let [site, host] = number.to_be_bytes();
        let member = four(site, host.into());
        assert!(roster.restore(member, Health::default(), UnixTime(100)));
    }
    roster
}

#[test]
fn in_a_full_roster_a_flood_makes_room_and_does_not_get_it_back() {
    let mut roster = full();
    assert_eq!(join(&mut roster, honest()), Ok(Joined::New));
    assert_eq!(roster.members().len(), MAX_MEMBERS);
    // Whether or not looks have found the honest one ill.
    for outcome in [Outcome::Good, Outcome::Bad] {
        roster.note(&honest(), outcome);
        for site in 0..16 {
            let _ = join(&mut roster, four(site, 0x300));
        }
        assert!(is_in(&roster, &honest()), "{outcome:?}");
    }
    assert_eq!(roster.members().len(), MAX_MEMBERS);
}

#[test]
fn those_of_one_network_who_have_just_joined_do_not_push_each_other_out() {
    let mut roster = roster();
    let all = (0..300).map(|host| four(1, host));
    assert_eq!(joined(&mut roster, all.clone()), ROSTER_WIDE);
    assert_eq!(joined(&mut roster, all), ROSTER_WIDE, "who is in renews");
    assert_eq!(roster.evicted(), 0);
}

#[test]
fn a_subnet_makes_room_for_another_of_its_48() {
    let mut roster = roster();
    let share = u16::try_from(ROSTER_NARROW).expect("few");
    let flood = (0..8).flat_map(|subnet| (0..share).map(move |host| six(1, subnet, host)));
    assert_eq!(joined(&mut roster, flood), ROSTER_WIDE);
    assert_eq!(join(&mut roster, six(1, 99, 1)), Ok(Joined::New));
    assert_eq!(roster.members().len(), ROSTER_WIDE);
    assert_eq!(roster.evicted(), 1);
}

#[test]
fn a_site_that_lists_its_volunteers_takes_them_wherever_they_are() {
    let members: Vec<Member> = (0..300).map(|host| six(1, 1, host)).collect();
    let keys = members.iter().map(|member| member.key).collect();
    let settings = Settings {
        policy: Policy::Listed(keys),
        ..settings()
    };
    let mut roster = Roster::new(site(), origin(), settings, 0);
    assert_eq!(join(&mut roster, members[0]), Ok(Joined::New));
    assert_eq!(roster.proven().count(), 1, "before any look");
    all_healthy(&mut roster, members[1..].iter().copied());
    make_healthy(&mut roster, &members[0]);
    assert_eq!(roster.list(UnixTime(100)).members.len(), members.len());
}

#[test]
fn a_crowd_that_is_healthy_delays_no_look_at_others_and_all_get_theirs() {
    let mut roster = roster();
    all_healthy(&mut roster, (0..250).map(|host| four(1, host)));
    all_healthy(&mut roster, (0..5).map(|site| six(site, 1, 1)));
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let looks = roster.looks(Group::Well);
        assert_eq!(looks.len(), LOOKS_WELL);
        assert!((0..5).all(|site| looks.contains(&six(site, 1, 1))));
        seen.extend(looks.iter().map(|member| member.key));
    }
    assert_eq!(seen.len(), 255);
    assert!(roster.looks(Group::Unproven).is_empty());
}

#[test]
fn where_networks_are_more_than_looks_who_waits_the_longest_is_first() {
    let mut roster = roster();
    let most = u16::try_from(LOOKS_UNPROVEN).expect("few");
    assert_eq!(
        joined(&mut roster, (0..most).map(|site| six(site, 1, 1))),
        LOOKS_UNPROVEN
    );
    assert_eq!(join(&mut roster, honest()), Ok(Joined::New));
    // New ones come from other networks all the time.
    let later = (most..3 * most).map(|site| six(site, 1, 1));
    assert_eq!(joined(&mut roster, later), 2 * LOOKS_UNPROVEN);
    assert!(!roster.looks(Group::Unproven).contains(&honest()));
    assert_eq!(roster.looks(Group::Unproven)[0], honest());
}

#[test]
fn the_list_has_a_network_s_share_and_those_that_have_been_healthy_the_longest() {
    let mut roster = roster();
    let wide = u16::try_from(LIST_WIDE).expect("few");
    // Younger ones have lesser keys.
    let crowd: Vec<Member> = (0..2 * wide).rev().map(|host| four(1, host)).collect();
    all_healthy(&mut roster, crowd.iter().copied());
    let listed = |roster: &Roster| roster.list(UnixTime(100)).members;
    assert_eq!(listed(&roster).len(), crowd.len(), "nobody else is well");
    all_healthy(&mut roster, [four(2, 1)]);
    let list = listed(&roster);
    assert_eq!(list.len(), LIST_WIDE + 1);
    assert!(
        crowd[..LIST_WIDE]
            .iter()
            .all(|member| list.contains(&Peer::from(*member)))
    );
    assert!(list.is_sorted_by_key(|member| member.key));
    // With as many others as would be more than the share, a network has as many as they are.
    let others = 10 + wide;
    all_healthy(&mut roster, (1..others).map(|site| six(site, 1, 1)));
    assert_eq!(listed(&roster).len(), 2 * usize::from(others));
}

#[test]
fn of_a_64_the_list_has_less() {
    let mut roster = roster();
    all_healthy(&mut roster, (0..30).map(|host| six(1, 1, host)));
    all_healthy(&mut roster, [honest()]);
    let list = roster.list(UnixTime(100)).members;
    assert_eq!(list.len(), LIST_NARROW + 1);
    assert!(list.contains(&Peer::from(honest())));
}

#[test]
fn whoever_was_a_member_is_taken_back_whatever_its_networks_share() {
    let members =
        (0..2 * u16::try_from(ROSTER_NARROW).expect("16 bits")).map(|host| six(1, 1, host));
    let mut roster = roster();
    for member in members.clone() {
        assert!(roster.restore(member, Health::default(), UnixTime(100)));
    }
    // Shares are for newcomers: a flood's own member has to go for this one.
    assert_eq!(join(&mut roster, six(1, 1, 1_000)), Err(Refused::Full));
    assert!(members.into_iter().all(|member| is_in(&roster, &member)));
}
