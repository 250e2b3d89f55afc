//! A volunteer as others know it: a key, and where it is reached.
//!
//! Is not: whether it is well ([`crate::health`]), nor what it keeps ([`crate::placement`]).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// An Ed25519 public key (RFC 8032): a broker's, or a volunteer's, of which it is the name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; Self::LEN]);

impl PublicKey {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// A key from 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * Self::LEN {
            return None;
        }
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        let mut key = [0; Self::LEN];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = (digit(2 * at)? << 4 | digit(2 * at + 1)?) as u8;
        }
        Some(Self(key))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One volunteer of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its key, which is its name.
    pub key: PublicKey,
    /// Where browsers reach it: what the site's name resolves to.
    pub address: IpAddr,
    /// Where other volunteers ask it for payloads.
    pub peers: SocketAddr,
}
