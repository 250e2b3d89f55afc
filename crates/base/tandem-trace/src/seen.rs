//! One packet of a capture that is taken while its packets cross, with the time of each.
//!
//! Is not a frame of a capture file: those are [`read`](crate::read()).

use crate::moment::Moment;

/// A packet that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When, by the kernel.
    pub at: Moment,
    /// From the IP header on.
    pub packet: Vec<u8>,
}
