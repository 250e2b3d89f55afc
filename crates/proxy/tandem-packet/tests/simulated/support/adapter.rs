//! A proxy as an element of the simulated world: the adapter's part, in a few lines, and the checks
//! that hold after each call.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use tandem_netsim::element::{Element, Port, Wire};
use tandem_netsim::{Failure, World};
use tandem_packet::{Config, Direction, Event, Gauges, Output, Proxy, Role, Verdict, VerdictToken};
use tandem_store::MemoryStore;
use tandem_wire::{Instant, Seq, TcpFlags, TcpPacket};

use super::TODAY;

/// The two ends of a connection, in one order whichever way a packet goes.
type Ends = (SocketAddr, SocketAddr);

/// A proxy with the link on one side.
pub struct ProxyElement {
    pub proxy: Proxy<MemoryStore>,
    pub events: Vec<Event>,
    config: Config,
    next: u64,
    queued: BTreeMap<VerdictToken, (Port, Vec<u8>)>,
    out: VecDeque<(Port, Vec<u8>)>,
    /// Connections with a mark that keeps them out of the queue.
    left: BTreeSet<Ends>,
    syns: BTreeMap<Ends, Seq>,
}

impl ProxyElement {
    pub fn new(config: Config, store: MemoryStore) -> Self {
        Self {
            proxy: Proxy::new(config.clone(), store),
            events: Vec::new(),
            config,
            next: 0,
            queued: BTreeMap::new(),
            out: VecDeque::new(),
            left: BTreeSet::new(),
            syns: BTreeMap::new(),
        }
    }

    /// How often an event of this name happened.
    pub fn count(&self, name: &str) -> usize {
        self.events
            .iter()
            .filter(|event| event.name() == name)
            .count()
    }

    /// Packets that still wait for their verdict.
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    pub fn gauges(&self) -> Gauges {
        self.proxy.gauges()
    }

    pub fn role(&self) -> Role {
        self.config.role
    }

    fn link_port(&self) -> Port {
        match self.config.role {
            Role::ClientSide => Port::Right,
            Role::ServerSide => Port::Left,
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.proxy.poll_output() {
            match output {
                Output::Verdict(token, verdict) => {
                    let (port, packet) = self
                        .queued
                        .remove(&token)
                        .expect("one verdict for each token");
                    self.carry_out(verdict, port, packet);
                }
                Output::Inject(direction, packet) => {
                    self.check(&packet);
                    let port = match direction {
                        Direction::ToLink => self.link_port(),
                        Direction::FromLink => self.link_port().opposite(),
                    };
                    self.out.push_back((port, packet));
                }
                Output::Event(event) => self.events.push(event),
            }
        }
        let gauges = self.proxy.gauges();
        let limits = &self.config.limits;
        assert_eq!(
            gauges.held_packets,
            self.queued.len(),
            "what waits is known to wait"
        );
        assert!(gauges.flows <= limits.flows.max(1), "flows are bounded");
        assert!(gauges.memory <= limits.memory, "memory is bounded");
    }

    fn carry_out(&mut self, verdict: Verdict, port: Port, packet: Vec<u8>) {
        match verdict {
            Verdict::Accept => self.out.push_back((port.opposite(), packet)),
            Verdict::Replace(packet) => {
                self.check(&packet);
                self.out.push_back((port.opposite(), packet));
            }
            Verdict::Drop => {}
            Verdict::Leave => {
                self.left.extend(ends(&packet));
                self.out.push_back((port.opposite(), packet));
            }
        }
    }

    /// Whatever a proxy makes is a packet with right checksums, no longer than the MTU.
    fn check(&self, packet: &[u8]) {
        let parsed = TcpPacket::parse(packet).expect("a proxy sends whole TCP packets");
        assert!(parsed.checksums_valid(), "a proxy's checksums are right");
        let mtu = self.config.limits.mtu;
        assert!(packet.len() <= mtu, "a proxy keeps to the MTU");
    }

    /// Whether the connection left the queue. A SYN that begins another one on the same ports does
    /// not belong to it.
    fn is_out_of_queue(&mut self, packet: &[u8]) -> bool {
        let (Some(ends), Ok(parsed)) = (ends(packet), TcpPacket::parse(packet)) else {
            return false;
        };
        let begins = parsed.flags().contains(TcpFlags::SYN)
            && !parsed.flags().contains(TcpFlags::ACK)
            && self.syns.insert(ends, parsed.seq()) != Some(parsed.seq());
        if begins {
            self.left.remove(&ends);
        }
        self.left.contains(&ends)
    }
}

fn ends(packet: &[u8]) -> Option<Ends> {
    let packet = TcpPacket::parse(packet).ok()?;
    let (one, other) = (packet.source(), packet.destination());
    Some((one.min(other), one.max(other)))
}

impl Element for ProxyElement {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        if self.is_out_of_queue(&packet) {
            return self.out.push_back((port.opposite(), packet));
        }
        let token = VerdictToken(self.next);
        self.next += 1;
        let direction = if port == self.link_port() {
            Direction::FromLink
        } else {
            Direction::ToLink
        };
        self.queued.insert(token, (port, packet.clone()));
        self.proxy
            .handle_packet(token, direction, &packet, now, TODAY);
        self.drain();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.proxy.handle_timeout(now);
        self.drain();
        let next = self.proxy.poll_timeout();
        assert!(
            next.is_none_or(|(at, _)| at > now),
            "a time-out is spent when it was handled"
        );
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.out.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.proxy.poll_timeout().map(|(at, _)| at)
    }
}

