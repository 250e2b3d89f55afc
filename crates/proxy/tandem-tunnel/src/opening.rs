//! A connection at the server side before it stands: its first message is read, its target is
//! connected to.
//!
//! Is not: the connecting, or whether it is allowed. Invariant: what comes meanwhile is kept as it
//! is; past [`KEPT`] the relay wants no more of it. A first message that does not become whole in
//! its time ends the connection.

use tandem_link::tunnel::{Malformed, Open, OpenDecoder};
use tandem_wire::Instant;

/// How much is kept of what comes before the target is connected to: a hello of any size that is
/// followed, and what may follow it.
const KEPT: usize = 1 << 16;

/// Nothing is known yet.
#[derive(Debug)]
pub(crate) struct Arriving {
    decoder: OpenDecoder,
    deadline: Instant,
}

impl Arriving {
    /// With so much time. Peers send it in one piece, with what opens the stream.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            decoder: OpenDecoder::default(),
            deadline,
        }
    }

    /// When it has taken too long.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Reads on. The first message, once it is whole, with what follows it.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Result<Option<(Open, Dialling)>, Malformed> {
        let open = self.decoder.next(&mut bytes)?;
        Ok(open.map(|open| {
            let dialling = Dialling {
                kept: bytes.to_vec(),
                end: StreamEnd::ToCome,
            };
            (open, dialling)
        }))
    }
}

/// Whether the peer's direction of the stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    ToCome,
    Come,
}

/// The target is being connected to.
#[derive(Debug)]
pub(crate) struct Dialling {
    kept: Vec<u8>,
    end: StreamEnd,
}

impl Dialling {
    /// Keeps what came on the stream.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        if self.end == StreamEnd::ToCome {
            self.kept.extend_from_slice(bytes);
        }
    }

    /// The peer's direction has ended.
    pub(crate) fn end(&mut self) {
        self.end = StreamEnd::Come;
    }

    /// Whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.kept.len() < KEPT
    }

    /// All that has come.
    pub(crate) fn into_parts(self) -> (Vec<u8>, StreamEnd) {
        (self.kept, self.end)
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        self.kept.capacity()
    }
}
