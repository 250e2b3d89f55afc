//! As whom the server side comes to servers: as itself, from the client's address, or as itself
//! with the client's address in a header of the PROXY protocol, version 2.
//!
//! ```text
//! signature(12) | 2, command | family, transport | length(2) | client's and server's address, ports
//!
//! command 1 PROXY, family 1 IPv4 (4 4 2 2 bytes) or 2 IPv6 (16 16 2 2), transport 1 stream;
//! command 0 LOCAL, all else 0: nothing is said of a client
//! ```
//!
//! (The PROXY protocol, HAProxy Technologies, 2017, section 2.2.)
//!
//! Is: the decision and the header's bytes. Is not: the sockets.
//!
//! Invariant: a client's address is used only within the networks that the operator names. The
//! client side says whose a connection is, and could say any address; servers decide by it.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::allowed::{RuleError, network};

/// "\r\n\r\n\0\r\nQUIT\n": no request of HTTP, SMTP or any protocol in lines (section 2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Version 2 in the upper half, the command in the lower one.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

/// Family in the upper half, transport in the lower one.
const UNSPECIFIED: u8 = 0x00;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// Networks of clients whose addresses are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientNetworks(Vec<IpNet>);

/// As whom the server side comes to servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WayOut {
    /// As itself.
    #[default]
    Own,
    /// From the client's address, where that is known; otherwise as itself.
    Client(ClientNetworks),
    /// As itself, with a header in front that names the client, where that is known.
    ProxyV2(ClientNetworks),
}

/// What is known of a client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is this one.
    Client(SocketAddr),
    /// The client side does not tell it.
    NotTold,
    /// The client side tells one that is in none of the networks.
    NotBelieved,
}

impl ClientNetworks {
    /// These, each as `ADDRESS/LENGTH`.
    ///
    /// # Errors
    /// One is no network.
    pub fn parse<'a>(networks: impl IntoIterator<Item = &'a str>) -> Result<Self, RuleError> {
        let network = |text: &str| {
            let (address, length) = text.split_once('/').ok_or(RuleError::Network)?;
            network(address, length)
        };
        let networks = networks.into_iter().map(network);
        Ok(Self(networks.collect::<Result<_, _>>()?))
    }

    /// What is known of a client, for whom the client side tells this address.
    pub fn origin(&self, told: Option<SocketAddr>) -> Origin {
        let Some(client) = told else {
            return Origin::NotTold;
        };
        let ip = client.ip().to_canonical();
        if self.0.iter().any(|network| network.contains(&ip)) {
            Origin::Client(SocketAddr::new(ip, client.port()))
        } else {
            Origin::NotBelieved
        }
    }
}

impl Origin {
    /// The header that tells `server` of the client.
    pub fn proxy_v2(self, server: SocketAddr) -> Vec<u8> {
        let mut header = SIGNATURE.to_vec();
        let client = match self {
            Self::Client(client) => client,
            Self::NotTold | Self::NotBelieved => {
                header.extend_from_slice(&[LOCAL, UNSPECIFIED, 0, 0]);
                return header;
            }
        };
        header.push(PROXY);
        match (client.ip(), server.ip().to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                header.extend_from_slice(&[TCP_OVER_IPV4, 0, 12]);
                header.extend_from_slice(&from.octets());
                header.extend_from_slice(&to.octets());
            }
            // There is one family for both: what is IPv4 is written as RFC 4291, section 2.5.5.2
            // has it.
            (from, to) => {
                header.extend_from_slice(&[TCP_OVER_IPV6, 0, 36]);
                for ip in [from, to] {
                    let ip = match ip {
                        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                        IpAddr::V6(ip) => ip,
                    };
                    header.extend_from_slice(&ip.octets());
                }
            }
        }
        header.extend_from_slice(&client.port().to_be_bytes());
        header.extend_from_slice(&server.port().to_be_bytes());
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn networks() -> ClientNetworks {
        ClientNetworks::parse(["10.1.0.0/16", "fd00:1::/32"]).expect("networks")
    }

    #[test]
    fn an_address_is_believed_within_the_networks_alone() {
        let networks = networks();
        for (told, expected) in [
            (None, Origin::NotTold),
            (Some("10.1.2.3:4000"), Origin::Client(at("10.1.2.3:4000"))),
            (
                Some("[::ffff:10.1.2.3]:4000"),
                Origin::Client(at("10.1.2.3:4000")),
            ),
            (
                Some("[fd00:1::7]:4000"),
                Origin::Client(at("[fd00:1::7]:4000")),
            ),
            (Some("10.2.0.1:4000"), Origin::NotBelieved),
            (Some("127.0.0.1:4000"), Origin::NotBelieved),
            (Some("[fd00:2::7]:4000"), Origin::NotBelieved),
        ] {
            assert_eq!(networks.origin(told.map(at)), expected, "{told:?}");
        }
        let none = ClientNetworks::default();
        assert_eq!(none.origin(Some(at("10.1.2.3:1"))), Origin::NotBelieved);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for (text, error) in [
            ("10.1.0.0", RuleError::Network),
            ("10.1.0.0/33", RuleError::Network),
            ("10.1.0.0/16:443", RuleError::Network),
            ("10.1.0.1/16", RuleError::HostBits),
        ] {
            assert_eq!(ClientNetworks::parse([text]), Err(error), "{text}");
        }
    }

    #[test]
    fn the_header_has_the_bytes_of_its_layout() {
        let signature = "0d0a0d0a000d0a515549540a";
        let v6 = "20010db8000000000000000000000007";
        let mapped = "00000000000000000000ffff0a010203";
        for (origin, server, expected) in [
            (
                Origin::Client(at("10.1.2.3:40000")),
                "192.0.2.1:443",
                "21 11 000c 0a010203 c0000201 9c40 01bb".to_owned(),
            ),
            (
                Origin::Client(at("[2001:db8::7]:40000")),
                "[2001:db8::7]:8443",
                format!("21 21 0024 {v6} {v6} 9c40 20fb"),
            ),
            (
                Origin::Client(at("10.1.2.3:40000")),
                "[2001:db8::7]:443",
                format!("21 21 0024 {mapped} {v6} 9c40 01bb"),
            ),
            (Origin::NotTold, "192.0.2.1:443", "20 00 0000".to_owned()),
            (
                Origin::NotBelieved,
                "192.0.2.1:443",
                "20 00 0000".to_owned(),
            ),
        ] {
            let header = origin.proxy_v2(at(server));
            let hex: String = header.iter().map(|byte| format!("{byte:02x}")).collect();
            let expected = expected.replace(' ', "");
            assert_eq!(hex, format!("{signature}{expected}"), "{origin:?}");
        }
    }
}
