//! Two relays joined by a pipe in memory, endpoints that speak from a script, and a random order of
//! everything that may happen next.
//!
//! Is not: a transport or a socket. Invariant: a run depends on its seed alone.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod sealed;
pub(crate) mod tls;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tandem_engine::{
    ClientCertificates, Connection, Crossed, Engine, Moment, Role, Sender, Streams,
};
use tandem_link::tunnel::{Ending, Open, Target};
use tandem_record_key::RecordKey;
use tandem_store::MemoryStore;
use tandem_tunnel::{Clock, Event, Handshakes, Input, Least, Output, Relay, Wakeup};
use tandem_wire::{Instant, UnixTime};

/// Before any certificate of the tests has expired.
pub(crate) const THEN: UnixTime = UnixTime(1_000_000_000);

/// How long a server side's streams may take to say where they go.
pub(crate) const OPENING: Duration = Duration::from_secs(60);

/// Most steps of one run: more is a loop.
const MAX_STEPS: usize = 200_000;

pub(crate) fn server_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 443))
}

pub(crate) fn engine(role: Role) -> Engine<MemoryStore> {
    engine_with(role, ClientCertificates::Persistent)
}

pub(crate) fn engine_with(role: Role, how: ClientCertificates) -> Engine<MemoryStore> {
    Engine::new(role, how, None, MemoryStore::default()).with_hello_templates()
}

/// Reads this along in one engine alone, as if a connection had shown it.
pub(crate) fn teach(engine: &mut Engine<MemoryStore>, said: &Conversation) {
    let [client, server] = SENDERS.map(|sender| said.stream(sender));
    let streams = Streams {
        client: &client,
        server: &server,
    };
    let moment = Moment {
        server: server_address(),
        now: Instant::ZERO,
        wall: THEN,
    };
    let mut connection = Connection::new(None);
    connection.read(Sender::Client, &client);
    connection.read(Sender::Server, &server);
    connection.hello_seen(streams, engine);
    connection.finished(streams, engine, moment, (Crossed::Whole, Duration::ZERO));
}

/// What the endpoints say, in turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversation {
    pub(crate) turns: Vec<(Sender, Vec<u8>)>,
}

impl Conversation {
    /// All that one of them says.
    pub(crate) fn stream(&self, sender: Sender) -> Vec<u8> {
        let turns = self.turns.iter().filter(|(from, _)| *from == sender);
        turns.flat_map(|(_, bytes)| bytes.clone()).collect()
    }

    /// How much this end may have said once it has received so much.
    fn allowed(&self, sender: Sender, received: usize) -> usize {
        let (mut own, mut others) = (0, 0);
        for (from, bytes) in &self.turns {
            if *from == sender {
                if others > received {
                    break;
                }
                own += bytes.len();
            } else {
                others += bytes.len();
            }
        }
        own
    }
}

/// What goes wrong in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    ClientFails(Ending),
    ServerFails(Ending),
    /// The transport is gone, on both sides.
    TunnelLost(Ending),
}

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Whether time passes although something else may happen.
    pub(crate) pace: Pace,
    /// What goes wrong at this step.
    pub(crate) fault: Option<(usize, Fault)>,
    /// How long the longest piece of either stream is.
    pub(crate) cut: usize,
    /// In which form handshakes cross.
    pub(crate) handshakes: Handshakes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Prompt,
    Slow,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        Self {
            seed,
            pace: Pace::Prompt,
            fault: None,
            cut: usize::MAX,
            handshakes: Handshakes::Shortened,
        }
    }
}

/// What came of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What each endpoint got: the client, the server.
    pub(crate) got: [Vec<u8>; 2],
    /// What crossed: from the client's side, from the server's.
    pub(crate) crossed: [Vec<u8>; 2],
    pub(crate) events: [Vec<Event>; 2],
    /// How each endpoint's connection was aborted.
    pub(crate) aborted: [Option<Ending>; 2],
    /// Times that each endpoint was told of the other's end.
    pub(crate) ends: [usize; 2],
    pub(crate) bulk: [usize; 2],
    /// Most that each relay kept.
    pub(crate) footprint: [usize; 2],
    pub(crate) connects: Vec<Target>,
}

