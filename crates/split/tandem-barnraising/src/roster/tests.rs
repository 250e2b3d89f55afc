//! Joining, leaving, health and what follows for DNS, each rule by itself; then all of them in any
//! order. Is not: shares of networks (`flood`), nor what a member is barred for (`evidence`).

mod addresses;
mod evidence;
mod flood;

use super::*;
use crate::list::MAX_MEMBERS;
use crate::member::Peer;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

fn member(number: u8) -> Member {
    let address = IpAddr::from([192, 0, 2, number]);
    Member {
        key: PublicKey([number; 32]),
        address,
        peers: (address, 9).into(),
    }
}

fn at(address: IpAddr, member: Member) -> Member {
    Member {
        address,
        peers: (address, 9).into(),
        ..member
    }
}

fn origin() -> Vec<IpAddr> {
    vec![
        [203, 0, 113, 1].into(),
        "2001:db8::1".parse().expect("an address"),
    ]
}

fn site() -> Name {
    Name::parse("www.example.org").expect("a name")
}

/// Without a limit on requests that a test could meet.
fn settings() -> Settings {
    Settings {
        rate: Rate {
            every: Duration::from_micros(1),
            burst: 1_000_000,
        },
        ..Settings::default()
    }
}

fn roster() -> Roster {
    Roster::new(site(), origin(), settings(), 0)
}

fn join(roster: &mut Roster, member: Member) -> Result<Joined, Refused> {
    roster.join(member, member.address, Instant::ZERO, UnixTime(100))
}

fn make_healthy(roster: &mut Roster, member: &Member) {
    for _ in 0..Thresholds::default().up {
        roster.note(member, Outcome::Good);
    }
}

#[test]
fn browsers_go_to_members_that_are_well_and_else_to_the_origin() {
    let mut roster = roster();
    let (one, two) = (member(1), member(2));
    assert_eq!(join(&mut roster, one), Ok(Joined::New));
    assert_eq!(join(&mut roster, two), Ok(Joined::New));
    assert_eq!(
        roster.addresses(Family::V4, 0),
        origin()[..1],
        "nobody has been seen well"
    );
    assert_eq!(roster.addresses(Family::V6, 0), origin()[1..]);
    make_healthy(&mut roster, &one);
    assert_eq!(roster.addresses(Family::V4, 0), [one.address]);
    assert!(
        roster.addresses(Family::V6, 0).is_empty(),
        "or browsers would prefer the origin"
    );
    make_healthy(&mut roster, &two);
    assert_eq!(roster.addresses(Family::V4, 1), [two.address, one.address]);
    for _ in 0..Thresholds::default().down {
        roster.note(&one, Outcome::Bad);
    }
    assert_eq!(roster.addresses(Family::V4, 0), [two.address]);
    assert!(roster.leave(&two.key));
    assert!(!roster.leave(&two.key));
    assert_eq!(roster.addresses(Family::V4, 0), origin()[..1]);
}

#[test]
fn an_answer_is_bounded_and_all_get_their_turn() {
    let mut roster = roster();
    for number in 0..30 {
        let member = member(number);
        join(&mut roster, member).expect("room");
        make_healthy(&mut roster, &member);
    }
    let mut seen = BTreeSet::new();
    for turn in 0..30 {
        let addresses = roster.addresses(Family::V4, turn);
        assert_eq!(addresses.len(), Settings::default().addresses);
        seen.extend(addresses);
    }
    assert_eq!(seen.len(), 30);
}

#[test]
fn who_may_not_join_is_told_why() {
    let mut roster = Roster::new(
        site(),
        origin(),
        Settings {
            policy: Policy::Listed([1, 2].map(|key| PublicKey([key; 32])).into()),
            ..settings()
        },
        0,
    );
    let (one, two) = (member(1), member(2));
    assert_eq!(join(&mut roster, member(3)), Err(Refused::Policy));
    let elsewhere = roster.join(one, two.address, Instant::ZERO, UnixTime(100));
    assert_eq!(elsewhere, Err(Refused::Address));
    assert_eq!(join(&mut roster, one), Ok(Joined::New));
    assert_eq!(join(&mut roster, one), Ok(Joined::Renewed));
    make_healthy(&mut roster, &one);
    assert_eq!(
        join(&mut roster, at(one.address, two)),
        Err(Refused::AddressTaken)
    );
    assert_eq!(roster.list(UnixTime(0)).members, [Peer::from(one)]);
}

