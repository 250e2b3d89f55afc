//! A bounded reader over one message, and its counterpart for writing vectors.
//!
//! Invariant: each step takes bytes from the front or fails; nothing reads past the end.

use crate::error::Malformed;
use crate::party::{Author, ContextId, Endpoint, Position};

#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn endpoint(&mut self) -> Result<Endpoint, Malformed> {
        let code = self.u8()?;
        Endpoint::from_code(code).ok_or(Malformed::Endpoint(code))
    }

    pub(crate) fn position(&mut self) -> Result<Position, Malformed> {
        let number = self.u8()?;
        Position::new(number).ok_or(Malformed::Position(number))
    }

    pub(crate) fn author(&mut self) -> Result<Author, Malformed> {
        let code = self.u8()?;
        Author::from_code(code).ok_or(Malformed::Position(code))
    }

    pub(crate) fn context(&mut self) -> Result<ContextId, Malformed> {
        self.u8().map(ContextId)
    }

    /// A byte that is 0 or 1.
    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Malformed::Flag(other)),
        }
    }

    /// A vector with a length of one byte.
    pub(crate) fn vec8(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// Short text: printable ASCII, at most `max` bytes.
    pub(crate) fn text(&mut self, max: usize) -> Result<&'a str, Malformed> {
        let bytes = self.vec8()?;
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Text)?;
        if bytes.len() > max || !is_plain(text) {
            return Err(Malformed::Text);
        }
        Ok(text)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// All that is left.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The end of the message must be here.
    pub(crate) const fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed::TrailingBytes)
        }
    }
}

/// Whether text can be shown to a person as it is.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Appends text behind its length. Callers keep it below 256 bytes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = u8::try_from(text.len()).expect("text is bounded where it comes in");
    out.push(length);
    out.extend_from_slice(text.as_bytes());
}
