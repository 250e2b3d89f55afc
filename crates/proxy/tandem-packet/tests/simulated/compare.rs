//! Every proxy fault at every step of a handshake, against the same world without proxies: the
//! connection completes, with at most two more retransmissions.
//!
//! Nothing here is left to chance: a difference is the proxies' doing.

use std::time::Duration;

use crate::support::plan::{Fate, Fault};
use crate::support::seeds::is_thorough;
use crate::support::tls::{self, Conversation, Layout};
use crate::support::{
    Boxed, CLIENT_SIDE, Closes, ProxyElement, SERVER_SIDE, Scenario, clean, config, iridium, kill,
    prefix, repeats, satellite, start,
};
use tandem_netsim::host::{AckPolicy, Segmenter};
use tandem_netsim::nat::{InvalidPolicy, Nat};
use tandem_netsim::world::Overflow;
use tandem_netsim::{BitRate, Link, LinkConfig, World};
use tandem_packet::{Role, WireFormat};
use tandem_store::MemoryStore;
use tandem_wire::Instant;

/// More retransmissions than without proxies that a fault may cost.
const MORE: u64 = 2;

/// The kinds of worlds that are gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Satellite,
    Iridium,
    Lan,
    BehindNat,
    DelayedAcks,
    SmallSegments,
    LongHello,
    OneRecord,
    SlowServer,
}

const KINDS: [Kind; 9] = [
    Kind::Satellite,
    Kind::Iridium,
    Kind::Lan,
    Kind::BehindNat,
    Kind::DelayedAcks,
    Kind::SmallSegments,
    Kind::LongHello,
    Kind::OneRecord,
    Kind::SlowServer,
];

impl Kind {
    fn scenario(self) -> Scenario {
        let chain = tls::chain(&[926, 900, 910]);
        let hello = |filler| tls::client_hello(Some(crate::support::NAME), filler);
        let usual = |hello, layout| {
            Scenario::with(WireFormat::Safe, Conversation::new(hello, &chain, layout))
        };
        let mut scenario = match self {
            Kind::LongHello => usual(hello(1_700), Layout::MessageARecord),
            Kind::OneRecord => usual(hello(300), Layout::Packed(1 << 14)),
            Kind::Satellite
            | Kind::Iridium
            | Kind::Lan
            | Kind::BehindNat
            | Kind::DelayedAcks
            | Kind::SlowServer
            | Kind::SmallSegments => usual(hello(100), Layout::MessageARecord),
        };
        scenario.link = match self {
            Kind::Iridium => iridium(),
            Kind::Lan => LinkConfig::new(None, None, Duration::from_millis(1)),
            Kind::Satellite
            | Kind::BehindNat
            | Kind::DelayedAcks
            | Kind::SmallSegments
            | Kind::LongHello
            | Kind::SlowServer
            | Kind::OneRecord => satellite(|_| {}),
        };
        match self {
            Kind::BehindNat => {
                let outer = std::net::Ipv4Addr::new(192, 0, 2, 7);
                let nat = Nat::new(outer, 50_000, InvalidPolicy::Drop);
                scenario.before_link = Some(Boxed(Box::new(nat)));
            }
            Kind::DelayedAcks => {
                let delay = AckPolicy::Delayed(Duration::from_millis(200));
                scenario.client.acknowledgements = delay;
                scenario.server.acknowledgements = delay;
            }
            Kind::SmallSegments => {
                scenario.client.segmenter = Segmenter::AtMost(50);
                scenario.server.segmenter = Segmenter::AtMost(500);
            }
            Kind::SlowServer => {
                // Its segments come some 10 ms apart: a flight is held for a while.
                let rate = BitRate::from_bits_per_second(1_000_000);
                let lan = LinkConfig::new(rate, rate, Duration::from_millis(5));
                let lan = Link::new(lan, 1, Instant::ZERO);
                scenario.server_lan = Some(Boxed(Box::new(lan)));
            }
            Kind::Satellite | Kind::Iridium | Kind::Lan | Kind::LongHello | Kind::OneRecord => {}
        }
        scenario.closes = Closes::AtTheEnd;
        scenario
    }
}

