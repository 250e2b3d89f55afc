//! What the scenarios of packet mode share: a proxy as an element of the simulated world, and a
//! conversation shaped like TLS.
//!
//! Is not: a test. The hosts are `tandem-netsim`'s fakes; real endpoints are the lab's business.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test file uses its own part of what is here"
)]

pub mod adapter;
pub mod bare;
pub mod flight;
pub mod mutual;
pub mod once;
pub mod outcome;
pub mod pair;
pub mod plan;
pub mod seeds;
pub mod tls;
pub mod visits;

use std::net::SocketAddr;
use std::time::Duration;

use tandem_link::inband::Key;
use tandem_netsim::element::Wire;
use tandem_netsim::link::DirectionConfig;
use tandem_netsim::{
    BitRate, Element, Failure, Host, HostConfig, Link, LinkConfig, Script, Step, World,
};
use tandem_packet::{ClientCertificates, Config, Limits, Role, WireFormat};
use tandem_store::{HostName, Kind, MemoryStore, Site, Store};
use tandem_wire::{Instant, Seq, UnixTime};

pub use adapter::{Boxed, ProxyElement, kill, run_to, start};
pub use pair::{Arrived, Flow, Pair};

/// The wall clock of every scenario.
pub const TODAY: UnixTime = UnixTime(1_790_000_000);

/// The name that clients ask for.
pub const NAME: &str = "www.example.org";

/// The key of the pair.
pub fn key() -> Key {
    Key::from_bytes([0x5a; 32])
}

pub fn config(role: Role, wire: WireFormat) -> Config {
    Config {
        role,
        wire,
        client_certificates: ClientCertificates::default(),
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
    teach(&mut store, &site(), chain);
    store
}

/// Makes a store remember that `site` showed this chain an hour ago.
pub fn teach(store: &mut MemoryStore, site: &Site, chain: &[Vec<u8>]) {
    let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
    store.learn(Kind::Chain, Some(site), &chain, UnixTime(TODAY.0 - 3_600));
}

/// Makes a store remember that the site sent these messages beside its chain an hour ago.
pub fn teach_messages(store: &mut MemoryStore, site: &Site, messages: &[u8]) {
    let then = UnixTime(TODAY.0 - 3_600);
    store.learn(Kind::Messages, Some(site), &[messages], then);
}

/// Makes a store remember that a client showed this chain an hour ago.
pub fn teach_client(store: &mut MemoryStore, chain: &[Vec<u8>]) {
    let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
    store.learn(Kind::Chain, None, &chain, UnixTime(TODAY.0 - 3_600));
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
    let rate = BitRate::from_bits_per_second(1_000_000);
    LinkConfig::new(rate, rate, Duration::from_millis(250)).with_both(|direction| harm(direction))
}

/// Where the elements of [`Scenario::world`] stand.
pub const CLIENT_LAN: usize = 0;
pub const CLIENT_SIDE: usize = 1;
pub const BEFORE_LINK: usize = 2;
pub const LINK: usize = 3;
pub const AFTER_LINK: usize = 4;
pub const SERVER_SIDE: usize = 5;
pub const SERVER_LAN: usize = 6;

/// Client, client-side proxy, link, server-side proxy, server, and what else may stand between
/// them.
pub struct Scenario {
    pub conversation: tls::Conversation,
    pub link: LinkConfig,
    pub client: HostConfig,
    pub server: HostConfig,
    /// `None`: no proxy, a plain wire.
    pub client_side: Option<ProxyElement>,
    pub server_side: Option<ProxyElement>,
    pub client_lan: Option<Boxed>,
    pub before_link: Option<Boxed>,
    pub after_link: Option<Boxed>,
    pub server_lan: Option<Boxed>,
    pub closes: Closes,
    pub seed: u64,
}

/// What becomes of the connection after the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closes {
    /// It stays open.
    Never,
    /// The client closes first, the server when it sees that.
    AtTheEnd,
}

impl Scenario {
    /// Both proxies there, the client's side warm, the link [`satellite`].
    pub fn warm(wire: WireFormat) -> Self {
        Self::with(
            wire,
            tls::Conversation::with_chain(&tls::chain(&[926, 900, 910])),
        )
    }

    /// The same for another conversation, whose chain is known at the client's side.
    pub fn with(wire: WireFormat, conversation: tls::Conversation) -> Self {
        Self {
            link: satellite(|_| {}),
            client: HostConfig::new(client_address()),
            server: HostConfig {
                initial_seq: Seq(77_000),
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
            client_lan: None,
            before_link: None,
            after_link: None,
            server_lan: None,
            closes: Closes::Never,
            seed: 1,
        }
    }

    /// The same without proxies.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.client_side = None;
        self.server_side = None;
        self
    }

