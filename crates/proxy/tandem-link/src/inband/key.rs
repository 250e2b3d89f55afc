//! The key that a pair of proxies shares, and the short tags made with it.
//!
//! Is: HMAC-SHA-256 (RFC 2104) with a label for each use, cut to the size that a TCP option has
//! room for. Is not: a secret of any endpoint. Whoever holds it and stands on the path can pass for
//! one of the proxies: learn what the other expects and holds, and bring wrong bytes to an
//! endpoint, as anybody on the path can; TLS then ends that connection.
//!
//! Invariants: a key is never printed; tags are compared in constant time.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The shared key of a pair of proxies: 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; Key::LEN]);

/// Why a text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text has another length than 64 digits.
    #[error(
        "a key has 64 hexadecimal digits, this one has {0} characters; make one with `tandem keygen`"
    )]
    Length(usize),
    /// A character is not a hexadecimal digit.
    #[error("character {0} of the key is not a hexadecimal digit; make a key with `tandem keygen`")]
    Digit(usize),
}

impl Key {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// The key that stands for "no key": everybody knows it, so options made with it prove nothing.
    pub const NONE: Key = Key([0; Key::LEN]);

    /// A key from its bytes.
    pub fn from_bytes(bytes: [u8; Key::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for keys that are derived from it.
    pub fn bytes(&self) -> &[u8; Key::LEN] {
        &self.0
    }

    /// A key from 64 hexadecimal digits; white space around them is ignored.
    ///
    /// # Errors
    /// [`KeyError`] says what is wrong with the text, without repeating it.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let digits: Vec<u8> = text
            .chars()
            .enumerate()
            .map(|(index, character)| {
                character
                    .to_digit(16)
                    .and_then(|digit| u8::try_from(digit).ok())
                    .ok_or(KeyError::Digit(index + 1))
            })
            .collect::<Result<_, _>>()?;
        if digits.len() != 2 * Key::LEN {
            return Err(KeyError::Length(digits.len()));
        }
        let (pairs, _) = digits.as_chunks::<2>();
        let mut bytes = [0; Key::LEN];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }

    /// The 64 digits that [`Key::from_hex`] reads: for the key file, and nowhere else.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The first `N` bytes of HMAC over the label's byte and the parts in order. Only the last part
    /// may vary in length.
    pub(crate) fn tag<const N: usize>(&self, label: Label, parts: &[&[u8]]) -> [u8; N] {
        let full = self.mac(label, parts).finalize().into_bytes();
        let mut tag = [0; N];
        tag.copy_from_slice(&full[..N]);
        tag
    }

    /// Whether `tag` is the front of the HMAC over the same input.
    pub(crate) fn verify(&self, label: Label, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.mac(label, parts).verify_truncated_left(tag).is_ok()
    }

    fn mac(&self, label: Label, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .expect("HMAC takes keys of any length (RFC 2104, section 2)");
        mac.update(&[label as u8]);
        for part in parts {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What a tag is for: no tag of one use passes for another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Presence = 1,
    Answer = 2,
    Hint = 3,
    Miss = 4,
    Frame = 5,
    Held = 6,
    Publication = 7,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways_and_errors_name_the_place() {
        let text = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
        let key = Key::from_hex(&format!(" {text}\n")).expect("64 digits");
        assert_eq!(key.to_hex(), text.to_lowercase());
        assert_eq!(Key::from_hex("00"), Err(KeyError::Length(2)));
        assert_eq!(
            Key::from_hex(&text.replace('8', "g")),
            Err(KeyError::Digit(17))
        );
    }

    #[test]
    fn a_key_does_not_show_itself() {
        assert_eq!(format!("{:?}", Key::from_bytes([0xab; 32])), "Key(..)");
    }

    #[test]
    fn tags_depend_on_key_label_and_every_byte() {
        let key = Key::from_bytes([1; 32]);
        let tag: [u8; 7] = key.tag(Label::Hint, &[b"one", b"two"]);
        assert!(key.verify(Label::Hint, &[b"one", b"two"], &tag));
        assert!(!key.verify(Label::Miss, &[b"one", b"two"], &tag));
        assert!(!key.verify(Label::Hint, &[b"one", b"twp"], &tag));
        assert!(!Key::NONE.verify(Label::Hint, &[b"one", b"two"], &tag));
        assert!(!key.verify(Label::Hint, &[b"one", b"two"], &[]));
    }
}