/// What a run came to.
#[derive(Debug)]
struct Outcome {
    repeats: u64,
    took: Duration,
    steps: u64,
    /// When the fault happened, if it did before the end.
    at: Option<Moment>,
}

/// A point in the course of a connection: the time, and what each end has received.
#[derive(Debug, Clone, Copy)]
struct Moment {
    time: Instant,
    received: [usize; 2],
}

impl Moment {
    fn of(world: &World) -> Self {
        Self {
            time: world.now(),
            received: [world.client(), world.server()].map(|host| host.received().len()),
        }
    }

    /// Whether the two connections are as far, or are so within half a second.
    fn resembles(&self, other: &Self) -> bool {
        let near = Duration::from_millis(500);
        self.received == other.received
            || self.time.saturating_since(other.time) < near
                && other.time.saturating_since(self.time) < near
    }
}

/// Runs to the end; `befall` is asked before each step and may do something, once.
fn run(
    scenario: Scenario,
    mut befall: impl FnMut(&mut World, u64) -> Option<Fault>,
) -> Result<Outcome, String> {
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    let mut outcome = Outcome {
        repeats: 0,
        took: Duration::ZERO,
        steps: 0,
        at: None,
    };
    let mut resume = None;
    loop {
        if outcome.at.is_none()
            && let Some(fault) = befall(&mut world, outcome.steps)
        {
            outcome.at = Some(Moment::of(&world));
            match fault.fate {
                Fate::Stops(_) | Fate::StopsFailOpen(_) => {
                    resume = Some((world.now() + Duration::from_secs(5), fault.index));
                }
                Fate::Dies | Fate::Restarts | Fate::LosesAll | Fate::Forgets => {}
            }
        }
        prefix(&world, &conversation);
        if world.client().script().is_done() && world.server().script().is_done() {
            break;
        }
        if let Some((until, index)) = resume
            && world.next_event().is_none_or(|at| at > until)
        {
            let wait = until.saturating_since(world.now());
            world.run_for(wait).map_err(|failure| failure.to_string())?;
            world.resume(index);
            resume = None;
            continue;
        }
        if world.next_event().is_none() {
            return Err(world.failure("it hangs").to_string());
        }
        world.step().map_err(|failure| failure.to_string())?;
        outcome.steps += 1;
        outcome.took = world.now().saturating_since(Instant::ZERO);
        if outcome.took > Duration::from_secs(600) {
            return Err(world.failure("it does not complete").to_string());
        }
    }
    outcome.repeats = repeats(&world);
    if let Some((_, index)) = resume {
        world.resume(index);
    }
    world
        .run_for(Duration::from_secs(400))
        .map_err(|failure| failure.to_string())?;
    clean(&world);
    Ok(outcome)
}

fn strike(world: &mut World, fault: Fault) {
    let role = if fault.index == CLIENT_SIDE {
        Role::ClientSide
    } else {
        Role::ServerSide
    };
    let config = config(role, WireFormat::Safe);
    match fault.fate {
        Fate::Dies => drop(kill(world, fault.index)),
        Fate::Restarts => {
            let store = kill(world, fault.index);
            start(world, fault.index, config, store);
        }
        Fate::LosesAll => {
            kill(world, fault.index);
            start(world, fault.index, config, MemoryStore::default());
        }
        Fate::Forgets => {
            if let Some(proxy) = world.element_mut::<ProxyElement>(fault.index) {
                *proxy.proxy.store_mut() = MemoryStore::default();
            }
        }
        Fate::Stops(queue) => world.stop(fault.index, queue, Overflow::Drop),
        Fate::StopsFailOpen(queue) => world.stop(fault.index, queue, Overflow::Bypass),
    }
}

