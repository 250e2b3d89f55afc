//! An element that lets everything pass, and fails where a packet has an option of the proxies.

use std::collections::VecDeque;

use tandem_link::inband::option::{EXPERIMENT_ID, OPTION_KIND};
use tandem_netsim::element::{Element, Port};
use tandem_wire::{Instant, TcpPacket};

use super::Boxed;

/// Stands between an end and its proxy: what the proxies say to each other does not get there.
#[derive(Default)]
pub struct Bare(VecDeque<(Port, Vec<u8>)>);

impl Bare {
    pub fn boxed() -> Boxed {
        Boxed(Box::new(Self::default()))
    }
}

/// Whether a packet has an option of the proxies.
pub fn has_option(packet: &[u8]) -> bool {
    let [high, low] = EXPERIMENT_ID.to_be_bytes();
    let packet = TcpPacket::parse(packet).expect("a segment");
    let mut pieces = packet.options_bytes().windows(4);
    pieces.any(|piece| piece[0] == OPTION_KIND && piece[2..] == [high, low])
}

impl Element for Bare {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, _: Instant) {
        assert!(!has_option(&packet), "an option from {port:?}: {packet:?}");
        self.0.push_back((port.opposite(), packet));
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.0.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
