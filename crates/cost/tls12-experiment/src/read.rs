//! A bounded reader over one message: each step takes bytes from the front or fails.

use tandem_wire::TlsError;

#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], TlsError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(TlsError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], TlsError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(TlsError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, TlsError> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, TlsError> {
        self.array().map(u16::from_be_bytes)
    }

    /// A vector with a length of one byte.
    pub(crate) fn vec8(&mut self) -> Result<&'a [u8], TlsError> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// A vector with a length of two bytes.
    pub(crate) fn vec16(&mut self) -> Result<&'a [u8], TlsError> {
        let len = self.u16()?;
        self.take(len.into())
    }

    /// The end of the message must be here.
    pub(crate) const fn finish(self) -> Result<(), TlsError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(TlsError::TrailingBytes)
        }
    }
}
