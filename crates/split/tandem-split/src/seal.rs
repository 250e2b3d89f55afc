//! The MACs of the server's records, each with a sequence number of its own.
//!
//! ```text
//!  TLS 1.2:  HMAC(server_MAC_key, sequence (8) | type (1) | 3 3 | length (2) | plaintext)
//!  TLS 1.3:  HMAC(server_write_key, IV xor sequence | 23 | 3 3 | length of plaintext, type and HMAC (2) | plaintext | type)
//! ```
//!
//! Is: what only the origin can make. Is not: the stub around it ([`crate::stub`]); encryption,
//! which needs none of these keys.
//!
//! Invariants: a sequence number is spent when its MAC is made and never comes again (a sealer
//! cannot be cloned, set back, or made to wrap round); keys are wiped when they go out of use and
//! never shown.
//!
//! Specifications: RFC 5246, section 6.2.3.1; RFC 8446, section 5.3; RFC 9150, section 6.

use std::fmt;

use hmac::{Hmac, KeyInit};
use sha1::Sha1;
use sha2::{Sha256, Sha384};
use subtle::ConstantTimeEq;
use tandem_wire::tls::record::MAX_PLAINTEXT_LEN;

use crate::error::{Error, Misuse};
use crate::suite::{Format, MacHash, RecordType, Suite};

/// Longest MAC of any suite.
pub const MAX_MAC_LEN: usize = 48;

/// A record's MAC.
#[derive(Clone, Copy)]
pub struct Mac {
    bytes: [u8; MAX_MAC_LEN],
    len: u8,
}

impl Mac {
    /// No MAC: that of a record before there are keys.
    pub const NONE: Self = Self {
        bytes: [0; MAX_MAC_LEN],
        len: 0,
    };

    /// A MAC that was made elsewhere: 20, 32 or 48 bytes.
    #[must_use]
    pub fn from_slice(mac: &[u8]) -> Option<Self> {
        matches!(mac.len(), 20 | 32 | 48).then(|| Self::new(mac))
    }

    /// `mac` has at most [`MAX_MAC_LEN`] bytes.
    pub(crate) fn new(mac: &[u8]) -> Self {
        let mut bytes = [0; MAX_MAC_LEN];
        bytes[..mac.len()].copy_from_slice(mac);
        Self {
            bytes,
            len: u8::try_from(mac.len()).expect("at most MAX_MAC_LEN"),
        }
    }
}

impl AsRef<[u8]> for Mac {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// In constant time: a MAC that is compared may be a guess.
impl PartialEq for Mac {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref().ct_eq(other.as_ref()).into()
    }
}

impl Eq for Mac {}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({} bytes)", self.len)
    }
}

/// HMAC under one key. The key's two compressions are done once, not for each record.
#[derive(Clone)]
pub(crate) enum Keyed {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
}

impl Keyed {
    pub(crate) fn new(hash: MacHash, key: &[u8]) -> Self {
        const ANY: &str = "HMAC takes keys of any length (RFC 2104, section 2)";
        match hash {
            MacHash::Sha1 => Self::Sha1(Hmac::new_from_slice(key).expect(ANY)),
            MacHash::Sha256 => Self::Sha256(Hmac::new_from_slice(key).expect(ANY)),
            MacHash::Sha384 => Self::Sha384(Hmac::new_from_slice(key).expect(ANY)),
        }
    }

    /// The HMAC of the parts in order.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> Mac {
        fn over<M: hmac::Mac + Clone>(keyed: &M, parts: &[&[u8]]) -> Mac {
            let mut mac = keyed.clone();
            for part in parts {
                mac.update(part);
            }
            Mac::new(&mac.finalize().into_bytes())
        }
        match self {
            Self::Sha1(keyed) => over(keyed, parts),
            Self::Sha256(keyed) => over(keyed, parts),
            Self::Sha384(keyed) => over(keyed, parts),
        }
    }
}

/// The sequence numbers of one direction under one key: each once, in order.
#[derive(Debug)]
pub(crate) struct Sequence(Option<u64>);

