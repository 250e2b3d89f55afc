//! What must hold for whatever heads the clients of the explicit proxies send.
//!
//! Is not: a second reader of them.

use std::fmt::Debug;

use tandem_link::tunnel::Target;

use super::head::Found;
use super::{connect, socks};

/// Longest greeting: version, count and 255 methods (RFC 1928, section 3).
const MAX_GREETING: usize = 257;

/// Longest request: a name of 255 bytes (section 4).
const MAX_REQUEST: usize = 262;

/// Cuts of an input that are tried, about.
const CUTS: usize = 64;

/// A client of SOCKS: a greeting, and behind it a request.
///
/// # Panics
/// A parser says different things of the same bytes, or finds what cannot be.
pub fn tunnel_socks(data: &[u8]) {
    match settled(data, socks::greeting) {
        Ok(Some(greeting)) => {
            assert!(greeting.len <= MAX_GREETING);
            socks_request(&data[greeting.len..]);
        }
        Ok(None) => assert!(data.len() < MAX_GREETING, "it waits for more than there is"),
        Err(refusal) => assert!(refusal.reply().len() < 10),
    }
}

fn socks_request(data: &[u8]) {
    if let Some((target, payload)) = socks::datagram(data) {
        crosses(&target);
        let again = [&socks::datagram_header(&target), payload].concat();
        assert_eq!(socks::datagram(&again), Some((target, payload)));
    }
    match settled(data, socks::request) {
        Ok(Some(request)) => {
            assert!(request.len <= MAX_REQUEST);
            if let socks::Request::Connect(target) = &request.value {
                crosses(target);
            }
        }
        Ok(None) => assert!(data.len() < MAX_REQUEST, "it waits for more than there is"),
        Err(refusal) => assert!(refusal.reply().len() <= 10),
    }
}

/// A client of an HTTP proxy.
///
/// # Panics
/// As [`tunnel_socks`].
pub fn tunnel_connect(data: &[u8]) {
    match settled(data, connect::head) {
        Ok(Some(head)) => {
            assert!(head.len <= connect::MAX_HEAD);
            crosses(&head.value);
            // It is what an ordinary client would have asked for.
            let plain = format!("CONNECT {} HTTP/1.1\r\n\r\n", head.value);
            let found = connect::head(plain.as_bytes());
            assert!(
                matches!(&found, Ok(Some(again)) if again.value == head.value),
                "{found:?} of {plain:?}"
            );
        }
        Ok(None) => assert!(data.len() < connect::MAX_HEAD, "there is no bound"),
        Err(refusal) => assert!(refusal.reply().starts_with("HTTP/1.1 4")),
    }
}

/// What a parser says of all of it. However the bytes come: once it says something it says nothing
/// else any more, and a head needs no byte behind it and each of its own.
fn settled<T, R>(
    data: &[u8],
    parse: impl Fn(&[u8]) -> Result<Option<Found<T>>, R>,
) -> Result<Option<Found<T>>, R>
where
    T: Debug + PartialEq,
    R: Debug + PartialEq,
{
    let mut said: Result<Option<Found<T>>, R> = Ok(None);
    let cuts = (0..data.len()).step_by(1 + data.len() / CUTS);
    for cut in cuts.chain([data.len()]) {
        let now = parse(&data[..cut]);
        assert!(said == Ok(None) || said == now, "{said:?}, then {now:?}");
        said = now;
    }
    if let Ok(Some(found)) = &said {
        assert!((1..=data.len()).contains(&found.len));
        assert_eq!(parse(&data[..found.len]), said);
        assert_eq!(parse(&data[..found.len - 1]), Ok(None));
    }
    said
}

/// The far side takes it, as it is.
fn crosses(target: &Target) {
    let validated = target.clone().validated();
    assert_eq!(validated.as_ref(), Ok(target));
}
