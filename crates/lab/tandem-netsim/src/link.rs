//! The link emulator: two directions, each a queue, a transmitter and a path.
//!
//! ```text
//!              queue (drop tail)    transmitter        path
//!  input --> [ ][ ][ ][ ][ ][ ] --> n * 8 / rate --> delay (+ harm) --> output
//!    |  larger than the MTU: dropped, perhaps ICMP back to the sender
//! ```
//!
//! A packet of n bytes takes n * 8 / rate to serialise and then the propagation
//! delay. The transmitter is work-conserving and first in, first out: while a
//! packet waits and no outage holds it, bits are sent. What is counted, and
//! when, is in [`DirectionCounters`].
//!
//! The same element runs in real time between two TUN devices and in virtual
//! time in tests: it has no clock, and everything happens at the instant it is
//! due, not at the instant the caller came around to saying so. A caller that
//! is late gets late outputs but the same arithmetic, and no packet's end
//! depends on it.
//!
//! Invariants: the same seed, configuration and inputs give the same outputs;
//! outputs after a call are those due by the latest `now` it was told; time that
//! goes backwards is read as standing still; each packet offered is in the end
//! counted once as delivered, lost or dropped. What waits is bounded by the
//! queue limit; what is on the path by rate times delay, so by nothing where
//! the rate is infinite.
//!
//! Not here: routing, TTL, checksums of what passes (a link does not look).

mod config;
mod counters;
mod direction;
mod harm;
mod icmp;
mod outage;
pub mod presets;
mod serial;

use tandem_wire::clock::Instant;

pub use config::{
    ChecksumAfter, Corruption, CorruptionScope, DEFAULT_MTU, DEFAULT_TLS_PORT, DirectionConfig,
    Duplication, GilbertElliott, LinkConfig, Loss, MINIMUM_QUEUE_BYTES, Oversize, Reordering,
    default_queue,
};
pub use counters::{DirectionCounters, LinkCounters};
pub use outage::{Outage, OutageEffect};

use direction::Lane;

/// Which way a packet crosses the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client's side to the server's.
    Up,
    /// From the server's side to the client's.
    Down,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// A packet handed to the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// `Up`: it comes from the client's side.
    pub direction: Direction,
    /// A whole IP packet.
    pub packet: Vec<u8>,
}

/// A packet that leaves the link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a packet that is not passed on is lost uncounted"]
pub struct Output {
    /// `Up`: it leaves at the server's side. An ICMP message about a packet
    /// that was going up leaves at the client's side, so it says `Down`.
    pub direction: Direction,
    /// A whole IP packet.
    pub packet: Vec<u8>,
}

/// Why [`Link::handle_timeout`] is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// A packet will have been sent and the next one can start.
    TransmissionEnds,
    /// A packet arrives at its far end.
    Arrival,
}

/// A link between a client's side and a server's side.
#[derive(Clone, Debug)]
pub struct Link {
    up: Lane,
    down: Lane,
    now: Instant,
}

impl Link {
    /// A link that starts at `now` (outages count from it), with all its chance
    /// drawn from `seed`.
    pub fn new(config: LinkConfig, seed: u64, now: Instant) -> Self {
        Self {
            up: Lane::new(config.up, config.tls_ports.clone(), seed, 0, now),
            down: Lane::new(config.down, config.tls_ports, seed, 1, now),
            now,
        }
    }

    /// Takes a packet at one end.
    pub fn handle_input(&mut self, input: Input, now: Instant) {
        self.handle_timeout(now);
        let back = match input.direction {
            Direction::Up => self.up.offer(input.packet, self.now),
            Direction::Down => self.down.offer(input.packet, self.now),
        };
        if let Some(message) = back {
            match input.direction {
                Direction::Up => self.down.hand_over(message),
                Direction::Down => self.up.hand_over(message),
            }
        }
    }

    /// Does all that is due by `now`. Harmless at any time.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.up.advance(self.now);
        self.down.advance(self.now);
    }

    /// The next packet that has left the link.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(packet) = self.up.take() {
            return Some(Output {
                direction: Direction::Up,
                packet,
            });
        }
        self.down.take().map(|packet| Output {
            direction: Direction::Down,
            packet,
        })
    }

    /// When something is due next, and what.
    pub fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        match (self.up.next_due(), self.down.next_due()) {
            (Some(up), Some(down)) => Some(if down.0 < up.0 { down } else { up }),
            (up, down) => up.or(down),
        }
    }

    /// What has been counted since the start.
    pub fn counters(&self) -> LinkCounters {
        LinkCounters {
            up: self.up.counters(),
            down: self.down.counters(),
        }
    }

    /// The configuration of a direction.
    pub fn direction_config(&self, direction: Direction) -> &DirectionConfig {
        match direction {
            Direction::Up => self.up.config(),
            Direction::Down => self.down.config(),
        }
    }

    /// Changes a direction under way. Packets that wait are sent by the new
    /// configuration, also one that an outage holds back; the one being sent keeps
    /// its rate and those on the path their delay. A queue that is now too long
    /// keeps what it holds.
    pub fn reconfigure(&mut self, direction: Direction, config: DirectionConfig, now: Instant) {
        self.handle_timeout(now);
        match direction {
            Direction::Up => self.up.reconfigure(config, self.now),
            Direction::Down => self.down.reconfigure(config, self.now),
        }
        self.handle_timeout(now);
    }
}

#[cfg(test)]
mod tests;
