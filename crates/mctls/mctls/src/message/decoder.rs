//! Messages out of a stream of bytes, in any pieces.
//!
//! Invariant: at most one message's length is held ([`MAX_MESSAGE_LEN`]) beside what one call
//! brings.

use zeroize::Zeroize as _;

use super::{Counts, HEADER_LEN, MAX_MESSAGE_LEN, Message, kind};
use crate::config::Terms;
use crate::error::{Breach, Error, Malformed};

/// Reads messages of one channel: end to end, or a leg.
#[derive(Debug, Default)]
pub struct Decoder {
    held: Vec<u8>,
    counts: Option<Counts>,
}

impl Drop for Decoder {
    fn drop(&mut self) {
        self.held.zeroize();
    }
}

impl Decoder {
    /// One that has read nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more bytes of the stream. Drain [`Self::next`] between two calls.
    ///
    /// # Errors
    /// [`Breach::Flood`]: more than a message's length is held already.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.held.len() > MAX_MESSAGE_LEN {
            return Err(Breach::Flood.into());
        }
        let length = self.held.len() + bytes.len();
        if length > self.held.capacity() {
            // Growing in place would leave copies of shares behind.
            let mut longer = Vec::with_capacity(length.next_power_of_two());
            longer.extend_from_slice(&self.held);
            self.held.zeroize();
            self.held = longer;
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole message; `None` until more bytes come.
    ///
    /// # Errors
    /// Bytes that are no message.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<Message>, Error> {
        let Some((header, rest)) = self.held.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let [code, high, low] = *header;
        let known = matches!(code, kind::OFFER..=kind::READY | kind::START..=kind::OWN_KEYS);
        if !known {
            return Err(Malformed::Type(code).into());
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = Message::parse(code, body, self.counts)?;
        if let Message::Start(start) = &message {
            self.note(&start.configuration.terms);
        }
        let end = HEADER_LEN + length;
        self.held[..end].zeroize();
        self.held.drain(..end);
        Ok(Some(message))
    }

    /// The session's terms, which say how long keys are. A leg's decoder learns them from the
    /// start that passes through it.
    fn note(&mut self, terms: &Terms) {
        self.counts = Some(Counts::of(terms));
    }
}
