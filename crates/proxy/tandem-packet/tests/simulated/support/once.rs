//! An element that does harm to one packet.

use std::time::Duration;

use tandem_netsim::element::{Element, Port};
use tandem_wire::Instant;

use super::Boxed;

/// What befalls one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    Lost,
    /// It arrives again, so long after the first.
    Copied(Duration),
    /// It arrives so much later.
    Late(Duration),
    /// A bit is flipped and the checksum tells.
    Damaged,
}

/// Does this to the packet of this number in this direction, counted from 0.
pub struct Once {
    harm: Harm,
    towards: Port,
    number: usize,
    seen: usize,
    out: Vec<(Instant, Port, Vec<u8>)>,
}

impl Once {
    pub fn boxed(harm: Harm, towards: Port, number: usize) -> Boxed {
        Boxed(Box::new(Self {
            harm,
            towards,
            number,
            seen: 0,
            out: Vec::new(),
        }))
    }
}

impl Element for Once {
    fn handle_input(&mut self, port: Port, mut packet: Vec<u8>, now: Instant) {
        let towards = port.opposite();
        let hit = towards == self.towards && {
            self.seen += 1;
            self.seen == self.number + 1
        };
        let mut arrivals = vec![now];
        if hit {
            match self.harm {
                Harm::Lost => arrivals.clear(),
                Harm::Copied(after) => arrivals.push(now + after),
                Harm::Late(by) => arrivals = vec![now + by],
                Harm::Damaged => {
                    let last = packet.len() - 1;
                    packet[last] ^= 1;
                }
            }
        }
        for at in arrivals {
            self.out.push((at, towards, packet.clone()));
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        // What is due goes; `poll_output` cannot know the time.
        for (at, _, _) in &mut self.out {
            if *at <= now {
                *at = Instant::ZERO;
            }
        }
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        let due = self
            .out
            .iter()
            .position(|(at, _, _)| *at == Instant::ZERO)?;
        let (_, port, packet) = self.out.remove(due);
        Some((port, packet))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.out.iter().map(|(at, _, _)| *at).min()
    }
}
