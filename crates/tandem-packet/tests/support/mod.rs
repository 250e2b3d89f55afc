//! What the scenarios of packet mode share: a proxy as an element of the simulated world, and a conversation shaped like TLS.
//!
//! Is not: a test. The hosts are `tandem-netsim`'s fakes; real endpoints are the lab's business.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of what is here"
)]

pub mod tls;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use tandem_link::Key;
use tandem_netsim::link::DirectionConfig;
use tandem_netsim::{Element, Failure, Host, HostConfig, Link, LinkConfig, Port, World};
use tandem_packet::{
    Config, Direction, Event, Limits, Output, Proxy, Role, Ticket, Verdict, WireFormat,
};
use tandem_store::{HostName, MemoryStore, Site, Store};
use tandem_wire::{Instant, TcpPacket, UnixTime};

/// The wall clock of every scenario.
pub const TODAY: UnixTime = UnixTime(1_790_000_000);

/// The name that clients ask for.
pub const NAME: &str = "www.example.org";

/// A proxy between two sides of the world: the adapter's part, in a few lines.
pub struct ProxyElement {
    pub proxy: Proxy<MemoryStore>,
    pub events: Vec<Event>,
    role: Role,
    next: u64,
    queued: BTreeMap<Ticket, (Port, Vec<u8>)>,
    out: VecDeque<(Port, Vec<u8>)>,
    left: BTreeSet<(SocketAddr, SocketAddr)>,
}

impl ProxyElement {
    pub fn new(config: Config, store: MemoryStore) -> Self {
        Self {
            role: config.role,
            proxy: Proxy::new(config, store),
            events: Vec::new(),
            next: 0,
            queued: BTreeMap::new(),
            out: VecDeque::new(),
            left: BTreeSet::new(),
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

    pub fn role(&self) -> Role {
        self.role
    }

    fn link_port(&self) -> Port {
        match self.role {
            Role::ClientSide => Port::Right,
            Role::ServerSide => Port::Left,
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.proxy.poll_output() {
            match output {
                Output::Verdict(ticket, verdict) => {
                    let (port, packet) = self
                        .queued
                        .remove(&ticket)
                        .expect("one verdict for each ticket");
                    match verdict {
                        Verdict::Accept => self.out.push_back((port.opposite(), packet)),
                        Verdict::Replace(packet) => {
                            well_formed(&packet);
                            self.out.push_back((port.opposite(), packet));
                        }
                        Verdict::Drop => {}
                        Verdict::Leave => {
                            if let Some(flow) = addresses(&packet) {
                                self.left.insert(flow);
                            }
                            self.out.push_back((port.opposite(), packet));
                        }
                    }
                }
                Output::Inject(direction, packet) => {
                    well_formed(&packet);
                    let port = match direction {
                        Direction::ToLink => self.link_port(),
                        Direction::FromLink => self.link_port().opposite(),
                    };
                    self.out.push_back((port, packet));
                }
                Output::Event(event) => self.events.push(event),
            }
        }
    }
}

/// Whatever a proxy sends is a packet with right checksums, no longer than the MTU.
fn well_formed(packet: &[u8]) {
    let parsed = TcpPacket::parse(packet).expect("a proxy sends whole TCP packets");
    assert!(parsed.checksums_valid(), "a proxy's checksums are right");
    assert!(packet.len() <= 1_500, "a proxy keeps to the MTU");
}

/// A connection's two ends, in one order whichever way the packet goes. A SYN begins a new connection.
fn addresses(packet: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let packet = TcpPacket::parse(packet).ok()?;
    let (one, other) = (packet.source(), packet.destination());
    Some((one.min(other), one.max(other)))
}

impl Element for ProxyElement {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        if addresses(&packet).is_some_and(|flow| self.left.contains(&flow)) {
            return self.out.push_back((port.opposite(), packet));
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        let direction = if port == self.link_port() {
            Direction::FromLink
        } else {
            Direction::ToLink
        };
        self.queued.insert(ticket, (port, packet.clone()));
        self.proxy
            .handle_packet(ticket, direction, &packet, now, TODAY);
        self.drain();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.proxy.handle_timeout(now);
        self.drain();
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.out.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.proxy.poll_timeout().map(|(at, _)| at)
    }
}

/// The key of the pair.
pub fn key() -> Key {
    Key::from_bytes([0x5a; 32])
}

pub fn config(role: Role, wire: WireFormat) -> Config {
    Config {
        role,
        wire,
        key: Some(key()),
        ports: vec![443],
        limits: Limits::default(),
    }
}

pub fn site() -> Site {
    Site::Name(HostName::new(NAME).expect("a host name"))
}

/// A store that has seen this chain at the site of the scenarios.
pub fn store_with(chain: &[Vec<u8>]) -> MemoryStore {
    let mut store = MemoryStore::default();
    let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
    store.learn(Some(&site()), &chain, UnixTime(TODAY.0 - 3_600));
    store
}

pub fn client_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 40_000))
}

