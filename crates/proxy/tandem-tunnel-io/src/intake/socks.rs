//! SOCKS5 (RFC 1928): a client says where it wants to go, or that it wants to send datagrams.
//!
//! Is: the parsers, of the greeting, of the request and of a datagram, and the answers. Is not:
//! authentication (only "none" is taken), BIND, fragments of datagrams, or the resolution of names:
//! they cross as they are. SOCKS4 clients get SOCKS4's refusal.
//!
//! Success is answered at once, before the far side has connected: that saves a round trip over the
//! link. A connection that fails later is reset.
//!
//! ```text
//! greeting: 05 count method*count                 answer: 05 00, or 05 ff
//! request:  05 01 00 kind address port(2)         answer: 05 code 00 01 0.0.0.0 0
//!           kind 01: 4 bytes; 03: length(1) name; 04: 16 bytes
//!           05 03 for datagrams, from that port,  answer: 05 00 00 kind address port(2),
//!           or from any where it is 0                     where they are to be sent
//! datagram: 00 00 00 kind address port(2) payload, the same in both directions
//! ```
//!
//! Invariant: a head is at most 257 and 262 bytes long.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;

use tandem_link::tunnel::Target;
use tokio::net::UdpSocket;

use super::head::{Found, HeadReader, NoHead};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Why a client is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It speaks SOCKS4 or 4a.
    Socks4,
    /// It speaks something else.
    NotSocks,
    /// It wants to authenticate (section 3).
    NoMethod,
    /// It asks for BIND (section 4), or for what is not defined.
    Command,
    /// It names its target in a way that is not defined.
    Kind,
    /// It names a target to which nobody can connect.
    Target,
    /// It may not go there.
    NotAllowed,
    /// It could have no socket.
    Failed,
}

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// A connection there.
    Connect(Target),
    /// To send datagrams, from this port if it knows that.
    Associate(Option<NonZeroU16>),
}

/// What a client has been granted.
#[derive(Debug)]
pub(super) enum Granted {
    /// A connection there.
    Connection(Target),
    /// To send datagrams to this socket, from this port if it has named one.
    Datagrams(UdpSocket, Option<NonZeroU16>),
}

impl Refusal {
    /// What the client is told, by sections 3 and 6.
    pub(super) fn reply(self) -> &'static [u8] {
        match self {
            // "Request rejected or failed" in SOCKS4.
            Refusal::Socks4 => &[0, 91, 0, 0, 0, 0, 0, 0],
            Refusal::NotSocks => &[],
            Refusal::NoMethod => &[VERSION, 0xff],
            Refusal::Target | Refusal::Failed => &[VERSION, 1, 0, IPV4, 0, 0, 0, 0, 0, 0],
            Refusal::NotAllowed => &[VERSION, 2, 0, IPV4, 0, 0, 0, 0, 0, 0],
            Refusal::Command => &[VERSION, 7, 0, IPV4, 0, 0, 0, 0, 0, 0],
            Refusal::Kind => &[VERSION, 8, 0, IPV4, 0, 0, 0, 0, 0, 0],
        }
    }
}