impl Outcome {
    pub(crate) fn count(&self, side: usize, event: Event) -> usize {
        let same = |other: &&Event| other.name() == event.name();
        self.events[side].iter().filter(same).count()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.crossed.iter().map(Vec::len).sum()
    }
}

/// What is in a pipe.
#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    End,
    Reset(Ending),
}

/// Two proxies, from connection to connection.
pub(crate) struct Pair {
    pub(crate) engines: [Engine<MemoryStore>; 2],
    pub(crate) clock: Clock,
    /// A key that its server releases, and when.
    pub(crate) late: Option<(Instant, RecordKey)>,
    /// At what the client side offers clients' keys, if it does.
    pub(crate) offers: Option<Least>,
    /// At what the server side asks for them, if not at that.
    pub(crate) asks: Option<Least>,
    /// A key that the client releases so long after it has received anything.
    pub(crate) of_client: Option<(Duration, RecordKey)>,
    /// The same, since it has.
    pub(crate) due: Option<(Instant, RecordKey)>,
}

impl Default for Pair {
    fn default() -> Self {
        Self {
            engines: [engine(Role::ClientSide), engine(Role::ServerSide)],
            clock: Clock {
                now: Instant::ZERO,
                wall: THEN,
            },
            late: None,
            offers: None,
            asks: None,
            of_client: None,
            due: None,
        }
    }
}

/// One run.
struct Run<'a> {
    pair: &'a mut Pair,
    said: &'a Conversation,
    /// All that each endpoint says.
    streams: [Vec<u8>; 2],
    plan: Plan,
    rng: Pcg64,
    relays: [Relay; 2],
    /// On the way to each relay.
    pipes: [VecDeque<Piece>; 2],
    sent: [usize; 2],
    ended: [bool; 2],
    dialling: bool,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Send(usize),
    End(usize),
    Deliver(usize),
    Dial,
    Time,
}

const SENDERS: [Sender; 2] = [Sender::Client, Sender::Server];

impl Pair {
    /// Two that do so with clients' certificates: the client side, the server side.
    pub(crate) fn with(client_side: ClientCertificates, server_side: ClientCertificates) -> Self {
        Self {
            engines: [
                engine_with(Role::ClientSide, client_side),
                engine_with(Role::ServerSide, server_side),
            ],
            ..Self::default()
        }
    }

    pub(crate) fn run(&mut self, said: &Conversation, plan: Plan) -> Outcome {
        self.run_to(Target::Address(server_address()), said, plan)
    }

    pub(crate) fn run_to(&mut self, target: Target, said: &Conversation, plan: Plan) -> Outcome {
        let client_side = Relay::client_side(Open::to(target), self.clock.now);
        let client_side = match self.offers {
            Some(least) => client_side.offering_keys(server_address().ip(), least),
            None => client_side,
        };
        let server_side = Relay::server_side(self.clock.now + OPENING);
        let server_side = match self.asks {
            Some(least) => server_side.asking_for_keys(least),
            None => server_side,
        };
        let relays = [client_side, server_side];
        let relays = relays.map(|relay| relay.with(plan.handshakes));
        let run = Run {
            pair: self,
            said,
            streams: SENDERS.map(|sender| said.stream(sender)),
            plan,
            rng: Pcg64::seed_from_u64(plan.seed),
            relays,
            pipes: [VecDeque::new(), VecDeque::new()],
            sent: [0; 2],
            ended: [false; 2],
            dialling: false,
            outcome: Outcome::default(),
        };
        run.go()
    }
}

