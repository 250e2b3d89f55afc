//! Records under AES-128-GCM (RFC 5246, section 6.2.3.3; RFC 5288, section 3).
//!
//! ```text
//! fragment  explicit nonce 8 | ciphertext | tag 16
//! nonce     IV 4 | explicit nonce 8 = sequence number
//! covered   sequence number 8 | type 1 | version 2 | length of the content 2
//! ```
//!
//! Invariants: no nonce is used twice; a record that was changed, repeated, dropped or moved does
//! not open.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use tandem_wire::tls::record::{HEADER_LEN, MAX_PLAINTEXT_LEN, RecordHeader};
use tandem_wire::tls::{ContentType, ProtocolVersion};
use zeroize::Zeroizing;

use crate::error::{Check, Misuse};

const EXPLICIT_LEN: usize = 8;
const TAG_LEN: usize = 16;

/// Length of the record with so many bytes of content.
pub(crate) const fn sealed_len(content: usize) -> usize {
    HEADER_LEN + EXPLICIT_LEN + content + TAG_LEN
}

/// Key and IV of one direction.
#[derive(Clone)]
pub(crate) struct Keys {
    key: Zeroizing<Vec<u8>>,
    iv: [u8; 4],
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    pub(crate) fn new(key: &[u8], iv: &[u8]) -> Self {
        let mut own = [0; 4];
        own.copy_from_slice(iv);
        Self {
            key: Zeroizing::new(key.to_vec()),
            iv: own,
        }
    }
}

/// What both directions of a key have.
#[derive(Debug)]
struct Half {
    key: LessSafeKey,
    iv: [u8; 4],
    sequence: u64,
}

impl Half {
    fn new(keys: &Keys) -> Self {
        let key = UnboundKey::new(&AES_128_GCM, &keys.key);
        Self {
            key: LessSafeKey::new(key.expect("a key of AES-128 has 16 bytes")),
            iv: keys.iv,
            sequence: 0,
        }
    }

    fn nonce(&self, explicit: [u8; EXPLICIT_LEN]) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.iv);
        nonce[4..].copy_from_slice(&explicit);
        Nonce::assume_unique_for_key(nonce)
    }

    fn covered(&self, content_type: ContentType, len: u16) -> [u8; 13] {
        let mut covered = [0; 13];
        covered[..8].copy_from_slice(&self.sequence.to_be_bytes());
        covered[8] = content_type.as_u8();
        covered[9..11].copy_from_slice(&ProtocolVersion::TLS1_2.0.to_be_bytes());
        covered[11..].copy_from_slice(&len.to_be_bytes());
        covered
    }
}

/// Seals what is sent.
#[derive(Debug)]
pub(crate) struct Sealer(Half);

impl Sealer {
    pub(crate) fn new(keys: &Keys) -> Self {
        Self(Half::new(keys))
    }

    /// Appends the content as records.
    pub(crate) fn seal(
        &mut self,
        content_type: ContentType,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Misuse> {
        content
            .chunks(MAX_PLAINTEXT_LEN)
            .try_for_each(|chunk| self.record(content_type, chunk, out))
    }

    fn record(
        &mut self,
        content_type: ContentType,
        chunk: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Misuse> {
        let len = u16::try_from(chunk.len()).map_err(|_| Misuse::TooLong)?;
        let length = u16::try_from(EXPLICIT_LEN + chunk.len() + TAG_LEN);
        let header = RecordHeader {
            content_type,
            version: ProtocolVersion::TLS1_2,
            length: length.map_err(|_| Misuse::TooLong)?,
        };
        let explicit = self.0.sequence.to_be_bytes();
        let covered = self.0.covered(content_type, len);
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(&explicit);
        let at = out.len();
        out.extend_from_slice(chunk);
        let tag = self.0.key.seal_in_place_separate_tag(
            self.0.nonce(explicit),
            Aad::from(covered),
            out.get_mut(at..).unwrap_or_default(),
        );
        out.extend_from_slice(tag.map_err(|_| Misuse::TooLong)?.as_ref());
        self.0.sequence = self.0.sequence.checked_add(1).ok_or(Misuse::TooLong)?;
        Ok(())
    }
}

/// Opens what is received.
#[derive(Debug)]
pub(crate) struct Opener(Half);

impl Opener {
    pub(crate) fn new(keys: &Keys) -> Self {
        Self(Half::new(keys))
    }

    /// The content of a record.
    pub(crate) fn open(
        &mut self,
        content_type: ContentType,
        fragment: &[u8],
    ) -> Result<Vec<u8>, Check> {
        let (explicit, sealed) = fragment.split_first_chunk().ok_or(Check::Record)?;
        let len = sealed.len().checked_sub(TAG_LEN).ok_or(Check::Record)?;
        let len = u16::try_from(len).map_err(|_| Check::Record)?;
        if usize::from(len) > MAX_PLAINTEXT_LEN {
            return Err(Check::Record);
        }
        let covered = self.0.covered(content_type, len);
        let mut content = sealed.to_vec();
        let opened =
            self.0
                .key
                .open_in_place(self.0.nonce(*explicit), Aad::from(covered), &mut content);
        opened.map_err(|_| Check::Record)?;
        content.truncate(len.into());
        self.0.sequence = self.0.sequence.checked_add(1).ok_or(Check::Record)?;
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: ContentType = ContentType::ApplicationData;

    fn pair() -> (Sealer, Opener) {
        let keys = Keys::new(&[7; 16], &[9; 4]);
        (Sealer::new(&keys), Opener::new(&keys))
    }

    #[test]
    fn every_byte_of_a_record_is_vouched_for() {
        let (mut sealer, _) = pair();
        let mut out = Vec::new();
        sealer.seal(DATA, b"content", &mut out).expect("it fits");
        assert_eq!(out.len(), 5 + 8 + 7 + 16);
        let fragment = &out[5..];
        let opened = pair().1.open(DATA, fragment);
        assert_eq!(opened.as_deref(), Ok(&b"content"[..]));
        for at in 0..fragment.len() {
            let mut changed = fragment.to_vec();
            changed[at] ^= 1;
            assert_eq!(pair().1.open(DATA, &changed), Err(Check::Record), "{at}");
        }
        let other = pair().1.open(ContentType::Handshake, fragment);
        assert_eq!(other, Err(Check::Record));
        for short in 0..24 {
            let opened = pair().1.open(DATA, &fragment[..short]);
            assert_eq!(opened, Err(Check::Record));
        }
    }

    #[test]
    fn a_record_opens_once_and_in_its_turn() {
        let (mut sealer, mut opener) = pair();
        let mut out = Vec::new();
        sealer.seal(DATA, b"one", &mut out).expect("it fits");
        let first = out.split_off(0);
        sealer.seal(DATA, b"two", &mut out).expect("it fits");
        assert_eq!(pair().1.open(DATA, &out[5..]), Err(Check::Record));
        assert!(opener.open(DATA, &first[5..]).is_ok());
        assert_eq!(opener.open(DATA, &first[5..]), Err(Check::Record));
        assert_eq!(opener.open(DATA, &out[5..]).as_deref(), Ok(&b"two"[..]));
    }
}