#[test]
fn an_address_passes_on_from_a_member_that_is_not_well() {
    let mut roster = roster();
    let (one, two) = (member(1), member(2));
    join(&mut roster, one).expect("room");
    assert_eq!(join(&mut roster, at(one.address, two)), Ok(Joined::New));
    assert_eq!(roster.members().len(), 1);
}

#[test]
fn who_moves_begins_anew() {
    let mut roster = roster();
    let one = member(1);
    join(&mut roster, one).expect("room");
    make_healthy(&mut roster, &one);
    let moved = at([192, 0, 2, 77].into(), one);
    assert_eq!(join(&mut roster, moved), Ok(Joined::Moved));
    assert_eq!(roster.members().collect::<Vec<_>>(), [(&moved, false)]);
}

#[test]
fn what_changes_where_browsers_or_peers_go_changes_the_version() {
    let mut roster = roster();
    let one = member(1);
    let version = |roster: &Roster| roster.list(UnixTime(100)).version;
    join(&mut roster, one).expect("room");
    assert_eq!(roster.member(&one.key, Family::V4), Some(&one));
    assert_eq!(roster.member(&member(2).key, Family::V4), None);
    assert_eq!(version(&roster), 0, "it is in no list yet");
    make_healthy(&mut roster, &one);
    assert_eq!(version(&roster), 1);
    assert_eq!(join(&mut roster, one), Ok(Joined::Renewed));
    assert_eq!(version(&roster), 1, "the same as before");
    let elsewhere = Member {
        peers: (one.address, 10).into(),
        ..one
    };
    assert_eq!(join(&mut roster, elsewhere), Ok(Joined::Renewed));
    assert_eq!(roster.member(&one.key, Family::V4), Some(&elsewhere));
    assert_eq!(version(&roster), 2, "peers ask it elsewhere");
    let moved = at([192, 0, 2, 77].into(), one);
    assert_eq!(join(&mut roster, moved), Ok(Joined::Moved));
    assert_eq!(version(&roster), 3, "it is in no list any more");
}

#[test]
fn after_a_restart_no_more_are_taken_back_than_a_list_has() {
    let mut roster = roster();
    let numbered = |number: u32| {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_be_bytes());
        // So many in a /16 as are its share.
        let address = 0x0a00_0000 + ((number / 256) << 16) + number % 256;
        let address = IpAddr::from(address.to_be_bytes());
        let key = PublicKey(key);
        at(address, Member { key, ..member(0) })
    };
    let most = u32::try_from(MAX_MEMBERS).expect("32 bits");
    for number in 0..=most {
        let taken = roster.restore(numbered(number), Health::default(), UnixTime(100));
        assert_eq!(taken, number < most, "{number}");
    }
}

#[test]
fn a_mapped_address_is_the_address_that_it_maps() {
    let mut roster = roster();
    let one = member(1);
    let mapped = "::ffff:192.0.2.1".parse().expect("an address");
    assert_eq!(
        roster.join(one, mapped, Instant::ZERO, UnixTime(0)),
        Ok(Joined::New)
    );
    assert_eq!(join(&mut roster, one), Ok(Joined::Renewed));
    assert_eq!(roster.members().collect::<Vec<_>>(), [(&one, false)]);
}

#[test]
fn strangers_next_door_cost_no_member_its_renewal() {
    let rate = Rate {
        every: Duration::from_secs(60),
        burst: 2,
    };
    let mut roster = Roster::new(site(), origin(), Settings { rate, ..settings() }, 0);
    let one = member(1);
    assert_eq!(join(&mut roster, one), Ok(Joined::New));
    assert_eq!(join(&mut roster, member(2)), Ok(Joined::New));
    assert_eq!(join(&mut roster, member(3)), Err(Refused::TooOften));
    assert_eq!(join(&mut roster, one), Ok(Joined::Renewed));
    assert_eq!(join(&mut roster, one), Ok(Joined::Renewed));
    assert_eq!(join(&mut roster, one), Err(Refused::TooOften), "nor more");
    let elsewhere = at(member(9).address, one);
    assert_eq!(join(&mut roster, elsewhere), Err(Refused::TooOften));
}