impl Run<'_> {
    fn go(mut self) -> Outcome {
        self.drain(0);
        for number in 0..MAX_STEPS {
            if let Some((at, fault)) = self.plan.fault
                && at == number
            {
                self.fault(fault);
            }
            let steps = self.steps();
            if steps.is_empty() {
                self.check();
                return self.outcome;
            }
            let step = steps[self.rng.random_range(0..steps.len())];
            self.step(step);
        }
        panic!("{:?}: it does not end", self.plan);
    }

    fn input(&mut self, side: usize, input: Input<'_>) {
        let clock = self.pair.clock;
        self.relays[side].handle_input(input, &mut self.pair.engines[side], clock);
        self.drain(side);
    }

    fn drain(&mut self, side: usize) {
        let bulk_before = self.outcome.bulk[side];
        while let Some(output) = self.relays[side].poll_output() {
            let outcome = &mut self.outcome;
            let is_aborted = outcome.aborted[side].is_some();
            let other = 1 - side;
            match output {
                Output::Connect(open) => {
                    outcome.connects.push(open.target);
                    self.dialling = true;
                }
                Output::ToEndpoint(bytes) => {
                    assert!(!is_aborted && outcome.ends[side] == 0 && !bytes.is_empty());
                    let before = outcome.got[side].len();
                    let sent = &self.streams[other][..self.sent[other]];
                    assert!(sent[before..].starts_with(&bytes), "{:?}", self.plan);
                    outcome.got[side].extend(bytes);
                    if side == 0
                        && let Some((delay, key)) = self.pair.of_client.take()
                    {
                        self.pair.due = Some((self.pair.clock.now + delay, key));
                    }
                }
                Output::EndEndpoint => {
                    assert!(!is_aborted && outcome.ends[side] == 0);
                    outcome.ends[side] += 1;
                }
                Output::AbortEndpoint(ending) => {
                    assert_eq!(outcome.aborted[side].replace(ending), None);
                }
                Output::ToTunnel(bytes) => {
                    assert!(!bytes.is_empty());
                    assert_eq!(outcome.bulk[side], bulk_before, "the handshake goes first");
                    outcome.crossed[side].extend(&bytes);
                    self.pipes[other].push_back(Piece::Bytes(bytes));
                }
                Output::EndTunnel => self.pipes[other].push_back(Piece::End),
                Output::ResetTunnel(ending) => {
                    // A reset may overtake what was sent before it, and what comes back is dropped.
                    if self.rng.random_bool(0.5) {
                        self.pipes[other].clear();
                    }
                    self.pipes[other].push_back(Piece::Reset(ending));
                    self.pipes[side].clear();
                }
                Output::Bulk => outcome.bulk[side] += 1,
                Output::Event(event) => outcome.events[side].push(event),
            }
        }
        let footprint = self.relays[side].footprint();
        let most = &mut self.outcome.footprint[side];
        *most = footprint.max(*most);
        if self.relays[side].is_over() {
            assert!(self.relays[side].poll_timeout().is_none());
        }
    }

    /// What may happen next.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (side, relay) in self.relays.iter().enumerate() {
            if relay.wants_endpoint() && !self.ended[side] {
                let whole = self.streams[side].len();
                let received = self.outcome.got[side].len();
                if self.sent[side] < self.said.allowed(SENDERS[side], received) {
                    steps.push(Step::Send(side));
                } else if self.sent[side] == whole && self.heard_all(side) {
                    steps.push(Step::End(side));
                }
            }
            if !self.pipes[side].is_empty() && (relay.wants_tunnel() || relay.is_over()) {
                steps.push(Step::Deliver(side));
            }
        }
        if self.dialling && !self.relays[1].is_over() {
            steps.push(Step::Dial);
        }
        let has_timer = self.relays.iter().any(|relay| due(relay).is_some());
        if has_timer && (steps.is_empty() || self.plan.pace == Pace::Slow) {
            steps.push(Step::Time);
        }
        steps
    }

    /// Whether the end of this side comes now: half of the seeds wait for all that the other says.
    fn heard_all(&self, side: usize) -> bool {
        let all = self.streams[1 - side].len();
        self.plan.seed.is_multiple_of(2) || self.outcome.got[side].len() == all
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send(side) => {
                let received = self.outcome.got[side].len();
                let allowed = self.said.allowed(SENDERS[side], received);
                let most = (allowed - self.sent[side]).min(self.plan.cut);
                let length = match self.plan.cut {
                    usize::MAX => most,
                    _ => self.rng.random_range(1..=most),
                };
                let from = self.sent[side];
                self.sent[side] += length;
                let bytes = self.streams[side][from..from + length].to_vec();
                self.input(side, Input::Endpoint(&bytes));
            }
            Step::End(side) => {
                self.ended[side] = true;
                self.input(side, Input::EndpointEnd);
            }
            Step::Deliver(side) => match self.pipes[side].pop_front() {
                Some(Piece::Bytes(mut bytes)) => {
                    let most = bytes.len().min(self.plan.cut);
                    let length = match self.plan.cut {
                        usize::MAX => most,
                        _ => self.rng.random_range(1..=most),
                    };
                    let rest = bytes.split_off(length);
                    if !rest.is_empty() {
                        self.pipes[side].push_front(Piece::Bytes(rest));
                    }
                    self.input(side, Input::Tunnel(&bytes));
                }
                Some(Piece::End) => self.input(side, Input::TunnelEnd),
                Some(Piece::Reset(ending)) => self.input(side, Input::TunnelReset(ending)),
                None => {}
            },
            Step::Dial => {
                self.dialling = false;
                self.input(1, Input::Connected(server_address()));
            }
            Step::Time => {
                let at = self.relays.iter().filter_map(due).min();
                let at = at.expect("there is one");
                let now = at.max(self.pair.clock.now + Duration::from_micros(1));
                self.pair.clock.now = now;
                if let Some((_, key)) = self.pair.late.take_if(|(due, _)| *due <= now) {
                    self.pair.engines[1].release_key(key, now);
                }
                if let Some((_, key)) = self.pair.due.take_if(|(due, _)| *due <= now) {
                    self.pair.engines[0].release_key(key, now);
                }
                for side in 0..2 {
                    let clock = self.pair.clock;
                    self.relays[side].handle_timeout(&mut self.pair.engines[side], clock);
                    self.drain(side);
                }
            }
        }
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::ClientFails(ending) => self.input(0, Input::EndpointFailed(ending)),
            Fault::ServerFails(ending) => {
                // Without a target there is no endpoint that could fail.
                if !self.outcome.connects.is_empty() {
                    self.dialling = false;
                    self.input(1, Input::EndpointFailed(ending));
                }
            }
            Fault::TunnelLost(ending) => {
                self.pipes.iter_mut().for_each(VecDeque::clear);
                self.input(0, Input::TunnelReset(ending));
                self.input(1, Input::TunnelReset(ending));
                self.pipes.iter_mut().for_each(VecDeque::clear);
            }
        }
    }

    /// How it ended: all that was said was heard, or a reset.
    fn check(&self) {
        let (plan, outcome) = (self.plan, &self.outcome);
        assert!(
            self.relays.iter().all(Relay::is_over),
            "{plan:?}: {:?} {outcome:?}",
            self.relays
        );
        let is_reset = |event: &Event| matches!(event, Event::Ended(_));
        let was_reset = outcome.events.iter().flatten().any(is_reset);
        assert!(was_reset <= plan.fault.is_some(), "{plan:?}: {outcome:?}");
        if !was_reset {
            for side in 0..2 {
                assert_eq!(
                    outcome.got[side],
                    self.said.stream(SENDERS[1 - side]),
                    "{plan:?}"
                );
                assert_eq!(outcome.ends[side], 1, "{plan:?}");
            }
        }
    }
}

/// When this relay is to be called: here no peer takes too long to say where a stream goes.
fn due(relay: &Relay) -> Option<Instant> {
    let (at, why) = relay.poll_timeout()?;
    (why != Wakeup::Opening).then_some(at)
}