impl Sequence {
    pub(crate) const fn starting_at(first: u64) -> Self {
        Self(Some(first))
    }

    /// The next number, which is spent by this.
    pub(crate) fn spend(&mut self) -> Result<u64, Misuse> {
        let number = self.0.ok_or(Misuse::SequenceSpent)?;
        self.0 = number.checked_add(1);
        Ok(number)
    }
}

/// What comes before the plaintext in a MAC of TLS 1.2 (RFC 5246, section 6.2.3.1).
pub(crate) fn tls12_header(sequence: u64, record_type: RecordType, len: usize) -> [u8; 13] {
    let mut header = [0; 13];
    header[..8].copy_from_slice(&sequence.to_be_bytes());
    header[8..11].copy_from_slice(&[record_type.as_u8(), 3, 3]);
    let len = u16::try_from(len).expect("a plaintext has at most 2^14 bytes");
    header[11..].copy_from_slice(&len.to_be_bytes());
    header
}

/// Nonce and record header, which come before the inner plaintext in a MAC of TLS 1.3 (RFC 9150,
/// section 6).
pub(crate) fn tls13_header(
    static_iv: &[u8],
    sequence: u64,
    inner_len: usize,
) -> ([u8; MAX_MAC_LEN], [u8; 5]) {
    let mut nonce = [0; MAX_MAC_LEN];
    nonce[..static_iv.len()].copy_from_slice(static_iv);
    for (byte, number) in nonce[static_iv.len() - 8..static_iv.len()]
        .iter_mut()
        .zip(sequence.to_be_bytes())
    {
        *byte ^= number;
    }
    let len = u16::try_from(inner_len + static_iv.len()).expect("at most 2^14 + 1 + 48");
    let [high, low] = len.to_be_bytes();
    let header = [RecordType::ApplicationData.as_u8(), 3, 3, high, low];
    (nonce, header)
}

/// What a MAC of TLS 1.2 covers (RFC 5246, section 6.2.3.1).
#[derive(Clone, Copy, Debug)]
pub struct Covered<'a> {
    /// Sequence number, type, version and length.
    pub header: [u8; 13],
    /// The record's plaintext.
    pub plaintext: &'a [u8],
}

