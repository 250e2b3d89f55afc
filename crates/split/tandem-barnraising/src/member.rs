//! A volunteer as others know it: a key, and where it is reached.
//!
//! ```text
//!   Member   a volunteer at one address: what the broker checks, publishes, and may put out
//!   Peer     a volunteer at all its addresses that are well: whom others ask for payloads
//! ```
//!
//! Is not: whether it is well ([`crate::health`]), nor what it keeps ([`crate::placement`]).
//!
//! Invariant: a volunteer has one address of each family at most. More would add nothing for
//! browsers, which need one that they can reach, and would give it more of the answers than others.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
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

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Records of type A.
    V4,
    /// Records of type AAAA.
    V6,
}

impl Family {
    /// That of an address. IPv4 that is mapped into IPv6 is IPv6 here.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// A volunteer of a site at one of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its key, which is its name.
    pub key: PublicKey,
    /// Where browsers reach it: what the site's name resolves to.
    pub address: IpAddr,
    /// Where other volunteers ask it for payloads.
    pub peers: SocketAddr,
}

/// A volunteer, and where others ask it for payloads: at one address of each family at most, and at
/// one at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its key, which is its name.
    pub key: PublicKey,
    first: SocketAddr,
    /// Of IPv6, if the first is of IPv4.
    second: Option<SocketAddrV6>,
}

impl Peer {
    /// One with this address alone. Port 0 says that it answers nobody there.
    #[must_use]
    pub fn at(key: PublicKey, address: SocketAddr) -> Self {
        Self {
            key,
            first: address,
            second: None,
        }
    }

    /// One with an address of each family.
    #[must_use]
    pub fn at_both(key: PublicKey, v4: SocketAddrV4, v6: SocketAddrV6) -> Self {
        Self {
            key,
            first: v4.into(),
            second: Some(v6),
        }
    }

    /// The same with one more address, unless it has one of that family.
    #[must_use]
    pub fn and(self, address: SocketAddr) -> Self {
        match (self.first, self.second, address) {
            (SocketAddr::V4(v4), None, SocketAddr::V6(v6))
            | (SocketAddr::V6(v6), None, SocketAddr::V4(v4)) => Self::at_both(self.key, v4, v6),
            _ => self,
        }
    }

    /// Where it is asked: IPv4 first, which all have that have both.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        let second = self.second.map(SocketAddr::from);
        [self.first].into_iter().chain(second)
    }

    /// Whether it answers other volunteers at all.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.addresses().any(|address| address.port() != 0)
    }

    /// Whether this is one of its addresses.
    #[must_use]
    pub fn is_at(&self, address: IpAddr) -> bool {
        self.addresses().any(|own| own.ip() == address)
    }
}

impl From<Member> for Peer {
    fn from(member: Member) -> Self {
        Self::at(member.key, member.peers)
    }
}

impl FromStr for Peer {
    type Err = &'static str;

    /// As a command line names one: `KEY@ADDR:PORT`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = "should be KEY@ADDR:PORT, the key in 64 hexadecimal digits";
        let (key, peers) = text.split_once('@').ok_or(form)?;
        let key = PublicKey::from_hex(key).ok_or(form)?;
        Ok(Self::at(key, peers.parse().map_err(|_| form)?))
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
    fn a_peer_is_named_by_its_key_and_where_it_is_asked() {
        let key = "ab".repeat(PublicKey::LEN);
        let peer: Peer = format!("{key}@[2001:db8::1]:7444").parse().expect("whole");
        assert_eq!(peer.key, PublicKey([0xab; 32]));
        let addresses: Vec<String> = peer.addresses().map(|one| one.to_string()).collect();
        assert_eq!(addresses, ["[2001:db8::1]:7444"]);
        for wrong in [
            &key[..],
            "ab@192.0.2.1:1",
            &format!("{key}@example.org:1"),
            &format!("{key}@192.0.2.1"),
        ] {
            assert!(wrong.parse::<Peer>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_peer_has_one_address_of_each_family_whichever_comes_first() {
        let socket = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let (four, six) = (socket("192.0.2.1:1"), socket("[2001:db8::1]:2"));
        let key = PublicKey([1; 32]);
        let both = Peer::at(key, four).and(six);
        assert_eq!(both, Peer::at(key, six).and(four));
        assert_eq!(both.addresses().collect::<Vec<_>>(), [four, six]);
        assert!(both.is_at(four.ip()) && both.is_at(six.ip()));
        let more = both.and(socket("192.0.2.9:1")).and(socket("[::9]:1"));
        assert_eq!(more, both);
        assert_eq!(
            Peer::at(key, six).and(socket("[::9]:1")),
            Peer::at(key, six)
        );
        assert!(both.answers());
        assert!(Peer::at(key, socket("192.0.2.1:0")).and(six).answers());
        assert!(!Peer::at(key, socket("192.0.2.1:0")).answers());
    }
}
