//! Protocol versions as they travel: two bytes.

use std::fmt;

/// A version number of SSL or TLS, drafts included.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProtocolVersion(pub u16);

impl ProtocolVersion {
    /// SSL 3.0 (RFC 6101).
    pub const SSL3_0: Self = Self(0x0300);
    /// TLS 1.0 (RFC 2246).
    pub const TLS1_0: Self = Self(0x0301);
    /// TLS 1.1 (RFC 4346).
    pub const TLS1_1: Self = Self(0x0302);
    /// TLS 1.2 (RFC 5246).
    pub const TLS1_2: Self = Self(0x0303);
    /// TLS 1.3 (RFC 8446).
    pub const TLS1_3: Self = Self(0x0304);

    /// Number of a TLS 1.3 draft that went by 0x7fNN (drafts of RFC 8446, section 4.2.1.1).
    #[must_use]
    pub const fn tls13_draft(self) -> Option<u8> {
        let [major, minor] = self.0.to_be_bytes();
        match major {
            0x7f => Some(minor),
            _ => None,
        }
    }

    /// Whether this number may stand in a record header: 3.0 to 3.4.
    #[must_use]
    pub const fn is_record_version(self) -> bool {
        self.0 >= Self::SSL3_0.0 && self.0 <= Self::TLS1_3.0
    }
}

impl fmt::Debug for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SSL3_0 => f.write_str("SSL 3.0"),
            Self::TLS1_0 => f.write_str("TLS 1.0"),
            Self::TLS1_1 => f.write_str("TLS 1.1"),
            Self::TLS1_2 => f.write_str("TLS 1.2"),
            Self::TLS1_3 => f.write_str("TLS 1.3"),
            Self(other) => match self.tls13_draft() {
                Some(draft) => write!(f, "TLS 1.3 draft {draft}"),
                None => write!(f, "{other:#06x}"),
            },
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(ProtocolVersion::TLS1_2.to_string(), "TLS 1.2");
        assert_eq!(ProtocolVersion(0x7f12).to_string(), "TLS 1.3 draft 18");
        assert_eq!(ProtocolVersion(0x0002).to_string(), "0x0002");
        assert!(!ProtocolVersion(0x0305).is_record_version());
        assert!(!ProtocolVersion(0xfefd).is_record_version());
    }
}