    /// The same with another store at the client's side.
    #[must_use]
    pub fn holding(mut self, store: MemoryStore) -> Self {
        if let Some(proxy) = &mut self.client_side {
            *proxy.proxy.store_mut() = store;
        }
        self
    }

    /// The same with other limits on both sides.
    #[must_use]
    pub fn limited(mut self, wire: WireFormat, limits: Limits) -> Self {
        for (proxy, role) in [
            (&mut self.client_side, Role::ClientSide),
            (&mut self.server_side, Role::ServerSide),
        ] {
            if let Some(proxy) = proxy {
                let store = std::mem::take(proxy.proxy.store_mut());
                let config = Config {
                    limits,
                    ..config(role, wire)
                };
                *proxy = ProxyElement::new(config, store);
            }
        }
        self
    }

    pub fn world(self) -> World {
        let mut world = self.world_not_connected();
        world.connect();
        world
    }

    /// The same before the client has sent anything.
    pub fn world_not_connected(self) -> World {
        let (mut client, mut server) = self.conversation.scripts();
        match self.closes {
            Closes::Never => {}
            Closes::AtTheEnd => {
                client = client.then(Step::Close).then(Step::ReceiveEnd);
                server = server.then(Step::ReceiveEnd).then(Step::Close);
            }
        }
        self.build(client, server)
    }

    /// The world for hosts with other scripts than the conversation's.
    pub fn world_of(self, client: Script, server: Script) -> World {
        let mut world = self.build(client, server);
        world.connect();
        world
    }

    fn build(self, client: Script, server: Script) -> World {
        let peer = self.server.local;
        let world = World::new(self.seed)
            .with_client(Host::client(self.client, peer).with_script(client))
            .with_server(Host::server(self.server).with_script(server));
        let world = place(world, self.client_lan);
        let world = place(world, self.client_side);
        let world = place(world, self.before_link);
        let world = world.with_element(Link::new(self.link, self.seed, Instant::ZERO));
        let world = place(world, self.after_link);
        let world = place(world, self.server_side);
        place(world, self.server_lan)
    }
}

fn place(world: World, element: Option<impl Element>) -> World {
    match element {
        Some(element) => world.with_element(element),
        None => world.with_element(Wire::default()),
    }
}

/// Runs until both scripts are done, and checks the promise: what each end received is what the
/// other sent.
///
/// # Errors
/// Where they are not done in 50 minutes.
pub fn complete(world: &mut World, conversation: &tls::Conversation) -> Result<(), Failure> {
    complete_within(world, conversation, Duration::from_secs(3_000))
}

/// The same within another time.
///
/// # Errors
/// Where they are not done by then.
pub fn complete_within(
    world: &mut World,
    conversation: &tls::Conversation,
    limit: Duration,
) -> Result<(), Failure> {
    world.run_until(limit, |world| {
        prefix(world, conversation);
        world.client().script().is_done() && world.server().script().is_done()
    })
}

/// At every moment each end has a prefix of what the other sent.
pub fn prefix(world: &World, conversation: &tls::Conversation) {
    for client in world.clients() {
        assert!(
            conversation.from_server.starts_with(client.received()),
            "the client received other bytes than the server sent"
        );
    }
    for server in world.servers() {
        assert!(
            conversation.from_client.starts_with(server.received()),
            "the server received other bytes than the client sent"
        );
    }
}

/// After a connection is over and some time has passed: nothing waits, no flow is left.
pub fn clean(world: &World) {
    for index in [CLIENT_SIDE, SERVER_SIDE] {
        if let Some(proxy) = world.element::<ProxyElement>(index) {
            assert_eq!(proxy.queued(), 0, "packets wait at {index}");
            let gauges = proxy.gauges();
            assert_eq!(
                (
                    gauges.flows,
                    gauges.held_packets,
                    gauges.held_bytes,
                    gauges.memory
                ),
                (0, 0, 0, 0),
                "flows are left at {index}: {:?}",
                proxy.events
            );
        }
    }
}

/// One of the proxies.
pub fn proxy(world: &World, index: usize) -> &ProxyElement {
    world.element(index).expect("a proxy stands there")
}

/// The link.
pub fn link(world: &World) -> &Link {
    world.element(LINK).expect("the link stands there")
}

/// TCP payload bytes that crossed the link, up and down.
pub fn tls_bytes(world: &World) -> (u64, u64) {
    let counters = link(world).counters();
    (counters.up.tls_bytes, counters.down.tls_bytes)
}

/// How often either end had to send something again: time-outs, fast retransmissions, SYNs.
pub fn repeats(world: &World) -> u64 {
    [world.client(), world.server()]
        .map(|host| {
            let counters = host.counters();
            counters.timeouts + counters.fast_retransmits + counters.syn_retransmitted
        })
        .iter()
        .sum()
}
