//! Many connections through the same two proxies and a middlebox between them, one after the other
//! or at once, each judged by itself.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_netsim::host::HostConfig;
use tandem_netsim::{Element, Host, Link, World};
use tandem_packet::{Role, WireFormat};
use tandem_store::MemoryStore;
use tandem_wire::Instant;

use super::tls::{self, Conversation};
use super::{ProxyElement, config, proxy, satellite, store_with};

/// Where the elements stand.
pub const CLIENT_SIDE: usize = 0;
pub const NEAR: usize = 1;
pub const FAR: usize = 3;
pub const SERVER_SIDE: usize = 4;

/// How long a client waits for its answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Both ends have what the other sent.
    Whole,
    /// An end received other bytes; TLS would refuse them, and the client closes.
    Wrong,
    /// It does not go on.
    Stuck,
}

/// The world of these connections: each has a client and a server of its own, of one name.
pub struct Visits {
    pub world: World,
    pub conversation: Conversation,
    next: usize,
}

impl Visits {
    /// Room for `count` connections through `near`, the link and `far`, in that order from the
    /// clients' side.
    pub fn through(count: usize, near: impl Element, far: impl Element) -> Self {
        let chain = tls::chain(&[926, 900, 910]);
        Self::of(&chain, Conversation::with_chain(&chain), count, (near, far))
    }

    pub fn of(
        chain: &[Vec<u8>],
        conversation: Conversation,
        count: usize,
        devices: (impl Element, impl Element),
    ) -> Self {
        Self::between(chain, conversation, count, devices, |_, _, _| {})
    }

    /// The same for connections whose ends are as `change` makes them: by the connection's number,
    /// client and server.
    pub fn among(
        count: usize,
        devices: (impl Element, impl Element),
        change: impl Fn(usize, &mut HostConfig, &mut HostConfig),
    ) -> Self {
        let chain = tls::chain(&[926, 900, 910]);
        let conversation = Conversation::with_chain(&chain);
        Self::between(&chain, conversation, count, devices, change)
    }

    fn between(
        chain: &[Vec<u8>],
        conversation: Conversation,
        count: usize,
        (near, far): (impl Element, impl Element),
        change: impl Fn(usize, &mut HostConfig, &mut HostConfig),
    ) -> Self {
        let side = |role, store| ProxyElement::new(config(role, WireFormat::Safe), store);
        let mut world = World::new(1)
            .with_element(side(Role::ClientSide, store_with(chain)))
            .with_element(near)
            .with_element(Link::new(satellite(|_| {}), 1, Instant::ZERO))
            .with_element(far)
            .with_element(side(Role::ServerSide, MemoryStore::default()));
        for number in 0..count as u16 {
            let (said, answered) = conversation.scripts();
            let mut client = HostConfig {
                initial_seq: tandem_wire::Seq(u32::from(number) * 90_001),
                ..HostConfig::new(SocketAddr::from(([10, 0, 0, 1], 40_000 + number)))
            };
            let mut server = HostConfig {
                initial_seq: tandem_wire::Seq(77_000 + u32::from(number) * 70_001),
                timestamps: Some(5_000_000),
                ..HostConfig::new(SocketAddr::from(([10, 0, 9, 1 + number as u8], 443)))
            };
            change(usize::from(number), &mut client, &mut server);
            world = world
                .with_client(Host::client(client, server.local).with_script(said))
                .with_server(Host::server(server).with_script(answered));
        }
        Self {
            world,
            conversation,
            next: 0,
        }
    }

    /// The next so many connections, each begun when the one before is over.
    pub fn one_by_one(&mut self, count: usize) -> Vec<Fate> {
        (0..count).flat_map(|_| self.at_once(1)).collect()
    }

    /// The next so many connections, begun together.
    pub fn at_once(&mut self, count: usize) -> Vec<Fate> {
        let range = self.next..self.next + count;
        self.next = range.end;
        for index in range.clone() {
            self.world
                .with_client_mut(index, |client, now| client.connect(now));
        }
        // Those that are stuck keep the run going for as long as a client waits.
        let said = self.conversation.clone();
        let done = range.clone();
        let _ = self.world.run_until(PATIENCE, |world| {
            done.clone()
                .all(|index| fate(world, &said, index) != Fate::Stuck)
        });
        let fates: Vec<Fate> = range
            .clone()
            .map(|index| fate(&self.world, &said, index))
            .collect();
        for (index, fate) in range.zip(&fates) {
            self.world.with_client_mut(index, |client, now| {
                if *fate == Fate::Wrong {
                    // bad_record_mac (RFC 5246, section 7.2.2).
                    client.write(&tls::record(21, 0x0303, &[2, 20]), now);
                }
                client.close(now);
            });
            self.world
                .with_server_mut(index, |server, now| server.close(now));
        }
        self.wait(Duration::from_secs(5));
        fates
    }

    /// Nothing happens for so long.
    pub fn wait(&mut self, time: Duration) {
        self.world.run_for(time).expect("it runs");
    }

    /// On how many paths each side rewrites nothing.
    pub fn stopped_paths(&self) -> [usize; 2] {
        [CLIENT_SIDE, SERVER_SIDE].map(|index| proxy(&self.world, index).proxy.stopped_paths())
    }

    /// How often an event of this name happened, at the clients' and at the servers' side.
    pub fn counted(&self, name: &str) -> [usize; 2] {
        [CLIENT_SIDE, SERVER_SIDE].map(|index| proxy(&self.world, index).count(name))
    }
}

/// How many were not whole.
pub fn lost(fates: &[Fate]) -> usize {
    fates.iter().filter(|fate| **fate != Fate::Whole).count()
}

fn fate(world: &World, said: &Conversation, index: usize) -> Fate {
    let (client, server) = (&world.clients()[index], &world.servers()[index]);
    let right = said.from_server.starts_with(client.received())
        && said.from_client.starts_with(server.received());
    if !right {
        return Fate::Wrong;
    }
    let whole = client.received().len() == said.from_server.len()
        && server.received().len() == said.from_client.len();
    if whole { Fate::Whole } else { Fate::Stuck }
}