/// HMACs of several records at once, under one key: for processors on which that takes less time
/// than one after the other.
pub trait Together: Send + Sync {
    /// Those of these records, in their order, as HMAC gives them.
    fn macs(&self, records: &[Covered<'_>]) -> Vec<Mac>;
}

/// Makes the MACs of the server's records under one key, in order.
pub struct Sealer {
    suite: Suite,
    keyed: Keyed,
    together: Option<Box<dyn Together>>,
    static_iv: zeroize::Zeroizing<[u8; MAX_MAC_LEN]>,
    sequence: Sequence,
}

impl Sealer {
    /// For a suite of TLS 1.2, from the server's MAC key. `first` is the next record's sequence
    /// number: 0 behind a ChangeCipherSpec, 1 where somebody else has sent the Finished.
    ///
    /// # Errors
    /// [`Misuse::KeyLength`], [`Misuse::Format`] where key or suite do not fit.
    pub fn tls12(suite: Suite, mac_key: &[u8], first: u64) -> Result<Self, Error> {
        check_format(suite, Format::Cbc)?;
        Self::new(suite, mac_key, &[], first)
    }

    /// For a suite of TLS 1.3, from the server's write key and IV under the handshake's or the
    /// application's traffic secret. `first` is the next record's sequence number, 0 for a new
    /// key.
    ///
    /// # Errors
    /// [`Misuse::KeyLength`], [`Misuse::Format`] where key, IV or suite do not fit.
    pub fn tls13(
        suite: Suite,
        write_key: &[u8],
        write_iv: &[u8],
        first: u64,
    ) -> Result<Self, Error> {
        check_format(suite, Format::Integrity)?;
        Self::new(suite, write_key, write_iv, first)
    }

    fn new(suite: Suite, key: &[u8], iv: &[u8], first: u64) -> Result<Self, Error> {
        check_len(suite.mac_len(), key)?;
        check_len(suite.static_iv_len(), iv)?;
        let mut static_iv = zeroize::Zeroizing::new([0; MAX_MAC_LEN]);
        static_iv[..iv.len()].copy_from_slice(iv);
        Ok(Self {
            suite,
            keyed: Keyed::new(suite.mac_hash(), key),
            together: None,
            static_iv,
            sequence: Sequence::starting_at(first),
        })
    }

    /// Has the MACs of several records made by this, which has the same key. Nothing changes for a
    /// suite of TLS 1.3.
    #[must_use]
    pub fn with(self, together: Box<dyn Together>) -> Self {
        let together = (self.suite.format() == Format::Cbc).then_some(together);
        Self { together, ..self }
    }

    /// The suite.
    #[must_use]
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// The sequence number of the next record; `None` when all are spent.
    #[must_use]
    pub const fn next_sequence(&self) -> Option<u64> {
        self.sequence.0
    }

    /// The MACs of the next records, in their order.
    ///
    /// # Errors
    /// As [`Self::seal`]. Where one is too long, no number is spent.
    pub fn seal_all(
        &mut self,
        record_type: RecordType,
        plaintexts: &[&[u8]],
    ) -> Result<Vec<Mac>, Error> {
        for plaintext in plaintexts {
            check_plaintext(plaintext)?;
        }
        let Some(together) = self.together.as_ref().filter(|_| plaintexts.len() > 1) else {
            let macs = plaintexts.iter();
            return macs
                .map(|plaintext| self.seal(record_type, plaintext))
                .collect();
        };
        let mut records = Vec::with_capacity(plaintexts.len());
        for plaintext in plaintexts {
            let sequence = self.sequence.spend()?;
            records.push(Covered {
                header: tls12_header(sequence, record_type, plaintext.len()),
                plaintext,
            });
        }
        Ok(together.macs(&records))
    }

    /// The MAC of the next record.
    ///
    /// # Errors
    /// [`Misuse::PlaintextLength`] over 2^14 bytes, and no number is spent;
    /// [`Misuse::SequenceSpent`] after 2^64 records.
    pub fn seal(&mut self, record_type: RecordType, plaintext: &[u8]) -> Result<Mac, Error> {
        check_plaintext(plaintext)?;
        let sequence = self.sequence.spend()?;
        Ok(match self.suite.format() {
            Format::Cbc => {
                let header = tls12_header(sequence, record_type, plaintext.len());
                self.keyed.mac(&[&header, plaintext])
            }
            Format::Integrity => {
                let static_iv = &self.static_iv[..self.suite.static_iv_len()];
                let (nonce, header) = tls13_header(static_iv, sequence, plaintext.len() + 1);
                let nonce = &nonce[..static_iv.len()];
                let inner_type = [record_type.as_u8()];
                self.keyed.mac(&[nonce, &header, plaintext, &inner_type])
            }
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({}, {:?})", self.suite, self.sequence)
    }
}

fn check_plaintext(plaintext: &[u8]) -> Result<(), Misuse> {
    if plaintext.len() > MAX_PLAINTEXT_LEN {
        return Err(Misuse::PlaintextLength(plaintext.len()));
    }
    Ok(())
}

pub(crate) fn check_format(suite: Suite, format: Format) -> Result<(), Misuse> {
    if suite.format() == format {
        Ok(())
    } else {
        Err(Misuse::Format)
    }
}

pub(crate) fn check_len(expected: usize, key: &[u8]) -> Result<(), Misuse> {
    if key.len() == expected {
        Ok(())
    } else {
        Err(Misuse::KeyLength {
            expected,
            found: key.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(first: u64) -> Sealer {
        Sealer::tls12(Suite::EcdheRsaAes128CbcSha, &[7; 20], first).expect("a key")
    }

    #[test]
    fn no_sequence_number_comes_twice() {
        let mut one = sealer(0);
        let first = one
            .seal(RecordType::ApplicationData, b"the same")
            .expect("short");
        let second = one
            .seal(RecordType::ApplicationData, b"the same")
            .expect("short");
        assert_ne!(first, second);
        assert_eq!(one.next_sequence(), Some(2));
        // What is refused spends nothing: no record with its number has been made.
        let long = vec![0; MAX_PLAINTEXT_LEN + 1];
        assert!(one.seal(RecordType::ApplicationData, &long).is_err());
        assert_eq!(one.next_sequence(), Some(2));

        // RFC 5246, section 6.1: sequence numbers do not wrap.
        let mut last = sealer(u64::MAX);
        assert!(last.seal(RecordType::Alert, &[1, 0]).is_ok());
        assert_eq!(
            last.seal(RecordType::Alert, &[1, 0]),
            Err(Misuse::SequenceSpent.into())
        );
    }

    /// HMAC, and a mark in the last byte.
    struct Marked(Keyed);

    impl Together for Marked {
        fn macs(&self, records: &[Covered<'_>]) -> Vec<Mac> {
            let marked = records.iter().map(|record| {
                let mut mac = self.0.mac(&[&record.header, record.plaintext]);
                mac.bytes[19] = 0xff;
                mac
            });
            marked.collect()
        }
    }

    #[test]
    fn records_that_are_sealed_together_have_the_numbers_and_macs_that_they_have_one_by_one() {
        let plaintexts: [&[u8]; 4] = [b"one", b"", &[7; MAX_PLAINTEXT_LEN], b"four"];
        let mut one_by_one = sealer(5);
        let expected = plaintexts.map(|plaintext| {
            let mac = one_by_one.seal(RecordType::ApplicationData, plaintext);
            mac.expect("short")
        });
        let marked = Marked(Keyed::new(MacHash::Sha1, &[7; 20]));
        for (mut sealer, is_marked) in
            [(sealer(5), false), (sealer(5).with(Box::new(marked)), true)]
        {
            let long = vec![0; MAX_PLAINTEXT_LEN + 1];
            let refused = sealer.seal_all(RecordType::ApplicationData, &[b"short", &long]);
            assert!(refused.is_err() && sealer.next_sequence() == Some(5));
            let macs = sealer.seal_all(RecordType::ApplicationData, &plaintexts);
            let macs = macs.expect("short");
            assert_eq!(sealer.next_sequence(), Some(9));
            assert_eq!(macs.len(), expected.len());
            for (mac, expected) in macs.iter().zip(&expected) {
                assert_eq!(mac.as_ref()[..19], expected.as_ref()[..19]);
                assert_eq!(mac.as_ref()[19] == 0xff, is_marked);
            }
        }
        let mut last = sealer(u64::MAX);
        let spent = last.seal_all(RecordType::Alert, &[&[1, 0], &[1, 0]]);
        assert_eq!(spent.map(drop), Err(Misuse::SequenceSpent.into()));
    }

    #[test]
    fn a_key_fits_its_suite_or_is_refused() {
        for suite in Suite::ALL {
            let key = vec![0; suite.mac_len()];
            let iv = vec![0; suite.static_iv_len()];
            assert_eq!(
                Sealer::tls12(suite, &key, 0).is_ok(),
                suite.format() == Format::Cbc
            );
            assert_eq!(
                Sealer::tls13(suite, &key, &iv, 0).is_ok(),
                suite.format() == Format::Integrity
            );
            assert!(Sealer::tls12(suite, &key[1..], 0).is_err());
            assert!(Sealer::tls13(suite, &key, &[0; 12], 0).is_err());
        }
    }

    #[test]
    fn nothing_secret_shows_itself() {
        let shown = format!("{:?} {:?}", sealer(3), Mac::new(&[0xab; 20]));
        assert_eq!(
            shown,
            "Sealer(TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, Sequence(Some(3))) Mac(20 bytes)"
        );
    }
}