/// The same world without proxies; a stop stops a wire, after so many steps.
fn plain(kind: Kind, fault: Option<Fault>) -> Outcome {
    let outcome = run(kind.scenario().plain(), |world, now| {
        let fault = fault.filter(|fault| fault.step == now)?;
        strike(world, fault);
        Some(fault)
    });
    outcome.unwrap_or_else(|failure| panic!("{kind:?} without proxies: {failure}"))
}

/// What a stop costs without proxies, at each step.
fn stops_without(kind: Kind, fate: Fate, index: usize, steps: u64) -> Vec<Outcome> {
    match fate {
        Fate::Stops(_) | Fate::StopsFailOpen(_) => (0..steps)
            .map(|step| plain(kind, Some(Fault { step, index, fate })))
            .collect(),
        Fate::Dies | Fate::Restarts | Fate::LosesAll | Fate::Forgets => Vec::new(),
    }
}

/// All kinds, or the most telling ones where `TANDEM_SEEDS` does not ask for more than CI has time
/// for.
fn kinds(fates: &[Fate]) -> &'static [Kind] {
    let stops = fates.iter().any(|fate| matches!(fate, Fate::Stops(_)));
    if stops && !is_thorough() {
        &[Kind::Satellite, Kind::BehindNat, Kind::SlowServer]
    } else {
        &KINDS
    }
}

fn every_step(fates: &[Fate], index: usize) {
    let mut worst = (0, String::new());
    for kind in kinds(fates).iter().copied() {
        let undisturbed = run(kind.scenario(), |_, _| None).expect("it completes");
        let without = plain(kind, None);
        assert!(
            undisturbed.repeats <= without.repeats,
            "{kind:?}: {undisturbed:?} {without:?}"
        );
        for fate in fates {
            let stops = stops_without(kind, *fate, index, without.steps);
            for step in 0..undisturbed.steps {
                let fault = Fault {
                    step,
                    index,
                    fate: *fate,
                };
                let outcome = run(kind.scenario(), |world, now| {
                    (now == step).then(|| {
                        strike(world, fault);
                        fault
                    })
                });
                let outcome =
                    outcome.unwrap_or_else(|failure| panic!("{kind:?} {fault:?}: {failure}"));
                let at = outcome.at.expect("the step is before the end");
                let comparable = stops
                    .iter()
                    .filter(|plain| plain.at.is_some_and(|there| there.resembles(&at)));
                let plain = comparable
                    .map(|plain| plain.repeats)
                    .max()
                    .unwrap_or(without.repeats);
                let more = outcome.repeats.saturating_sub(plain);
                let told = format!("{kind:?} {fault:?}: {outcome:?}, without: {plain}");
                assert!(more <= MORE, "{told}");
                if more > worst.0 {
                    worst = (more, told);
                }
            }
        }
    }
    eprintln!("worst: {worst:?}");
}

#[test]
fn a_client_side_proxy_dies_or_is_started_again_at_any_step() {
    every_step(
        &[Fate::Dies, Fate::Restarts, Fate::LosesAll, Fate::Forgets],
        CLIENT_SIDE,
    );
}

#[test]
fn a_server_side_proxy_dies_or_is_started_again_at_any_step() {
    every_step(
        &[Fate::Dies, Fate::Restarts, Fate::LosesAll, Fate::Forgets],
        SERVER_SIDE,
    );
}

#[test]
fn a_client_side_proxy_is_stopped_for_five_seconds_at_any_step() {
    let fates = [Fate::Stops(0), Fate::Stops(1_024), Fate::StopsFailOpen(2)];
    every_step(&fates, CLIENT_SIDE);
}

#[test]
fn a_server_side_proxy_is_stopped_for_five_seconds_at_any_step() {
    let fates = [Fate::Stops(0), Fate::Stops(1_024), Fate::StopsFailOpen(2)];
    every_step(&fates, SERVER_SIDE);
}
