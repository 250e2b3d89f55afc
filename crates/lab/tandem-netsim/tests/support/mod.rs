//! What the scenarios have in common: two hosts, some bytes, a conversation
//! shaped like a TLS 1.2 handshake.
#![allow(dead_code, unreachable_pub)] // Each test binary uses a part.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_netsim::host::{Host, HostConfig};
use tandem_netsim::script::{Script, Speaker, Step};
use tandem_netsim::world::{Failure, World};

pub const HOUR: Duration = Duration::from_secs(3_600);

/// The IP version of a scenario.
#[derive(Clone, Copy, Debug)]
pub enum Ip {
    V4,
    V6,
}

pub fn client_address(ip: Ip) -> SocketAddr {
    match ip {
        Ip::V4 => SocketAddr::from(([10, 0, 0, 1], 50_000)),
        Ip::V6 => SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 50_000)),
    }
}

pub fn server_address(ip: Ip) -> SocketAddr {
    match ip {
        Ip::V4 => SocketAddr::from(([10, 0, 1, 1], 443)),
        Ip::V6 => SocketAddr::from(([0xfd00, 1, 0, 0, 0, 0, 0, 1], 443)),
    }
}

pub fn client_config(ip: Ip) -> HostConfig {
    HostConfig::new(client_address(ip))
}

pub fn server_config(ip: Ip) -> HostConfig {
    let mut config = HostConfig::new(server_address(ip));
    config.initial_seq = tandem_wire::Seq(77_000);
    config
}

/// Bytes that differ at every offset and between streams.
pub fn bytes(length: usize, stream: u8) -> Vec<u8> {
    (0..length)
        .map(|n| (n as u8).wrapping_mul(31).wrapping_add((n >> 8) as u8) ^ stream)
        .collect()
}

/// Flights of the sizes of a TLS 1.2 handshake with three certificates, then a
/// request and its answer.
pub struct Conversation {
    pub turns: Vec<(Speaker, Vec<u8>)>,
}

impl Conversation {
    pub fn handshake() -> Self {
        Self {
            turns: vec![
                (Speaker::Client, bytes(223, 1)),
                (Speaker::Server, bytes(3_400, 2)),
                (Speaker::Client, bytes(318, 3)),
                (Speaker::Server, bytes(51, 4)),
                (Speaker::Client, bytes(120, 5)),
                (Speaker::Server, bytes(600, 6)),
            ],
        }
    }

    pub fn bulk(to_server: usize, to_client: usize) -> Self {
        Self {
            turns: vec![
                (Speaker::Client, bytes(to_server, 1)),
                (Speaker::Server, bytes(to_client, 2)),
            ],
        }
    }

    pub fn said_by(&self, speaker: Speaker) -> Vec<u8> {
        self.turns
            .iter()
            .filter(|(who, _)| *who == speaker)
            .flat_map(|(_, said)| said.clone())
            .collect()
    }

    pub fn scripts(&self) -> (Script, Script) {
        let turns: Vec<(Speaker, &[u8])> = self
            .turns
            .iter()
            .map(|(who, said)| (*who, said.as_slice()))
            .collect();
        let (client, server) = Script::conversation(&turns);
        (
            client.then(Step::Close),
            server.then(Step::ReceiveEnd).then(Step::Close),
        )
    }

    /// Two hosts that hold this conversation.
    pub fn hosts(&self, client: HostConfig, server: HostConfig) -> (Host, Host) {
        let (client_script, server_script) = self.scripts();
        let to = server.local;
        (
            Host::client(client, to).with_script(client_script),
            Host::server(server).with_script(server_script),
        )
    }

    /// Runs it to its end: all said, all heard, both closed.
    pub fn run(&self, world: &mut World, limit: Duration) -> Result<(), Failure> {
        world.connect();
        world.run_until(limit, |world| {
            world.client().ending().is_some() && world.server().ending().is_some()
        })?;
        self.check(world)
    }

    /// Both hosts heard exactly what the other said, and closed in order.
    pub fn check(&self, world: &World) -> Result<(), Failure> {
        use tandem_netsim::host::Ending;
        let wrong = if world.client().received() != self.said_by(Speaker::Server) {
            "the client did not receive what the server said"
        } else if world.server().received() != self.said_by(Speaker::Client) {
            "the server did not receive what the client said"
        } else if world.client().ending() != Some(Ending::Finished)
            || world.server().ending() != Some(Ending::Finished)
        {
            "the connection did not end by two FINs"
        } else {
            return Ok(());
        };
        Err(world.failure(wrong))
    }
}
