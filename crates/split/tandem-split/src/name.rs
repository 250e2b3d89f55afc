//! Names of payloads, and payloads whose name has been checked.
//!
//! Is: digests by which a stub refers to the plaintext of a record, or to a chunk of an object: the
//! same plaintext has the same name in both. Is not: where payloads are kept.
//!
//! Invariant: who holds a [`Payload`] holds bytes that have had their digest checked, or computed,
//! in this process.

use std::fmt;
use std::sync::Arc;

use sha2::Digest;
use subtle::ConstantTimeEq;
use tandem_wire::tls::record::MAX_PLAINTEXT_LEN;

use crate::error::{Breach, Error, Misuse};

/// Longest payload in bytes: what one record holds (RFC 5246, section 6.2.1).
pub const MAX_PAYLOAD_LEN: usize = MAX_PLAINTEXT_LEN;

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

pub(crate) fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Bytes together with a name that is theirs. Cheap to clone: a cache in memory need not check
/// again what it checked once.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    name: PayloadName,
    bytes: Arc<[u8]>,
}

impl Payload {
    /// Names bytes of one's own by their SHA-256.
    ///
    /// # Errors
    /// [`Misuse::PlaintextLength`] over [`MAX_PAYLOAD_LEN`].
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        let bytes = bytes.into();
        if bytes.len() > MAX_PAYLOAD_LEN {
            return Err(Misuse::PlaintextLength(bytes.len()).into());
        }
        Ok(Self {
            name: PayloadName::sha256(&bytes),
            bytes,
        })
    }

    /// Names bytes of one's own by their SHA-1, for a volunteer that knows no better.
    ///
    /// # Errors
    /// [`Misuse::PlaintextLength`] over [`MAX_PAYLOAD_LEN`].
    pub fn new_sha1(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        let bytes = bytes.into();
        if bytes.len() > MAX_PAYLOAD_LEN {
            return Err(Misuse::PlaintextLength(bytes.len()).into());
        }
        Ok(Self {
            name: PayloadName::sha1(&bytes),
            bytes,
        })
    }

    /// Takes somebody else's bytes for what `name` says, if they are.
    ///
    /// # Errors
    /// [`Breach::Digest`] if they are not, or are longer than [`MAX_PAYLOAD_LEN`].
    pub fn check(name: PayloadName, bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        let bytes = bytes.into();
        if bytes.len() > MAX_PAYLOAD_LEN || !name.names(&bytes) {
            return Err(Breach::Digest.into());
        }
        Ok(Self { name, bytes })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> PayloadName {
        self.name
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, {} bytes)", self.name, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_what_its_name_says_or_none() {
        for name in [PayloadName::sha1(b"bytes"), PayloadName::sha256(b"bytes")] {
            let payload = Payload::check(name, *b"bytes").expect("they are");
            assert_eq!((payload.name(), payload.bytes()), (name, &b"bytes"[..]));
            assert_eq!(Payload::check(name, *b"bytez"), Err(Breach::Digest.into()));
        }
        assert_eq!(
            Payload::new([0; MAX_PAYLOAD_LEN + 1]),
            Err(Misuse::PlaintextLength(MAX_PAYLOAD_LEN + 1).into())
        );
        let long = [0; MAX_PAYLOAD_LEN + 1];
        assert_eq!(
            Payload::check(PayloadName::sha256(&long), long),
            Err(Breach::Digest.into())
        );
    }

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
}
