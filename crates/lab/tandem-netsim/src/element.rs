//! What stands between two hosts: the one shape, for packets, with two sides.
//!
//! An element has a left side (towards the client) and a right side (towards
//! the server). Here are the trait and the smallest elements: nothing at all
//! ([`Wire`]), an end ([`BlackHole`]), and a test's own tampering ([`Tamper`]).

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;

use tandem_wire::clock::Instant;

use crate::link::{Direction, Input, Link, Output};

/// A side of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Port {
    /// Towards the client.
    Left,
    /// Towards the server.
    Right,
}

impl Port {
    /// The other side: where a packet that came in here and passes goes out.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Something that packets pass through, or do not.
///
/// The rules, which [`crate::conformance::check`] runs: outputs are drained
/// after every call; a timeout that is not due changes nothing; after
/// `handle_timeout(t)` the next timeout is later than `t`; the same calls give
/// the same outputs.
pub trait Element: Any {
    /// Takes a packet that arrived at a side.
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant);

    /// Does what is due by `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet to send, and from which side.
    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)>;

    /// When `handle_timeout` is due next.
    fn poll_timeout(&self) -> Option<Instant>;
}

impl Element for Link {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        let direction = match port {
            Port::Left => Direction::Up,
            Port::Right => Direction::Down,
        };
        Link::handle_input(self, Input { direction, packet }, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        Link::handle_timeout(self, now);
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        let Output { direction, packet } = Link::poll_output(self)?;
        Some(match direction {
            Direction::Up => (Port::Right, packet),
            Direction::Down => (Port::Left, packet),
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Link::poll_timeout(self).map(|(at, _)| at)
    }
}

/// Passes everything at once.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    passing: VecDeque<(Port, Vec<u8>)>,
}

impl Element for Wire {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, _now: Instant) {
        self.passing.push_back((port.opposite(), packet));
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Passes nothing, and counts it: a process that is stopped, a cut cable.
#[derive(Clone, Debug, Default)]
pub struct BlackHole {
    swallowed: u64,
}

impl BlackHole {
    /// Packets that went in.
    pub fn swallowed(&self) -> u64 {
        self.swallowed
    }
}

impl Element for BlackHole {
    fn handle_input(&mut self, _port: Port, _packet: Vec<u8>, _now: Instant) {
        self.swallowed += 1;
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

type TamperFn = dyn FnMut(Port, Vec<u8>, Instant) -> Vec<(Port, Vec<u8>)>;

/// Does to each packet what a closure says: drop it (return nothing), pass it
/// (return it from the opposite port), change it, answer it.
pub struct Tamper {
    tamper: Box<TamperFn>,
    passing: VecDeque<(Port, Vec<u8>)>,
}

impl Tamper {
    /// Gives each packet, with the port that it came in by, to `tamper`; sends
    /// what that returns, by the ports that it names.
    pub fn new(
        tamper: impl FnMut(Port, Vec<u8>, Instant) -> Vec<(Port, Vec<u8>)> + 'static,
    ) -> Self {
        Self {
            tamper: Box::new(tamper),
            passing: VecDeque::new(),
        }
    }

    /// Drops the packets for which `drops` is true and passes the others.
    pub fn dropping(mut drops: impl FnMut(Port, &[u8]) -> bool + 'static) -> Self {
        Self::new(move |port, packet, _| {
            if drops(port, &packet) {
                Vec::new()
            } else {
                vec![(port.opposite(), packet)]
            }
        })
    }
}

impl fmt::Debug for Tamper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tamper")
            .field("passing", &self.passing.len())
            .finish_non_exhaustive()
    }
}

impl Element for Tamper {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        self.passing.extend((self.tamper)(port, packet, now));
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
