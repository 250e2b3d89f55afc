//! Several connections at once through two proxies that share what they learn, while either is
//! started anew, with its store or without: whatever the order, each endpoint gets the other's
//! bytes, and what is missed is sent again.

use std::collections::VecDeque;

use crate::support::{Conversation, OPENING, THEN, engine, server_address, teach, tls};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tandem_engine::{Engine, Role, Sender};
use tandem_link::tunnel::{Open, Target};
use tandem_store::MemoryStore;
use tandem_tunnel::{Clock, Event, Input, Output, Relay};
use tandem_wire::Instant;

const ROLES: [Role; 2] = [Role::ClientSide, Role::ServerSide];
const SENDERS: [Sender; 2] = [Sender::Client, Sender::Server];

/// One connection: a relay at each side.
struct Running {
    said: Conversation,
    relays: [Relay; 2],
    /// What is on the way to each relay over the link.
    pipes: [VecDeque<Vec<u8>>; 2],
    /// Turns that were handed to a relay.
    turn: usize,
    got: [Vec<u8>; 2],
    is_dialling: bool,
}

impl Running {
    fn new(said: Conversation) -> Self {
        let target = Target::Address(server_address());
        Self {
            said,
            relays: [
                Relay::client_side(Open::to(target), Instant::ZERO),
                Relay::server_side(Instant::ZERO + OPENING),
            ],
            pipes: [VecDeque::new(), VecDeque::new()],
            turn: 0,
            got: [Vec::new(), Vec::new()],
            is_dialling: false,
        }
    }

    /// Whether all that was said before this turn has arrived.
    fn may_speak(&self) -> bool {
        let Some((sender, _)) = self.said.turns.get(self.turn) else {
            return false;
        };
        let before = &self.said.turns[..self.turn];
        let others = before.iter().filter(|(from, _)| from != sender);
        let length: usize = others.map(|(_, bytes)| bytes.len()).sum();
        self.got[side(*sender)].len() == length
    }
}

fn side(sender: Sender) -> usize {
    match sender {
        Sender::Client => 0,
        Sender::Server => 1,
    }
}

/// What may happen next to a connection.
#[derive(Clone, Copy)]
enum Step {
    Speak,
    Deliver(usize),
    Dial,
}

struct Together {
    engines: [Engine<MemoryStore>; 2],
    rng: Pcg64,
    events: [Vec<Event>; 2],
    crossed: usize,
}

impl Together {
    fn new(seed: u64) -> Self {
        Self {
            engines: ROLES.map(engine),
            rng: Pcg64::seed_from_u64(seed),
            events: [Vec::new(), Vec::new()],
            crossed: 0,
        }
    }

    /// Carries out all of these; at each step, with this chance, one side is started anew.
    fn run(&mut self, said: Vec<Conversation>, restarts: f64) {
        let mut running: Vec<Running> = said.into_iter().map(Running::new).collect();
        for _ in 0..100_000 {
            if self.rng.random_bool(restarts) {
                self.restart();
            }
            let steps: Vec<(usize, Step)> = (0..running.len())
                .flat_map(|index| steps(&running[index]).map(move |step| (index, step)))
                .collect();
            let Some(&(index, step)) = steps.get(match steps.len() {
                0 => 0,
                count => self.rng.random_range(0..count),
            }) else {
                break;
            };
            self.step(&mut running[index], step);
        }
        for one in &running {
            assert_eq!(one.turn, one.said.turns.len(), "it does not end");
            for side in 0..2 {
                assert_eq!(one.got[side], one.said.stream(SENDERS[1 - side]));
            }
        }
    }

    fn restart(&mut self) {
        let side = self.rng.random_range(0..2);
        let mut anew = engine(ROLES[side]);
        if self.rng.random_bool(0.5) {
            std::mem::swap(anew.store(), self.engines[side].store());
        }
        self.engines[side] = anew;
    }

    fn step(&mut self, one: &mut Running, step: Step) {
        match step {
            Step::Speak => {
                let (sender, bytes) = one.said.turns[one.turn].clone();
                one.turn += 1;
                self.input(one, side(sender), Input::Endpoint(&bytes));
            }
            Step::Deliver(side) => {
                let mut bytes = one.pipes[side].pop_front().expect("there is some");
                let length = self.rng.random_range(1..=bytes.len());
                let rest = bytes.split_off(length);
                if !rest.is_empty() {
                    one.pipes[side].push_front(rest);
                }
                self.input(one, side, Input::Tunnel(&bytes));
            }
            Step::Dial => {
                one.is_dialling = false;
                self.input(one, 1, Input::Connected(server_address()));
            }
        }
    }

