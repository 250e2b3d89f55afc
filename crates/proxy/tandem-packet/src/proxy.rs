//! The packet engine: recognises flows, keeps their table, and hands each packet to its flow.
//!
//! Is not: what happens in a flow; that is `client_side` and `server_side`. Invariants: every
//! token gets one verdict; a packet that is not understood is accepted; memory is bounded by
//! [`Limits`](crate::Limits).

use std::collections::BTreeSet;

use tandem_engine::Engine;
use tandem_link::inband::{Key, Spoken};
use tandem_store::Store;
use tandem_wire::{Instant, TcpFlags, TcpPacket, UnixTime};

use crate::breaker::Breaker;
use crate::client_side::Asking;
use crate::config::{Config, Role, WireFormat};
use crate::context::{Context, Keep, Share, Toward};
use crate::flow::{Flow, State};
use crate::forgotten::ForgottenSyns;
use crate::format::Format;
use crate::gain::{Gains, Outcome};
use crate::hello::LinkMemory;
use crate::output::{
    Direction, Event, GiveUp, Outbox, Output, Owed, Verdict, VerdictToken, Wakeup,
};
use crate::server_side::Asked;
use crate::summary::{Summaries, Summary};
use crate::table::{FlowKey, FlowTable};

/// One proxy of packet mode, sans-IO: packets go in, verdicts, packets and events come out.
///
/// Drain [`Proxy::poll_output`] after every input. A time-out that comes early, late or for nothing
/// is harmless.
#[derive(Debug)]
pub struct Proxy<S> {
    config: Config,
    key: Key,
    spoken: Spoken,
    engine: Engine<S>,
    flows: FlowTable<Flow>,
    /// Flows in which something waits, by when it has to be let go.
    holds: BTreeSet<(Instant, FlowKey)>,
    /// What all flows together keep.
    kept: Share,
    out: Outbox,
    link: LinkMemory,
    forgotten: ForgottenSyns,
    breaker: Breaker,
    gains: Gains,
    summaries: Summaries,
}

/// Sizes of what the engine keeps right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauges {
    /// Flows in their handshake.
    pub flows: usize,
    /// Packets that wait for their verdict.
    pub held_packets: usize,
    /// Payload bytes of those packets.
    pub held_bytes: usize,
    /// Bytes buffered for all flows, about.
    pub memory: usize,
}

impl<S: Store> Proxy<S> {
    /// A proxy with nothing in flight.
    pub fn new(config: Config, store: S) -> Self {
        let flows = FlowTable::new(config.limits.flows, config.limits.flow_lifetime);
        let forgotten = ForgottenSyns::new(config.limits.flows);
        let key = config.key.clone().unwrap_or(Key::NONE);
        Self {
            engine: Engine::new(
                config.role,
                config.client_certificates,
                config.wire.codes(),
                store,
            ),
            breaker: Breaker::new(config.role),
            gains: Gains::default(),
            summaries: Summaries::default(),
            config,
            key,
            spoken: Spoken::HERE,
            flows,
            holds: BTreeSet::new(),
            kept: Share::default(),
            out: Outbox::default(),
            link: LinkMemory::default(),
            forgotten,
        }
    }

    /// Speaks these versions from here on: what is said in each of them is the same, so this is for
    /// trying out what proxies of different ages say to each other.
    #[doc(hidden)]
    pub fn speak(&mut self, spoken: Spoken) {
        self.spoken = spoken;
    }

