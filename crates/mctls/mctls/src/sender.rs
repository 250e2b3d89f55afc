//! An endpoint's records.
//!
//! Is not: how data is divided among contexts, which the application does.
//!
//! Invariants: each sequence number is used once, over all contexts; nothing is sealed after the
//! closing record.

use crate::config::Context;
use crate::error::{Alert, Error, Misuse};
use crate::frame::{begin_record, end};
use crate::keys::{Claim, DirectionKeys, SEQ_LIMIT};
use crate::party::{Author, ContextId};
use crate::record::{Evidence, Header, MAX_PAYLOAD_LEN, Place, digest};
use crate::secret::TAG_LEN;

/// The first byte of a record of context 0.
pub(crate) mod control {
    pub(crate) const CLOSE: u8 = 1;
    pub(crate) const ALERT: u8 = 2;
}

/// Seals one direction's records.
#[derive(Debug)]
pub struct Sender {
    keys: DirectionKeys,
    /// The next sequence number; `None` once the direction is closed.
    next: Option<u64>,
}

impl Sender {
    pub(crate) const fn new(keys: DirectionKeys) -> Self {
        Self {
            keys,
            next: Some(0),
        }
    }

    /// Appends a record with this data, in a frame for the next hop.
    ///
    /// # Errors
    /// [`Misuse`]: more than [`MAX_PAYLOAD_LEN`] bytes, a context that the session does not have,
    /// a direction that is closed, or one with no sequence number left. Nothing is appended.
    pub fn seal(
        &mut self,
        context: ContextId,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if payload.len() > MAX_PAYLOAD_LEN {
            return Err(Misuse::PayloadLength(payload.len()).into());
        }
        if self.keys.context(context).is_none() {
            return Err(Misuse::Context(context).into());
        }
        self.write(context, payload, out)
    }

    /// Appends the closing record: the other endpoint knows by it that nothing was cut off.
    ///
    /// # Errors
    /// [`Misuse::Closed`]: this direction is closed.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let last = self.next.ok_or(Misuse::Closed)?;
        let mut payload = vec![control::CLOSE];
        payload.extend_from_slice(&last.to_be_bytes());
        self.write(ContextId::END_TO_END, &payload, out)?;
        self.next = None;
        Ok(())
    }

    /// Appends an alert, which ends the session.
    ///
    /// # Errors
    /// [`Misuse::Closed`]: this direction is closed.
    pub fn alert(&mut self, alert: Alert, out: &mut Vec<u8>) -> Result<(), Error> {
        let payload = [control::ALERT, alert.code()];
        self.write(ContextId::END_TO_END, &payload, out)?;
        self.next = None;
        Ok(())
    }

    fn write(&mut self, id: ContextId, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let seq = self.next.ok_or(Misuse::Closed)?;
        if seq >= SEQ_LIMIT {
            return Err(Misuse::SequenceSpent.into());
        }
        let header = Header {
            context: id,
            author: Author::Endpoint,
            index: 0,
            place: Place::Last,
            seq,
        };
        let start = out.len();
        let written = self.write_record(header, payload, out);
        match written {
            Ok(()) => self.next = Some(seq + 1),
            Err(_) => out.truncate(start),
        }
        written
    }

    /// Appends a record in its frame. The payload is copied once and sealed where it goes from.
    fn write_record(
        &mut self,
        header: Header,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let id = header.context;
        let context = self.keys.context(id);
        let due = |has: bool| has.then_some([0; TAG_LEN]);
        let mut evidence = Evidence {
            writer: due(context.is_some_and(Context::has_writer_tag)),
            endpoint: due(context.is_some_and(Context::has_endpoint_tag)),
            ..Evidence::default()
        };
        let frame = begin_record(out);
        out.extend_from_slice(&header.to_bytes());
        // What follows from the ciphertext is written over this once that is there.
        let front = out.len();
        evidence.write(context, out);
        let sealed = out.len();
        out.reserve(payload.len() + TAG_LEN);
        out.extend_from_slice(payload);
        let done = self.keys.seal_from(header, sealed, out)?;
        done.ok_or(Misuse::Context(id))?;
        let is_whole = !self.keys.context(id).is_some_and(Context::has_digest);
        if is_whole && evidence.writer.is_some() {
            evidence.writer = self.keys.whole_tag(header, &out[sealed..])?;
        } else if evidence.writer.is_some() || evidence.endpoint.is_some() {
            let digest = digest(std::iter::once((header, &out[sealed..])));
            let claim = Claim::new(id, header.seq, digest, digest);
            if evidence.writer.is_some() {
                evidence.writer = self.keys.writer_tag(&claim)?;
            }
            if evidence.endpoint.is_some() {
                evidence.endpoint = self.keys.endpoint_tag(&claim)?;
            }
        }
        if sealed > front {
            let mut true_one = Vec::with_capacity(sealed - front);
            evidence.write(self.keys.context(id), &mut true_one);
            out[front..sealed].copy_from_slice(&true_one);
        }
        end(out, frame);
        Ok(())
    }
}

#[cfg(test)]
impl Sender {
    /// A record of context 0 as an honest endpoint does not write it.
    pub(crate) fn control(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.write(ContextId::END_TO_END, payload, out)
    }

    pub(crate) fn skip_to(&mut self, seq: u64) {
        self.next = Some(seq);
    }
}
