//! Names of bytes that the reader has.
//!
//! Is not: where the bytes are kept; that is the [`crate::Source`]'s. Invariant: a digest means the
//! same bytes everywhere, a number only where both sides agreed on it.

use std::fmt;

/// The name of bytes that the reader is thought to hold: the first 16 bytes of their SHA-256.
///
/// Sixteen bytes are the thesis's size (section 2.3.3). That two objects share them by chance is
/// out of the question, and by malice is caught by the check that follows every delta.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference(pub [u8; Reference::LEN]);

impl Reference {
    /// Size on the wire, in bytes.
    pub const LEN: usize = 16;
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What an instruction names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// Bytes by their digest.
    Digest(Reference),
    /// Bytes that both sides gave this number, in the session of which the delta is a part. One
    /// byte where a digest takes sixteen.
    Number(u32),
}

impl From<Reference> for Name {
    fn from(reference: Reference) -> Self {
        Self::Digest(reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_shown_in_full() {
        let mut reference = Reference([0xab; 16]);
        reference.0[0] = 1;
        let shown = format!("{reference:?}");
        assert_eq!(shown, "01ababababababababababababababab");
    }
}
