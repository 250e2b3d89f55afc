//! The simulation itself: clients, the origin's line, volunteers, and what each does when.
//!
//! ```text
//!   a request:   open --> begin --> proof on the      --> pieces that are --> body on the     --> done
//!                 |   round trips   origin's line         lacking             volunteer's line
//!                 +-- no place, or nobody there: again a little later
//!
//!   a piece:     owner among the volunteers --> in his cache --> on his line
//!                 | late or gone                | lacking
//!                 +------> origin's line <------+
//! ```
//!
//! By HTTPS, a request is `open --> begin --> the whole answer on the origin's line --> done`.
//!
//! Invariants: the same arguments always have the same outcome; a request holds a place from
//! `begin` to its end and never two; a client is served or gives up, once.

mod churn;
mod fetching;
mod requests;
mod sending;

use crate::chance::{Chance, Shape};
use crate::events::{Event, Events};
use crate::line::Line;
use crate::model::{Caches, Calibration, Delivery, Scenario, Unfit};
use crate::outcome::{Outcome, Percentiles, Sample, WITHIN};
use crate::pieces::{Page, counted};
use crate::time::Time;
use crate::volunteer::{Attempt, Holding, Listed, Session, Volunteer};

/// Samples in the time of the crowd.
const SAMPLES: f64 = 30.0;

/// Simulates a scenario to the end of its last client.
///
/// # Errors
/// [`Unfit`], for what cannot be simulated.
pub fn simulate(calibration: &Calibration, scenario: &Scenario) -> Result<Outcome, Unfit> {
    scenario.check()?;
    let mut simulation = Simulation::new(calibration, scenario)?;
    simulation.begin();
    while simulation.unsettled > 0
        && let Some((now, event)) = simulation.events.pop()
    {
        simulation.now = now;
        simulation.handle(event);
    }
    Ok(simulation.finish())
}

/// Who sends on the origin's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// A request by HTTPS: a connection of TCP.
    Connection(u32),
    /// What is for a volunteer's clients.
    Proofs(u32),
    /// What a volunteer lacks, on a channel of its own.
    Misses(u32),
}

/// What leaves the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Whole(Attempt),
    Proof(Attempt),
    Piece { by: Session, piece: u32 },
}

#[derive(Debug)]
struct Client {
    came: Time,
    volunteer: Option<u32>,
    /// Bodies that are not there yet.
    left: u32,
    /// Bytes that the origin sent for those that are.
    useful_bytes: u64,
    is_settled: bool,
}

/// A request for one body.
#[derive(Debug, Clone, Copy)]
struct Request {
    /// Of attempts so far.
    attempt: u32,
    stage: Stage,
    /// Whose place it has.
    volunteer: u32,
    /// Pieces that it waits for.
    lacking: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not yet, not again yet, or no more.
    Away,
    /// It has its places.
    Greeting,
    OnLine,
    Lacking,
    Serving,
}

struct Simulation<'a> {
    calibration: &'a Calibration,
    scenario: &'a Scenario,
    page: Page,
    now: Time,
    events: Events,
    /// Who comes when, and waits how long.
    crowd: Chance,
    /// Which volunteer a client goes to.
    choice: Chance,
    /// Which volunteers are there.
    churn: Chance,
    origin: Line<Party, Job>,
    origin_open: u32,
    clients: Vec<Client>,
    requests: Vec<Request>,
    volunteers: Vec<Volunteer>,
    /// In the name's addresses.
    listed: Listed,
    /// In the list that volunteers go by.
    members: Listed,
    there: u32,
    unsettled: u32,
    came: u32,
    useful_bytes: u64,
    latencies: Vec<Time>,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    fn new(calibration: &'a Calibration, scenario: &'a Scenario) -> Result<Self, Unfit> {
        let Scenario { rules, seed, .. } = scenario;
        let (volunteers, caches) = match scenario.delivery {
            Delivery::Https => (0, Caches::Cold),
            Delivery::Split { caches, .. } => (scenario.volunteers, caches),
        };
        let page = Page::new(&scenario.page, calibration, rules, volunteers, *seed)?;
        let bits = scenario.volunteer_bits;
        let request = Request {
            attempt: 0,
            stage: Stage::Away,
            volunteer: 0,
            lacking: 0,
        };
        let clients = scenario.clients as usize;
        Ok(Self {
            calibration,
            scenario,
            now: Time::ZERO,
            events: Events::default(),
            crowd: Chance::new(*seed, 0),
            choice: Chance::new(*seed, 1),
            churn: Chance::new(*seed, 2),
            origin: Line::new(scenario.line_bits, rules.origin_quantum),
            origin_open: 0,
            clients: Vec::with_capacity(clients),
            requests: vec![request; clients * page.bodies.len()],
            volunteers: (0..volunteers)
                .map(|_| Volunteer::new(bits, rules, page.pieces.len(), caches))
                .collect(),
            page,
            listed: Listed::default(),
            members: Listed::default(),
            there: 0,
            unsettled: scenario.clients,
            came: 0,
            useful_bytes: 0,
            latencies: Vec::new(),
            outcome: Outcome::default(),
        })
    }

    /// Puts down who comes when.
    fn begin(&mut self) {
        for number in 0..self.scenario.clients {
            let came = Time::from_seconds(self.crowd.share() * self.scenario.crowd_seconds);
            let patience = self
                .crowd
                .span(self.scenario.patience_seconds, Shape::Exponential);
            self.clients.push(Client {
                came,
                volunteer: None,
                left: counted(self.page.bodies.len()),
                useful_bytes: 0,
                is_settled: false,
            });
            self.events.push(came, Event::Come(number));
            self.events.push(came + patience, Event::GiveUp(number));
        }
        for number in 0..counted(self.volunteers.len()) {
            let share = self.scenario.churn.map_or(1.0, |churn| {
                churn.session_seconds / (churn.session_seconds + churn.absence_seconds)
            });
            if self.churn.share() < share {
                self.listed.add(number);
                self.members.add(number);
                self.there += 1;
                self.leave_later(number);
            } else {
                self.volunteer(number).is_there = false;
                self.return_later(number);
            }
        }
        self.events.push(Time::ZERO, Event::Sample);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Come(client) => {
                self.came += 1;
                self.clients[client as usize].volunteer = self.draw(client);
                self.open(self.attempt(self.first_request(client)));
            }
            Event::GiveUp(client) => self.give_up(client),
            Event::Open(attempt) => self.open(attempt),
            Event::Begin(attempt) => self.send_first(attempt),
            Event::OriginLine => self.origin_has_sent(),
            Event::VolunteerLine(session) => self.volunteer_has_sent(session),
            Event::AskOrigin { by, piece } => {
                if self.is_current(by) {
                    let bytes = self.page.piece(piece).miss;
                    let party = Party::Misses(by.volunteer);
                    self.send_from_origin(party, Job::Piece { by, piece }, bytes);
                }
            }
            Event::AskPeer { by, owner, piece } => self.ask_peer(by, owner, piece),
            Event::PeerLate(asked) => self.peer_is_late(asked),
            Event::Leave(volunteer) => self.leave(volunteer),
            Event::Return(volunteer) => self.come_back(volunteer),
            Event::List(session) => {
                if self.is_current(session) {
                    self.listed.add(session.volunteer);
                }
            }
            Event::Unlist(session) => {
                if self.has_stayed_away(session) {
                    self.listed.remove(session.volunteer);
                }
            }
            Event::Forget(session) => {
                if self.has_stayed_away(session) {
                    self.members.remove(session.volunteer);
                }
            }
            Event::Sample => {
                self.sample();
                let step = Time::from_seconds((self.scenario.crowd_seconds / SAMPLES).max(0.1));
                self.events.push(self.now + step, Event::Sample);
            }
        }
    }
}

