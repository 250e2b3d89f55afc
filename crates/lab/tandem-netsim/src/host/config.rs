//! What a simulated host is like.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_wire::seq::Seq;

use super::rtt::RtoBounds;

/// Linux's `tcp_rmem` middle less its overhead, what a fresh connection offers.
pub const DEFAULT_RECEIVE_WINDOW: u32 = 65_535;

/// Ten segments (RFC 6928, section 2).
pub const DEFAULT_INITIAL_WINDOW: u32 = 10;

/// Linux's `tcp_syn_retries`.
pub const DEFAULT_SYN_RETRIES: u32 = 6;

/// Linux's `tcp_retries2`.
pub const DEFAULT_DATA_RETRIES: u32 = 15;

/// A host and the one connection that it makes or takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its own address and port.
    pub local: SocketAddr,
    /// The first sequence number. Fixed, so that a run can be compared with another.
    pub initial_seq: Seq,
    /// The maximum segment size announced and, together with the peer's, kept
    /// to. Default: 1,460 for IPv4 and 1,440 for IPv6, for an MTU of 1,500.
    pub mss: u16,
    /// Bytes that the host buffers for the application. Default:
    /// [`DEFAULT_RECEIVE_WINDOW`].
    pub receive_window: u32,
    /// Shift of the window field, offered in the SYN; at most 14. Default: 7,
    /// Linux's. `None`: window scaling is not offered.
    pub window_scale: Option<u8>,
    /// The first value of the timestamp clock, which ticks each millisecond;
    /// `None`: timestamps are not offered. Default: on.
    pub timestamps: Option<u32>,
    /// When received data are acknowledged. Default: at once.
    pub acknowledgements: AckPolicy,
    /// How written bytes are cut into segments. Default: as large as fits.
    pub segmenter: Segmenter,
    /// The initial congestion window in segments. Default: 10.
    pub initial_window: u32,
    /// Bounds of the retransmission timeout.
    pub rto: RtoBounds,
    /// Retransmissions of a SYN before the host gives up. Default: 6.
    pub syn_retries: u32,
    /// Retransmissions of data before the host gives up. Default: 15.
    pub data_retries: u32,
    /// TTL or hop limit of what it sends. Default: 64.
    pub hop_limit: u8,
}

impl HostConfig {
    /// A host with all defaults.
    pub fn new(local: SocketAddr) -> Self {
        Self {
            local,
            // Close below the wrap, so that every test crosses it.
            initial_seq: Seq(u32::MAX - 1_000),
            mss: if local.is_ipv4() { 1_460 } else { 1_440 },
            receive_window: DEFAULT_RECEIVE_WINDOW,
            window_scale: Some(7),
            timestamps: Some(u32::MAX - 2_000),
            acknowledgements: AckPolicy::Immediate,
            segmenter: Segmenter::Full,
            initial_window: DEFAULT_INITIAL_WINDOW,
            rto: RtoBounds::default(),
            syn_retries: DEFAULT_SYN_RETRIES,
            data_retries: DEFAULT_DATA_RETRIES,
            hop_limit: 64,
        }
    }
}

/// When received data are acknowledged. What is out of order or already known
/// is acknowledged at once in any case (RFC 5681, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckPolicy {
    /// Each segment at once, as Linux does early in a connection ("quick ACK").
    #[default]
    Immediate,
    /// Every second segment, or after this time (RFC 9293, section 3.8.6.3:
    /// less than 0.5 s; Linux: 40 ms).
    Delayed(Duration),
}

/// How the bytes of a stream are cut into segments. Always within the MSS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Segmenter {
    /// As large as fits.
    #[default]
    Full,
    /// At most this many bytes each; zero counts as one.
    AtMost(usize),
    /// Cut at these offsets of the stream too, in ascending order.
    CutAt(Vec<u64>),
}

impl Segmenter {
    /// How many of `available` bytes at `offset` go into one segment.
    pub(super) fn length(&self, offset: u64, available: usize, mss: usize) -> usize {
        let most = match self {
            Self::Full => mss,
            Self::AtMost(bytes) => (*bytes).clamp(1, mss.max(1)),
            Self::CutAt(cuts) => {
                let next = cuts.partition_point(|cut| *cut <= offset);
                cuts.get(next)
                    .and_then(|cut| usize::try_from(cut - offset).ok())
                    .map_or(mss, |to_cut| to_cut.min(mss))
            }
        };
        most.min(available)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segmenter_cuts_where_it_is_told() {
        let cuts = Segmenter::CutAt(vec![3, 10, 5_000]);
        assert_eq!(cuts.length(0, 4_000, 1_460), 3);
        assert_eq!(cuts.length(3, 4_000, 1_460), 7);
        assert_eq!(cuts.length(10, 4_000, 1_460), 1_460);
        assert_eq!(cuts.length(4_390, 4_000, 1_460), 610);
        assert_eq!(cuts.length(5_000, 100, 1_460), 100);
        assert_eq!(Segmenter::AtMost(0).length(7, 100, 1_460), 1);
        assert_eq!(Segmenter::Full.length(7, 9_000, 1_460), 1_460);
    }
}
