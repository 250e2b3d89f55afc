//! A public key as a certificate has it, taken apart as far as OpenSSL asks: its numbers, and how
//! long a signature is.
//!
//! Is not: a check that the point is on its curve, or the modulus a product of primes; whoever
//! verifies signatures checks that. Reads what an administrator wrote, so any bytes may come.
//!
//! Specification: SubjectPublicKeyInfo, RFC 5280, section 4.1.2.7; RSAPublicKey, RFC 8017, A.1.1;
//! points, RFC 5480, section 2.2; Ed25519, RFC 8410.

use tandem_keyserver::{KeyId, KeyKind};

/// Bits of an RSA modulus: what key servers sign with, up to what OpenSSL verifies.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=16_384;

/// The types of keys that OpenSSL tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Rsa,
    Ec,
    Ed25519,
}

/// What the key consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Big-endian, without zeros in front.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// An uncompressed point of a curve, or the 32 bytes of Ed25519.
    Point(Vec<u8>),
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicKey {
    pub(crate) id: KeyId,
    pub(crate) kind: KeyKind,
    pub(crate) numbers: Numbers,
}

impl PublicKey {
    /// The key that these bytes are, a SubjectPublicKeyInfo in DER and nothing behind it; `None`
    /// for other kinds of keys than a key server has.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let kind = KeyKind::of_public_key(der)?;
        let info = only(der, 0x30)?;
        let (_, rest) = element(info, 0x30)?;
        // No bit of the last byte is unused.
        let [0, key @ ..] = only(rest, 0x03)? else {
            return None;
        };
        let numbers = match kind {
            KeyKind::Rsa => {
                let (modulus, rest) = element(only(key, 0x30)?, 0x02)?;
                let exponent = positive(only(rest, 0x02)?)?;
                let modulus = positive(modulus)?;
                let is_long_enough = RSA_BITS.contains(&bits(&modulus));
                (is_long_enough && exponent.len() <= 8)
                    .then_some(Numbers::Rsa { modulus, exponent })?
            }
            KeyKind::P256 => point(key, 65)?,
            KeyKind::P384 => point(key, 97)?,
            KeyKind::P521 => point(key, 133)?,
            KeyKind::Ed25519 => (key.len() == 32).then(|| Numbers::Point(key.to_vec()))?,
        };
        let id = KeyId::of_public_key(der);
        Some(Self { id, kind, numbers })
    }

    pub(crate) fn family(&self) -> Family {
        match self.kind {
            KeyKind::Rsa => Family::Rsa,
            KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => Family::Ec,
            KeyKind::Ed25519 => Family::Ed25519,
        }
    }

    /// Length of the key, in bits.
    pub(crate) fn bits(&self) -> usize {
        match (&self.numbers, self.kind) {
            (Numbers::Rsa { modulus, .. }, _) => bits(modulus),
            (_, KeyKind::P384) => 384,
            (_, KeyKind::P521) => 521,
            (_, KeyKind::Rsa | KeyKind::P256) => 256,
            // What OpenSSL says of its own ones.
            (_, KeyKind::Ed25519) => 253,
        }
    }

    /// Its strength, in bits (NIST SP 800-57 part 1, table 2).
    pub(crate) fn security_bits(&self) -> usize {
        match self.kind {
            KeyKind::Rsa => match self.bits() {
                ..3_072 => 112,
                3_072..7_680 => 128,
                7_680..15_360 => 192,
                15_360.. => 256,
            },
            KeyKind::P256 | KeyKind::Ed25519 => 128,
            KeyKind::P384 => 192,
            KeyKind::P521 => 256,
        }
    }

    /// Bytes of the longest signature. ECDSA's is a SEQUENCE of two INTEGERs.
    pub(crate) fn max_signature(&self) -> usize {
        match self.kind {
            KeyKind::Rsa => self.bits().div_ceil(8),
            KeyKind::P256 => 72,
            KeyKind::P384 => 104,
            KeyKind::P521 => 139,
            KeyKind::Ed25519 => 64,
        }
    }
}