    /// Takes in one queued packet. Its verdict may come now, or with a later input.
    pub fn handle_packet(
        &mut self,
        token: VerdictToken,
        direction: Direction,
        bytes: &[u8],
        now: Instant,
        wall: UnixTime,
    ) {
        let owed = Owed::new(token);
        let packet = match TcpPacket::parse(bytes) {
            Ok(packet) => packet,
            Err(why) => {
                self.out.event(Event::Unread(why));
                return owed.settle(Verdict::Accept, &mut self.out);
            }
        };
        let toward = match (self.config.role, direction) {
            (Role::ClientSide, Direction::ToLink) | (Role::ServerSide, Direction::FromLink) => {
                Toward::Server
            }
            (Role::ClientSide, Direction::FromLink) | (Role::ServerSide, Direction::ToLink) => {
                Toward::Client
            }
        };
        let key = match toward {
            Toward::Server => FlowKey {
                client: packet.source(),
                server: packet.destination(),
            },
            Toward::Client => FlowKey {
                client: packet.destination(),
                server: packet.source(),
            },
        };
        if !self.config.ports.contains(&key.server.port()) {
            return owed.settle(Verdict::Accept, &mut self.out);
        }
        if !packet.checksums_valid() {
            self.out.event(Event::BadChecksum);
            return owed.settle(Verdict::Accept, &mut self.out);
        }
        self.expire(now);
        self.packet(owed, (key, toward), &packet, (now, wall));
        while self.kept.memory > self.config.limits.memory {
            let Some((key, flow)) = self.flows.remove_oldest() else {
                break;
            };
            self.make_room(key, flow, now);
        }
    }

    fn packet(
        &mut self,
        owed: Owed,
        (key, toward): (FlowKey, Toward),
        packet: &TcpPacket<'_>,
        (now, wall): (Instant, UnixTime),
    ) {
        let mut cx = Context {
            config: &self.config,
            key: &self.key,
            spoken: self.spoken,
            engine: &mut self.engine,
            out: &mut self.out,
            link: &mut self.link,
            may_rewrite: self.breaker.allows(key, now),
            now,
            wall,
            server: key.server,
            replaced: None,
        };
        let opens = toward == Toward::Server
            && packet.flags().contains(TcpFlags::SYN)
            && !packet.flags().contains(TcpFlags::ACK);
        let known = self.flows.get(&key);
        if opens && !known.as_ref().is_some_and(|flow| flow.began_with(packet)) {
            let state = match self.config.role {
                Role::ClientSide if self.forgotten.contains(key, packet.seq()) => {
                    let _ = cx.give_up(owed, GiveUp::Limits);
                    None
                }
                Role::ClientSide
                    if cx.config.wire.shows_itself()
                        && !self
                            .gains
                            .is_worth_an_offer(key.client.ip(), key.server, now) =>
                {
                    let _ = cx.give_up(owed, GiveUp::NothingToGain);
                    None
                }
                Role::ClientSide => Asking::open(owed, packet, &mut cx).map(State::Asking),
                Role::ServerSide => Asked::open(owed, packet, &mut cx).map(State::Asked),
            };
            // A four-tuple that is used again is a new flow, whatever became of the old one.
            if let Some(old) = self.flows.remove(&key) {
                self.evict(key, old, GiveUp::Closed, now);
            }
            if let Some(state) = state {
                self.out.event(Event::FlowOpened);
                if let Some((key, oldest)) = self.flows.insert(key, Flow::new(state, now), now) {
                    self.make_room(key, oldest, now);
                }
                self.account(key);
            }
            return;
        }
        let Some(flow) = known else {
            cx.out.event(Event::GivenUp(GiveUp::NotFromStart));
            return owed.settle(Verdict::Leave, &mut self.out);
        };
        let before = cx.out.len();
        let keep = flow.packet(owed, toward, packet, &mut cx);
        flow.note.packet(packet.payload().len());
        for event in self.out.events_from(before) {
            flow.note.event(event, now);
        }
        let news = self.engine.events();
        news.for_each(|event| self.out.event(Event::Engine(event)));
        self.watch_flights(key, before, now);
        match keep {
            Keep::Flow => self.account(key),
            Keep::Forget => {
                if let Some(flow) = self.flows.remove(&key) {
                    let site = flow.site(key.server);
                    self.summaries.end(&flow.note, site, key.server, now);
                    self.end(key, flow);
                }
            }
        }
    }

