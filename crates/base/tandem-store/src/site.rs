//! Whom a client asked for, and the names that a certificate answers to.
//!
//! Not here: what a site showed. Invariants: a [`HostName`] is lower-cased, has no
//! trailing dot, is at most 253 bytes (RFC 1035, section 2.3.4, in text) and is not an IPv4 address
//! in disguise; a [`Pattern`] is a host name, or one behind `*.` (RFC 6125, section 6.4.3: only the
//! complete left-most label may be a wildcard).

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use std::sync::Arc;

use crate::error::NameError;

/// Longest name in text: 255 bytes on the wire less the first length byte and the root (RFC 1035,
/// section 2.3.4).
const NAME_LIMIT: usize = 253;
/// Longest label (RFC 1035, section 2.3.4).
const LABEL_LIMIT: usize = 63;

/// A DNS host name: lower-cased, without a trailing dot, at most 253 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Arc<str>);

impl HostName {
    /// Checks and lower-cases a name. One trailing dot is taken off. Underscores are let through,
    /// since names in use have them.
    ///
    /// # Errors
    /// [`NameError::NotAHostName`] if it is empty, too long, has an empty or too long label, has a
    /// byte that is no letter, digit, hyphen or underscore, or is an IP address (RFC 6066, section
    /// 3, forbids literal addresses as names).
    pub fn new(text: &str) -> Result<Self, NameError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        if is_host_name(name) {
            Ok(Self(name.to_ascii_lowercase().into()))
        } else {
            Err(NameError::NotAHostName {
                text: text.chars().take(80).collect(),
            })
        }
    }

    /// The name, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_LIMIT).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    name.len() <= NAME_LIMIT
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

/// Whom a client asked for: the name in its hello (SNI, RFC 6066, section 3), or where it connected
/// to if it named nobody. Or any site, for what is alike at many.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// The server name of the hello.
    Name(HostName),
    /// The server's address and port.
    Address(SocketAddr),
    /// Any site.
    Any,
}

/// The text of any site. No host name and no address.
const ANY: &str = "*";

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Any => f.write_str(ANY),
        }
    }
}

impl FromStr for Site {
    type Err = NameError;

    /// Reads `address:port` (IPv6 in brackets), a host name, or `*`. No text is two of these.
    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == ANY {
            return Ok(Self::Any);
        }
        text.parse()
            .map(Self::Address)
            .or_else(|_| HostName::new(text).map(Self::Name))
    }
}

/// A name that a certificate answers to: a host name, or `*.` and a host name of two labels or
/// more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// Reads a name out of a certificate. `None` for what no host name can match: partial wildcards
    /// (`w*.example.com`), wildcards elsewhere than on the left, wildcards above a single label
    /// (`*.com`, which would claim a whole registry), no host name.
    pub fn new(text: &str) -> Option<Self> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let acceptable = match name.strip_prefix("*.") {
            Some(parent) => is_host_name(parent) && parent.contains('.'),
            None => is_host_name(name),
        };
        acceptable.then(|| Self(name.to_ascii_lowercase().into()))
    }

    /// The patterns that match `name`: itself, and the wildcard in place of its left-most label.
    pub fn matching(name: &HostName) -> (Self, Option<Self>) {
        let wildcard = name
            .0
            .split_once('.')
            .map(|(_, parent)| Self(format!("*.{parent}").into()));
        (Self(Arc::clone(&name.0)), wildcard)
    }

    /// The name, in lower case, with its wildcard.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_is_lower_cased_and_loses_its_trailing_dot() {
        assert_eq!(
            HostName::new("WWW.Example.COM.").expect("a name").as_str(),
            "www.example.com"
        );
        assert_eq!(
            HostName::new("localhost").expect("a name").as_str(),
            "localhost"
        );
        assert_eq!(
            HostName::new("_sip.x-1.example").expect("a name").as_str(),
            "_sip.x-1.example"
        );
        assert!(
            HostName::new(&format!("{}.com", ["a"; 125].join("."))).is_ok(),
            "253 bytes"
        );
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        let long_label = format!("{}.com", "a".repeat(64));
        let long_name = format!("{}.com", ["a"; 126].join("."));
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a\0b",
            "bücher.example",
            "*.example.com",
            "192.0.2.1",
            "[::1]",
            "::1",
            &long_label,
            &long_name,
        ] {
            assert!(HostName::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_site_reads_back_as_it_is_written() {
        for text in [
            "www.example.com",
            "192.0.2.1:443",
            "[2001:db8::1]:8443",
            "*",
        ] {
            assert_eq!(text.parse::<Site>().expect("a site").to_string(), text);
        }
        assert!("192.0.2.1".parse::<Site>().is_err());
        assert!("www.example.com:443".parse::<Site>().is_err());
        let name = HostName::new("WWW.example.com").expect("a name");
        assert_eq!(
            format!("{name} {name:?}"),
            "www.example.com www.example.com"
        );
    }

    #[test]
    fn a_wildcard_stands_for_exactly_the_left_most_label() {
        let matches = |pattern: &str, name: &str| {
            let pattern = Pattern::new(pattern).expect("a pattern");
            let (exact, wildcard) = Pattern::matching(&HostName::new(name).expect("a name"));
            pattern == exact || Some(pattern) == wildcard
        };
        assert!(matches("*.example.com", "www.example.com"));
        assert!(matches("*.Example.com.", "www.example.com"));
        assert!(!matches("*.example.com", "example.com"));
        assert!(!matches("*.example.com", "a.b.example.com"));
        assert!(!matches("www.example.com", "example.com"));
    }

    #[test]
    fn wildcards_that_claim_too_much_or_stand_elsewhere_are_not_patterns() {
        for text in [
            "*",
            "*.",
            "*.com",
            "w*.example.com",
            "*w.example.com",
            "www.*.com",
            "**.example.com",
            "*.*.example.com",
            "*.192.0.2.1",
            "",
        ] {
            assert!(Pattern::new(text).is_none(), "{text}");
        }
    }
}
