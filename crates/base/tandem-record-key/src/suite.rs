//! The cipher suites whose record keys can be released: RFC 8446, section B.4, without the two CCM
//! suites, which stacks offer only where they are asked to.

/// Length of the longest key in bytes.
pub const MAX_KEY_LEN: usize = 32;

/// A cipher suite of TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// `TLS_AES_128_GCM_SHA256`.
    Aes128Gcm,
    /// `TLS_AES_256_GCM_SHA384`.
    Aes256Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    ChaCha20Poly1305,
}

impl Suite {
    /// Every suite, by number.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The suite with this number in a ServerHello.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.number() == number)
    }

    /// The suite's number in a ServerHello.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::Aes256Gcm => 0x1302,
            Self::ChaCha20Poly1305 => 0x1303,
        }
    }

    /// Length of its keys in bytes.
    #[must_use]
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => MAX_KEY_LEN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_suite_or_none() {
        let known: Vec<u16> = (0..=u16::MAX)
            .filter(|&number| Suite::from_number(number).is_some())
            .collect();
        assert_eq!(known, [0x1301, 0x1302, 0x1303]);
        assert_eq!(Suite::from_number(0x1302), Some(Suite::Aes256Gcm));
    }
}
