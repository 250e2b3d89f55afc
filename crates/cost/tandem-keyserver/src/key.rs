//! Which key is meant: the SHA-256 of its public half, as a certificate has it.
//!
//! Is not: a private key; none comes into this crate.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A key's name between key server and client: the SHA-256 of its SubjectPublicKeyInfo (RFC 5280,
/// section 4.1.2.7), which a client takes from the certificate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; Self::LEN]);

impl KeyId {
    /// Bytes of it.
    pub const LEN: usize = 32;

    /// Of a public key in DER.
    #[must_use]
    pub fn of_public_key(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }

    /// With these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; Self::LEN] {
        self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA (rsaEncryption), of any length.
    Rsa,
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// ECDSA on P-521.
    P521,
    /// Ed25519.
    Ed25519,
}

/// AlgorithmIdentifiers whole, as they begin a SubjectPublicKeyInfo (RFC 3279, sections 2.3.1 and
/// 2.3.5; RFC 8410, section 3).
const ALGORITHMS: [(&[u8], KeyKind); 5] = [
    (
        b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00",
        KeyKind::Rsa,
    ),
    (
        b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
        KeyKind::P256,
    ),
    (
        b"\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22",
        KeyKind::P384,
    ),
    (
        b"\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23",
        KeyKind::P521,
    ),
    (b"\x30\x05\x06\x03\x2b\x65\x70", KeyKind::Ed25519),
];

impl KeyKind {
    /// Of a public key, a SubjectPublicKeyInfo in DER; `None` for other algorithms.
    #[must_use]
    pub fn of_public_key(der: &[u8]) -> Option<Self> {
        // The outer SEQUENCE: its tag, and a length of one to three bytes.
        let inner = match der {
            [0x30, 0x82, _, _, inner @ ..]
            | [0x30, 0x81, _, inner @ ..]
            | [0x30, 0..=0x7f, inner @ ..] => inner,
            _ => return None,
        };
        ALGORITHMS
            .iter()
            .find(|(algorithm, _)| inner.starts_with(algorithm))
            .map(|(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_the_algorithm_of_its_public_half() {
        // RFC 8410, section 10.1, and the beginnings of what OpenSSL writes for the others.
        let ed25519 = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00\x19\xbf\x44";
        assert_eq!(KeyKind::of_public_key(ed25519), Some(KeyKind::Ed25519));
        let rsa = b"\x30\x82\x01\x22\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
        assert_eq!(KeyKind::of_public_key(rsa), Some(KeyKind::Rsa));
        // Ed448.
        let other = b"\x30\x43\x30\x05\x06\x03\x2b\x65\x71\x03\x3a\x00";
        assert_eq!(KeyKind::of_public_key(other), None);
        assert_eq!(KeyKind::of_public_key(&[0x30]), None);
    }

    #[test]
    fn a_name_is_the_sha_256_of_the_public_half() {
        let name = KeyId::of_public_key(b"abc").to_string();
        assert!(name.starts_with("ba7816bf8f01cfea"), "{name}");
    }
}
