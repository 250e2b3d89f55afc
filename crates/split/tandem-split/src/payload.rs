//! Payloads: bytes whose name has been checked.
//!
//! Is not: where they are kept.
//!
//! Invariant: who holds a [`Payload`] holds bytes that have had their digest checked, or computed,
//! in this process.

use std::fmt;
use std::sync::Arc;

use tandem_wire::tls::record::MAX_PLAINTEXT_LEN;

use crate::error::{Breach, Error, Misuse};
use crate::name::PayloadName;

/// Longest payload in bytes: what one record holds (RFC 5246, section 6.2.1).
pub const MAX_PAYLOAD_LEN: usize = MAX_PLAINTEXT_LEN;

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
        let refused = Misuse::PlaintextLength(MAX_PAYLOAD_LEN + 1).into();
        let sha1 = Payload::new_sha1([0; MAX_PAYLOAD_LEN + 1]);
        assert_eq!(sha1, Err(refused));
        assert!(Payload::new_sha1([0; MAX_PAYLOAD_LEN]).is_ok());
        let long = [0; MAX_PAYLOAD_LEN + 1];
        assert_eq!(
            Payload::check(PayloadName::sha256(&long), long),
            Err(Breach::Digest.into())
        );
    }
}
