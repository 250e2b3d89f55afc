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

    pub(crate) fn u24(&mut self) -> Result<usize, Malformed> {
        let [high, middle, low] = self.array()?;
        let number = u32::from_be_bytes([0, high, middle, low]);
        usize::try_from(number).map_err(|_| Malformed::Truncated)
    }

    /// A vector with a length of one byte.
    pub(crate) fn vec8(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// A vector with a length of two bytes.
    pub(crate) fn vec16(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u16()?;
        self.take(len.into())
    }

    /// A vector with a length of three bytes.
    pub(crate) fn vec24(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u24()?;
        self.take(len)
    }

    /// A field that has only one value.
    pub(crate) fn expect(&mut self, value: &[u8]) -> Result<(), Malformed> {
        match self.take(value.len())? == value {
            true => Ok(()),
            false => Err(Malformed::Value),
        }
    }

    /// Short text: printable ASCII.
    pub(crate) fn text(&mut self, least: usize, max: usize) -> Result<String, Malformed> {
        let bytes = self.vec8()?;
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Text)?;
        match is_text(text, least, max) {
            true => Ok(text.to_owned()),
            false => Err(Malformed::Text),
        }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
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

/// Whether text is printable ASCII of such a length.
pub(crate) fn is_text(text: &str, least: usize, max: usize) -> bool {
    (least..=max).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Appends a vector behind a length of so many bytes. Callers bound what they write.
pub(crate) fn put_vec(out: &mut Vec<u8>, width: usize, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.resize(start + width, 0);
    write(out);
    let length = out.len() - start - width;
    assert!(length >> (8 * width) == 0, "bounded where it comes in");
    let bytes = length.to_be_bytes();
    out[start..start + width].copy_from_slice(&bytes[bytes.len() - width..]);
}