/// What the client wants, once it has been told "succeeded". `None`: it was refused, since
/// `permits` says so or by its own fault, or is gone.
pub(super) async fn talk(
    client: &mut HeadReader,
    permits: impl Fn(&Target) -> bool,
) -> io::Result<Option<Granted>> {
    let granted = match ask(client).await {
        Ok(Request::Connect(target)) if permits(&target) => Ok(Granted::Connection(target)),
        Ok(Request::Connect(_)) => Err(NoHead::Refused(Refusal::NotAllowed)),
        Ok(Request::Associate(port)) => match relay(client).await {
            Ok(socket) => Ok(Granted::Datagrams(socket, port)),
            Err(_) => Err(NoHead::Refused(Refusal::Failed)),
        },
        Err(none) => Err(none),
    };
    match granted {
        Ok(granted) => {
            let at = match &granted {
                Granted::Connection(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
                Granted::Datagrams(socket, _) => socket.local_addr()?,
            };
            let reply = [&[VERSION, 0, 0][..], &address(at)].concat();
            client.write(&reply).await?;
            Ok(Some(granted))
        }
        Err(NoHead::Refused(refusal)) => {
            tracing::debug!(?refusal, "a SOCKS client is refused");
            client.refuse(refusal.reply()).await?;
            Ok(None)
        }
        Err(NoHead::Gone) => Ok(None),
    }
}

/// A socket at the address at which the client has reached this side.
async fn relay(client: &HeadReader) -> io::Result<UdpSocket> {
    // A client of IPv4 that came to an address of both kinds sends over IPv4.
    let here = client.local_address()?.ip().to_canonical();
    UdpSocket::bind((here, 0)).await
}

async fn ask(client: &mut HeadReader) -> Result<Request, NoHead<Refusal>> {
    client.read(greeting).await?;
    client
        .write(&[VERSION, NO_AUTHENTICATION])
        .await
        .map_err(|_| NoHead::Gone)?;
    client.read(request).await
}

/// A greeting that offers to do without authentication (section 3).
pub(super) fn greeting(bytes: &[u8]) -> Result<Option<Found<()>>, Refusal> {
    match bytes.first() {
        None => return Ok(None),
        Some(&VERSION) => {}
        Some(4) => return Err(Refusal::Socks4),
        Some(_) => return Err(Refusal::NotSocks),
    }
    let Some(&count) = bytes.get(1) else {
        return Ok(None);
    };
    let len = 2 + usize::from(count);
    let Some(methods) = bytes.get(2..len) else {
        return Ok(None);
    };
    if methods.contains(&NO_AUTHENTICATION) {
        Ok(Some(Found { value: (), len }))
    } else {
        Err(Refusal::NoMethod)
    }
}

/// A request (section 4). It is refused once it is whole, so that the client has nothing more to
/// say; what has no known length, at once.
pub(super) fn request(bytes: &[u8]) -> Result<Option<Found<Request>>, Refusal> {
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return Err(Refusal::NotSocks);
    }
    let Some(Destination {
        host,
        kind,
        port,
        len,
    }) = destination(bytes)?
    else {
        return Ok(None);
    };
    let value = match bytes.get(1) {
        Some(&CONNECT) => Request::Connect(target(host, kind, port).ok_or(Refusal::Target)?),
        Some(&UDP_ASSOCIATE) => Request::Associate(NonZeroU16::new(port)),
        _ => return Err(Refusal::Command),
    };
    Ok(Some(Found { value, len }))
}

/// A datagram of a client's (section 7): where it goes, and the payload. `None` for what is none,
/// and for a fragment.
pub(crate) fn datagram(bytes: &[u8]) -> Option<(Target, &[u8])> {
    if bytes.get(2) != Some(&0) {
        return None;
    }
    let Destination {
        host,
        kind,
        port,
        len,
    } = destination(bytes).ok()??;
    Some((target(host, kind, port)?, bytes.get(len..)?))
}

/// What stands in front of a payload that comes from there.
pub(crate) fn datagram_header(from: &Target) -> Vec<u8> {
    let mut header = vec![0, 0, 0];
    match from {
        Target::Address(from) => header.extend(address(*from)),
        Target::Name { name, port } => {
            // A name that may cross is shorter.
            header.extend([NAME, u8::try_from(name.len()).unwrap_or(u8::MAX)]);
            header.extend_from_slice(name.as_bytes());
            header.extend_from_slice(&port.to_be_bytes());
        }
    }
    header
}

/// Kind, address and port.
fn address(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::new();
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes.push(IPV4);
            bytes.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(IPV6);
            bytes.extend_from_slice(&ip.octets());
        }
    }
    bytes.extend_from_slice(&address.port().to_be_bytes());
    bytes
}

