//! The first message on a stream: where the connection goes and, where the client side tells it,
//! whose it is.
//!
//! ```text
//! +------+---------------+-----------------+----------------------------+----------------------+
//! | form | length (name) | address or name | port (2 bytes, unless 443) | client: address port |
//! +------+---------------+-----------------+----------------------------+----------------------+
//!
//! form = 0 IPv4 | 1 IPv6 | 2 name; 4 more where a port follows;
//!        8 more where a client of IPv4 follows, 16 more where one of IPv6 does
//! ```
//!
//! Is: the bytes. Is not: the way to a target, whether it is allowed, or whether what is said of
//! the client is believed.
//!
//! Invariants: each message has one encoding; at most [`MAX_OPEN`] bytes are kept of one that is
//! not whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Malformed;
use super::target::{DEFAULT_PORT, Target};

/// Longest message: a name of 255 bytes, which is refused, with a port, and a client of IPv6.
pub(super) const MAX_OPEN: usize = 1 + 1 + 255 + 2 + 16 + 2;

const IPV4: u8 = 0;
const IPV6: u8 = 1;
const NAME: u8 = 2;
const WITH_PORT: u8 = 4;
const WITH_CLIENT_V4: u8 = 8;
const WITH_CLIENT_V6: u8 = 16;

/// What [`Open::client`] adds to the form.
const CLIENT: u8 = WITH_CLIENT_V4 | WITH_CLIENT_V6;

/// The first message on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// Where the connection goes.
    pub target: Target,
    client: Option<SocketAddr>,
}

impl Open {
    /// To this target, for a client that is not told of.
    pub fn to(target: Target) -> Self {
        Self {
            target,
            client: None,
        }
    }

    /// For this client, as far as its address means anything elsewhere: one of the loopback network
    /// or local to a link is not told.
    #[must_use]
    pub fn of_client(self, client: SocketAddr) -> Self {
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        Self {
            client: may_be_told(client).then_some(client),
            ..self
        }
    }

    /// Whose it is, where the client side tells it. IPv4 is not written as IPv6.
    #[must_use]
    pub fn client(&self) -> Option<SocketAddr> {
        self.client
    }

    /// Appends the message. `None`, and nothing written, for a target that may not cross
    /// ([`Target::validated`]). An IPv6 address loses its scope: it means nothing elsewhere.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let target = self.target.clone().validated().ok()?;
        let port = target.port();
        let port = (port != DEFAULT_PORT).then_some(port.to_be_bytes());
        let form = if port.is_some() { WITH_PORT } else { 0 };
        let form = form
            | match self.client {
                None => 0,
                Some(SocketAddr::V4(_)) => WITH_CLIENT_V4,
                Some(SocketAddr::V6(_)) => WITH_CLIENT_V6,
            };
        match &target {
            Target::Address(address) => match address.ip() {
                IpAddr::V4(ip) => {
                    out.push(form | IPV4);
                    out.extend_from_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    out.push(form | IPV6);
                    out.extend_from_slice(&ip.octets());
                }
            },
            Target::Name { name, .. } => {
                let length = u8::try_from(name.len()).ok()?;
                out.extend_from_slice(&[form | NAME, length]);
                out.extend_from_slice(name.as_bytes());
            }
        }
        out.extend(port.into_iter().flatten());
        if let Some(client) = self.client {
            match client.ip() {
                IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
            }
            out.extend_from_slice(&client.port().to_be_bytes());
        }
        Some(())
    }

    /// The message at the front of `input`, and its length; `None` where it is not whole.
    fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some((&form, rest)) = input.split_first() else {
            return Ok(None);
        };
        let host = match form & !(WITH_PORT | CLIENT) {
            IPV4 => ipv4(rest).map(|(ip, rest)| (Host::Address(ip), rest)),
            IPV6 => ipv6(rest).map(|(ip, rest)| (Host::Address(ip), rest)),
            NAME => name(rest)?,
            _ => return Err(Malformed),
        };
        let Some((host, rest)) = host else {
            return Ok(None);
        };
        let (port, rest) = match (form & WITH_PORT, rest.split_first_chunk()) {
            (0, _) => (DEFAULT_PORT, rest),
            (_, None) => return Ok(None),
            (_, Some((port, rest))) => match u16::from_be_bytes(*port) {
                DEFAULT_PORT => return Err(Malformed),
                port => (port, rest),
            },
        };
        let target = match host {
            Host::Address(ip) => Target::Address(SocketAddr::new(ip, port)),
            Host::Name(name) => Target::Name { name, port },
        };
        let target = target.validated().map_err(|_| Malformed)?;
        let client = match form & CLIENT {
            0 => Some((None, rest)),
            WITH_CLIENT_V4 => client(ipv4(rest))?,
            WITH_CLIENT_V6 => client(ipv6(rest))?,
            _ => return Err(Malformed),
        };
        Ok(client.map(|(client, rest)| {
            let length = input.len() - rest.len();
            (Self { target, client }, length)
        }))
    }
}

