//! A bounded reader over one message: each step takes bytes from the front or fails; nothing reads
//! past the end.

use crate::error::TlsError;

#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], TlsError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(TlsError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], TlsError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(TlsError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, TlsError> {
        let [byte] = self.array()?;
        Ok(*byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, TlsError> {
        self.array().copied().map(u16::from_be_bytes)
    }

    fn u24(&mut self) -> Result<usize, TlsError> {
        let [a, b, c] = *self.array()?;
        Ok(usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c))
    }

    /// A vector with a length of one byte.
    pub(super) fn vec8(&mut self) -> Result<&'a [u8], TlsError> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// A vector with a length of two bytes.
    pub(super) fn vec16(&mut self) -> Result<&'a [u8], TlsError> {
        let len = self.u16()?;
        self.take(len.into())
    }

    /// A vector with a length of three bytes.
    pub(super) fn vec24(&mut self) -> Result<&'a [u8], TlsError> {
        let len = self.u24()?;
        self.take(len)
    }

    /// The end of the message must be here.
    pub(super) fn finish(self) -> Result<(), TlsError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(TlsError::TrailingBytes)
        }
    }
}
