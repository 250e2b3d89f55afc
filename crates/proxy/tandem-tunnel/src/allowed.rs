//! The allow list of the server side: which addresses the far side's clients may reach.
//!
//! Is: the decision over an address. Is not: the resolution of names: each address that a name
//! resolves to is asked about for itself, so that no name leads around the list.
//!
//! Invariant: without rules only public unicast addresses (the special-purpose registries of RFC
//! 6890, as of 2025, left out) are reached, on port 443, and none of the server side's own machine.
//! The public ones of its networks are reached, as those of IPv6 mostly are: an address does not
//! tell whose it is. An address that embeds another by a translation (RFC 6052, RFC 3056) is not
//! public; one that is IPv4 in IPv6's clothes (RFC 4291, section 2.5.5.2) counts as IPv4.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tandem_link::tunnel::DEFAULT_PORT;

/// Networks that may be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    rules: Vec<Rule>,
}

/// One network, and its ports: `CIDR[:PORT,...]`; without ports, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    network: IpNet,
    /// Empty: all.
    ports: Vec<u16>,
}

/// Why a rule cannot be read: the operator's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Not a network.
    #[error("not a network: write it as 192.0.2.0/24 or 2001:db8::/32")]
    Network,
    /// Bits behind the prefix are set: one of the two is wrong.
    #[error("the address has bits behind the prefix length")]
    HostBits,
    /// Not a port.
    #[error("not a list of ports: write them as 80,443")]
    Ports,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The address of IPv6 has colons, too: ports stand behind the prefix length.
        let (address, rest) = text.split_once('/').ok_or(RuleError::Network)?;
        let (length, ports) = match rest.split_once(':') {
            Some((length, ports)) => (length, Some(ports)),
            None => (rest, None),
        };
        let network = network(address, length)?;
        let ports = ports.map_or(Ok(Vec::new()), |ports| {
            let port = |port: &str| port.parse().ok().filter(|port| *port != 0);
            let ports = ports
                .split(',')
                .map(|text| port(text).ok_or(RuleError::Ports));
            ports.collect()
        })?;
        Ok(Self { network, ports })
    }
}

/// The network of an address and a prefix length.
pub(crate) fn network(address: &str, length: &str) -> Result<IpNet, RuleError> {
    let address: IpAddr = address.parse().map_err(|_| RuleError::Network)?;
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse().ok().filter(|_| is_number);
    let network = IpNet::new(address, length.ok_or(RuleError::Network)?);
    let network = network.map_err(|_| RuleError::Network)?;
    if network.trunc() != network {
        return Err(RuleError::HostBits);
    }
    Ok(network)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.network)?;
        for (index, port) in self.ports.iter().enumerate() {
            let before = if index == 0 { ':' } else { ',' };
            write!(f, "{before}{port}")?;
        }
        Ok(())
    }
}

impl Rule {
    fn permits(&self, ip: IpAddr, port: u16) -> bool {
        self.network.contains(&ip) && (self.ports.is_empty() || self.ports.contains(&port))
    }
}

impl Allowed {
    /// What any of these rules permits; without rules, public unicast addresses on port 443.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// Every address, on every port.
    pub fn everything() -> Self {
        let everything = [
            IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
            IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
        ];
        let rule = |network| Rule {
            network,
            ports: Vec::new(),
        };
        Self::new(everything.map(rule).to_vec())
    }

    /// Whether this address may be connected to.
    pub fn permits(&self, address: SocketAddr) -> bool {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        match self.rules.as_slice() {
            [] => port == DEFAULT_PORT && is_public(ip),
            rules => rules.iter().any(|rule| rule.permits(ip, port)),
        }
    }

    /// Whether what [`Allowed::permits`] may be an address of the server side's own machine.
    pub fn permits_own(&self) -> bool {
        !self.rules.is_empty()
    }
}

/// Whether an address is a public one of a single host.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !SPECIAL_V4.iter().any(|network| network.contains(&ip)),
        IpAddr::V6(ip) => {
            GLOBAL_V6.contains(&ip) && !SPECIAL_V6.iter().any(|network| network.contains(&ip))
        }
    }
}

const fn v4(a: u8, b: u8, c: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), length)
}

const fn v6(a: u16, b: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), length)
}

/// IANA's registry of special-purpose IPv4 addresses, with multicast and what is reserved.
const SPECIAL_V4: [Ipv4Net; 15] = [
    v4(0, 0, 0, 8),
    v4(10, 0, 0, 8),
    v4(100, 64, 0, 10),
    v4(127, 0, 0, 8),
    v4(169, 254, 0, 16),
    v4(172, 16, 0, 12),
    v4(192, 0, 0, 24),
    v4(192, 0, 2, 24),
    v4(192, 88, 99, 24),
    v4(192, 168, 0, 16),
    v4(198, 18, 0, 15),
    v4(198, 51, 100, 24),
    v4(203, 0, 113, 24),
    v4(224, 0, 0, 4),
    v4(240, 0, 0, 4),
];

/// What is given out of IPv6's global unicast space (RFC 4291, section 2.4).
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);

