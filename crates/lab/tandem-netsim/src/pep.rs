//! A performance-enhancing proxy that splits TCP (RFC 3135, section 2.1), as
//! carriers run on satellite links: each connection through it becomes two, and
//! only bytes pass from one to the other.
//!
//! Made of the simulated [`Host`], with the addresses of the true ends. It
//! shows a proxy what it cannot do: options, initial sequence numbers and
//! segment boundaries do not get through, and a segment that nobody takes is
//! not carried on.
//!
//! Simplified: it accepts the client's connection before it knows whether the
//! server does (as many do), and gives up both where one breaks off.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;
use tandem_wire::tcp::TcpFlags;

use crate::element::{Element, Port};
use crate::host::{Host, HostConfig, Phase};

/// One connection in two halves.
#[derive(Clone, Debug)]
struct Split {
    /// Plays the server to the client.
    towards_client: Host,
    /// Plays the client to the server.
    towards_server: Host,
    /// Bytes passed on, each way.
    up: usize,
    down: usize,
}

/// The proxy.
#[derive(Clone, Debug, Default)]
pub struct SplittingPep {
    connections: BTreeMap<(SocketAddr, SocketAddr), Split>,
    passing: VecDeque<(Port, Vec<u8>)>,
    passed_by: u64,
}

impl SplittingPep {
    /// A proxy that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Connections that it split.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Packets passed as they were: not TCP, or of connections whose SYN it did not see.
    pub fn passed_by(&self) -> u64 {
        self.passed_by
    }

    fn split_for(
        &mut self,
        port: Port,
        segment: &TcpPacket<'_>,
        now: Instant,
    ) -> Option<&mut Split> {
        let (source, destination) = (segment.source(), segment.destination());
        let key = match port {
            Port::Left => (source, destination),
            Port::Right => (destination, source),
        };
        let flags = segment.flags();
        let begins = port == Port::Left
            && flags.contains(TcpFlags::SYN)
            && !flags.contains(TcpFlags::ACK)
            && segment.checksums_valid();
        if begins && !self.connections.contains_key(&key) {
            let mut towards_server = Host::client(HostConfig::new(key.0), key.1);
            towards_server.connect(now);
            let split = Split {
                towards_client: Host::server(HostConfig::new(key.1)),
                towards_server,
                up: 0,
                down: 0,
            };
            self.connections.insert(key, split);
        }
        self.connections.get_mut(&key)
    }

    fn relay_all(&mut self, now: Instant) {
        for split in self.connections.values_mut() {
            split.relay(now);
            while let Some(packet) = split.towards_client.poll_output() {
                self.passing.push_back((Port::Left, packet));
            }
            while let Some(packet) = split.towards_server.poll_output() {
                self.passing.push_back((Port::Right, packet));
            }
        }
    }
}

impl Split {
    fn relay(&mut self, now: Instant) {
        pass_on(
            &self.towards_client,
            &mut self.towards_server,
            &mut self.up,
            now,
        );
        pass_on(
            &self.towards_server,
            &mut self.towards_client,
            &mut self.down,
            now,
        );
        let broken = |host: &Host| matches!(host.phase(), Phase::Broken(_));
        if broken(&self.towards_client) {
            self.towards_server.abort(now);
        }
        if broken(&self.towards_server) {
            self.towards_client.abort(now);
        }
    }
}

fn pass_on(from: &Host, to: &mut Host, passed: &mut usize, now: Instant) {
    let received = from.received();
    if let Some(new) = received.get(*passed..)
        && !new.is_empty()
    {
        to.write(new, now);
        *passed = received.len();
    }
    if from.is_read_finished() {
        to.close(now);
    }
}

impl Element for SplittingPep {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        let taken = TcpPacket::parse(&packet)
            .ok()
            .and_then(|segment| self.split_for(port, &segment, now))
            .map(|split| match port {
                Port::Left => split.towards_client.handle_input(&packet, now),
                Port::Right => split.towards_server.handle_input(&packet, now),
            });
        if taken.is_none() {
            self.passed_by += 1;
            self.passing.push_back((port.opposite(), packet));
        }
        self.relay_all(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        for split in self.connections.values_mut() {
            split.towards_client.handle_timeout(now);
            split.towards_server.handle_timeout(now);
        }
        self.relay_all(now);
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connections
            .values()
            .flat_map(|split| [&split.towards_client, &split.towards_server])
            .filter_map(|host| host.poll_timeout().map(|(at, _)| at))
            .min()
    }
}
