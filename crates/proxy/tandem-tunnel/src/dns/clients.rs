//! Who may ask.
//!
//! Is: the decision over an address. Is not: a proof that a datagram comes from where it says: a
//! reply goes to an address that may ask, whoever sent the question.
//!
//! Invariant: without a list nobody may ask whose address the public network routes, so that a
//! forwarder is an open resolver by no mistake but a written one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::rules::{self, ClientRuleError};

/// The networks of those who may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clients {
    networks: Vec<IpNet>,
}

impl Default for Clients {
    /// This machine, and addresses that are private or local to a link (RFC 1918, RFC 3927, RFC
    /// 4193, RFC 4291).
    fn default() -> Self {
        let v4 = |a, b, length| IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, 0, 0), length));
        let v6 = |first| Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0);
        Self {
            networks: vec![
                v4(127, 0, 8),
                v4(10, 0, 8),
                v4(172, 16, 12),
                v4(192, 168, 16),
                v4(169, 254, 16),
                IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST)),
                IpNet::V6(Ipv6Net::new_assert(v6(0xfc00), 7)),
                IpNet::V6(Ipv6Net::new_assert(v6(0xfe80), 10)),
            ],
        }
    }
}

impl Clients {
    /// Those of these networks, and nobody else: `192.0.2.0/24` or an address each.
    ///
    /// # Errors
    /// One is not a network.
    pub fn of(networks: &[String]) -> Result<Self, ClientRuleError> {
        let networks = networks.iter().map(|text| rules::network(text));
        Ok(Self {
            networks: networks.collect::<Result<_, _>>()?,
        })
    }

    /// Whether this one may ask.
    pub fn permit(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.networks
            .iter()
            .any(|network| network.contains(&client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit(clients: &Clients, address: &str) -> bool {
        clients.permit(address.parse().expect(address))
    }

    #[test]
    fn without_a_list_only_those_may_ask_whom_no_public_network_reaches() {
        let clients = Clients::default();
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "10.255.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.1.1",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(permit(&clients, address), "{address}");
        }
        for address in [
            "172.32.0.1",
            "192.0.2.1",
            "100.64.0.1",
            "8.8.8.8",
            "::2",
            "2001:db8::1",
            "::ffff:8.8.8.8",
            "0.0.0.0",
        ] {
            assert!(!permit(&clients, address), "{address}");
        }
    }

    #[test]
    fn a_list_takes_the_place_of_the_default() {
        let list = ["192.0.2.0/24", "2001:db8::7"].map(str::to_owned);
        let clients = Clients::of(&list).expect("two networks");
        for address in ["192.0.2.1", "2001:db8::7", "::ffff:192.0.2.1"] {
            assert!(permit(&clients, address), "{address}");
        }
        for address in ["127.0.0.1", "10.0.0.1", "192.0.3.1", "2001:db8::8"] {
            assert!(!permit(&clients, address), "{address}");
        }
        for wrong in ["192.0.2.1/24", "lan0", ""] {
            let error = Clients::of(&[wrong.to_owned()]).expect_err(wrong);
            assert!(error.to_string().contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
