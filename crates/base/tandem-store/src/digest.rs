//! What bytes are called: SHA-256 digests of parts and of whole objects, and the prefixes
//! that travel.
//!
//! Not here: where the bytes are. Invariant: a [`Digest`] is always a whole SHA-256 value; a prefix
//! is a plain array, so that the two cannot be confused. The thesis names certificates by MD5
//! (section 2.4); nothing new should, so references are prefixes of SHA-256 (FIPS 180-4).

use core::fmt;
use core::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::error::NameError;

/// Bytes in a SHA-256 value (FIPS 180-4, section 1).
pub const DIGEST_LENGTH: usize = 32;

/// The SHA-256 of some bytes. Ordered by value, so that everything with one prefix is one range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; DIGEST_LENGTH]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was computed elsewhere.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; DIGEST_LENGTH]) -> Self {
        Self(bytes)
    }

    /// All 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; DIGEST_LENGTH] {
        &self.0
    }

    /// The first 4 bytes: how a hint names what is held.
    #[must_use]
    pub fn prefix4(&self) -> [u8; 4] {
        self.prefix()
    }

    /// The first 16 bytes: how a reference names a certificate.
    #[must_use]
    pub fn prefix16(&self) -> [u8; 16] {
        self.prefix()
    }

    fn prefix<const N: usize>(&self) -> [u8; N] {
        const { assert!(N <= DIGEST_LENGTH) };
        let mut prefix = [0; N];
        prefix.copy_from_slice(&self.0[..N]);
        prefix
    }

    /// The least and the greatest digest that start with `prefix` (its first 32 bytes, if longer).
    pub(crate) fn range_of(prefix: &[u8]) -> (Self, Self) {
        let (mut least, mut greatest) = ([0x00; DIGEST_LENGTH], [0xff; DIGEST_LENGTH]);
        for ((least, greatest), byte) in least.iter_mut().zip(&mut greatest).zip(prefix) {
            *least = *byte;
            *greatest = *byte;
        }
        (Self(least), Self(greatest))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = NameError;

    /// Reads 64 hexadecimal digits of either case.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let not_a_digest = || NameError::NotADigest {
            text: text.chars().take(80).collect(),
        };
        let mut bytes = [0; DIGEST_LENGTH];
        if text.len() != 2 * DIGEST_LENGTH {
            return Err(not_a_digest());
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let high = hex_value(pair[0]).ok_or_else(not_a_digest)?;
            let low = hex_value(pair[1]).ok_or_else(not_a_digest)?;
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

/// The value of one hexadecimal digit.
pub(crate) fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The name of an object: SHA-256 over its contents. Those of a chain are the *contents* of TLS's
/// `certificate_list` (RFC 5246, section 7.4.2): each certificate's three-byte length and its DER,
/// leaf first, without the length in front of the list. See [`Layout`](crate::Layout).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(Digest);

impl ObjectId {
    /// The name of the list of these parts: of a chain, the certificates (DER, leaf first).
    #[must_use]
    pub fn of(chain: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for der in chain {
            // A certificate_list cannot hold a certificate of 2^24 bytes or more; such a one is
            // never stored either.
            let [_, length @ ..] = u32::try_from(der.len()).unwrap_or(u32::MAX).to_be_bytes();
            hash.update(length);
            hash.update(der);
        }
        Self(Digest(hash.finalize().into()))
    }

    /// The name of the list with these contents.
    #[must_use]
    pub fn of_list_contents(contents: &[u8]) -> Self {
        Self(Digest::of(contents))
    }

    /// A name that was computed elsewhere.
    #[must_use]
    pub const fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest that the name is.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.0
    }

    /// All 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; DIGEST_LENGTH] {
        self.0.as_bytes()
    }

    /// The first 4 bytes: how a hint names what is held.
    #[must_use]
    pub fn prefix4(&self) -> [u8; 4] {
        self.0.prefix4()
    }

    /// The first 16 bytes.
    #[must_use]
    pub fn prefix16(&self) -> [u8; 16] {
        self.0.prefix16()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for ObjectId {
    type Err = NameError;

    /// Reads 64 hexadecimal digits of either case.
    fn from_str(text: &str) -> Result<Self, NameError> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn the_published_vector_comes_out_and_reads_back() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(ABC.parse::<Digest>().expect("64 digits"), digest);
        assert_eq!(
            ABC.to_uppercase().parse::<Digest>().expect("64 digits"),
            digest
        );
        assert_eq!(digest.prefix4(), [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(digest.prefix16()[..4], digest.prefix4());
    }

    #[test]
    fn digests_and_names_of_objects_are_shown_and_read_alike() {
        let id: ObjectId = ABC.parse().expect("64 digits");
        assert_eq!(*id.digest(), Digest::of(b"abc"));
        assert_eq!(id.as_bytes(), id.digest().as_bytes());
        let shown = [
            id.to_string(),
            format!("{id:?}"),
            format!("{:?}", id.digest()),
        ];
        assert_eq!(shown, [ABC; 3]);
    }

    #[test]
    fn what_is_not_64_hexadecimal_digits_is_refused() {
        for text in [
            "",
            "ba78",
            &ABC[1..],
            &format!("{ABC}00"),
            &ABC.replace('b', "g"),
            &"é".repeat(32),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_chain_is_named_by_the_contents_of_its_certificate_list() {
        let contents = [&[0, 0, 3][..], b"abc", &[0, 1, 0], &[7; 256]].concat();
        assert_eq!(
            ObjectId::of(&[b"abc", &[7; 256]]),
            ObjectId::of_list_contents(&contents)
        );
        assert_ne!(ObjectId::of(&[b"ab", b"c"]), ObjectId::of(&[b"a", b"bc"]));
    }

    #[test]
    fn a_prefix_names_the_range_of_what_starts_with_it() {
        let digest = Digest::of(b"abc");
        let (least, greatest) = Digest::range_of(&digest.prefix4());
        assert!(least <= digest && digest <= greatest);
        assert_eq!(least.prefix4(), digest.prefix4());
        assert_eq!(greatest.prefix4(), digest.prefix4());
        assert_eq!(Digest::range_of(digest.as_bytes()), (digest, digest));
    }
}
