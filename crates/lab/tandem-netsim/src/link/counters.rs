//! What a link counts: the figure for bytes in every experiment.
//!
//! A packet is *carried* once it has been serialised, which is when it is
//! counted: it takes link time whether or not it arrives. So a lost packet is
//! carried, and one dropped at the queue or for its size is not. Bytes are IP bytes: the IP header
//! and all behind it, without any framing of the layer below.

/// One direction's counts since the link was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    /// Packets handed to this direction.
    pub offered_packets: u64,
    /// Packets carried.
    pub packets: u64,
    /// IP bytes carried.
    pub ip_bytes: u64,
    /// Of those, TCP payload from or to one of the configured TLS ports;
    /// retransmissions count again. Fragments are not looked into.
    pub tls_bytes: u64,
    /// Packets that came out at the far end, copies included.
    pub delivered_packets: u64,
    /// Their IP bytes.
    pub delivered_bytes: u64,
    /// Not carried: the queue was full.
    pub dropped_queue: u64,
    /// Not carried: larger than the MTU.
    pub dropped_oversize: u64,
    /// Carried, then lost by the loss model.
    pub lost: u64,
    /// Carried, then lost to an outage.
    pub lost_in_outage: u64,
    /// Carried and delivered with a bit flipped.
    pub corrupted: u64,
    /// Delivered a second time.
    pub duplicated: u64,
    /// Held back so that others overtake.
    pub reordered: u64,
    /// ICMP messages sent back to this direction's senders. Not link traffic.
    pub icmp_sent: u64,
    /// The most bytes that ever waited in the queue.
    pub queue_peak: usize,
}

/// Both directions' counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// From the client's side to the server's.
    pub up: DirectionCounters,
    /// From the server's side to the client's.
    pub down: DirectionCounters,
}

impl LinkCounters {
    /// IP bytes carried both ways.
    pub fn ip_bytes(&self) -> u64 {
        self.up.ip_bytes + self.down.ip_bytes
    }

    /// Packets carried both ways.
    pub fn packets(&self) -> u64 {
        self.up.packets + self.down.packets
    }

    /// TLS bytes carried both ways.
    pub fn tls_bytes(&self) -> u64 {
        self.up.tls_bytes + self.down.tls_bytes
    }
}