#[test]
fn the_silent_are_forgotten() {
    let mut roster = roster();
    let (one, two) = (member(1), member(2));
    join(&mut roster, one).expect("room");
    join(&mut roster, two).expect("room");
    let lease = Settings::default().lease;
    let later = UnixTime(100 + lease);
    roster
        .join(two, two.address, Instant::ZERO, later)
        .expect("room");
    assert_eq!(roster.forget_silent(later), 0);
    assert_eq!(roster.forget_silent(UnixTime(later.0 + 1)), 1);
    assert_eq!(roster.members().collect::<Vec<_>>(), [(&two, false)]);
    // A clock that went back forgets nobody.
    assert_eq!(roster.forget_silent(UnixTime(0)), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Join(u8, IpAddr),
    Leave(u8),
    Look(u8, IpAddr, bool),
    Time(u64),
}

/// One of four addresses of each family.
fn place() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0..4_u8).prop_map(|host| IpAddr::from([192, 0, 2, host])),
        (0..4_u16).prop_map(|host| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host])),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6_u8, place()).prop_map(|(key, address)| Step::Join(key, address)),
        (0..6_u8).prop_map(Step::Leave),
        (0..6_u8, place(), any::<bool>())
            .prop_map(|(key, address, good)| Step::Look(key, address, good)),
        (0..120_u64).prop_map(Step::Time),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_addresses_are_one_members_each_and_the_list_says_what_dns_says(
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let mut roster = roster();
        let mut wall = UnixTime(0);
        let mut last = roster.list(wall);
        for step in steps {
            match step {
                Step::Join(key, address) => {
                    let member = at(address, member(key));
                    let _ = roster.join(member, member.address, Instant::ZERO, wall);
                }
                Step::Leave(key) => {
                    roster.leave(&PublicKey([key; 32]));
                }
                Step::Look(key, address, good) => {
                    let outcome = if good { Outcome::Good } else { Outcome::Bad };
                    roster.note(&at(address, member(key)), outcome);
                }
                Step::Time(seconds) => {
                    wall.0 += seconds;
                    roster.forget_silent(wall);
                }
            }
            let addresses: BTreeSet<IpAddr> = roster.members().map(|(member, _)| member.address).collect();
            prop_assert_eq!(addresses.len(), roster.members().len());
            let list = roster.list(wall);
            let peers = list.members.iter().flat_map(Peer::addresses);
            let listed: BTreeSet<IpAddr> = peers.map(|address| address.ip()).collect();
            let keys: BTreeSet<PublicKey> = list.members.iter().map(|peer| peer.key).collect();
            prop_assert_eq!(keys.len(), list.members.len(), "a volunteer is listed once");
            let [four, six] = [Family::V4, Family::V6].map(|family| roster.addresses(family, 0));
            let answered: BTreeSet<IpAddr> = four.into_iter().chain(six).collect();
            if listed.is_empty() {
                prop_assert_eq!(answered, BTreeSet::from_iter(origin()));
            } else {
                prop_assert_eq!(answered, listed);
            }
            prop_assert!(list.version >= last.version);
            prop_assert_eq!(list.members != last.members, list.version != last.version);
            last = list;
        }
    }
}

#[test]
fn a_closed_site_keeps_its_members_and_takes_nobody_new() {
    let settings = Settings {
        policy: Policy::Closed,
        ..settings()
    };
    let mut roster = Roster::new(site(), origin(), settings, 5);
    let (one, two) = (member(1), member(2));
    assert!(roster.restore(one, Health::known_as_well(), UnixTime(100)));
    assert_eq!(roster.version(), 5, "nothing has changed by it");
    assert_eq!(roster.addresses(Family::V4, 0), [one.address]);
    assert_eq!(join(&mut roster, one), Ok(Joined::Renewed));
    let elsewhere = at([192, 0, 2, 77].into(), one);
    assert_eq!(join(&mut roster, elsewhere), Ok(Joined::Moved));
    assert_eq!(join(&mut roster, two), Err(Refused::Policy));
}

#[test]
fn who_is_not_taken_any_more_is_not_taken_back_after_a_restart() {
    let settings = Settings {
        policy: Policy::Listed([PublicKey([1; 32])].into()),
        ..settings()
    };
    let mut roster = Roster::new(site(), origin(), settings, 5);
    assert!(roster.restore(member(1), Health::default(), UnixTime(100)));
    assert!(!roster.restore(member(2), Health::default(), UnixTime(100)));
    let same_address = at(member(1).address, member(1));
    assert!(!roster.restore(same_address, Health::default(), UnixTime(100)));
    assert_eq!(roster.members().len(), 1);
}
