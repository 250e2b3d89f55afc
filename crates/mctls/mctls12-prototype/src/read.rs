//! A bounded reader over one message, and its counterpart for writing vectors.
//!
//! Invariant: each step takes bytes from the front or fails; nothing reads past the end.

use crate::error::Malformed;

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

    /// A vector with a length of so many bytes: one to three.
    pub(crate) fn vec(&mut self, width: usize) -> Result<&'a [u8], Malformed> {
        let length = self.take(width)?.iter();
        self.take(length.fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn len(self) -> usize {
        self.0.len()
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

/// Appends a vector behind a length of so many bytes. Callers bound what they write.
pub(crate) fn put_vec(out: &mut Vec<u8>, width: usize, bytes: &[u8]) {
    let length = bytes.len().to_be_bytes();
    let (high, low) = length.split_at(length.len() - width);
    assert!(
        high.iter().all(|byte| *byte == 0),
        "bounded where it comes in"
    );
    out.extend_from_slice(low);
    out.extend_from_slice(bytes);
}
