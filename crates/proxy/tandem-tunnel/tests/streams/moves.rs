//! A client side that moves to another server side: what crosses in its first handshake there, with
//! the notes of the one before and without, for each kind of handshake; and notes of a stranger.

use crate::support::tls::{self, noise};
use crate::support::{Conversation, Outcome, Pair, Plan, engine};
use tandem_engine::{PeerId, Role};
use tandem_tunnel::Event;

/// What a test's relays are of.
const PEER: PeerId = PeerId::OTHER_END;

/// A client side that has been at one server side.
struct Moving {
    pair: Pair,
}

impl Moving {
    fn after(visits: &[Conversation]) -> Self {
        let mut pair = Pair::default();
        pair.engines[1] = engine(Role::ServerSide).with_notes();
        for visit in visits {
            finished(&pair.run(visit, Plan::of(1)));
        }
        Self { pair }
    }

    /// Moves to a server side that has learned nothing, but what it is told in these notes.
    fn move_to_another(&mut self, notes: &[Vec<u8>]) -> usize {
        let mut another = engine(Role::ServerSide).with_notes();
        let clock = self.pair.clock;
        let notes = notes.iter().map(Vec::as_slice);
        let used = another.recall(PEER, notes, (clock.now, clock.wall));
        self.pair.engines[1] = another;
        used
    }

    fn notes(&mut self) -> Vec<Vec<u8>> {
        let notes = self.pair.engines[1].notes();
        assert!(notes.iter().all(|(peer, _)| *peer == PEER));
        notes.into_iter().map(|(_, note)| note).collect()
    }
}

/// Both endpoints got what the other said, which the run checks, and to its end.
fn finished(outcome: &Outcome) {
    assert_eq!(outcome.aborted, [None, None]);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notes {
    Given,
    Kept,
}

/// The bytes that a last visit takes after a move, and how many deltas were missed in it.
fn moved(visits: &[Conversation], last: &Conversation, given: Notes) -> (usize, usize) {
    let mut moving = Moving::after(visits);
    let notes = match given {
        Notes::Given => moving.notes(),
        Notes::Kept => Vec::new(),
    };
    let used = moving.move_to_another(&notes);
    assert!(used <= notes.len());
    let outcome = moving.pair.run(last, Plan::of(1));
    finished(&outcome);
    let written = outcome.count(0, Event::HelloWritten) + outcome.count(0, Event::FlightWritten);
    let rebuilt = outcome.count(1, Event::HelloRebuilt) + outcome.count(1, Event::FlightRebuilt);
    (outcome.bytes(), written - rebuilt)
}

#[test]
fn with_the_notes_of_the_one_before_a_move_costs_nothing() {
    let client = tls::chain(&[900, 1_000], 40);
    let ticket = noise(200, 50);
    let full = |seed| tls::full(&[], &[], seed);
    let with_client = |seed| tls::full(&client, &[], seed);
    // What was visited before, what comes last, and what a move without notes costs at least.
    for (visits, last, least) in [
        (vec![full(100), full(200)], full(300), 100),
        (
            vec![with_client(100), with_client(200)],
            with_client(300),
            1_500,
        ),
        (
            vec![tls::full(&[], &ticket, 100)],
            tls::resumed(&ticket, 200),
            100,
        ),
        (
            vec![tls::tls13(0, 100), tls::tls13(0, 200)],
            tls::tls13(0, 300),
            50,
        ),
    ] {
        let mut stays = Moving::after(&visits);
        let stays = stays.pair.run(&last, Plan::of(1));
        let (with, misses) = moved(&visits, &last, Notes::Given);
        assert_eq!((with, misses), (stays.bytes(), 0));
        let (without, misses) = moved(&visits, &last, Notes::Kept);
        eprintln!("{with} bytes with notes, {without} without");
        assert!(misses > 0);
        assert!(
            without >= with + least,
            "{with} with notes, {without} without"
        );
    }
}

#[test]
fn who_comes_back_finds_what_was_noted_elsewhere_meanwhile() {
    let mut moving = Moving::after(&[tls::full(&[], &[], 100)]);
    let at_home = moving.notes();
    let home = std::mem::replace(&mut moving.pair.engines[1], engine(Role::ServerSide));
    moving.move_to_another(&at_home);
    for seed in [200, 300, 400] {
        finished(&moving.pair.run(&tls::full(&[], &[], seed), Plan::of(1)));
    }
    let elsewhere = moving.notes();
    assert_eq!(elsewhere.len(), 3);
    moving.pair.engines[1] = home;
    let all: Vec<Vec<u8>> = at_home.into_iter().chain(elsewhere).collect();
    let clock = moving.pair.clock;
    let used =
        moving.pair.engines[1].recall(PEER, all.iter().map(Vec::as_slice), (clock.now, clock.wall));
    assert_eq!(used, 3, "the first is known here");
    let outcome = moving.pair.run(&tls::full(&[], &[], 500), Plan::of(1));
    finished(&outcome);
    assert_eq!(outcome.count(1, Event::HelloRebuilt), 1);
}

#[test]
fn notes_of_a_stranger_cost_a_miss_and_never_a_byte() {
    let visits = [tls::full(&[], &[], 100), tls::full(&[], &[], 200)];
    let mut moving = Moving::after(&visits);
    let mut notes = moving.notes();
    // The flights are others than those that the client side has.
    for note in &mut notes {
        let end = note.len();
        note[end - 400..].fill(0x5a);
    }
    notes.extend([vec![], vec![1, 1], noise(5_000, 7)]);
    assert_eq!(moving.move_to_another(&notes), 2);
    for seed in [300, 400] {
        finished(&moving.pair.run(&tls::full(&[], &[], seed), Plan::of(1)));
    }
}

#[test]
fn a_ticket_that_its_server_no_longer_takes_is_not_taken_in() {
    let ticket = noise(200, 50);
    let mut moving = Moving::after(&[tls::full(&[], &ticket, 100)]);
    let notes = moving.notes();
    moving.pair.clock.wall.0 += 25 * 3_600;
    moving.move_to_another(&notes);
    assert_eq!(moving.pair.engines[1].session_tickets(), (0, 0));
    assert_eq!(moving.pair.engines[1].hello_templates().0, 1);
}

#[test]
fn peers_are_kept_apart() {
    let mut moving = Moving::after(&[tls::full(&[], &[], 100)]);
    let notes = moving.notes();
    let mut another = engine(Role::ServerSide);
    let clock = moving.pair.clock;
    let notes = notes.iter().map(Vec::as_slice);
    another.recall(PeerId([9; 32]), notes, (clock.now, clock.wall));
    moving.pair.engines[1] = another;
    let outcome = moving.pair.run(&tls::full(&[], &[], 200), Plan::of(1));
    finished(&outcome);
    assert_eq!(outcome.count(1, Event::HelloRebuilt), 0, "it is another's");
    assert_eq!(moving.pair.engines[1].known_peers(), 2);
}
