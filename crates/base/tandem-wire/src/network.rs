//! Parts of the address space: what a share or a limit is counted for.
//!
//! Is not: how much such a part may have.
//!
//! Invariant: an IPv4 address is the same one when it is mapped into IPv6, and lies in no network
//! of IPv6 but the whole.

use std::net::IpAddr;

/// Bits before an IPv4 address that is mapped into IPv6 (RFC 4291, section 2.5.5.2).
const MAPPED: u32 = 96;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The bits that count, IPv4 mapped into IPv6; the others are 0.
    bits: u128,
    /// How many count, 0 to 128.
    length: u32,
}

impl Network {
    /// All addresses.
    pub const ALL: Self = Self { bits: 0, length: 0 };

    /// The /16 of an IPv4 address, the /48 of an IPv6 one: at most a /48 is given to one site (RFC
    /// 6177, section 2), and a /16 of IPv4 is about as hard to leave for who rents machines.
    #[must_use]
    pub fn wide(address: IpAddr) -> Self {
        Self::of(address, 16, 48)
    }

    /// The /24 of an IPv4 address, the /56 of an IPv6 one, which is what one household gets.
    #[must_use]
    pub fn household(address: IpAddr) -> Self {
        Self::of(address, 24, 56)
    }

    /// The /64 of an IPv6 address, of which one machine can have every address (RFC 7934, section
    /// 3); an IPv4 address by itself.
    #[must_use]
    pub fn narrow(address: IpAddr) -> Self {
        Self::of(address, 32, 64)
    }

    /// The address by itself.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self::of(address, 32, 128)
    }

    /// Its first address, in the form of its family.
    #[must_use]
    pub fn first(self) -> IpAddr {
        IpAddr::V6(self.bits.into()).to_canonical()
    }

    /// Whether the address is in it.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        // So short are networks of IPv6 alone, and ::/48 has what is mapped in it.
        let is_six = (1..=MAPPED).contains(&self.length);
        let in_family = !is_six || address.to_canonical().is_ipv6();
        in_family && bits(address) & mask(self.length) == self.bits
    }

    /// The first `four` bits of an IPv4 address (0 to 32), or `six` of an IPv6 one (0 to 128).
    #[must_use]
    pub fn of(address: IpAddr, four: u32, six: u32) -> Self {
        let length = match address.to_canonical() {
            IpAddr::V4(_) => MAPPED + four,
            IpAddr::V6(_) => six,
        };
        Self {
            bits: bits(address) & mask(length),
            length,
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(length: u32) -> u128 {
    u128::MAX.checked_shl(128 - length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_kind_of_network_ends_where_it_says() {
        let kinds = [
            Network::wide,
            Network::household,
            Network::narrow,
            Network::host,
        ];
        for (one, other, common) in [
            ("192.0.2.1", "192.0.2.1", 4),
            ("192.0.2.1", "::ffff:192.0.2.1", 4),
            ("192.0.2.1", "192.0.2.2", 2),
            ("192.0.2.1", "192.0.3.1", 1),
            ("192.0.2.1", "192.1.2.1", 0),
            ("2001:db8::1", "2001:db8::2", 3),
            ("2001:db8::1", "2001:db8:0:1::1", 2),
            ("2001:db8::1", "2001:db8:0:100::1", 1),
            ("2001:db8::1", "2001:db8:1::1", 0),
        ] {
            let (one, other) = (address(one), address(other));
            for (index, kind) in kinds.into_iter().enumerate() {
                let same = index < common;
                assert_eq!(kind(one) == kind(other), same, "{one} {other} {index}");
                assert_eq!(kind(one).has(other), same, "{one} {other} {index}");
            }
            assert!(Network::ALL.has(one) && Network::ALL.has(other));
            for kind in kinds {
                assert_eq!(kind(kind(one).first()), kind(one), "{one}");
            }
        }
        assert!(!Network::wide(address("::1")).has(address("192.0.2.1")));
    }
}
