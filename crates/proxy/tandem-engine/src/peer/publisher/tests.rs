//! Publications over many handshakes: who is told, when, and what that costs against what it
//! brings.
//!
//! Is not: packets. The other proxies are their name of what is held, a filter and what they have
//! learned since.

use super::*;
use tandem_store::{Kind, MemoryStore};
use tandem_wire::UnixTime;

const ROUND_TRIP: Duration = Duration::from_millis(500);
const TERMS: (usize, usize, Rate) = (1_400, 70, Rate::DEFAULT);
/// Bytes of a client's chain.
const CHAIN: usize = 1_700;

fn chain(client: u64) -> [u8; 8] {
    client.to_be_bytes()
}

fn id(client: u64) -> ObjectId {
    ObjectId::of(&[&chain(client)])
}

/// Which client shows itself in a turn, and by way of which other.
type Schedule = fn(u64) -> (u64, usize);

/// A server-side proxy, and a number of others as they know it.
struct Sides {
    publisher: Publisher,
    store: MemoryStore,
    others: Vec<Other>,
    now: Instant,
    published: u64,
    /// Chains that crossed though they were held.
    in_vain: u64,
    spared: u64,
}

#[derive(Default)]
struct Other {
    known: Fingerprint,
    filter: Option<Filter>,
    learned: Vec<ObjectId>,
}

impl Sides {
    fn new(others: usize, held: u64) -> Self {
        let mut store = MemoryStore::default();
        for client in 0..held {
            store.learn(Kind::Chain, None, &[&chain(client)], UnixTime(1));
        }
        Self {
            publisher: Publisher::default(),
            store,
            others: (0..others).map(|_| Other::default()).collect(),
            now: Instant::from_micros(1),
            published: 0,
            in_vain: 0,
            spared: 0,
        }
    }

    /// One handshake of a client, by way of one of the others, and a while until the next.
    fn handshake(&mut self, client: u64, by: usize) -> Decision {
        let other = &mut self.others[by];
        let asked = Asked {
            known: other.known,
            at: self.now,
        };
        let when = (self.now, ROUND_TRIP);
        let decision = self.publisher.consider(asked, TERMS, &self.store, when);
        // It comes too late for this handshake: the worst case.
        let id = id(client);
        let reference = Reference(id.prefix16());
        let is_known = other.learned.contains(&id)
            || other
                .filter
                .as_ref()
                .is_some_and(|filter| filter.contains(&reference));
        let was_held = self.publisher.is_held(&id, &mut self.store, self.now);
        self.store
            .learn(Kind::Chain, None, &[&chain(client)], UnixTime(1));
        if was_held {
            let crossed = if is_known {
                Crossed::Spared
            } else {
                Crossed::Whole
            };
            match crossed {
                Crossed::Spared => self.spared += CHAIN as u64,
                Crossed::Whole => self.in_vain += CHAIN as u64,
            }
            self.publisher.seen_again((&id, CHAIN), crossed, asked);
        } else {
            self.publisher.learned(&id, when);
        }
        if !is_known || !was_held {
            other.known.toggle(&id);
            other.learned.push(id);
        }
        if let Decision::Publish(filter) = &decision {
            self.published += (TERMS.1 + filter.to_bytes().len()) as u64;
            other.known = Fingerprint(filter.salt());
            other.learned.clear();
            other.filter = Some(filter.clone());
            // What was learned in this very handshake, after it.
            if !was_held {
                other.known.toggle(&id);
                other.learned.push(id);
            }
        }
        self.now += Duration::from_secs(60);
        decision
    }
}

#[test]
fn one_other_that_sees_all_that_is_learned_is_never_told() {
    let mut sides = Sides::new(1, 0);
    for round in 0..3 {
        for client in 0..200 {
            assert_eq!(
                sides.handshake(client, 0),
                Decision::Nothing,
                "{round} {client}"
            );
        }
    }
    assert_eq!((sides.published, sides.in_vain), (0, 0));
}

#[test]
fn one_that_begins_is_told_at_once_and_once() {
    let mut sides = Sides::new(1, 1_000);
    assert!(matches!(sides.handshake(5, 0), Decision::Publish(_)));
    for client in 0..1_000 {
        assert_eq!(sides.handshake(client, 0), Decision::Nothing, "{client}");
    }
    assert_eq!(sides.in_vain, CHAIN as u64, "the first came too early");
    assert!(sides.published < 1_400);
}

