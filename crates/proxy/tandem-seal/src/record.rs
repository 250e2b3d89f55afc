//! One record: opened, and sealed.
//!
//! ```text
//! | 23 | 3 3 | length | AEAD(content | type 1 | zeros{padding}) | tag 16 |
//! ```
//!
//! Is not: records of other shapes. What a sealer would not write does not open, so that sealing
//! always gives the record back. RFC 8446, sections 5.2 to 5.4.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use tandem_record_key::{IV_LEN, RecordKey, Suite};
use tandem_wire::tls::record::{HEADER_LEN, MAX_PLAINTEXT_LEN, RecordHeader, parse_header};
use tandem_wire::tls::{ContentType, ProtocolVersion};
use zeroize::Zeroize as _;

/// Bytes of the tag, of every suite here.
const TAG_LEN: usize = 16;

/// Bytes of the inner content type.
const TYPE_LEN: usize = 1;

/// Bytes of a record beside content and padding.
pub(crate) const PROTECTION: usize = HEADER_LEN + TYPE_LEN + TAG_LEN;

/// What was in a record.
#[derive(Clone, PartialEq, Eq)]
pub struct Opened {
    /// What the content is: on the wire every record says application data.
    pub content_type: ContentType,
    /// The content.
    pub content: Vec<u8>,
    /// Zeros behind the type.
    pub padding: usize,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("content_type", &self.content_type)
            .field("length", &self.content.len())
            .field("padding", &self.padding)
            .finish()
    }
}

/// A cipher with its key, and the sequence number of the next record.
struct Cipher {
    key: LessSafeKey,
    iv: [u8; IV_LEN],
    sequence: u64,
}

impl Drop for Cipher {
    fn drop(&mut self) {
        // The provider overwrites the key itself.
        self.iv.zeroize();
    }
}

impl Cipher {
    fn new(key: &RecordKey) -> Self {
        let unbound = UnboundKey::new(algorithm(key.suite()), key.key());
        Self {
            key: LessSafeKey::new(unbound.expect("a record key has the length of its suite")),
            iv: *key.iv(),
            sequence: 0,
        }
    }

    /// RFC 8446, section 5.3: the sequence number, padded on the left, XOR the IV.
    fn nonce(&self) -> Nonce {
        let mut nonce = self.iv;
        let sequence = self.sequence.to_be_bytes();
        for (byte, of_sequence) in nonce.iter_mut().rev().zip(sequence.iter().rev()) {
            *byte ^= of_sequence;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

const fn algorithm(suite: Suite) -> &'static Algorithm {
    match suite {
        Suite::Aes128Gcm => &AES_128_GCM,
        Suite::Aes256Gcm => &AES_256_GCM,
        Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    }
}

/// Opens the records of one direction, in order.
pub struct Opener(Cipher);

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener")
            .field("sequence", &self.0.sequence)
            .finish_non_exhaustive()
    }
}

impl Opener {
    /// One that expects the first record under this key.
    ///
    /// # Panics
    /// Never: a [`RecordKey`] has the length of its suite.
    #[must_use]
    pub fn new(key: &RecordKey) -> Self {
        Self(Cipher::new(key))
    }

    /// Opens a whole record, header included. `None`, and the sequence number as it was: it is not
    /// the next record under this key, or none that a [`Sealer`] would write.
    #[must_use]
    pub fn open(&mut self, record: &[u8]) -> Option<Opened> {
        let (header, fragment) = record.split_first_chunk::<HEADER_LEN>()?;
        if header[..3] != protected_header(0)?[..3]
            || usize::from(u16::from_be_bytes([header[3], header[4]])) != fragment.len()
            || parse_header(header).ok()?.is_none()
        {
            return None;
        }
        let mut inner = fragment.to_vec();
        let opened = self
            .0
            .key
            .open_in_place(self.0.nonce(), Aad::from(header), &mut inner);
        let length = opened.ok()?.len();
        inner.truncate(length);
        // Section 5.4: the type is the last byte that is not zero.
        let at = inner.iter().rposition(|byte| *byte != 0)?;
        let content_type = ContentType::from_u8(inner[at]).ok()?;
        let padding = inner.len() - at - TYPE_LEN;
        if at + padding > MAX_PLAINTEXT_LEN {
            return None;
        }
        inner.truncate(at);
        self.0.sequence = self.0.sequence.checked_add(1)?;
        Some(Opened {
            content_type,
            content: inner,
            padding,
        })
    }
}

/// Seals the records of one direction, in order.
pub struct Sealer(Cipher);

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer")
            .field("sequence", &self.0.sequence)
            .finish_non_exhaustive()
    }
}

impl Sealer {
    /// One that writes the first record under this key next. No two sealers may write different
    /// records under one key.
    ///
    /// # Panics
    /// Never: a [`RecordKey`] has the length of its suite.
    #[must_use]
    pub fn new(key: &RecordKey) -> Self {
        Self(Cipher::new(key))
    }

