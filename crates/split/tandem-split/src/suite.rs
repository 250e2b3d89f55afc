//! The cipher suites that can be split, and the four kinds of record.
//!
//! Is: the facts of each suite: lengths of keys, MAC and nonce, which hash. Is not: the keys
//! themselves ([`crate::keys`]). A suite can be split if the key that vouches for a record is not
//! the key that hides it: CBC with HMAC, and the suites of TLS 1.3 that hide nothing. AEAD suites
//! cannot: one key does both.
//!
//! Specifications: RFC 5246, section 6.2.3.2; RFC 5289; RFC 9150.

use std::fmt;

/// A suite that can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suite {
    /// 0xC013, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: the one that browsers still offer.
    EcdheRsaAes128CbcSha,
    /// 0xC014, TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA.
    EcdheRsaAes256CbcSha,
    /// 0xC027, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256: for clients that refuse SHA-1, such as
    /// Python's default context.
    EcdheRsaAes128CbcSha256,
    /// 0xC028, TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384. Its MAC is HMAC-SHA-384, with a key of 48
    /// bytes.
    EcdheRsaAes256CbcSha384,
    /// 0xC0B4, TLS_SHA256_SHA256: TLS 1.3 without encryption.
    Sha256Sha256,
    /// 0xC0B5, TLS_SHA384_SHA384: TLS 1.3 without encryption.
    Sha384Sha384,
}

/// The hash of a suite's MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacHash {
    /// SHA-1: 20 bytes.
    Sha1,
    /// SHA-256: 32 bytes.
    Sha256,
    /// SHA-384: 48 bytes.
    Sha384,
}

impl MacHash {
    /// Length of its digest in bytes, which is that of a full HMAC and of its key in every suite
    /// here.
    #[must_use]
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }
}

/// How a suite's records are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TLS 1.2, MAC-then-encrypt with AES in CBC mode and an explicit IV.
    Cbc,
    /// TLS 1.3, the plaintext and an HMAC behind it.
    Integrity,
}

impl Suite {
    /// All of them, in the order in which a server should prefer them.
    pub const ALL: [Self; 6] = [
        Self::EcdheRsaAes128CbcSha,
        Self::EcdheRsaAes256CbcSha,
        Self::EcdheRsaAes128CbcSha256,
        Self::EcdheRsaAes256CbcSha384,
        Self::Sha256Sha256,
        Self::Sha384Sha384,
    ];

    /// The suite with this number, if it can be split.
    #[must_use]
    pub fn from_u16(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.as_u16() == number)
    }

    /// Its number (IANA, "TLS Cipher Suites").
    #[must_use]
    pub const fn as_u16(self) -> u16 {
        match self {
            Self::EcdheRsaAes128CbcSha => 0xc013,
            Self::EcdheRsaAes256CbcSha => 0xc014,
            Self::EcdheRsaAes128CbcSha256 => 0xc027,
            Self::EcdheRsaAes256CbcSha384 => 0xc028,
            Self::Sha256Sha256 => 0xc0b4,
            Self::Sha384Sha384 => 0xc0b5,
        }
    }

    /// How its records are made.
    #[must_use]
    pub const fn format(self) -> Format {
        match self {
            Self::EcdheRsaAes128CbcSha
            | Self::EcdheRsaAes256CbcSha
            | Self::EcdheRsaAes128CbcSha256
            | Self::EcdheRsaAes256CbcSha384 => Format::Cbc,
            Self::Sha256Sha256 | Self::Sha384Sha384 => Format::Integrity,
        }
    }

    /// The hash of its MAC.
    #[must_use]
    pub const fn mac_hash(self) -> MacHash {
        match self {
            Self::EcdheRsaAes128CbcSha | Self::EcdheRsaAes256CbcSha => MacHash::Sha1,
            Self::EcdheRsaAes128CbcSha256 | Self::Sha256Sha256 => MacHash::Sha256,
            Self::EcdheRsaAes256CbcSha384 | Self::Sha384Sha384 => MacHash::Sha384,
        }
    }

    /// Length of a MAC and of its key, in bytes.
    #[must_use]
    pub const fn mac_len(self) -> usize {
        self.mac_hash().digest_len()
    }

    /// Length of the encryption key in bytes: 0 where nothing is encrypted.
    #[must_use]
    pub const fn key_len(self) -> usize {
        match self {
            Self::EcdheRsaAes128CbcSha | Self::EcdheRsaAes128CbcSha256 => 16,
            Self::EcdheRsaAes256CbcSha | Self::EcdheRsaAes256CbcSha384 => 32,
            Self::Sha256Sha256 | Self::Sha384Sha384 => 0,
        }
    }

    /// Length of the secret static IV in bytes: that of the hash in TLS 1.3 (RFC 9150, section 6),
    /// 0 in TLS 1.2, whose IVs stand in the records.
    #[must_use]
    pub const fn static_iv_len(self) -> usize {
        match self.format() {
            Format::Cbc => 0,
            Format::Integrity => self.mac_len(),
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EcdheRsaAes128CbcSha => "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
            Self::EcdheRsaAes256CbcSha => "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
            Self::EcdheRsaAes128CbcSha256 => "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
            Self::EcdheRsaAes256CbcSha384 => "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
            Self::Sha256Sha256 => "TLS_SHA256_SHA256",
            Self::Sha384Sha384 => "TLS_SHA384_SHA384",
        })
    }
}

/// What a record holds, of what may be split. Heartbeats are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordType {
    /// 20, and 0x94 as a stub.
    ChangeCipherSpec,
    /// 21, and 0x95 as a stub.
    Alert,
    /// 22, and 0x96 as a stub.
    Handshake,
    /// 23, and 0x97 as a stub.
    ApplicationData,
}

impl RecordType {
    /// The type with this number.
    #[must_use]
    pub const fn from_u8(number: u8) -> Option<Self> {
        match number {
            20 => Some(Self::ChangeCipherSpec),
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::ApplicationData),
            _ => None,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        match self {
            Self::ChangeCipherSpec => 20,
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::ApplicationData => 23,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways() {
        for suite in Suite::ALL {
            assert_eq!(Suite::from_u16(suite.as_u16()), Some(suite));
        }
        // TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: an AEAD suite.
        assert_eq!(Suite::from_u16(0xc02f), None);
        for number in 0..=255 {
            if let Some(kind) = RecordType::from_u8(number) {
                assert_eq!(kind.as_u8(), number);
            }
        }
        assert_eq!(RecordType::from_u8(24), None);
    }

    #[test]
    fn integrity_suites_have_no_key_to_expose() {
        for suite in Suite::ALL {
            assert_eq!(suite.key_len() == 0, suite.format() == Format::Integrity);
        }
    }
}