/// Who is who.
impl Simulation<'_> {
    fn is_split(&self) -> bool {
        match self.scenario.delivery {
            Delivery::Https => false,
            Delivery::Split { .. } => true,
        }
    }

    fn first_request(&self, client: u32) -> u32 {
        client * counted(self.page.bodies.len())
    }

    fn client_of(&self, request: u32) -> u32 {
        request / counted(self.page.bodies.len())
    }

    fn body_of(&self, request: u32) -> usize {
        request as usize % self.page.bodies.len()
    }

    fn request(&mut self, number: u32) -> &mut Request {
        &mut self.requests[number as usize]
    }

    fn attempt(&self, request: u32) -> Attempt {
        let number = self.requests[request as usize].attempt;
        Attempt { request, number }
    }

    fn is_last_attempt(&self, attempt: Attempt) -> bool {
        let client = &self.clients[self.client_of(attempt.request) as usize];
        !client.is_settled && self.attempt(attempt.request) == attempt
    }

    fn volunteer(&mut self, number: u32) -> &mut Volunteer {
        &mut self.volunteers[number as usize]
    }

    fn holding(&mut self, volunteer: u32, piece: u32) -> &mut Holding {
        &mut self.volunteer(volunteer).holdings[piece as usize]
    }

    fn session(&self, volunteer: u32) -> Session {
        let number = self.volunteers[volunteer as usize].session;
        Session { volunteer, number }
    }

    fn is_current(&self, session: Session) -> bool {
        let volunteer = &self.volunteers[session.volunteer as usize];
        volunteer.is_there && volunteer.session == session.number
    }

    fn has_stayed_away(&self, session: Session) -> bool {
        let volunteer = &self.volunteers[session.volunteer as usize];
        !volunteer.is_there && volunteer.session == session.number
    }

    fn sample(&mut self) {
        self.outcome.series.push(Sample {
            at: self.now.seconds(),
            sent: self.outcome.line.total(),
            waiting: self.origin.waiting(),
            waiting_bytes: self.origin.waiting_bytes(),
            served: self.outcome.served,
            came: self.came,
            volunteers: self.there,
        });
    }

    fn finish(mut self) -> Outcome {
        self.sample();
        let clients = f64::from(self.scenario.clients);
        let within = |seconds: u32| {
            let limit = Time::from_seconds(f64::from(seconds));
            let quick = self.latencies.iter().filter(|took| **took <= limit);
            quick.count() as f64 / clients
        };
        let total = self.outcome.line.total();
        let seconds = self.now.seconds();
        let busy = total as f64 * 8.0 / self.scenario.line_bits as f64;
        let mut outcome = self.outcome;
        outcome.served_within = WITHIN.map(within);
        outcome.latency = Percentiles::of(&mut self.latencies);
        outcome.ended_seconds = seconds;
        outcome.line.in_vain = total.saturating_sub(self.useful_bytes);
        outcome.line_busy = if seconds > 0.0 { busy / seconds } else { 0.0 };
        let used = self.volunteers.iter().filter(|one| one.is_used);
        outcome.volunteers_used = counted(used.count());
        outcome
    }
}