    /// Appends a record with this content and so many zeros behind its type. `None`, and nothing
    /// appended: content and padding have more than 2^14 bytes together (section 5.4).
    #[must_use]
    pub fn seal(
        &mut self,
        content_type: ContentType,
        content: &[u8],
        padding: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let plain = content.len().checked_add(padding)?;
        if plain > MAX_PLAINTEXT_LEN {
            return None;
        }
        let header = protected_header(plain + TYPE_LEN + TAG_LEN)?;
        let next = self.0.sequence.checked_add(1)?;
        let before = out.len();
        out.extend(header);
        let start = out.len();
        out.extend_from_slice(content);
        out.push(content_type.as_u8());
        out.resize(out.len() + padding, 0);
        let (nonce, aad) = (self.0.nonce(), Aad::from(header));
        let sealed = self
            .0
            .key
            .seal_in_place_separate_tag(nonce, aad, &mut out[start..]);
        let Ok(tag) = sealed else {
            out.truncate(before);
            return None;
        };
        out.extend_from_slice(tag.as_ref());
        self.0.sequence = next;
        Some(())
    }
}

/// Section 5.2: the header of every protected record, which is authenticated with it.
fn protected_header(length: usize) -> Option<[u8; HEADER_LEN]> {
    let header = RecordHeader {
        content_type: ContentType::ApplicationData,
        version: ProtocolVersion::TLS1_2,
        length: u16::try_from(length).ok()?,
    };
    Some(header.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_record_key::{CLIENT_RANDOM_LEN, Direction};

    fn key(suite: Suite, seed: u8) -> RecordKey {
        let key: Vec<u8> = (seed..).take(suite.key_len()).collect();
        let random = [seed; CLIENT_RANDOM_LEN];
        RecordKey::new(Direction::FromServer, suite, random, &[seed; IV_LEN], &key)
            .expect("the suite's length")
    }

    fn sealed(key: &RecordKey, contents: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut sealer = Sealer::new(key);
        let seal = |content: &&[u8]| {
            let mut record = Vec::new();
            sealer
                .seal(ContentType::Handshake, content, 0, &mut record)
                .map(|()| record)
        };
        contents.iter().filter_map(seal).collect()
    }

    #[test]
    fn a_record_that_does_not_open_leaves_the_next_one_its_place() {
        let key = key(Suite::Aes128Gcm, 1);
        let records = sealed(&key, &[b"one", b"two"]);
        let mut opener = Opener::new(&key);
        assert!(opener.open(&records[1]).is_none(), "not its turn");
        assert_eq!(
            opener.open(&records[0]).map(|it| it.content),
            Some(b"one".to_vec())
        );
        assert!(opener.open(&records[0]).is_none(), "it was opened");
        for at in 0..records[1].len() {
            let mut changed = records[1].clone();
            changed[at] ^= 1;
            assert!(opener.open(&changed).is_none(), "byte {at}");
        }
        assert!(
            opener
                .open(&records[1][..30.min(records[1].len() - 1)])
                .is_none()
        );
        assert_eq!(
            opener.open(&records[1]).map(|it| it.content),
            Some(b"two".to_vec())
        );
    }

    #[test]
    fn another_key_does_not_open_a_record() {
        for suite in Suite::ALL {
            let records = sealed(&key(suite, 1), &[b"content"]);
            assert!(Opener::new(&key(suite, 2)).open(&records[0]).is_none());
        }
    }

    // RFC 8446, section 5.4: "the full encoded TLSInnerPlaintext MUST NOT exceed 2^14 + 1 octets".
    #[test]
    fn the_longest_record_is_sealed_and_no_longer_one() {
        let mut sealer = Sealer::new(&key(Suite::Aes256Gcm, 1));
        let mut out = Vec::new();
        let longest = vec![7; MAX_PLAINTEXT_LEN];
        assert!(
            sealer
                .seal(ContentType::Handshake, &longest, 1, &mut out)
                .is_none()
        );
        assert!(out.is_empty());
        assert!(
            sealer
                .seal(ContentType::Handshake, &longest, 0, &mut out)
                .is_some()
        );
        assert_eq!(out.len(), HEADER_LEN + MAX_PLAINTEXT_LEN + 17);
        let opened = Opener::new(&key(Suite::Aes256Gcm, 1)).open(&out);
        assert_eq!(opened.map(|it| it.content), Some(longest));
    }

    #[test]
    fn a_record_of_nothing_but_zeros_does_not_open() {
        let key = key(Suite::Aes128Gcm, 1);
        let cipher = Cipher::new(&key);
        let header = protected_header(8 + TAG_LEN).expect("short");
        let mut inner = vec![0; 8];
        cipher
            .key
            .seal_in_place_append_tag(cipher.nonce(), Aad::from(header), &mut inner)
            .expect("it is sealed");
        assert!(
            Opener::new(&key)
                .open(&[&header[..], &inner].concat())
                .is_none()
        );
    }

    proptest! {
        #[test]
        fn what_was_opened_is_sealed_to_the_same_records(
            suite in 0..Suite::ALL.len(),
            records in proptest::collection::vec((0_u8..5, proptest::collection::vec(any::<u8>(), 0..300), 0_usize..50), 1..6),
        ) {
            let key = key(Suite::ALL[suite], 3);
            let (mut sealer, mut again) = (Sealer::new(&key), Sealer::new(&key));
            let mut opener = Opener::new(&key);
            for (kind, content, padding) in records {
                let kind = ContentType::from_u8(20 + kind).expect("a type");
                let (mut record, mut written) = (Vec::new(), Vec::new());
                sealer.seal(kind, &content, padding, &mut record).expect("short");
                let opened = opener.open(&record).expect("its turn");
                prop_assert_eq!((opened.content_type, &opened.content, opened.padding), (kind, &content, padding));
                again.seal(opened.content_type, &opened.content, opened.padding, &mut written).expect("short");
                prop_assert_eq!(record, written);
            }
        }
    }
}