#[test]
fn whoever_comes_publications_cost_no_more_than_their_lack_and_a_share_of_what_they_bring() {
    // Clients that move between two others, many new ones, more than a filter shows, and others
    // that nobody comes back to.
    let schedules: [(usize, Schedule); 5] = [
        (2, |turn| (turn % 50, (turn / 50) as usize % 2)),
        (2, |turn| (turn, turn as usize % 2)),
        (3, |turn| (turn * turn % 1_009, turn as usize % 3)),
        (2, |turn| (turn % 3_000, turn as usize % 2)),
        (40, |turn| (turn % 1_000, turn as usize % 40)),
    ];
    for (others, schedule) in schedules {
        let mut sides = Sides::new(others, 500);
        for turn in 0..3_000 {
            let (client, by) = schedule(turn);
            sides.handshake(client, by);
            let most = FIRST_CREDIT + sides.in_vain + sides.spared / SHARE;
            assert!(sides.published <= most, "{others} others, turn {turn}");
        }
    }
}

#[test]
fn clients_that_move_are_spared_their_chains_after_the_first_few() {
    let mut sides = Sides::new(2, 0);
    for turn in 0..400u64 {
        sides.handshake(turn % 100, (turn / 100) as usize % 2);
    }
    // The second has a hundred chains to hear of that only the first has seen.
    assert!(sides.in_vain <= 3 * CHAIN as u64, "{}", sides.in_vain);
    assert!(sides.spared >= 290 * CHAIN as u64, "{}", sides.spared);
}

#[test]
fn connections_that_began_before_they_could_know_do_not_have_it_published_again() {
    let mut sides = Sides::new(1, 3);
    let ask = |sides: &mut Sides, at: u64, now: u64| {
        let asked = Asked {
            known: Fingerprint(0),
            at: Instant::from_micros(at),
        };
        let when = (Instant::from_micros(now), ROUND_TRIP);
        sides.publisher.consider(asked, TERMS, &sides.store, when)
    };
    assert!(matches!(ask(&mut sides, 0, 100), Decision::Publish(_)));
    assert_eq!(ask(&mut sides, 50, 400_000), Decision::Nothing);
    assert_eq!(ask(&mut sides, 500_000, 900_000), Decision::Nothing);
    // It was lost.
    assert!(matches!(
        ask(&mut sides, 500_200, 900_000),
        Decision::Publish(_)
    ));
    // Nor do those that go by what was held before something was learned from another connection.
    let held = Fingerprint::of(&sides.store.unexpected(Kind::Chain, 9));
    sides
        .store
        .learn(Kind::Chain, None, &[&chain(77)], UnixTime(1));
    let learned = (Instant::from_micros(2_000_000), ROUND_TRIP);
    sides.publisher.learned(&id(77), learned);
    let asked = |at| Asked {
        known: held,
        at: Instant::from_micros(at),
    };
    let consider = |sides: &mut Sides, at| {
        let when = (Instant::from_micros(3_000_000), ROUND_TRIP);
        sides
            .publisher
            .consider(asked(at), TERMS, &sides.store, when)
    };
    assert_eq!(consider(&mut sides, 2_400_000), Decision::Nothing);
    assert!(matches!(
        consider(&mut sides, 2_600_000),
        Decision::Publish(_)
    ));
}

#[test]
fn what_is_too_expensive_is_not_put_together_until_it_may_be_had() {
    let mut sides = Sides::new(1, 10);
    sides.publisher.credit = 80;
    assert_eq!(sides.handshake(0, 0), Decision::TooExpensive);
    // That one crossed though it was held.
    assert!(sides.publisher.credit > 1_000 && sides.publisher.out_of_reach > 80);
    assert!(matches!(sides.handshake(1, 0), Decision::Publish(_)));
    assert_eq!(sides.handshake(2, 0), Decision::Nothing);
}

#[test]
fn a_store_that_is_doubted_is_read_again_once_in_ten_seconds() {
    let mut sides = Sides::new(1, 3);
    let at = |seconds: u64| Instant::from_micros(seconds * 1_000_000);
    assert_ne!(
        sides.publisher.fingerprint(&sides.store, at(1)),
        Fingerprint(0)
    );
    sides.store = MemoryStore::default();
    sides.publisher.doubt(at(2));
    assert_ne!(
        sides.publisher.fingerprint(&sides.store, at(3)),
        Fingerprint(0)
    );
    sides.publisher.doubt(at(12));
    assert_eq!(
        sides.publisher.fingerprint(&sides.store, at(13)),
        Fingerprint(0)
    );
}