    fn input(&mut self, one: &mut Running, side: usize, input: Input<'_>) {
        let clock = Clock {
            now: Instant::ZERO,
            wall: THEN,
        };
        one.relays[side].handle_input(input, &mut self.engines[side], clock);
        while let Some(output) = one.relays[side].poll_output() {
            match output {
                Output::Connect(_) => one.is_dialling = true,
                Output::ToEndpoint(bytes) => {
                    one.got[side].extend(bytes);
                    let heard = one.said.stream(SENDERS[1 - side]);
                    assert!(heard.starts_with(&one.got[side]));
                }
                Output::ToTunnel(bytes) => {
                    self.crossed += bytes.len();
                    one.pipes[1 - side].push_back(bytes);
                }
                Output::Event(event) => self.events[side].push(event),
                Output::Bulk => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn count(&self, side: usize, name: &str) -> usize {
        let named = |event: &&Event| event.name() == name;
        self.events[side].iter().filter(named).count()
    }
}

fn steps(one: &Running) -> impl Iterator<Item = Step> {
    let deliver = [0, 1].map(|side| (!one.pipes[side].is_empty()).then_some(Step::Deliver(side)));
    let speak = one.may_speak().then_some(Step::Speak);
    let dial = one.is_dialling.then_some(Step::Dial);
    deliver.into_iter().chain([speak, dial]).flatten()
}

/// Handshakes of one client with a site; in one of them the site may ask for a certificate.
fn conversations(seed: u64, client: &[Vec<u8>]) -> Vec<Conversation> {
    let ticket = tls::noise(200, 50);
    (0..6)
        .map(|number| {
            let seed = 10_000 * seed + 100 * number;
            match number {
                0..=2 => tls::full(&[], &[], seed),
                3 => tls::full(client, &ticket, seed),
                4 => tls::tls13(0, seed),
                _ => tls::resumed(&ticket, seed),
            }
        })
        .collect()
}

#[test]
fn connections_at_once_arrive_whole_and_teach_each_other() {
    for seed in 0..20 {
        let mut proxies = Together::new(seed);
        proxies.run(vec![tls::full(&[], &[], 1)], 0.0);
        proxies.run(conversations(seed, &[]), 0.0);
        // Nobody forgets: nothing is missed, in any order.
        assert_eq!(proxies.count(0, "flights_missed_not_held"), 0, "{seed}");
        assert_eq!(proxies.count(1, "flights_missed_not_held"), 0, "{seed}");
        assert!(proxies.count(0, "flights_rebuilt") >= 4, "{seed}");
    }
}

#[test]
fn whoever_is_started_anew_meanwhile_costs_misses_and_never_a_byte() {
    let client = tls::chain(&[700], 40);
    let (mut missed, mut rebuilt) = (0, 0);
    for seed in 0..30 {
        let mut proxies = Together::new(seed);
        for round in 0..3 {
            proxies.run(conversations(3 * seed + round, &client), 0.01);
        }
        for side in 0..2 {
            missed += proxies.count(side, "flights_missed_not_held");
            rebuilt += proxies.count(side, "flights_rebuilt");
            assert_eq!(proxies.count(side, "flights_missed_malformed"), 0);
        }
    }
    assert!(missed > 15 && rebuilt > 150, "{missed} {rebuilt}");
}

#[test]
fn after_a_restart_hints_take_the_place_of_what_was_forgotten() {
    for (side, role) in ROLES.into_iter().enumerate() {
        let mut proxies = Together::new(1);
        proxies.run(vec![tls::full(&[], &[], 1)], 0.0);
        let mut anew = engine(role);
        std::mem::swap(anew.store(), proxies.engines[side].store());
        proxies.engines[side] = anew;
        let before = proxies.crossed;
        let said = tls::full(&[], &[], 1_000);
        let whole: usize = said.turns.iter().map(|(_, bytes)| bytes.len()).sum();
        proxies.run(vec![said], 0.0);
        let chain: usize = tls::server_chain().iter().map(Vec::len).sum();
        let crossed = proxies.crossed - before;
        assert!(
            crossed + chain < whole + 120,
            "{side}: {crossed} of {whole}"
        );
        // A client side that forgot says so before anything is missed.
        assert_eq!(proxies.count(1, "flights_missed_not_held"), side);
        assert_eq!(proxies.count(0, "flights_missed_not_held"), 0);
    }
}

#[test]
fn flights_that_differ_under_one_number_cost_one_miss_and_are_forgotten() {
    let mut proxies = Together::new(1);
    let mut other = tls::full(&[], &[], 1);
    teach(&mut proxies.engines[1], &other);
    // In the chain.
    other.turns[1].1[1_000] ^= 1;
    teach(&mut proxies.engines[0], &other);
    proxies.run(vec![tls::full(&[], &[], 1_000)], 0.0);
    assert_eq!(proxies.count(0, "flights_missed_check"), 1);
    assert_eq!(proxies.count(1, "original_bytes"), 1);
    proxies.run(vec![tls::full(&[], &[], 2_000)], 0.0);
    assert_eq!(proxies.count(0, "flights_rebuilt"), 1);
    assert_eq!(proxies.count(0, "flights_missed_check"), 1);
}