/// What a request or a datagram names behind its first three bytes.
struct Destination<'a> {
    host: &'a [u8],
    kind: u8,
    port: u16,
    /// Of all, with the first three bytes.
    len: usize,
}

/// `None`: it is not whole.
fn destination(bytes: &[u8]) -> Result<Option<Destination<'_>>, Refusal> {
    let Some(&kind) = bytes.get(3) else {
        return Ok(None);
    };
    let start = match kind {
        IPV4 | IPV6 => 4,
        NAME => 5,
        _ => return Err(Refusal::Kind),
    };
    let host_len = match (kind, bytes.get(4)) {
        (IPV4, _) => 4,
        (IPV6, _) => 16,
        (_, Some(&len)) => usize::from(len),
        (_, None) => return Ok(None),
    };
    let end = start + host_len;
    let len = end + 2;
    let (Some(host), Some(&[high, low])) = (bytes.get(start..end), bytes.get(end..len)) else {
        return Ok(None);
    };
    Ok(Some(Destination {
        host,
        kind,
        port: u16::from_be_bytes([high, low]),
        len,
    }))
}

fn target(host: &[u8], kind: u8, port: u16) -> Option<Target> {
    let address = match kind {
        IPV4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(host).ok()?)),
        IPV6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(host).ok()?)),
        _ => return Target::new(std::str::from_utf8(host).ok()?, port).ok(),
    };
    Target::Address(SocketAddr::new(address, port))
        .validated()
        .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A request for `host`, which begins with its kind.
    fn request_for(command: u8, host: &[u8], port: u16) -> Vec<u8> {
        let mut bytes = vec![VERSION, command, 0];
        bytes.extend_from_slice(host);
        bytes.extend_from_slice(&port.to_be_bytes());
        bytes
    }

    fn name(text: &str) -> Vec<u8> {
        let len = u8::try_from(text.len()).expect("short");
        [&[NAME, len][..], text.as_bytes()].concat()
    }

    fn found(bytes: &[u8]) -> Option<String> {
        let found = request(bytes).expect("not refused")?;
        assert_eq!(found.len, bytes.len());
        match found.value {
            Request::Connect(target) => Some(target.to_string()),
            Request::Associate(_) => None,
        }
    }

    #[test]
    fn addresses_and_names_are_read() {
        let v6: Ipv6Addr = "2001:db8::1".parse().expect("an address");
        for (host, text) in [
            (vec![IPV4, 192, 0, 2, 1], "192.0.2.1:443"),
            ([&[IPV6][..], &v6.octets()].concat(), "[2001:db8::1]:443"),
            (name("WWW.example"), "www.example:443"),
            // Clients that know addresses only as text.
            (name("192.0.2.1"), "192.0.2.1:443"),
        ] {
            assert_eq!(
                found(&request_for(CONNECT, &host, 443)).as_deref(),
                Some(text)
            );
        }
    }

    #[test]
    fn a_greeting_without_the_method_none_is_refused() {
        assert_eq!(greeting(&[5, 1, 2]), Err(Refusal::NoMethod));
        assert_eq!(greeting(&[5, 0]), Err(Refusal::NoMethod));
        let found = greeting(&[5, 2, 2, 0, 9]).expect("taken").expect("whole");
        assert_eq!(found.len, 4);
    }

    #[test]
    fn each_refusal_has_the_reply_of_its_protocol() {
        let any = [IPV4, 192, 0, 2, 1];
        for (bytes, refusal, code) in [
            (request_for(2, &any, 443), Refusal::Command, 7),
            (request_for(4, &any, 443), Refusal::Command, 7),
            (request_for(CONNECT, &[2, 0, 0], 1), Refusal::Kind, 8),
            (request_for(CONNECT, &any, 0), Refusal::Target, 1),
            (request_for(CONNECT, &name(""), 443), Refusal::Target, 1),
            (request_for(CONNECT, &name("a b"), 443), Refusal::Target, 1),
            (
                request_for(CONNECT, &[NAME, 1, 0xff], 443),
                Refusal::Target,
                1,
            ),
        ] {
            assert_eq!(request(&bytes), Err(refusal));
            assert_eq!(refusal.reply()[1], code);
        }
        assert_eq!(greeting(b"\x04\x01\x01\xbb"), Err(Refusal::Socks4));
        assert_eq!(Refusal::Socks4.reply()[1], 91);
        assert_eq!(greeting(b"GET / HTTP/1.1"), Err(Refusal::NotSocks));
        assert_eq!(request(&[4]), Err(Refusal::NotSocks));
    }

    #[test]
    fn datagrams_are_asked_for_with_a_port_or_without() {
        for port in [0, 40_000] {
            let bytes = request_for(UDP_ASSOCIATE, &[IPV4, 0, 0, 0, 0], port);
            let found = request(&bytes).expect("not refused").expect("whole");
            assert_eq!(found.value, Request::Associate(NonZeroU16::new(port)));
        }
    }

    #[test]
    fn a_datagram_names_its_target_and_what_comes_back_names_it_the_same() {
        let v6: Ipv6Addr = "2001:db8::1".parse().expect("an address");
        for (host, text) in [
            (vec![IPV4, 192, 0, 2, 1], "192.0.2.1:53"),
            ([&[IPV6][..], &v6.octets()].concat(), "[2001:db8::1]:53"),
            (name("www.example"), "www.example:53"),
        ] {
            let header = [&[0, 0, 0], &host[..], &[0, 53]].concat();
            let bytes = [&header[..], b"payload"].concat();
            let (target, payload) = datagram(&bytes).expect("a datagram");
            assert_eq!(
                (target.to_string().as_str(), payload),
                (text, &b"payload"[..])
            );
            assert_eq!(datagram_header(&target), header);
            // Cut, a fragment, and to nowhere.
            assert_eq!(datagram(&header[..header.len() - 1]), None);
            let fragment = [&[0, 0, 1], &host[..], &[0, 53]].concat();
            assert_eq!(datagram(&fragment), None);
            let nowhere = [&[0, 0, 0], &host[..], &[0, 0]].concat();
            assert_eq!(datagram(&nowhere), None);
        }
    }

    /// Each prefix asks for more; with bytes behind it, what is found is the same.
    fn holds_for_every_cut<T: PartialEq + std::fmt::Debug>(
        parse: impl Fn(&[u8]) -> Result<Option<Found<T>>, Refusal>,
        head: &[u8],
        rest: &[u8],
    ) {
        for cut in 0..head.len() {
            assert_eq!(parse(&head[..cut]), Ok(None), "cut at {cut}");
        }
        let whole = parse(head);
        assert!(matches!(whole, Ok(Some(_))), "{whole:?}");
        assert_eq!(parse(&[head, rest].concat()), whole);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_request(
            label in "[a-z0-9]{1,60}(\\.[a-z0-9]{1,60}){0,2}",
            port in 1..=u16::MAX,
            methods in proptest::collection::vec(any::<u8>(), 0..254),
            rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            holds_for_every_cut(request, &request_for(CONNECT, &name(&label), port), &rest);
            let count = u8::try_from(methods.len() + 1).expect("short");
            let head = [&[VERSION, count][..], &methods, &[NO_AUTHENTICATION]].concat();
            holds_for_every_cut(greeting, &head, &rest);
        }

        #[test]
        fn any_bytes_are_bounded_and_do_no_harm(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            for (outcome, max) in [
                (greeting(&bytes).map(|found| found.map(|found| found.len)), 257),
                (request(&bytes).map(|found| found.map(|found| found.len)), 262),
            ] {
                match outcome {
                    Ok(Some(len)) => prop_assert!(len <= max && len <= bytes.len()),
                    Ok(None) => prop_assert!(bytes.len() < max),
                    Err(_) => {}
                }
            }
        }
    }
}
