//! A firewall that hides the hosts' clocks: it puts its own clock into the timestamps of both
//! directions and turns the echoes back (RFC 7323 allows for no such thing; firewalls do it all
//! the same, against fingerprinting and the counting of hosts).
//!
//! What was old under the host's clock is current afterwards: PAWS protects nobody behind it.

use std::collections::{BTreeMap, VecDeque};

use tandem_wire::clock::Instant;
use tandem_wire::packet::{Edit, TcpPacket};
use tandem_wire::tcp::{TcpFlags, TcpOption};

use super::{FlowDirection, readable};
use crate::element::{Element, Port};

/// Values of a direction that are remembered for their echoes.
const MAX_VALUES: usize = 1_000;

/// The firewall. Its clock ticks each millisecond.
#[derive(Clone, Debug)]
pub struct ClockFirewall {
    clock_at_start: u32,
    /// By direction: its own values, and the hosts' that they stand for.
    given: BTreeMap<FlowDirection, VecDeque<(u32, u32)>>,
    passing: VecDeque<(Port, Vec<u8>)>,
    changed: u64,
}

impl ClockFirewall {
    /// A firewall whose clock stands at `clock_at_start` when time begins.
    pub fn new(clock_at_start: u32) -> Self {
        Self {
            clock_at_start,
            given: BTreeMap::new(),
            passing: VecDeque::new(),
            changed: 0,
        }
    }

    /// Segments whose timestamps it changed.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    fn restamped(&mut self, segment: &TcpPacket<'_>, now: Instant) -> Option<Vec<u8>> {
        let stamps = segment.timestamps()?;
        let direction = FlowDirection::of(segment);
        if segment.flags().contains(TcpFlags::SYN) {
            self.given.entry(direction).or_default();
        }
        let given = self.given.get_mut(&direction)?;
        let own = self
            .clock_at_start
            .wrapping_add(((now.as_micros() / 1_000) & 0xffff_ffff) as u32);
        if given.back() != Some(&(own, stamps.value)) {
            given.push_back((own, stamps.value));
        }
        if given.len() > MAX_VALUES {
            given.pop_front();
        }
        let meant = self.given.get(&direction.back()).and_then(|given| {
            let meant = |(own, _): &&(u32, u32)| *own == stamps.echo;
            given.iter().rfind(meant).map(|(_, value)| *value)
        });
        let echo = meant.unwrap_or(stamps.echo);
        let mut options = segment.options_bytes().to_vec();
        let at = timestamps_at(segment)?;
        options
            .get_mut(at..at + 4)?
            .copy_from_slice(&own.to_be_bytes());
        options
            .get_mut(at + 4..at + 8)?
            .copy_from_slice(&echo.to_be_bytes());
        let edit = Edit {
            options: Some(&options),
            ..Edit::default()
        };
        segment.rebuilt(&edit).ok()
    }
}

/// Where TSval stands in the options area.
fn timestamps_at(segment: &TcpPacket<'_>) -> Option<usize> {
    let area = segment.options_bytes();
    let mut at = 0;
    for option in segment.options() {
        match option {
            TcpOption::Timestamps(_) => return Some(at + 2),
            TcpOption::Nop | TcpOption::EndOfList => at += 1,
            _ => at += usize::from(*area.get(at + 1)?),
        }
    }
    None
}

impl Element for ClockFirewall {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        let restamped = readable(&packet).and_then(|segment| self.restamped(&segment, now));
        self.changed += u64::from(restamped.is_some());
        let out = restamped.unwrap_or(packet);
        self.passing.push_back((port.opposite(), out));
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{client, drain, server, server_syn, stamps};
    use super::*;
    use tandem_wire::packet::SegmentRepr;
    use tandem_wire::tcp::Timestamps;

    fn through(firewall: &mut ClockFirewall, segment: SegmentRepr, millis: u64) -> Timestamps {
        let at = Instant::from_micros(millis * 1_000);
        firewall.handle_input(Port::Right, segment.build(), at);
        let out = drain(firewall);
        let segment = TcpPacket::parse(&out[0].1).expect("a segment");
        assert!(segment.checksums_valid());
        segment.timestamps().expect("timestamps")
    }

    #[test]
    fn each_side_sees_the_firewalls_clock_and_the_echo_of_its_own() {
        let mut firewall = ClockFirewall::new(u32::MAX);
        let syn = SegmentRepr {
            flags: TcpFlags::SYN,
            ..client(0)
        };
        assert_eq!(through(&mut firewall, syn, 0).value, u32::MAX);
        let seen = through(&mut firewall, server_syn(), 1);
        assert_eq!(seen.value, 0, "its own, after the wrap");
        let old = SegmentRepr {
            options: stamps(70u32.wrapping_sub(1 << 30), u32::MAX),
            ..server(0, b"old")
        };
        let seen = through(&mut firewall, old, 9);
        assert_eq!((seen.value, seen.echo), (8, 7), "no longer old");
        let answer = SegmentRepr {
            options: stamps(9, 0),
            ..client(0)
        };
        assert_eq!(through(&mut firewall, answer, 10).echo, 70);
    }

    #[test]
    fn a_connection_whose_syn_it_did_not_see_passes() {
        let mut firewall = ClockFirewall::new(5);
        let seen = through(&mut firewall, server(0, b"x"), 1);
        assert_eq!((seen.value, seen.echo, firewall.changed()), (70, 7, 0));
    }
}
