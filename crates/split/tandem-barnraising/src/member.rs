//! A volunteer as others know it: a key, and where it is reached.
//!
//! Is not: whether it is well ([`crate::health`]), nor what it keeps ([`crate::placement`]).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

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
        let digit = |at: usize| {
            let digit = char::from(digits[at]).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let mut key = [0; Self::LEN];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = digit(2 * at)? << 4 | digit(2 * at + 1)?;
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

impl FromStr for Member {
    type Err = &'static str;

    /// As a command line names one: `KEY@ADDR:PORT`. Browsers are taken to reach it at the same
    /// address.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = "should be KEY@ADDR:PORT, the key in 64 hexadecimal digits";
        let (key, peers) = text.split_once('@').ok_or(form)?;
        let key = PublicKey::from_hex(key).ok_or(form)?;
        let peers: SocketAddr = peers.parse().map_err(|_| form)?;
        Ok(Self {
            key,
            address: peers.ip(),
            peers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_in_full() {
        let mut key = PublicKey([0xab; 32]);
        key.0[0] = 1;
        let digits = format!("01{}", "ab".repeat(31));
        assert_eq!([key.to_string(), format!("{key:?}")], [&*digits, &*digits]);
        assert_eq!(PublicKey::from_hex(&digits), Some(key));
    }

    #[test]
    fn a_member_is_named_by_its_key_and_where_peers_reach_it() {
        let key = "ab".repeat(PublicKey::LEN);
        let member: Member = format!("{key}@[2001:db8::1]:7444").parse().expect("whole");
        assert_eq!(member.key, PublicKey([0xab; 32]));
        assert_eq!(member.peers.to_string(), "[2001:db8::1]:7444");
        assert_eq!(member.address, member.peers.ip());
        for wrong in [
            &key[..],
            "ab@192.0.2.1:1",
            &format!("{key}@example.org:1"),
            &format!("{key}@192.0.2.1"),
        ] {
            assert!(wrong.parse::<Member>().is_err(), "{wrong}");
        }
    }
}