pub fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 9, 1], 443))
}

/// A link of the thesis's Iridium: 2,400 bit/s, 400 ms.
pub fn iridium() -> LinkConfig {
    tandem_netsim::presets::Preset::by_name("iridium")
        .expect("a preset")
        .config()
}

/// A link fast enough that only its delay counts, with this harm in both directions.
pub fn satellite(harm: impl Fn(&mut DirectionConfig)) -> LinkConfig {
    let rate = tandem_netsim::BitRate::from_bits_per_second(1_000_000);
    LinkConfig::new(rate, rate, Duration::from_millis(250)).with_both(|direction| harm(direction))
}

/// Where the elements of [`Scenario::world`] stand.
pub const CLIENT_SIDE: usize = 0;
pub const SERVER_SIDE: usize = 2;

/// Client, client-side proxy, link, server-side proxy, server.
pub struct Scenario {
    pub conversation: tls::Conversation,
    pub link: LinkConfig,
    pub client: HostConfig,
    pub server: HostConfig,
    pub client_side: Option<ProxyElement>,
    pub server_side: Option<ProxyElement>,
    pub between: Option<Box<dyn Element>>,
    pub seed: u64,
}

impl Scenario {
    /// Both proxies there, the client's side warm, the link [`satellite`].
    pub fn warm(wire: WireFormat) -> Self {
        let conversation = tls::Conversation::with_chain(&tls::chain(&[926, 900, 910]));
        Self {
            link: satellite(|_| {}),
            client: HostConfig::new(client_address()),
            server: HostConfig {
                initial_seq: tandem_wire::Seq(77_000),
                timestamps: Some(5_000_000),
                ..HostConfig::new(server_address())
            },
            client_side: Some(ProxyElement::new(
                config(Role::ClientSide, wire),
                store_with(&conversation.chain),
            )),
            server_side: Some(ProxyElement::new(
                config(Role::ServerSide, wire),
                MemoryStore::default(),
            )),
            conversation,
            between: None,
            seed: 1,
        }
    }

    pub fn world(self) -> World {
        let (client, server) = self.conversation.scripts();
        let mut world = World::new(self.seed)
            .with_client(Host::client(self.client, server_address()).with_script(client))
            .with_server(Host::server(self.server).with_script(server));
        world = match self.client_side {
            Some(proxy) => world.with_element(proxy),
            None => world.with_element(tandem_netsim::element::Wire::default()),
        };
        world = world.with_element(Link::new(self.link, self.seed, Instant::ZERO));
        world = match self.server_side {
            Some(proxy) => world.with_element(proxy),
            None => world.with_element(tandem_netsim::element::Wire::default()),
        };
        world.connect();
        world
    }
}

/// Runs until both scripts are done, and checks the promise: what each end received is what the other sent.
pub fn complete(world: &mut World, conversation: &tls::Conversation) -> Result<(), Failure> {
    world.run_until(Duration::from_secs(3_000), |world| {
        prefix(world, conversation);
        world.client().script().is_done() && world.server().script().is_done()
    })
}

/// At every moment each end has a prefix of what the other sent.
pub fn prefix(world: &World, conversation: &tls::Conversation) {
    let (client, server) = (world.client().received(), world.server().received());
    assert!(
        conversation.from_server.starts_with(client),
        "the client received other bytes than the server sent\n{}",
        world.failure("wrong bytes")
    );
    assert!(
        conversation.from_client.starts_with(server),
        "the server received other bytes than the client sent\n{}",
        world.failure("wrong bytes")
    );
}

/// The events of one of the proxies.
pub fn proxy(world: &World, index: usize) -> &ProxyElement {
    world.element(index).expect("a proxy stands there")
}

/// TCP payload bytes that crossed the link, up and down.
pub fn tls_bytes(world: &World) -> (u64, u64) {
    let link: &Link = world.element(1).expect("the link stands there");
    let counters = link.counters();
    (counters.up.tls_bytes, counters.down.tls_bytes)
}
