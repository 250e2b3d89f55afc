//! Whole records by one who holds both keys, MAC and encryption: the client's side of a suite of
//! TLS 1.2 that can be split.
//!
//! Is: for a client of our own, that looks at a site as browsers do. Is not: for the origin, whose
//! volunteers encrypt; nor for a volunteer, who has no MAC key.
//!
//! Specification: RFC 5246, section 6.2.3.2.

use std::fmt;

use crate::error::Error;
#[cfg(doc)]
use crate::error::Misuse;
use crate::message::KeyExpose;
use crate::protect::Protection;
use crate::seal::Sealer;
use crate::suite::{RecordType, Suite};

/// Makes the records of one direction under its two keys, in order.
pub struct Writer {
    sealer: Sealer,
    protection: Protection,
}

impl Writer {
    /// For a suite of TLS 1.2. `first` is the next record's sequence number, 0 behind a
    /// ChangeCipherSpec.
    ///
    /// # Errors
    /// [`Misuse::KeyLength`], [`Misuse::Format`] where keys or suite do not fit.
    pub fn tls12(suite: Suite, mac_key: &[u8], key: &[u8], first: u64) -> Result<Self, Error> {
        Ok(Self {
            sealer: Sealer::tls12(suite, mac_key, first)?,
            protection: Protection::new(&KeyExpose::new(suite, key)?)?,
        })
    }

    /// Appends a record with this content, its header first. `iv` is random, and never used before.
    ///
    /// # Errors
    /// [`Misuse::PlaintextLength`] over 2^14 bytes; [`Misuse::SequenceSpent`] after 2^64 records.
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        record_type: RecordType,
        content: &[u8],
        iv: [u8; 16],
    ) -> Result<(), Error> {
        let mac = self.sealer.seal(record_type, content)?;
        let parts = std::iter::once(content);
        self.protection
            .write(out, record_type, parts, mac.as_ref(), || iv);
        self.protection.finish(out);
        Ok(())
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({:?})", self.sealer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::Opener;
    use crate::suite::Format;

    #[test]
    fn what_it_writes_opens_with_the_same_keys_in_the_same_order() {
        let suites = Suite::ALL.into_iter();
        for suite in suites.filter(|suite| suite.format() == Format::Cbc) {
            let (mac_key, key) = (vec![7; suite.mac_len()], vec![9; suite.key_len()]);
            let mut writer = Writer::tls12(suite, &mac_key, &key, 0).expect("fitting keys");
            let mut opener = Opener::tls12(suite, &mac_key, &key, 0).expect("fitting keys");
            for len in [0, 1, 15, 16, 1 << 14] {
                let (content, mut record) = (vec![5; len], Vec::new());
                writer
                    .write(&mut record, RecordType::ApplicationData, &content, [1; 16])
                    .expect("short");
                let fragment = &mut record[5..];
                let opened = opener.open(RecordType::ApplicationData, fragment);
                let plaintext = opened.expect("it opens").plaintext;
                assert_eq!(fragment[plaintext], content, "{suite}");
            }
            assert!(Writer::tls12(suite, &mac_key[1..], &key, 0).is_err());
            assert!(Writer::tls12(suite, &mac_key, &key[1..], 0).is_err());
        }
    }
}
