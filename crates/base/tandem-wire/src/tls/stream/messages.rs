//! The highest layer: handshake bytes, a fragment at a time, to messages.
//!
//! ```text
//!  fragments  | type 1 len 3 body | type 1 len 3 bo |   | dy |
//!  pieces     |<----- one ------->|<----- two ----->|   |<-->|
//! ```
//!
//! It does not ask where its bytes come from: a record in clear, or one that was opened. Whoever
//! keeps the stream takes the pieces ([`MessageReader`]); who does not, the messages themselves
//! ([`MessageBuffer`]).
//!
//! Invariants: a reader keeps a header, a buffer one unfinished message of at most the limit that
//! it was given; a message that says it is longer is refused at its header.
//!
//! Specifications: RFC 5246, section 7.4; RFC 8446, section 4 and 5.1.

use thiserror::Error;

use crate::tls::handshake::{HEADER_LEN, HandshakeType};

/// What a message's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Its type.
    pub msg_type: HandshakeType,
    /// Length of its body.
    pub body_len: usize,
}

/// A message announces a longer body than is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a handshake message of {0} bytes")]
pub struct MessageTooLong(pub usize);

/// A part of a message: all that a fragment holds of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes from the front of the fragment: at least 1.
    pub len: usize,
    /// The message, if it ends here.
    pub ends: Option<MessageHeader>,
}

/// Cuts handshake bytes into messages.
#[derive(Clone, Copy, Debug)]
pub struct MessageReader {
    max_body_len: usize,
    header: [u8; HEADER_LEN],
    /// Bytes of the unfinished message, header included.
    present: usize,
}

impl MessageReader {
    /// A reader between two messages, for bodies of at most `max_body_len` bytes.
    #[must_use]
    pub const fn new(max_body_len: usize) -> Self {
        Self {
            max_body_len,
            header: [0; HEADER_LEN],
            present: 0,
        }
    }

    /// Bytes of the unfinished message that have passed; 0 between two messages.
    #[must_use]
    pub const fn present(&self) -> usize {
        self.present
    }

    /// The header of the unfinished message, once it is complete.
    #[must_use]
    pub fn unfinished(&self) -> Option<MessageHeader> {
        (self.present >= HEADER_LEN).then(|| self.message_header())
    }

    /// The piece at the front of `fragment`; `None` for an empty one.
    ///
    /// # Errors
    /// [`MessageTooLong`] as soon as a header says so; then there is nothing more to read.
    #[inline]
    pub fn read(&mut self, fragment: &[u8]) -> Result<Option<Piece>, MessageTooLong> {
        if fragment.is_empty() {
            return Ok(None);
        }
        let mut len = 0;
        if let (0, Some(header)) = (self.present, fragment.first_chunk()) {
            self.header = *header;
            self.present = HEADER_LEN;
            len = HEADER_LEN;
        }
        while self.present < HEADER_LEN {
            let Some(&byte) = fragment.get(len) else {
                return Ok(Some(Piece { len, ends: None }));
            };
            self.header[self.present] = byte;
            self.present += 1;
            len += 1;
        }
        let header = self.message_header();
        if header.body_len > self.max_body_len {
            return Err(MessageTooLong(header.body_len));
        }
        let missing = HEADER_LEN + header.body_len - self.present;
        let taken = missing.min(fragment.len() - len);
        len += taken;
        self.present += taken;
        let ends = (taken == missing).then(|| {
            self.present = 0;
            header
        });
        Ok(Some(Piece { len, ends }))
    }

    fn message_header(&self) -> MessageHeader {
        let [msg_type, a, b, c] = self.header;
        MessageHeader {
            msg_type: HandshakeType(msg_type),
            body_len: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
        }
    }
}

/// A whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub msg_type: HandshakeType,
    /// All of it, its header included.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// What follows the header.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }
}

/// Puts messages together where nobody keeps the stream.
#[derive(Clone, Debug)]
pub struct MessageBuffer {
    reader: MessageReader,
    held: Vec<u8>,
}

impl MessageBuffer {
    /// An empty one, for bodies of at most `max_body_len` bytes.
    #[must_use]
    pub const fn new(max_body_len: usize) -> Self {
        Self {
            reader: MessageReader::new(max_body_len),
            held: Vec::new(),
        }
    }

    /// Bytes of the unfinished message: at most the limit and a header.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Ends the unfinished message where it is, and gives its bytes away.
    pub fn give_up(&mut self) -> Vec<u8> {
        self.reader = MessageReader::new(self.reader.max_body_len);
        std::mem::take(&mut self.held)
    }

    /// Takes a fragment, and gives each message that is whole now to `each`. A message that lies in
    /// one fragment is not copied.
    ///
    /// # Errors
    /// [`MessageTooLong`], after the messages before it; then there is nothing more to read. What
    /// has come of the long message is held.
    pub fn push(
        &mut self,
        fragment: &[u8],
        mut each: impl FnMut(Message<'_>),
    ) -> Result<(), MessageTooLong> {
        let mut rest = fragment;
        while let Some(piece) = self
            .reader
            .read(rest)
            .inspect_err(|_| self.held.extend_from_slice(rest))?
        {
            let (bytes, after) = rest.split_at(piece.len);
            rest = after;
            match piece.ends {
                None => self.held.extend_from_slice(bytes),
                Some(MessageHeader { msg_type, .. }) if self.held.is_empty() => {
                    each(Message { msg_type, bytes });
                }
                Some(MessageHeader { msg_type, .. }) => {
                    self.held.extend_from_slice(bytes);
                    let bytes = &self.held;
                    each(Message { msg_type, bytes });
                    self.held.clear();
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(fragments: &[&[u8]], limit: usize) -> (Vec<(u8, Vec<u8>)>, usize, bool) {
        let (mut buffer, mut found) = (MessageBuffer::new(limit), Vec::new());
        let is_refused = fragments.iter().any(|fragment| {
            let each = |message: Message<'_>| {
                found.push((message.msg_type.0, message.body().to_vec()));
            };
            buffer.push(fragment, each).is_err()
        });
        (found, buffer.held().len(), is_refused)
    }

    #[test]
    fn messages_come_out_however_they_are_cut() {
        let stream = [1, 0, 0, 2, 8, 9, 14, 0, 0, 0, 11, 0, 0, 3, 1, 2, 3, 4, 0, 0];
        let expected = (
            vec![(1, vec![8, 9]), (14, vec![]), (11, vec![1, 2, 3])],
            3,
            false,
        );
        for step in 1..=stream.len() {
            let fragments: Vec<&[u8]> = stream.chunks(step).collect();
            assert_eq!(all(&fragments, 10), expected, "step {step}");
        }
    }

    #[test]
    fn a_message_longer_than_the_limit_is_refused_before_it_is_held() {
        let (found, held, is_refused) = all(&[&[14, 0, 0, 0, 11, 0], &[0, 11]], 10);
        assert_eq!(found, [(14, vec![])]);
        assert!(is_refused && held == 4);
        let mut reader = MessageReader::new(10);
        assert_eq!(reader.read(&[11, 0, 0, 11]), Err(MessageTooLong(11)));
    }

    #[test]
    fn after_an_unfinished_message_was_given_up_the_next_begins() {
        let mut buffer = MessageBuffer::new(10);
        buffer.push(&[11, 0, 0, 3, 1], |_| {}).expect("short");
        assert_eq!(buffer.give_up(), [11, 0, 0, 3, 1]);
        let mut found = 0;
        buffer.push(&[14, 0, 0, 0], |_| found += 1).expect("short");
        assert_eq!((found, buffer.held()), (1, &[][..]));
    }
}
