//! Conversations over TCP as a capture shows them, for tests of this crate and of those above.
//!
//! Not an API: hidden from the documentation.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_wire::{OptionsBuf, SegmentRepr, Seq, TcpFlags, Timestamps};

use crate::moment::Moment;
use crate::seen::Seen;

/// A conversation seen at both ends at once: (from the client?, payload), one packet each, one
/// second apart.
pub fn conversation(turns: &[(bool, &[u8])]) -> Vec<Seen> {
    Talk::default().held(turns)
}

pub(crate) struct Talk {
    /// The client's and the server's.
    pub(crate) ends: [SocketAddr; 2],
    pub(crate) seen: Vec<Seen>,
    /// The sequence number that each end uses next.
    pub(crate) next: [Seq; 2],
    pub(crate) stamp: u32,
}

impl Default for Talk {
    fn default() -> Self {
        Self {
            ends: [
                SocketAddr::from(([10, 77, 1, 2], 40_000)),
                SocketAddr::from(([10, 77, 3, 2], 443)),
            ],
            seen: Vec::new(),
            next: [Seq(0), Seq(0)],
            stamp: 0,
        }
    }
}

impl Talk {
    pub(crate) fn held(mut self, turns: &[(bool, &[u8])]) -> Vec<Seen> {
        self.packet(true, TcpFlags::SYN, &[]);
        self.packet(false, TcpFlags::SYN.with(TcpFlags::ACK), &[]);
        for (from_client, payload) in turns {
            self.packet(*from_client, TcpFlags::ACK, payload);
        }
        self.seen
    }

    pub(crate) fn packet(&mut self, from_client: bool, flags: TcpFlags, payload: &[u8]) {
        let ends = self.ends;
        let side = usize::from(!from_client);
        let mut options = OptionsBuf::new();
        let stamped = options.push_timestamps(Timestamps {
            value: 1000 + self.stamp,
            echo: 0,
        });
        assert!(stamped.is_ok(), "one option fits");
        let packet = SegmentRepr {
            source: ends[side],
            destination: ends[1 - side],
            seq: self.next[side],
            ack: self.next[1 - side],
            flags,
            window: 1000,
            options: options.as_slice().to_vec(),
            payload: payload.to_vec(),
            hop_limit: 64,
        }
        .build();
        let syn = usize::from(flags.contains(TcpFlags::SYN));
        self.next[side] = self.next[side].after(syn + payload.len());
        self.stamp += 100;
        let at = Moment::from_duration(Duration::from_secs(self.seen.len() as u64));
        self.seen.push(Seen { at, packet });
    }
}
