//! Where a connection through the tunnel goes: an address or a name, and a port.
//!
//! Is: its text form, as it comes out of SOCKS5, HTTP CONNECT or a command line, and which names
//! may cross. Is not: the resolution of names, or whether the target is allowed
//! (`tandem-tunnel`).
//!
//! Names are host names in the sense of RFC 1123, section 2.1, and RFC 952: letters, digits,
//! hyphens and dots; underscores, which are in use, are taken too. Case does not matter (RFC 4343),
//! so that only lower case crosses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The port that costs nothing to name: HTTPS.
pub const DEFAULT_PORT: u16 = 443;

/// Longest name, in bytes (RFC 1035, section 2.3.4, as text).
const MAX_NAME: usize = 253;

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A name, which the server-side proxy resolves.
    Name {
        /// ASCII in lower case, 1 to 253 bytes.
        name: String,
        /// TCP port.
        port: u16,
    },
}

/// Why a host and a port are not a target: the client's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Neither an address nor a name.
    #[error("the host is neither an address nor a name")]
    Host,
    /// Port 0.
    #[error("port 0 is not a port")]
    Port,
}

impl Target {
    /// The target that a client names: `host` is an IPv4 address, an IPv6 address (with brackets or
    /// without) or a name in any case.
    ///
    /// # Errors
    /// [`TargetError`] where no proxy could connect to it.
    pub fn new(host: &str, port: u16) -> Result<Self, TargetError> {
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let address = match inner {
            Some(inner) => Some(IpAddr::V6(
                inner.parse::<Ipv6Addr>().map_err(|_| TargetError::Host)?,
            )),
            None => host.parse().ok(),
        };
        let target = match address {
            Some(address) => Self::Address(SocketAddr::new(address, port)),
            None => Self::Name {
                name: host.to_ascii_lowercase(),
                port,
            },
        };
        target.validated()
    }

    /// The target itself, if it may cross.
    ///
    /// # Errors
    /// [`TargetError`] where it may not.
    pub fn validated(self) -> Result<Self, TargetError> {
        let is_name = match &self {
            Self::Address(_) => true,
            Self::Name { name, .. } => is_name(name),
        };
        match (is_name, self.port()) {
            (false, _) => Err(TargetError::Host),
            (true, 0) => Err(TargetError::Port),
            (true, _) => Ok(self),
        }
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name { port, .. } => *port,
        }
    }
}

/// Whether these are the bytes of a name that may cross.
fn is_name(name: &str) -> bool {
    let is_taken = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'_')
    };
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_taken)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Name { name, port } => write!(f, "{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_names_in_lower_case() {
        for (host, text) in [
            ("192.0.2.1", "192.0.2.1:80"),
            ("2001:db8::1", "[2001:db8::1]:80"),
            ("[2001:db8::1]", "[2001:db8::1]:80"),
            ("WWW.Example.ORG", "www.example.org:80"),
            ("_sip.a-b.example.", "_sip.a-b.example.:80"),
        ] {
            let target = Target::new(host, 80).expect(host);
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_host_or_no_port_is_refused() {
        let longest = "a".repeat(MAX_NAME);
        assert!(Target::new(&longest, 1).is_ok());
        for host in [
            "",
            "a b",
            "a:1",
            "[www.example]",
            "[192.0.2.1]",
            "é.example",
            &(longest + "a"),
        ] {
            assert_eq!(Target::new(host, 80), Err(TargetError::Host), "{host}");
        }
        for host in ["a.example", "192.0.2.1"] {
            assert_eq!(Target::new(host, 0), Err(TargetError::Port));
        }
    }
}
