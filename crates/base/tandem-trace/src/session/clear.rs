//! The server's first flight in clear, kept as it comes, for whoever wants to write it anew.
//!
//! Not its reading. Invariant: at most [`MAX_CLEAR_FLIGHT`] bytes are held.
//!
//! RFC 5246, section 7.3.

/// Bytes that are kept: what a frame of packet mode may stand for.
const MAX_CLEAR_FLIGHT: usize = 1 << 16;

/// The flight so far.
#[derive(Debug)]
pub(super) enum ClearFlight {
    /// It goes on.
    Going(Vec<u8>),
    /// Its last record is there.
    Whole(Vec<u8>),
    /// It is too long, or encrypted.
    Refused,
}

impl Default for ClearFlight {
    fn default() -> Self {
        Self::Going(Vec::new())
    }
}

impl ClearFlight {
    /// Appends a record while the flight goes on.
    pub(super) fn add(&mut self, record: &[u8]) {
        if let Self::Going(bytes) = self {
            if bytes.len() + record.len() <= MAX_CLEAR_FLIGHT {
                bytes.extend_from_slice(record);
            } else {
                *self = Self::Refused;
            }
        }
    }

    /// The record that ends the flight was added.
    pub(super) fn end(&mut self) {
        if let Self::Going(bytes) = self {
            *self = Self::Whole(std::mem::take(bytes));
        }
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Going(bytes) | Self::Whole(bytes) => bytes.len(),
            Self::Refused => 0,
        }
    }

    /// The flight, or nothing where it is not all there.
    pub(super) fn whole(self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Going(_) | Self::Refused => Vec::new(),
        }
    }
}