    /// Tells breaker and gains what has just happened in a flow.
    fn watch_flights(&mut self, key: FlowKey, before: usize, now: Instant) {
        match self.config.wire {
            WireFormat::Safe => {}
            // What is not harmless is not made safer by giving it up later.
            WireFormat::Mcveety(_) => return,
        }
        let mut news = Vec::new();
        for event in self.out.events_from(before) {
            news.extend(self.breaker.note(key, event, now));
            // Only the clients' side makes offers.
            if let (Role::ClientSide, Some(outcome)) = (self.config.role, Outcome::of(event)) {
                self.gains.note(key.client.ip(), key.server, outcome, now);
            }
        }
        news.into_iter().for_each(|news| self.out.event(news));
    }

    /// Lets go what has waited too long.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire(now);
        while let Some((at, key)) = self.holds.first().copied() {
            if at > now {
                return;
            }
            self.holds.pop_first();
            if let Some(flow) = self.flows.get(&key) {
                flow.deadline = None;
                flow.expire(now, &self.config.limits, &mut self.out);
            }
            self.account(key);
        }
    }

    /// Brings the timer of a flow and its share in the sums up to date.
    fn account(&mut self, key: FlowKey) {
        let Some(flow) = self.flows.get(&key) else {
            return;
        };
        let share = flow.current_share();
        self.kept
            .exchange(std::mem::replace(&mut flow.share, share), share);
        let deadline = flow.next_deadline(&self.config.limits);
        if flow.deadline != deadline {
            if let Some(old) = std::mem::replace(&mut flow.deadline, deadline) {
                self.holds.remove(&(old, key));
            }
            self.holds.extend(deadline.map(|new| (new, key)));
        }
    }

    /// The next thing to do, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.poll()
    }

    /// When, and why, to call [`Proxy::handle_timeout`] at the latest.
    pub fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        let hold = self.holds.first().map(|(at, _)| (*at, Wakeup::HoldExpires));
        let expiry = self.flows.next_expiry().map(|at| (at, Wakeup::FlowExpires));
        hold.into_iter().chain(expiry).min_by_key(|(at, _)| *at)
    }

    /// Summaries of the flows whose handshake has ended since this was last called; the last ones,
    /// where they are many.
    pub fn summaries(&mut self) -> impl Iterator<Item = Summary> {
        self.summaries.take()
    }

    /// The store, for the adapter's upkeep.
    pub fn store_mut(&mut self) -> &mut S {
        self.engine.store()
    }

    /// What is stored here, and known of the other proxy.
    pub fn engine(&self) -> &Engine<S> {
        &self.engine
    }

    /// The same, to change it.
    #[doc(hidden)]
    pub fn engine_mut(&mut self) -> &mut Engine<S> {
        &mut self.engine
    }

    /// On how many paths nothing is rewritten, because a device there does not let it work.
    pub fn stopped_paths(&self) -> usize {
        self.breaker.stopped()
    }

    /// With how many servers, by client, nothing was gained of late, so that none of our options
    /// goes to them.
    pub fn servers_without_gain(&self) -> usize {
        self.gains.without()
    }

    /// What is kept right now.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            flows: self.flows.len(),
            held_packets: self.kept.held_packets,
            held_bytes: self.kept.held_bytes,
            memory: self.kept.memory,
        }
    }

    /// Lets every held packet go: the proxy is about to end.
    pub fn release_all(&mut self) {
        while let Some((key, flow)) = self.flows.remove_oldest() {
            self.end(key, flow);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((key, flow)) = self.flows.remove_expired(now) {
            self.evict(key, flow, GiveUp::Limits, now);
        }
    }

    /// Gives a flow up that others need the room of.
    fn make_room(&mut self, key: FlowKey, flow: Flow, now: Instant) {
        if let Some(syn) = flow.unanswered() {
            self.forgotten.add(key, syn);
        }
        self.evict(key, flow, GiveUp::Limits, now);
    }

    fn evict(&mut self, key: FlowKey, flow: Flow, why: GiveUp, now: Instant) {
        let before = self.out.len();
        self.end(key, flow);
        self.out.event(Event::GivenUp(why));
        self.watch_flights(key, before, now);
    }

    fn end(&mut self, key: FlowKey, mut flow: Flow) {
        self.kept.exchange(flow.share, Share::default());
        if let Some(deadline) = flow.deadline {
            self.holds.remove(&(deadline, key));
        }
        flow.release(&mut self.out);
    }
}
