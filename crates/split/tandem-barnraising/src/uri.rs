//! The one argument of a volunteer: `barnraising://BROKER[:PORT]/SITE#KEY`.
//!
//! Is: the broker's address, the site's name, and the broker's public key, in the form that the
//! thesis has (section 4.1) and with the key, which it has not: by the key a volunteer knows its
//! broker, whatever DNS says. Is not: anything else about the site; the broker tells that.
//!
//! Invariant: host and site are well-formed names of hosts in lower case (RFC 1123, section 2.1),
//! or addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crate::member::PublicKey;

/// Where a broker listens if its URI does not say.
pub const DEFAULT_PORT: u16 = 8470;

/// What comes before the broker's host.
pub const SCHEME: &str = "barnraising://";

/// A site that wants volunteers, and who gives them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteUri {
    /// The broker's host.
    pub host: Host,
    /// The broker's port.
    pub port: u16,
    /// The site's name, as browsers know it.
    pub site: Name,
    /// The broker's key.
    pub key: PublicKey,
}

/// A host, by name or by address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// By name.
    Name(Name),
    /// By address.
    Address(IpAddr),
}

/// A host's name: lower case, no dot at the end, at most [`Name::MAX_LEN`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a text is no [`SiteUri`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// It begins with something else.
    #[error("it does not begin with {SCHEME}")]
    Scheme,
    /// The broker's host or port is malformed.
    #[error("its broker is no HOST or HOST:PORT")]
    Broker,
    /// There is no site, or no name of a host.
    #[error("after the broker comes /SITE, the name by which browsers know the site")]
    Site,
    /// There is no key, or none that is one.
    #[error(
        "after the site comes # and the broker's key, 64 hexadecimal digits; ask who runs the site for the whole URI"
    )]
    Key,
}

impl Name {
    /// Most bytes (RFC 1035, section 2.3.4, as written).
    pub const MAX_LEN: usize = 253;

    /// The name that a text is, if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let label = |label: &str| {
            let bytes = label.as_bytes();
            (1..=63).contains(&bytes.len())
                && bytes
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // What ends in a number is an address, or somebody's idea of one (RFC 1123, section 2.1).
        let numeric = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        (text.len() <= Self::MAX_LEN
            && text.split('.').all(label)
            && !text.rsplit('.').next().is_some_and(numeric))
        .then_some(Self(text))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl FromStr for Host {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        if let Some(inner) = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            let address: Ipv6Addr = inner.parse().map_err(|_| UriError::Broker)?;
            return Ok(Self::Address(address.into()));
        }
        match text.parse::<std::net::Ipv4Addr>() {
            Ok(address) => Ok(Self::Address(address.into())),
            Err(_) => Name::parse(text).map(Self::Name).ok_or(UriError::Broker),
        }
    }
}

impl FromStr for SiteUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let rest = match text.get(..SCHEME.len()) {
            Some(scheme) if scheme.eq_ignore_ascii_case(SCHEME) => &text[SCHEME.len()..],
            _ => return Err(UriError::Scheme),
        };
        let (rest, key) = match rest.split_once('#') {
            Some((rest, key)) => (rest, PublicKey::from_hex(key)),
            None => (rest, None),
        };
        let (broker, site) = rest.split_once('/').unwrap_or((rest, ""));
        // The last colon that is not inside of an address in brackets.
        let (host, port) = match broker.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse().ok().filter(|port| *port != 0 && digits);
                (host, port.ok_or(UriError::Broker)?)
            }
            Some(_) | None => (broker, DEFAULT_PORT),
        };
        Ok(Self {
            host: host.parse()?,
            port,
            site: Name::parse(site).ok_or(UriError::Site)?,
            key: key.ok_or(UriError::Key)?,
        })
    }
}

impl fmt::Display for SiteUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            port,
            site,
            key,
        } = self;
        write!(f, "{SCHEME}{host}")?;
        if *port != DEFAULT_PORT {
            write!(f, ":{port}")?;
        }
        write!(f, "/{site}#{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> String {
        "0f".repeat(32)
    }

    #[test]
    fn well_formed_uris_are_read_and_written_the_same() {
        for (text, host, port) in [
            (
                "barnraising://broker.example/www.example.org",
                "broker.example",
                8470,
            ),
            (
                "barnraising://broker.example:99/www.example.org",
                "broker.example",
                99,
            ),
            ("barnraising://192.0.2.1/www.example.org", "192.0.2.1", 8470),
            (
                "barnraising://[2001:db8::1]/www.example.org",
                "[2001:db8::1]",
                8470,
            ),
            (
                "barnraising://[2001:db8::1]:99/www.example.org",
                "[2001:db8::1]",
                99,
            ),
        ] {
            let text = format!("{text}#{}", key());
            let uri: SiteUri = text.parse().expect(&text);
            assert_eq!((uri.host.to_string().as_str(), uri.port), (host, port));
            assert_eq!(uri.site.as_str(), "www.example.org");
            assert_eq!(uri.to_string(), text);
        }
        let shouted: SiteUri = format!("BARNRAISING://Broker.Example/WWW.Example.Org.#{}", key())
            .parse()
            .expect("case does not matter");
        assert_eq!(shouted.site.as_str(), "www.example.org");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let key = key();
        for (text, error) in [
            (
                format!("https://broker.example/site#{key}"),
                UriError::Scheme,
            ),
            ("barnraisin".to_owned(), UriError::Scheme),
            (format!("barnraising:///site#{key}"), UriError::Broker),
            (format!("barnraising://b:0/site#{key}"), UriError::Broker),
            (format!("barnraising://b:+1/site#{key}"), UriError::Broker),
            (
                format!("barnraising://b:70000/site#{key}"),
                UriError::Broker,
            ),
            (format!("barnraising://a b/site#{key}"), UriError::Broker),
            (format!("barnraising://[::1/site#{key}"), UriError::Broker),
            (format!("barnraising://broker#{key}"), UriError::Site),
            (format!("barnraising://broker/#{key}"), UriError::Site),
            (format!("barnraising://broker/a/b#{key}"), UriError::Site),
            (format!("barnraising://broker/-a#{key}"), UriError::Site),
            (
                format!("barnraising://broker/10.0.0.1#{key}"),
                UriError::Site,
            ),
            ("barnraising://broker/site".to_owned(), UriError::Key),
            ("barnraising://broker/site#0f".to_owned(), UriError::Key),
            (
                format!("barnraising://broker/site#{}", "é".repeat(32)),
                UriError::Key,
            ),
        ] {
            assert_eq!(text.parse::<SiteUri>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_harms(text in ".*") {
            let _ = text.parse::<SiteUri>();
            let with_scheme = format!("{SCHEME}{text}");
            if let Ok(uri) = with_scheme.parse::<SiteUri>() {
                prop_assert_eq!(uri.to_string().parse::<SiteUri>(), Ok(uri));
            }
        }
    }
}
