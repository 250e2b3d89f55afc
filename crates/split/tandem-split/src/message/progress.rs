//! How far a connection has come at one side: the credit of the other. And that answers to misses
//! are on their way.
//!
//! ```text
//!  taken:  | bytes (8) |     end, over, coming:  nothing
//! ```
//!
//! Is not: what is counted, and when it is said ([`crate::credit`]).

use super::{frame, kind};
use crate::error::Malformed;
use crate::read::Reader;

pub(super) const TAKEN_LEN: usize = 8;

/// See above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes have been taken since the beginning. The volunteer's: content of the server's
    /// records of application data, by the client's socket. The origin's: the client's records,
    /// headers included.
    Taken(u64),
    /// The client has ended: no record of it follows. A channel whose direction is closed could not
    /// say how much is taken of what still comes.
    End,
    /// The last word about this client. Once both sides have said it, the channel is as it was at
    /// its beginning: the volunteer greets for its next client.
    Over,
    /// On a channel of misses. At first: whoever is asked does not have it at hand, and looks for
    /// it on disk or at the origin, of which nothing may have come. Each further time: since it
    /// last said this, something has come from the origin.
    Coming,
}

impl Progress {
    pub(super) fn parse_taken(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let bytes = reader.u64()?;
        reader.finish()?;
        Ok(Self::Taken(bytes))
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Taken(bytes) => frame(out, kind::TAKEN, |out| {
                out.extend_from_slice(&bytes.to_be_bytes());
            }),
            Self::End => frame(out, kind::END, |_| {}),
            Self::Over => frame(out, kind::OVER, |_| {}),
            Self::Coming => frame(out, kind::COMING, |_| {}),
        }
    }
}
