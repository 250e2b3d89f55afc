//! The flag bits of a TCP header (RFC 9293, section 3.1; RFC 3168 for ECE and CWR).

use std::fmt;

/// The 12 bits that follow the data offset: 4 reserved ones, then CWR to FIN. Higher bits are never
/// written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    /// No bit.
    pub const EMPTY: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(0x020);
    /// Congestion echo (RFC 3168).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x080);
    /// The lowest reserved bit: accurate ECN (RFC 9768).
    pub const AE: Self = Self(0x100);
    /// All reserved bits, `AE` with them.
    pub const RESERVED: Self = Self(0xf00);
    /// All bits that a header holds.
    pub const ALL: Self = Self(0xfff);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These less those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(TcpFlags, &str); 9] = [
            (TcpFlags::FIN, "FIN"),
            (TcpFlags::SYN, "SYN"),
            (TcpFlags::RST, "RST"),
            (TcpFlags::PSH, "PSH"),
            (TcpFlags::ACK, "ACK"),
            (TcpFlags::URG, "URG"),
            (TcpFlags::ECE, "ECE"),
            (TcpFlags::CWR, "CWR"),
            (TcpFlags::AE, "AE"),
        ];
        let mut rest = *self;
        let mut separator = "";
        for (flag, name) in NAMES {
            if self.contains(flag) {
                write!(f, "{separator}{name}")?;
                separator = "|";
                rest = rest.without(flag);
            }
        }
        if rest != Self::EMPTY || *self == Self::EMPTY {
            write!(f, "{separator}{:#05x}", rest.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_flags() {
        let flags = TcpFlags::SYN.with(TcpFlags::ACK);
        assert!(flags.contains(TcpFlags::SYN) && flags.contains(TcpFlags::SYN.with(TcpFlags::ACK)));
        assert!(!TcpFlags::SYN.contains(flags) && TcpFlags::SYN.intersects(flags));
        assert!(!flags.intersects(TcpFlags::RST.with(TcpFlags::FIN)));
        assert_eq!(flags.without(TcpFlags::SYN), TcpFlags::ACK);
        assert_eq!(
            format!("{:?}", flags.with(TcpFlags(0x800))),
            "SYN|ACK|0x800"
        );
        assert_eq!(format!("{:?}", TcpFlags::EMPTY), "0x000");
    }
}
