//! Bounds on the memory that a capture may cost.
//!
//! Defaults suit a laptop and a capture of any size.

/// Bounds on memory. Each is a number that may be lowered to nearly nothing: fewer handshakes are
/// then found, and the damage list says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections tracked at once. Default 65,536, as many as one address has ports. Finished
    /// ones are forgotten first, then the oldest.
    pub connections: usize,
    /// Bytes held for one direction of one connection; also the longest handshake message that is
    /// read. Default 1 MiB: the largest certificate chains in use stay below 256 KiB.
    pub direction_bytes: usize,
    /// Bytes held for all connections. Default 128 MiB. Beyond it the oldest unfinished
    /// connections are given up.
    pub total_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            direction_bytes: 1024 * 1024,
            total_bytes: 128 * 1024 * 1024,
        }
    }
}
