//! The first message on a stream: where the connection goes.
//!
//! ```text
//! +------+---------------+-------------------+-----------------------------+
//! | form | length (name) | address or name   | port (2 bytes, unless 443)  |
//! +------+---------------+-------------------+-----------------------------+
//!
//! form = 0 IPv4 | 1 IPv6 | 2 name; 4 more where a port follows
//! ```
//!
//! Is: the bytes. Is not: the way to a target, or whether it is allowed.
//!
//! Invariants: each target has one encoding; at most [`MAX_OPEN`] bytes are kept of one that is not
//! whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Malformed;
use super::target::{DEFAULT_PORT, Target};

/// Longest message: a name of 255 bytes, which is refused, with a port.
const MAX_OPEN: usize = 1 + 1 + 255 + 2;

const IPV4: u8 = 0;
const IPV6: u8 = 1;
const NAME: u8 = 2;
const WITH_PORT: u8 = 4;

/// The first message on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// Where the connection goes.
    pub target: Target,
}

impl Open {
    /// Appends the message. `None`, and nothing written, for a target that may not cross
    /// ([`Target::validated`]). An IPv6 address loses its scope: it means nothing elsewhere.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let target = self.target.clone().validated().ok()?;
        let port = target.port();
        let port = (port != DEFAULT_PORT).then_some(port.to_be_bytes());
        let form = if port.is_some() { WITH_PORT } else { 0 };
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
        Some(())
    }

    /// The message at the front of `input`, and its length; `None` where it is not whole.
    fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some((&form, rest)) = input.split_first() else {
            return Ok(None);
        };
        let host = match form & !WITH_PORT {
            IPV4 => rest.split_first_chunk().map(|(octets, rest)| {
                let ip = IpAddr::V4(Ipv4Addr::from(*octets as [u8; 4]));
                (Host::Address(ip), rest)
            }),
            IPV6 => rest.split_first_chunk().map(|(octets, rest)| {
                let ip = IpAddr::V6(Ipv6Addr::from(*octets as [u8; 16]));
                (Host::Address(ip), rest)
            }),
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
        Ok(Some((Self { target }, input.len() - rest.len())))
    }
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
        .map(|(host, port)| Target::new(host, port).expect("a target"))
        .map(|target| Open { target })
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
            &[8, 1, 2, 3, 4],
            &[0xff],
            // Port 443, though it costs nothing; port 0.
            &[4, 192, 0, 2, 1, 1, 0xbb],
            &[4, 192, 0, 2, 1, 0, 0],
            // No name, upper case, no text.
            &[2, 0],
            &[2, 1, b'A'],
            &[2, 2, 0xc3, 0xa9],
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
            let open = Open {
                target: Target::Name { name, port },
            };
            let mut out = vec![7];
            assert_eq!(open.write(&mut out), None);
            assert_eq!(out, [7]);
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