/// What of that is special: protocol assignments with Teredo, documentation, 6to4.
const SPECIAL_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 23),
    v6(0x2001, 0xdb8, 32),
    v6(0x2002, 0, 16),
    v6(0x3fff, 0, 20),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(rules: &[&str], address: &str) -> bool {
        let rules = rules.iter().map(|rule| rule.parse().expect(rule));
        let address = address.parse().expect("an address");
        Allowed::new(rules.collect()).permits(address)
    }

    #[test]
    fn without_rules_public_hosts_are_reached_on_the_port_of_https_alone() {
        for (address, is_permitted) in [
            ("93.184.215.14:443", true),
            ("93.184.215.14:80", false),
            ("[2606:2800:21f:cb07::1]:443", true),
            ("[2606:2800:21f:cb07::1]:8443", false),
            ("0.0.0.0:443", false),
            ("0.1.2.3:443", false),
            ("10.0.0.1:443", false),
            ("100.63.255.255:443", true),
            ("100.64.0.0:443", false),
            ("100.127.255.255:443", false),
            ("100.128.0.0:443", true),
            ("127.0.0.1:443", false),
            ("169.254.169.254:443", false),
            ("172.15.255.255:443", true),
            ("172.16.0.1:443", false),
            ("172.31.255.255:443", false),
            ("172.32.0.0:443", true),
            ("192.0.0.9:443", false),
            ("192.0.2.1:443", false),
            ("192.88.99.1:443", false),
            ("192.168.1.1:443", false),
            ("198.17.255.255:443", true),
            ("198.18.0.1:443", false),
            ("198.19.255.255:443", false),
            ("198.51.100.1:443", false),
            ("203.0.113.1:443", false),
            ("223.255.255.255:443", true),
            ("224.0.0.1:443", false),
            ("255.255.255.255:443", false),
            ("[::]:443", false),
            ("[::1]:443", false),
            // IPv4 in other forms: mapped, translated (RFC 6052), 6to4.
            ("[::ffff:93.184.215.14]:443", true),
            ("[::ffff:10.0.0.1]:443", false),
            ("[::ffff:127.0.0.1]:443", false),
            ("[::127.0.0.1]:443", false),
            ("[64:ff9b::10.0.0.1]:443", false),
            ("[64:ff9b:1::1]:443", false),
            ("[2002:a00:1::1]:443", false),
            ("[2001::1]:443", false),
            ("[2001:1ff:ffff::1]:443", false),
            ("[2001:200::1]:443", true),
            ("[2001:db8::1]:443", false),
            ("[3fff::1]:443", false),
            ("[3fff:1000::1]:443", true),
            ("[fc00::1]:443", false),
            ("[fe80::1]:443", false),
            ("[ff02::1]:443", false),
        ] {
            assert_eq!(permits(&[], address), is_permitted, "{address}");
        }
    }

    #[test]
    fn rules_take_the_place_of_the_default() {
        let rules = ["10.1.0.0/16:443,8443", "2001:db8::/32", "192.0.2.7/32:22"];
        for (address, is_permitted) in [
            ("10.1.2.3:443", true),
            ("10.1.2.3:8443", true),
            ("10.1.2.3:80", false),
            ("10.2.0.0:443", false),
            ("[::ffff:10.1.2.3]:443", true),
            ("[2001:db8::1]:1", true),
            ("[2001:db9::1]:443", false),
            ("192.0.2.7:22", true),
            ("192.0.2.8:22", false),
            ("93.184.215.14:443", false),
        ] {
            assert_eq!(permits(&rules, address), is_permitted, "{address}");
        }
        assert!(permits(&["0.0.0.0/0"], "127.0.0.1:1"));
        assert!(!permits(&["::/0"], "127.0.0.1:1"));
        // What counts as IPv4 is in no network of IPv6.
        assert!(!permits(&["::/0"], "[::ffff:127.0.0.1]:1"));
    }

    #[test]
    fn the_machine_itself_is_reached_by_a_rule_alone() {
        assert!(!Allowed::default().permits_own());
        let rule = "0.0.0.0/0".parse().expect("a rule");
        assert!(Allowed::new(vec![rule]).permits_own());
    }

    #[test]
    fn everything_is_every_address_on_every_port() {
        let everything = Allowed::everything();
        for address in [
            "0.0.0.0:1",
            "255.255.255.255:65535",
            "[::]:1",
            "[ff02::1]:443",
        ] {
            let address = address.parse().expect("an address");
            assert!(everything.permits(address), "{address}");
        }
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for rule in [
            "10.0.0.0/8",
            "10.0.0.0/8:1,65535",
            "2001:db8::/32:443",
            "::/0",
        ] {
            let read: Rule = rule.parse().expect(rule);
            assert_eq!(read.to_string(), rule);
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_reason() {
        for (rule, reason) in [
            ("", RuleError::Network),
            ("10.0.0.1", RuleError::Network),
            ("example.org/8", RuleError::Network),
            ("10.0.0.0/33", RuleError::Network),
            ("10.0.0.0/+8", RuleError::Network),
            ("10.0.0.0/", RuleError::Network),
            ("::/129", RuleError::Network),
            ("10.0.0.1/8", RuleError::HostBits),
            ("10.0.0.0/8:", RuleError::Ports),
            ("10.0.0.0/8:0", RuleError::Ports),
            ("10.0.0.0/8:80,", RuleError::Ports),
            ("10.0.0.0/8:65536", RuleError::Ports),
            ("10.0.0.0/8:http", RuleError::Ports),
        ] {
            assert_eq!(rule.parse::<Rule>(), Err(reason), "{rule}");
        }
    }
}