fn point(bytes: &[u8], len: usize) -> Option<Numbers> {
    let is_uncompressed = bytes.len() == len && bytes.first() == Some(&4);
    is_uncompressed.then(|| Numbers::Point(bytes.to_vec()))
}

/// An INTEGER above zero, without the zero in front that keeps it positive.
fn positive(integer: &[u8]) -> Option<Vec<u8>> {
    match integer {
        [0, rest @ ..] if rest.first() >= Some(&0x80) => Some(rest.to_vec()),
        [1..=0x7f, ..] => Some(integer.to_vec()),
        _ => None,
    }
}

fn bits(number: &[u8]) -> usize {
    let zeros = number.first().map_or(0, |first| first.leading_zeros());
    (number.len() * 8).saturating_sub(usize::try_from(zeros).unwrap_or(0))
}

/// The content of an element of DER with this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (len, rest) = match rest {
        [len @ 0..=0x7f, rest @ ..] => (usize::from(*len), rest),
        [0x81, len @ 0x80..=0xff, rest @ ..] => (usize::from(*len), rest),
        [0x82, high @ 1..=0xff, low, rest @ ..] => {
            (usize::from(u16::from_be_bytes([*high, *low])), rest)
        }
        _ => return None,
    };
    (*first == tag).then_some(())?;
    rest.split_at_checked(len)
}

/// The content of an element that nothing follows.
pub(crate) fn only(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (content, rest) = element(der, tag)?;
    rest.is_empty().then_some(content)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A key of RFC 8410, section 10.1.
    pub(crate) const ED25519: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00\
        \x19\xbf\x44\x09\x69\x84\xcd\xfe\x85\x41\xba\xc1\x67\xdc\x3b\x96\
        \xc8\x50\x86\xaa\x30\xb6\xb6\xcb\x0c\x5c\x38\xad\x70\x31\x66\xe1";

    fn rsa(modulus: &[u8], behind: &[u8]) -> Vec<u8> {
        let long = |tag: u8, content: &[u8]| {
            let len = u16::try_from(content.len()).expect("short").to_be_bytes();
            [&[tag, 0x82, len[0], len[1]], content].concat()
        };
        let numbers = [&long(2, modulus), &b"\x02\x03\x01\x00\x01"[..], behind].concat();
        let bits = [&[0], &long(0x30, &numbers)[..]].concat();
        let algorithm = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
        long(0x30, &[&algorithm[..], &long(3, &bits)].concat())
    }

    #[test]
    fn keys_are_taken_apart() {
        let key = PublicKey::read(ED25519).expect("a key");
        assert_eq!(key.numbers, Numbers::Point(ED25519[12..].to_vec()));
        assert_eq!((key.max_signature(), key.family()), (64, Family::Ed25519));
        let modulus = [&[0][..], &[0xab; 256]].concat();
        let key = PublicKey::read(&rsa(&modulus, b"")).expect("a key");
        let exponent = vec![1, 0, 1];
        let modulus = modulus[1..].to_vec();
        assert_eq!(key.numbers, Numbers::Rsa { modulus, exponent });
        assert_eq!(
            (key.bits(), key.security_bits(), key.max_signature()),
            (2_048, 112, 256)
        );
    }

    #[test]
    fn other_bytes_are_no_key() {
        let short = [&[0][..], &[0xab; 128]].concat();
        let negative = [0xab; 256];
        let padded = [&[0, 0][..], &[0xab; 255]].concat();
        for (what, der) in [
            ("a short modulus", rsa(&short, b"")),
            ("a negative one", rsa(&negative, b"")),
            ("zeros in front", rsa(&padded, b"")),
            (
                "bytes behind the exponent",
                rsa(&[&[0][..], &[0xab; 256]].concat(), b"\x05\x00"),
            ),
            ("bytes behind the key", [ED25519, b"\0"].concat()),
            ("a key that is cut", ED25519[..40].to_vec()),
            ("nothing", Vec::new()),
        ] {
            assert_eq!(PublicKey::read(&der), None, "{what}");
        }
    }
}
