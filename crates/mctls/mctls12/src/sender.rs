//! An endpoint's records to the other: it makes all three MACs (the paper, section 3.4).

use mctls::party::{ContextId, Direction};

use crate::error::{CLOSE_NOTIFY, Error, Misuse};
use crate::protect::{FullKeys, Ivs, Opened, Place};
use crate::record::{ContentType, MAX_PAYLOAD_LEN, write};
use crate::secret::Secret;

/// Sends records of one direction.
///
/// Invariant: each sequence number is used once, over all contexts; nothing follows the end.
pub struct Sender {
    keys: FullKeys,
    ivs: Ivs,
    next: u64,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closed,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Sender {
    pub(crate) fn new(keys: FullKeys, iv: &Secret, direction: Direction) -> Self {
        Self {
            keys,
            ivs: Ivs::new(iv, direction),
            // The finished message was the first.
            next: 1,
            end: End::Open,
        }
    }

    /// Appends a record with data in a context.
    ///
    /// # Errors
    /// [`Misuse`]: more data than a record holds, a context that is not there, a direction that is
    /// closed.
    pub fn seal(
        &mut self,
        context: ContextId,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if data.len() > MAX_PAYLOAD_LEN {
            return Err(Misuse::PayloadLength(data.len()).into());
        }
        let keys = self.keys.contexts.get(&context);
        let keys = keys.ok_or(Misuse::Context(context))?;
        let kind = ContentType::ApplicationData;
        let seq = take(&mut self.next, self.end)?;
        let place = Place { seq, kind, context };
        let sealed = Opened {
            data: data.to_vec(),
            readers: place.mac(&keys.keys.readers, data),
            writers: place.mac(&keys.writers, data),
            endpoints: place.mac(&self.keys.endpoints.mac, data),
        };
        let fragment = keys.keys.seal(self.ivs.at(seq), &sealed);
        write(out, kind, context, &fragment);
        Ok(())
    }

    /// Appends the end of this direction: the other endpoint knows then that it has everything.
    ///
    /// # Errors
    /// [`Misuse::Closed`]: it is closed.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.last([1, CLOSE_NOTIFY], out)
    }

    /// Appends a fatal alert, which ends the session.
    ///
    /// # Errors
    /// As [`Self::close`].
    pub fn alert(&mut self, alert: u8, out: &mut Vec<u8>) -> Result<(), Error> {
        self.last([2, alert], out)
    }

    /// An alert, in context 0, which no middlebox can read.
    fn last(&mut self, alert: [u8; 2], out: &mut Vec<u8>) -> Result<(), Error> {
        let (kind, context) = (ContentType::Alert, ContextId::END_TO_END);
        let seq = take(&mut self.next, self.end)?;
        let place = Place { seq, kind, context };
        let keys = &self.keys.endpoints;
        write(
            out,
            kind,
            context,
            &keys.seal(self.ivs.at(seq), place, &alert),
        );
        self.end = End::Closed;
        Ok(())
    }
}

/// The next sequence number.
fn take(next: &mut u64, end: End) -> Result<u64, Misuse> {
    if end == End::Closed {
        return Err(Misuse::Closed);
    }
    let seq = *next;
    *next = seq.checked_add(1).ok_or(Misuse::SequenceSpent)?;
    Ok(seq)
}
