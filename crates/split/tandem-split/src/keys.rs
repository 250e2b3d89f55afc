//! From the handshake's secrets to the keys of records.
//!
//! ```text
//!  key block of TLS 1.2:  client_write_MAC_key | server_write_MAC_key | client_write_key | server_write_key
//! ```
//!
//! Is: the key expansion of TLS 1.2 (RFC 5246, section 6.3) and of TLS 1.3 (RFC 8446, section 7.3),
//! for an origin whose TLS library hands out secrets and not keys. Is not: the handshake. An origin
//! whose library cuts the key block itself needs none of this.
//!
//! Invariant: keys are wiped when they go out of use and never shown.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::Error;
#[cfg(doc)]
use crate::error::Misuse;
use crate::message::KeyExpose;
use crate::open::Opener;
use crate::seal::{Keyed, Sealer, check_format, check_len};
use crate::suite::{Format, MacHash, Suite};

/// The key block of a connection with a suite of TLS 1.2.
pub struct KeyBlock {
    suite: Suite,
    bytes: Zeroizing<Vec<u8>>,
}

impl KeyBlock {
    /// Length of the key block of `suite` in bytes.
    #[must_use]
    pub const fn len_of(suite: Suite) -> usize {
        2 * (suite.mac_len() + suite.key_len())
    }

    /// Takes a key block that was expanded elsewhere.
    ///
    /// # Errors
    /// [`Misuse::Format`] for a suite of TLS 1.3, [`Misuse::KeyLength`] for another length than
    /// [`Self::len_of`].
    pub fn new(suite: Suite, bytes: &[u8]) -> Result<Self, Error> {
        check_format(suite, Format::Cbc)?;
        check_len(Self::len_of(suite), bytes)?;
        Ok(Self {
            suite,
            bytes: Zeroizing::new(bytes.to_vec()),
        })
    }

    /// Expands the master secret.
    ///
    /// # Errors
    /// [`Misuse::Format`] for a suite of TLS 1.3.
    pub fn expand(
        suite: Suite,
        master_secret: &[u8; 48],
        client_random: &[u8; 32],
        server_random: &[u8; 32],
    ) -> Result<Self, Error> {
        check_format(suite, Format::Cbc)?;
        // Cipher suites whose hash is weaker than SHA-256 use SHA-256 here (RFC 5246, section 5).
        let hash = match suite.mac_hash() {
            MacHash::Sha1 | MacHash::Sha256 => MacHash::Sha256,
            MacHash::Sha384 => MacHash::Sha384,
        };
        let seed: [&[u8]; 3] = [b"key expansion", server_random, client_random];
        Ok(Self {
            suite,
            bytes: prf(&Keyed::new(hash, master_secret), &seed, Self::len_of(suite)),
        })
    }

    /// The block itself, for whoever has a use for it that this does not know.
    #[must_use]
    pub fn secret_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes the MACs of the server's records from `first` on.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "the lengths are those of the suite"
    )]
    pub fn sealer(&self, first: u64) -> Sealer {
        let mac_len = self.suite.mac_len();
        Sealer::tls12(self.suite, &self.bytes[mac_len..2 * mac_len], first)
            .expect("the block has the suite's length")
    }

    /// What the volunteer is told: the server's encryption key.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "the lengths are those of the suite"
    )]
    pub fn key_expose(&self) -> KeyExpose {
        let key = &self.bytes[self.bytes.len() - self.suite.key_len()..];
        KeyExpose::new(self.suite, key).expect("the block has the suite's length")
    }

    /// Opens the client's records from `first` on.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "the lengths are those of the suite"
    )]
    pub fn opener(&self, first: u64) -> Opener {
        let (mac_len, key_len) = (self.suite.mac_len(), self.suite.key_len());
        let key = &self.bytes[2 * mac_len..][..key_len];
        Opener::tls12(self.suite, &self.bytes[..mac_len], key, first)
            .expect("the block has the suite's length")
    }
}

impl fmt::Debug for KeyBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBlock({}, ..)", self.suite)
    }
}

/// P_hash of RFC 5246, section 5: as many bytes as asked for.
fn prf(secret: &Keyed, seed: &[&[u8]], len: usize) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(len + crate::seal::MAX_MAC_LEN));
    let mut chain = secret.mac(seed);
    while out.len() < len {
        let mut parts = vec![chain.as_ref()];
        parts.extend_from_slice(seed);
        out.extend_from_slice(secret.mac(&parts).as_ref());
        chain = secret.mac(&[chain.as_ref()]);
    }
    out.truncate(len);
    out
}

/// Key and IV of one direction under one traffic secret of TLS 1.3.
pub struct TrafficKeys {
    suite: Suite,
    key: Zeroizing<Vec<u8>>,
    iv: Zeroizing<Vec<u8>>,
}

impl TrafficKeys {
    /// Expands a traffic secret: a handshake's, an application's, or that of a key update.
    ///
    /// # Errors
    /// [`Misuse::Format`] for a suite of TLS 1.2, [`Misuse::KeyLength`] for a secret that is not as
    /// long as the suite's hash.
    pub fn expand(suite: Suite, traffic_secret: &[u8]) -> Result<Self, Error> {
        check_format(suite, Format::Integrity)?;
        check_len(suite.mac_len(), traffic_secret)?;
        let keyed = Keyed::new(suite.mac_hash(), traffic_secret);
        Ok(Self {
            suite,
            key: expand_label(&keyed, b"key", suite.mac_len()),
            iv: expand_label(&keyed, b"iv", suite.static_iv_len()),
        })
    }

    /// Makes the MACs of records under these keys from `first` on.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "the lengths are those of the suite"
    )]
    pub fn sealer(&self, first: u64) -> Sealer {
        Sealer::tls13(self.suite, &self.key, &self.iv, first).expect("as long as the suite says")
    }

    /// Opens records under these keys from `first` on.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "the lengths are those of the suite"
    )]
    pub fn opener(&self, first: u64) -> Opener {
        Opener::tls13(self.suite, &self.key, &self.iv, first).expect("as long as the suite says")
    }
}

impl fmt::Debug for TrafficKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrafficKeys({}, ..)", self.suite)
    }
}

/// HKDF-Expand-Label of RFC 8446, section 7.1, without context, for no more than one block of the
/// hash.
fn expand_label(secret: &Keyed, label: &[u8], len: usize) -> Zeroizing<Vec<u8>> {
    let label = [b"tls13 ", label].concat();
    let wide = u16::try_from(len).expect("no more than a block of the hash");
    let narrow = u8::try_from(label.len()).expect("the labels of RFC 8446 are short");
    let block = secret.mac(&[&wide.to_be_bytes(), &[narrow], &label, &[0], &[1]]);
    Zeroizing::new(block.as_ref()[..len].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is logged of keys is whose they are.
    #[test]
    fn no_key_is_shown() {
        let suite = Suite::EcdheRsaAes128CbcSha;
        let block = KeyBlock::new(suite, &vec![0xcc; KeyBlock::len_of(suite)]).expect("as long");
        assert_eq!(format!("{block:?}"), format!("KeyBlock({suite}, ..)"));
        let exposed = block.key_expose();
        assert_eq!(format!("{exposed:?}"), format!("KeyExpose({suite}, ..)"));
        let suite = Suite::Sha256Sha256;
        let keys = TrafficKeys::expand(suite, &[0xcc; 32]).expect("a secret");
        assert_eq!(format!("{keys:?}"), format!("TrafficKeys({suite}, ..)"));
    }
}
