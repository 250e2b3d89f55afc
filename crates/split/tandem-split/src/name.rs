//! Names of payloads and objects: the digests by which a stub refers to the plaintext of a record,
//! or to a chunk of an object; the same plaintext has the same name in both.
//!
//! Is not: what they name ([`crate::payload`], [`crate::object`]), nor where that is kept.

use std::fmt;

use sha2::Digest;
use subtle::ConstantTimeEq;

/// The digest of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PayloadName {
    /// SHA-1, as the thesis has it. Off unless both sides turn it on: two payloads with one SHA-1
    /// can be made.
    Sha1([u8; 20]),
    /// SHA-256.
    Sha256([u8; 32]),
}

impl PayloadName {
    /// The SHA-256 name of these bytes.
    #[must_use]
    pub fn sha256(bytes: &[u8]) -> Self {
        Self::Sha256(sha2::Sha256::digest(bytes).into())
    }

    /// The SHA-1 name of these bytes.
    #[must_use]
    pub fn sha1(bytes: &[u8]) -> Self {
        Self::Sha1(sha1::Sha1::digest(bytes).into())
    }

    /// The digest's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha1(digest) => digest,
            Self::Sha256(digest) => digest,
        }
    }

    /// Whether these are the bytes that it names.
    #[must_use]
    pub fn names(&self, bytes: &[u8]) -> bool {
        let own = match self {
            Self::Sha1(_) => Self::sha1(bytes),
            Self::Sha256(_) => Self::sha256(bytes),
        };
        bool::from(own.as_bytes().ct_eq(self.as_bytes()))
    }
}

impl fmt::Display for PayloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha1(_) => "sha1:",
            Self::Sha256(_) => "sha256:",
        })?;
        write_hex(f, self.as_bytes())
    }
}

impl fmt::Debug for PayloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName(pub [u8; 32]);

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("object:")?;
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(crate) fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_the_published_ones() {
        // FIPS 180-4, "abc".
        assert_eq!(
            PayloadName::sha1(b"abc").to_string(),
            "sha1:a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert_eq!(
            PayloadName::sha256(b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn names_are_shown_in_full_with_what_they_name() {
        let sha1 = PayloadName::sha1(b"abc");
        assert_eq!(format!("{sha1:?}"), sha1.to_string());
        let object = ObjectName([0xab; 32]);
        let shown = format!("object:{}", "ab".repeat(32));
        assert_eq!(
            [object.to_string(), format!("{object:?}")],
            [&*shown, &*shown]
        );
        let want = crate::want::Want::Payload(sha1);
        assert_eq!(want.to_string(), format!("the payload {sha1}"));
    }
}
