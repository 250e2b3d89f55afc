//! A router with connection tracking and source NAT, as Linux does it with
//! MASQUERADE and, where it is strict, `-m conntrack --ctstate INVALID -j DROP`.
//!
//! The inside is on the left. IPv4 connections from the inside leave with the
//! router's outer address and a port of its own; IPv6 ones are tracked and not
//! translated. What makes a segment INVALID is in [`InvalidReason`].
//!
//! Simplified: TCP alone (other packets are dropped and counted, path-MTU
//! messages among them); no connections from the outside; mappings never expire;
//! bounds are those of [`InvalidReason`]'s file head.

mod tracking;
mod translate;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use tandem_wire::clock::Instant;
use tandem_wire::packet::{SegmentRepr, TcpPacket};
use tandem_wire::seq::Seq;
use tandem_wire::tcp::TcpFlags;

pub use tracking::InvalidReason;

use crate::element::{Element, Port};
use tracking::TcpTracking;
use translate::{End, with_end};

/// What becomes of INVALID segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidPolicy {
    /// A strict firewall drops them.
    #[default]
    Drop,
    /// No rule for them: Linux then does not translate them. From the inside
    /// they leave with their inner address; from the outside they reach the
    /// router itself, which has no such connection and answers with a reset.
    LeaveUntranslated,
    /// They pass translated (`nf_conntrack_tcp_be_liberal`), and are counted.
    Liberal,
}

/// What was seen and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatCounters {
    /// Segments passed, translated or (IPv6) as they were.
    pub passed: u64,
    /// INVALID segments by reason.
    pub invalid: BTreeMap<InvalidReason, u64>,
    /// Segments from the outside that no mapping knows.
    pub unknown_from_outside: u64,
    /// Packets that are not whole TCP segments.
    pub not_tcp: u64,
    /// Connections begun.
    pub connections: u64,
}

impl NatCounters {
    /// INVALID segments of all reasons.
    pub fn invalid_total(&self) -> u64 {
        self.invalid.values().sum()
    }
}

/// A connection as the inside names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Inside {
    client: SocketAddr,
    server: SocketAddr,
}

#[derive(Clone, Debug)]
struct Connection {
    /// What the outside sees in place of the client.
    outer: SocketAddr,
    tracking: TcpTracking,
}

/// The router.
#[derive(Clone, Debug)]
pub struct Nat {
    outer_address: Ipv4Addr,
    next_port: u16,
    policy: InvalidPolicy,
    connections: BTreeMap<Inside, Connection>,
    by_outer: BTreeMap<(SocketAddr, SocketAddr), Inside>,
    passing: VecDeque<(Port, Vec<u8>)>,
    counters: NatCounters,
}

impl Nat {
    /// A router with this outer address, whose translated ports count up from `first_port`.
    pub fn new(outer_address: Ipv4Addr, first_port: u16, policy: InvalidPolicy) -> Self {
        Self {
            outer_address,
            next_port: first_port,
            policy,
            connections: BTreeMap::new(),
            by_outer: BTreeMap::new(),
            passing: VecDeque::new(),
            counters: NatCounters::default(),
        }
    }

    /// What was seen and done.
    pub fn counters(&self) -> &NatCounters {
        &self.counters
    }

    fn leave(&mut self, packet: Vec<u8>, key: Inside) {
        let outer = match self.connections.get(&key) {
            Some(connection) => connection.outer,
            None => self.begin(key),
        };
        match self.judge(Port::Left, &packet, key) {
            Ok(()) => self.pass_out(packet, outer),
            Err(_) => match self.policy {
                InvalidPolicy::Drop => {}
                InvalidPolicy::LeaveUntranslated => self.passing.push_back((Port::Right, packet)),
                InvalidPolicy::Liberal => self.pass_out(packet, outer),
            },
        }
    }

    fn enter(&mut self, packet: Vec<u8>, key: Inside) {
        match self.judge(Port::Right, &packet, key) {
            Ok(()) => self.pass_in(packet, key.client),
            Err(_) => match self.policy {
                InvalidPolicy::Drop => {}
                InvalidPolicy::LeaveUntranslated => self.refuse(&packet),
                InvalidPolicy::Liberal => self.pass_in(packet, key.client),
            },
        }
    }

    fn begin(&mut self, key: Inside) -> SocketAddr {
        let outer = match key.client {
            SocketAddr::V4(_) => {
                let port = self.next_port;
                self.next_port = self.next_port.wrapping_add(1).max(1_024);
                SocketAddr::V4(SocketAddrV4::new(self.outer_address, port))
            }
            SocketAddr::V6(_) => key.client,
        };
        self.counters.connections += 1;
        self.by_outer.insert((key.server, outer), key);
        let tracking = TcpTracking::default();
        self.connections.insert(key, Connection { outer, tracking });
        outer
    }

    fn judge(&mut self, from: Port, packet: &[u8], key: Inside) -> Result<(), InvalidReason> {
        let verdict = match (TcpPacket::parse(packet), self.connections.get_mut(&key)) {
            (Ok(segment), Some(connection)) if segment.checksums_valid() => {
                connection.tracking.judge(from, &segment)
            }
            _ => Err(InvalidReason::BadChecksum),
        };
        if let Err(reason) = verdict {
            *self.counters.invalid.entry(reason).or_default() += 1;
        }
        verdict
    }

    fn pass_out(&mut self, packet: Vec<u8>, outer: SocketAddr) {
        self.pass(Port::Right, packet, End::Source, outer);
    }

    fn pass_in(&mut self, packet: Vec<u8>, client: SocketAddr) {
        self.pass(Port::Left, packet, End::Destination, client);
    }

    fn pass(&mut self, towards: Port, packet: Vec<u8>, end: End, to: SocketAddr) {
        let translated = match to {
            SocketAddr::V4(to) => with_end(packet, end, to),
            SocketAddr::V6(_) => Some(packet),
        };
        if let Some(packet) = translated {
            self.counters.passed += 1;
            self.passing.push_back((towards, packet));
        }
    }

    /// The router's own TCP, to which an untranslated segment comes.
    fn refuse(&mut self, packet: &[u8]) {
        let Ok(segment) = TcpPacket::parse(packet) else {
            return;
        };
        if segment.flags().contains(TcpFlags::RST) || !segment.checksums_valid() {
            return;
        }
        let reset = SegmentRepr {
            source: segment.destination(),
            destination: segment.source(),
            seq: segment.ack(),
            ack: Seq(0),
            flags: TcpFlags::RST,
            window: 0,
            options: Vec::new(),
            payload: Vec::new(),
            hop_limit: 64,
        };
        self.passing.push_back((Port::Right, reset.build()));
    }
}

impl Element for Nat {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, _now: Instant) {
        let Ok(segment) = TcpPacket::parse(&packet) else {
            self.counters.not_tcp += 1;
            return;
        };
        let (source, destination) = (segment.source(), segment.destination());
        match port {
            Port::Left => {
                let key = Inside {
                    client: source,
                    server: destination,
                };
                self.leave(packet, key);
            }
            Port::Right => match self.by_outer.get(&(source, destination)) {
                Some(key) => self.enter(packet, *key),
                None => self.counters.unknown_from_outside += 1,
            },
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
