//! A flight that went out as a delta, and the copies of its originals that the failsafe may have to
//! send.
//!
//! Is not: when they are sent (`writer`). Invariant: what an original says of the stream never
//! changes.

use tandem_wire::{Edit, Instant, Seq, TcpOption, TcpPacket, Timestamps, tcp};

use crate::paws;
use crate::segment;

/// A flight that went out as a delta.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) start: Seq,
    pub(super) end: Seq,
    pub(super) payload: Vec<u8>,
    pub(super) originals: Vec<Vec<u8>>,
    pub(super) original_bytes: usize,
    pub(super) sent_at: Instant,
    pub(super) repeats: u8,
    /// The receiver has shown that the other proxy rebuilt it.
    pub(super) is_rebuilt: bool,
    /// The sender's newest timestamps.
    pub(super) stamps: Option<Timestamps>,
}

impl Group {
    /// The sender has sent something with these timestamps.
    pub(super) fn saw(&mut self, stamps: Option<Timestamps>) {
        if let (Some(newest), Some(seen)) = (&mut self.stamps, stamps)
            && !paws::is_older(seen.value, newest.value)
        {
            *newest = seen;
        }
    }

    /// Whether this segment is one of the originals, or one of the same size at the same place.
    pub(super) fn has_sent(&self, packet: &TcpPacket<'_>) -> bool {
        self.originals.iter().any(|original| {
            TcpPacket::parse(original).is_ok_and(|original| {
                original.seq() == packet.seq() && original.payload().len() <= packet.payload().len()
            })
        })
    }

    /// Whether the receiver says that it has a part of the flight: the front, or what is reported
    /// beyond it (RFC 2018, section 3).
    pub(super) fn has_arrived_in_part(&self, packet: &TcpPacket<'_>) -> bool {
        packet.ack().is_after(self.start)
            || packet.options().any(|option| {
                let TcpOption::Sack(blocks) = option else {
                    return false;
                };
                tcp::sack_ends(blocks).any(|end| end.is_after(self.start))
            })
    }

    /// An original that its receiver will look at and the link will take.
    ///
    /// Part of the flight may have been rebuilt under newer timestamps, and those of an original
    /// are then too old (PAWS). One that the kernel had put together from several segments is
    /// longer than the link allows.
    pub(super) fn passable(&self, packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let Ok(packet) = TcpPacket::parse(packet) else {
            return Vec::new();
        };
        let stale = match (packet.timestamps(), self.stamps) {
            (Some(own), Some(newest)) => paws::is_older(own.value, newest.value).then_some(newest),
            (Some(_), None) | (None, Some(_) | None) => None,
        };
        let fresh = stale.and_then(|newest| {
            let options = newest.within(packet.options_bytes());
            let edit = Edit {
                options: Some(&options),
                ..Edit::default()
            };
            packet.rebuilt(&edit).ok()
        });
        match fresh.as_deref().map(TcpPacket::parse) {
            Some(Ok(fresh)) => segment::within(&fresh, mtu),
            Some(Err(_)) | None => segment::within(&packet, mtu),
        }
    }
}