/// An address and what follows it; `None` where it is not whole.
fn ipv4(input: &[u8]) -> Option<(IpAddr, &[u8])> {
    let (octets, rest) = input.split_first_chunk::<4>()?;
    Some((Ipv4Addr::from(*octets).into(), rest))
}

/// As [`ipv4`].
fn ipv6(input: &[u8]) -> Option<(IpAddr, &[u8])> {
    let (octets, rest) = input.split_first_chunk::<16>()?;
    Some((Ipv6Addr::from(*octets).into(), rest))
}

/// A client and what follows it.
type Client<'a> = (Option<SocketAddr>, &'a [u8]);

/// The client of this address, whose port follows; `None` where that is not whole.
fn client(address: Option<(IpAddr, &[u8])>) -> Result<Option<Client<'_>>, Malformed> {
    let Some((ip, rest)) = address else {
        return Ok(None);
    };
    let Some((port, rest)) = rest.split_first_chunk() else {
        return Ok(None);
    };
    let client = SocketAddr::new(ip, u16::from_be_bytes(*port));
    if !may_be_told(client) {
        return Err(Malformed);
    }
    Ok(Some((Some(client), rest)))
}

/// Whether a client side tells this client: an address of one machine that means something
/// elsewhere, and a port. IPv4 in IPv6's clothes has another form.
fn may_be_told(client: SocketAddr) -> bool {
    let ip = client.ip();
    let is_special = match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    };
    let is_one = !is_special && !ip.is_unspecified() && !ip.is_multicast();
    is_one && ip == ip.to_canonical() && client.port() != 0
}

/// A target without its port.
enum Host {
    Address(IpAddr),
    Name(String),
}

/// A name behind its length, and what follows it; `None` where it is not whole.
fn name(input: &[u8]) -> Result<Option<(Host, &[u8])>, Malformed> {
    let Some((name, rest)) = input
        .split_first()
        .and_then(|(&length, rest)| rest.split_at_checked(usize::from(length)))
    else {
        return Ok(None);
    };
    let name = str::from_utf8(name).map_err(|_| Malformed)?;
    Ok(Some((Host::Name(name.to_owned()), rest)))
}

/// Reads the message in any pieces.
#[derive(Debug, Default)]
pub struct OpenDecoder {
    kept: Vec<u8>,
}

