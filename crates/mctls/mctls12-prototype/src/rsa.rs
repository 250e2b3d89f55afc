//! RSA with somebody's public key, PKCS #1 v1.5 (RFC 8017): sealing, and signatures over SHA-256.
//!
//! Is not: private keys ([`crate::auth::Private`]). The prototype's middleboxes take sealed keys of
//! 128 bytes at most, so keys of 1024 bits are permitted here. **They can be broken.**

use aws_lc_rs::digest;
use zeroize::Zeroizing;

use crate::entropy::{Entropy, Use};
use crate::modular::{MAX_BITS, bits, power, trimmed};

/// Shortest modulus, in bits.
const MIN_BITS: usize = 1024;

/// What is before a SHA-256 hash in a signature (RFC 8017, section 9.2, note 1).
const DIGEST_INFO: [u8; 19] = [
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05,
    0x00, 0x04, 0x20,
];

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RsaKey {
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

impl RsaKey {
    /// From modulus and exponent, big-endian. `None`: not 1024 to 8192 bits, or not odd.
    #[must_use]
    pub fn new(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
        let is_good = (MIN_BITS..=MAX_BITS).contains(&bits(modulus))
            && is_odd(modulus)
            && is_odd(exponent)
            && (2..=64).contains(&bits(exponent));
        is_good.then(|| Self {
            modulus: trimmed(modulus).to_vec(),
            exponent: trimmed(exponent).to_vec(),
        })
    }

    /// Seals a few bytes for the key's holder (section 7.2.1).
    pub(crate) fn seal(&self, secret: &[u8; 32], entropy: &Entropy, recipient: u8) -> Vec<u8> {
        let len = self.modulus.len();
        let mut padding = entropy.bytes(Use::Padding(recipient), len - 3 - secret.len());
        for byte in padding.iter_mut() {
            // Not 0. This one value is a little more frequent than others, which helps nobody.
            *byte = (*byte).max(1);
        }
        let block = Zeroizing::new([&[0, 2], padding.as_slice(), &[0], secret].concat());
        let sealed = power(&block, &self.exponent, &self.modulus);
        sealed.expect("the key's bounds hold").to_vec()
    }

    /// Whether a signature over a message is by the key's holder (section 8.2.2).
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let len = self.modulus.len();
        let hash = digest::digest(&digest::SHA256, message);
        let expected = signature_block(len, hash.as_ref());
        let opened = power(signature, &self.exponent, &self.modulus);
        signature.len() == len && opened.is_some_and(|opened| *opened == expected)
    }
}

/// What a signature over a message with this hash is made of, for a key of so many bytes.
pub(crate) fn signature_block(len: usize, hash: &[u8]) -> Vec<u8> {
    let padding = vec![0xff; len.saturating_sub(3 + DIGEST_INFO.len() + hash.len())];
    [&[0, 1], &padding[..], &[0], &DIGEST_INFO, hash].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Private as _;
    use crate::rehearsal::{Toy, toy_key};

    #[test]
    fn a_signature_holds_for_its_message_and_key_alone() {
        let (key, message) = (toy_key(), b"message");
        let mut signature = Toy.sign(message).expect("it signs");
        assert!(key.verifies(message, &signature));
        assert!(!key.verifies(b"massage", &signature));
        assert!(!key.verifies(message, &signature[1..]));
        assert!(!key.verifies(message, &[&[0], &signature[..]].concat()));
        assert!(!key.verifies(message, &[0; 128]));
        assert!(!key.verifies(message, &[0xff; 128]));
        signature[5] ^= 1;
        assert!(!key.verifies(message, &signature));
    }

    #[test]
    fn what_is_sealed_opens() {
        let entropy = Entropy::new(&[1; Entropy::LEN]);
        let sealed = toy_key().seal(&[7; 32], &entropy, 3);
        let opened = Toy.open(&sealed).expect("it is for this key");
        assert_eq!(*opened, [7; 32]);
        assert_eq!(Toy.open(&[1; 128]), None);
    }

    #[test]
    fn keys_out_of_bounds_are_refused() {
        assert!(RsaKey::new(&[0xff; 128], &[1, 0, 1]).is_some());
        assert!(RsaKey::new(&[0x7f; 128], &[1, 0, 1]).is_none());
        assert!(RsaKey::new(&[0xfe; 128], &[1, 0, 1]).is_none());
        assert!(RsaKey::new(&[0xff; 1025], &[1, 0, 1]).is_none());
        assert!(RsaKey::new(&[0xff; 128], &[1]).is_none());
        assert!(RsaKey::new(&[0xff; 128], &[2]).is_none());
    }
}
