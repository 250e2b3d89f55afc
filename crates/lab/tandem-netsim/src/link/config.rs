//! What a link is like, per direction. Plain data: who reads it from a file
//! is elsewhere.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::outage::Outage;
use crate::units::{BitRate, Probability};

/// The least that [`default_queue`] gives, in bytes: four initial windows of
/// ten segments of 1,500 bytes (RFC 6928), so that a few handshakes at once,
/// each with a full flight, queue up and are late but are not lost. With less,
/// what an experiment on a slow link would measure is its queue.
pub const MINIMUM_QUEUE_BYTES: usize = 64 * 1024;

/// The largest packet that a link carries by default, in bytes: Ethernet's.
pub const DEFAULT_MTU: usize = 1500;

/// HTTPS (IANA service names), the port whose TCP payload counts as TLS by default.
pub const DEFAULT_TLS_PORT: u16 = 443;

/// Both directions of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// From the client's side to the server's.
    pub up: DirectionConfig,
    /// From the server's side to the client's.
    pub down: DirectionConfig,
    /// TCP payload from or to any of these ports is counted as TLS bytes.
    /// Default: 443 alone.
    pub tls_ports: Vec<u16>,
}

impl LinkConfig {
    /// A link with these rates (`None`: infinite) and this one-way delay in both
    /// directions, and the default queue; no loss or other harm.
    pub fn new(up: Option<BitRate>, down: Option<BitRate>, one_way: Duration) -> Self {
        Self {
            up: DirectionConfig::new(up, one_way),
            down: DirectionConfig::new(down, one_way),
            tls_ports: vec![DEFAULT_TLS_PORT],
        }
    }

    /// Changes both directions alike.
    #[must_use]
    pub fn with_both(mut self, change: impl Fn(&mut DirectionConfig)) -> Self {
        change(&mut self.up);
        change(&mut self.down);
        self
    }
}

impl Default for LinkConfig {
    /// A wire: infinite rate, no delay, no harm.
    fn default() -> Self {
        Self::new(None, None, Duration::ZERO)
    }
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectionConfig {
    /// Serialisation rate; `None` is infinite.
    pub rate: Option<BitRate>,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Bytes that may wait while another packet is being sent; a packet that
    /// would exceed it is dropped (drop tail). A packet that finds the
    /// transmitter idle never waits, so zero is a legal limit. Default:
    /// [`default_queue`].
    pub queue_limit: usize,
    /// Which packets vanish. Default: none.
    pub loss: Loss,
    /// Which packets are overtaken. Default: none.
    pub reordering: Reordering,
    /// Which packets arrive twice. Default: none.
    pub duplication: Duplication,
    /// Which packets are damaged. Default: none.
    pub corruption: Corruption,
    /// The largest IP packet carried, in bytes. Default: [`DEFAULT_MTU`].
    pub mtu: usize,
    /// What becomes of a larger one. Default: dropped without a word.
    pub oversize: Oversize,
    /// When the link is down. Default: never.
    pub outages: Vec<Outage>,
}

impl DirectionConfig {
    /// A direction that delays and does no other harm.
    pub fn new(rate: Option<BitRate>, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            queue_limit: default_queue(rate, delay),
            loss: Loss::None,
            reordering: Reordering::default(),
            duplication: Duplication::default(),
            corruption: Corruption::default(),
            mtu: DEFAULT_MTU,
            oversize: Oversize::DropSilently,
            outages: Vec::new(),
        }
    }
}

/// The queue, in bytes, of a direction with this rate and one-way delay: what
/// the link carries in one round trip (so that one bulk TCP connection can
/// fill it, the usual rule for a drop-tail queue), but no less than
/// [`MINIMUM_QUEUE_BYTES`].
pub fn default_queue(rate: Option<BitRate>, one_way: Duration) -> usize {
    let Some(rate) = rate else {
        return MINIMUM_QUEUE_BYTES;
    };
    let bits =
        u128::from(rate.bits_per_second()) * one_way.saturating_mul(2).as_micros() / 1_000_000;
    usize::try_from(bits / 8)
        .unwrap_or(usize::MAX)
        .max(MINIMUM_QUEUE_BYTES)
}

/// Which packets vanish between the ends of a link. A lost packet was sent: it
/// took its time on the link and is counted as carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each alike, independently.
    Independent(Probability),
    /// In bursts.
    GilbertElliott(GilbertElliott),
}

/// Gilbert's and Elliott's two-state channel (Gilbert 1960, Elliott 1963). It
/// starts in the good state and may change state before each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    /// From good to bad, per packet.
    pub good_to_bad: Probability,
    /// From bad to good, per packet; its inverse is the mean burst in packets.
    pub bad_to_good: Probability,
    /// Loss in the good state; 0 in Gilbert's model.
    pub loss_in_good: Probability,
    /// Loss in the bad state; 1 for bursts without a gap.
    pub loss_in_bad: Probability,
}

/// Packets that arrive later than their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// Share of packets that are held back.
    pub probability: Probability,
    /// By how much more than the propagation delay.
    pub extra_delay: Duration,
}

/// Packets that arrive twice. The copy is made at the far end: it takes no
/// link time and is not counted as carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duplication {
    /// Share of packets that are delivered again.
    pub probability: Probability,
    /// How long after the first; zero is right behind it.
    pub after: Duration,
}

/// Packets that arrive with one bit flipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corruption {
    /// Share of packets that are damaged. One without a byte in scope is left
    /// whole and not counted.
    pub probability: Probability,
    /// Where the bit is.
    pub scope: CorruptionScope,
    /// Whether the transport's checksum tells.
    pub checksum: ChecksumAfter,
}

/// Where a corrupted packet's flipped bit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CorruptionScope {
    /// Anywhere beyond the IP header.
    #[default]
    BeyondIpHeader,
    /// In the payload of a TCP segment.
    TcpPayload,
}

/// The TCP or UDP checksum of a corrupted packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumAfter {
    /// As it was, so wrong.
    #[default]
    LeftBad,
    /// Right for the damaged bytes, as memory errors in a router or a
    /// recomputing NAT leave it. The checksum field itself is never what is
    /// flipped.
    MadeGood,
}

/// What becomes of a packet larger than the MTU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oversize {
    /// Dropped and counted: a path-MTU black hole.
    #[default]
    DropSilently,
    /// Dropped and counted, and its sender is told: ICMP "fragmentation
    /// needed" (RFC 792, RFC 1191) or ICMPv6 "packet too big" (RFC 4443,
    /// section 3.2). An IPv4 packet that may be fragmented is not; it is
    /// dropped and told like one that may not.
    TellSender {
        /// The router's IPv4 address, source of its messages.
        v4: Ipv4Addr,
        /// The router's IPv6 address, source of its messages.
        v6: Ipv6Addr,
    },
}