impl OpenDecoder {
    /// Takes bytes off the front of `input`, as far as they are the message's. `None`: more is
    /// needed.
    ///
    /// # Errors
    /// [`Malformed`] for what is no such message; there is no reading on then.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Open>, Malformed> {
        let before = self.kept.len();
        let room = MAX_OPEN.saturating_sub(before).min(input.len());
        self.kept.extend_from_slice(&input[..room]);
        match Open::parse(&self.kept)? {
            Some((open, length)) => {
                *input = &input[length.saturating_sub(before)..];
                self.kept.clear();
                Ok(Some(open))
            }
            None => {
                *input = &input[room..];
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opens() -> Vec<Open> {
        [
            ("192.0.2.1", 443),
            ("192.0.2.1", 8_443),
            ("2001:db8::1", 443),
            ("www.example.org", 443),
            ("www.example.org", 80),
            (&*"a".repeat(253), 65_535),
        ]
        .into_iter()
        .map(|(host, port)| Open::to(Target::new(host, port).expect("a target")))
        .flat_map(|open| {
            let clients = ["198.51.100.7:50000", "[2001:db8::7]:50000"];
            let of = clients.map(|client| {
                let client = client.parse().expect("an address");
                open.clone().of_client(client)
            });
            [open].into_iter().chain(of)
        })
        .collect()
    }

    fn written(open: &Open) -> Vec<u8> {
        let mut out = Vec::new();
        open.write(&mut out).expect("it may cross");
        out
    }

    #[test]
    fn each_target_is_read_back_in_any_two_pieces_and_leaves_what_follows() {
        for open in opens() {
            let bytes = [written(&open), b"next".to_vec()].concat();
            for cut in 0..=bytes.len() {
                let mut decoder = OpenDecoder::default();
                let mut first = &bytes[..cut];
                let early = decoder.next(&mut first).expect("well formed");
                let mut second = &bytes[cut..];
                match early {
                    Some(early) => {
                        assert_eq!((early, first.len()), (open.clone(), cut + 4 - bytes.len()))
                    }
                    None => {
                        assert!(first.is_empty());
                        let late = decoder.next(&mut second).expect("well formed");
                        assert_eq!((late, second), (Some(open.clone()), &b"next"[..]));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_written_otherwise_than_here_is_refused() {
        for bad in [
            &[3, 1, 2, 3, 4][..],
            &[32, 1, 2, 3, 4],
            &[0xff],
            // Port 443, though it costs nothing; port 0.
            &[4, 192, 0, 2, 1, 1, 0xbb],
            &[4, 192, 0, 2, 1, 0, 0],
            // No name, upper case, no text.
            &[2, 0],
            &[2, 1, b'A'],
            &[2, 2, 0xc3, 0xa9],
            // A client of both kinds; one of IPv4 that is written as IPv6; of the loopback network;
            // of many machines; without a port.
            &[24, 192, 0, 2, 1],
            &[
                16, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1, 1, 1,
            ],
            &[8, 192, 0, 2, 1, 127, 0, 0, 1, 1, 1],
            &[8, 192, 0, 2, 1, 224, 0, 0, 1, 1, 1],
            &[8, 192, 0, 2, 1, 10, 0, 0, 1, 0, 0],
        ] {
            assert_eq!(
                OpenDecoder::default().next(&mut &*bad),
                Err(Malformed),
                "{bad:?}"
            );
        }
        let too_long = [&[2, 254][..], &[b'a'; 254]].concat();
        assert_eq!(OpenDecoder::default().next(&mut &*too_long), Err(Malformed));
    }

    #[test]
    fn a_target_that_may_not_cross_is_not_written() {
        for (name, port) in [("", 443), ("A", 443), ("a b", 443), ("a", 0)] {
            let name = name.to_owned();
            let open = Open::to(Target::Name { name, port });
            let mut out = vec![7];
            assert_eq!(open.write(&mut out), None);
            assert_eq!(out, [7]);
        }
    }

    #[test]
    fn a_client_is_told_where_its_address_means_something_elsewhere() {
        for (client, expected) in [
            ("10.1.0.2:40000", Some("10.1.0.2:40000")),
            ("[::ffff:10.1.0.2]:40000", Some("10.1.0.2:40000")),
            ("[fd00::2]:40000", Some("[fd00::2]:40000")),
            ("127.0.0.1:40000", None),
            ("169.254.1.1:40000", None),
            ("[::1]:40000", None),
            ("[fe80::1]:40000", None),
        ] {
            let open = Open::to(Target::new("a.example", 443).expect("a target"));
            let open = open.of_client(client.parse().expect("an address"));
            let told = open.client().map(|client| client.to_string());
            assert_eq!(told.as_deref(), expected, "{client}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut rest = &*bytes;
            if let Ok(Some(open)) = OpenDecoder::default().next(&mut rest) {
                prop_assert_eq!(&written(&open), &bytes[..bytes.len() - rest.len()]);
            }
        }
    }
}
