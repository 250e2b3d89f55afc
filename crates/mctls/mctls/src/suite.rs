//! How records are protected: an AEAD of TLS 1.3, with SHA-256 for everything else.
//!
//! Is not: the suites of the TLS sessions below, which choose for themselves.

use aws_lc_rs::aead::{AES_128_GCM, Algorithm, CHACHA20_POLY1305};

/// A cipher suite, by its number in TLS 1.3 (RFC 8446, appendix B.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// `TLS_AES_128_GCM_SHA256`.
    Aes128Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    ChaCha20Poly1305,
}

impl Suite {
    /// All there are, in the order in which they are offered.
    pub const ALL: [Self; 2] = [Self::Aes128Gcm, Self::ChaCha20Poly1305];

    /// Its number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::ChaCha20Poly1305 => 0x1303,
        }
    }

    /// The suite with this number.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.code() == code)
    }

    pub(crate) const fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

impl std::fmt::Display for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        })
    }
}