/// Any element, chosen at run time.
pub struct Boxed(pub Box<dyn Element>);

impl Element for Boxed {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        self.0.handle_input(port, packet, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.0.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
}

/// Kills the proxy at `index` as SIGKILL does: rules with queue bypass let packets pass, what it
/// held is lost. Hands back what is on its disk.
pub fn kill(world: &mut World, index: usize) -> MemoryStore {
    let gone: Box<dyn Any> = world.replace(index, Wire::default());
    let Ok(mut gone) = gone.downcast::<ProxyElement>() else {
        return MemoryStore::default();
    };
    let store = std::mem::take(gone.proxy.store_mut());
    // A process that is killed answers for nothing: the tokens that it holds are not dropped, they
    // are gone.
    std::mem::forget(gone);
    store
}

/// Starts a proxy, in place of a dead one or of nothing.
pub fn start(world: &mut World, index: usize, config: Config, store: MemoryStore) {
    world.replace(index, ProxyElement::new(config, store));
}

/// Runs until the proxy at `index` has counted an event of this name.
///
/// # Errors
/// Where that does not happen within 100 s.
pub fn run_to(world: &mut World, index: usize, event: &str) -> Result<(), Failure> {
    world.run_until(std::time::Duration::from_secs(100), |world| {
        world
            .element::<ProxyElement>(index)
            .is_some_and(|proxy| proxy.count(event) > 0)
    })
}

impl ProxyElement {
    /// A packet enters from the near side, and what comes of it is told and goes no further.
    pub fn handle_input_and_collect(
        &mut self,
        packet: Vec<u8>,
        now: Instant,
        into: &mut Vec<Vec<u8>>,
    ) {
        self.handle_input(self.link_port().opposite(), packet, now);
        into.extend(self.out.drain(..).map(|(_, packet)| packet));
    }

    /// A packet enters from the near side, and what comes of it is lost on the link.
    pub fn handle_input_and_lose(&mut self, packet: Vec<u8>, now: Instant) {
        self.handle_input(self.link_port().opposite(), packet, now);
        self.out.clear();
    }
}

/// The end of a test is the end of the proxy: what it holds goes.
impl Drop for ProxyElement {
    fn drop(&mut self) {
        self.proxy.release_all();
    }
}
