//! Tickets shown and given: found however the stream is cut, rebuilt to the same bytes, and nothing
//! taken for one that is none.

use std::sync::Arc;

use super::*;
use crate::samples::{apart, client_hello, finished, hello_body, message, noise, packed, record};
use crate::samples::{chain, flight, server_hello};
use crate::transcript::Handshake;
use proptest::prelude::*;
use tandem_delta::{Delta, Encoding, Source};

/// An extension block with these extensions.
fn block(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let body: Vec<u8> = extensions
        .iter()
        .flat_map(|(number, data)| {
            let length = (data.len() as u16).to_be_bytes();
            [&number.to_be_bytes()[..], &length, data].concat()
        })
        .collect();
    [&(body.len() as u16).to_be_bytes()[..], &body].concat()
}

fn resuming(ticket: &[u8]) -> Vec<u8> {
    block(&[(23, &[]), (35, ticket), (10, &[0, 2, 0, 29])])
}

fn read(client: &[u8], server: &[u8]) -> Handshake {
    let mut handshake = Handshake::new();
    handshake.client_sent(client);
    handshake.server_sent(server);
    handshake
}

fn new_ticket(lifetime: u32, ticket: &[u8]) -> Vec<u8> {
    let length = (ticket.len() as u16).to_be_bytes();
    message(4, &[&lifetime.to_be_bytes()[..], &length, ticket].concat())
}

struct One(Vec<u8>);

impl Source for One {
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
        (*reference == name_of(&self.0)).then(|| self.0.clone().into())
    }
}

#[test]
fn a_hello_with_a_ticket_is_written_with_a_reference_and_rebuilt_however_its_records_are_cut() {
    let ticket = noise(208, 9);
    let hello = message(1, &hello_body(&resuming(&ticket)));
    for size in [1 << 14, 100, 33, 1] {
        let stream = packed(std::slice::from_ref(&hello), size);
        let handshake = read(&stream, &[]);
        let shown = handshake.shown_ticket().expect("it shows one");
        assert_eq!(*shown.bytes(&stream), *ticket, "in records of {size}");
        let delta = shown
            .plan_hello(&stream, name_of(&ticket))
            .finish(Encoding::One);
        let delta = delta.expect("the ticket is in it");
        let rebuilt = Delta::parse(Encoding::One, &delta, stream.len())
            .and_then(|delta| delta.apply(&mut One(ticket.clone())));
        assert_eq!(rebuilt, Ok(stream.clone()));
        if size >= 100 {
            assert!(delta.len() <= stream.len() - 208 + 40, "{size}");
        }
    }
}

#[test]
fn what_is_no_ticket_is_none() {
    for extensions in [
        block(&[(0x0017, &[])]),
        // Asked for, and not shown.
        block(&[(35, &[])]),
        // Twice, against RFC 5246, section 7.4.1.4.
        block(&[(35, &[1; 90]), (35, &[1; 90])]),
        // That of TLS 1.3.
        block(&[(41, &[1; 150])]),
    ] {
        let hello = client_hello(&extensions);
        assert_eq!(read(&hello, &[]).shown_ticket(), None);
    }
    assert_eq!(read(&client_hello(&[]), &[]).shown_ticket(), None);
}

#[test]
fn a_ticket_that_the_server_gives_is_found_in_full_and_in_abbreviated_handshakes() {
    let hello = client_hello(&resuming(&noise(100, 1)));
    let ticket = noise(180, 3);
    let given = [record(22, &new_ticket(300, &ticket)), finished()].concat();
    for first in [
        apart(&flight(&chain(&[300]))),
        apart(&[server_hello(0x0303)]),
    ] {
        let server = [first, given.clone()].concat();
        let handshake = read(&hello, &server);
        let expected = GivenTicket {
            bytes: ticket.as_slice().into(),
            lifetime: Some(Duration::from_secs(300)),
        };
        assert_eq!(handshake.given_ticket(&server), Some(expected));
    }
}

#[test]
fn an_empty_or_malformed_ticket_is_not_given_and_a_lifetime_of_zero_says_nothing() {
    let hello = client_hello(&[]);
    let given = |message: &[u8]| {
        let server = [apart(&[server_hello(0x0303)]), record(22, message)].concat();
        let handshake = read(&hello, &server);
        let given = handshake.given_ticket(&server);
        given.map(|given| (given.lifetime, given.bytes.len()))
    };
    assert_eq!(given(&new_ticket(0, &[5; 70])), Some((None, 70)));
    assert_eq!(given(&new_ticket(9, &[])), None);
    assert_eq!(given(&message(4, &[0; 5])), None);
    let mut short = new_ticket(9, &[5; 70]);
    *short
        .last_chunk_mut::<71>()
        .expect("longer")
        .first_mut()
        .expect("it") ^= 1;
    assert_eq!(given(&short), None);
}

#[test]
fn the_front_of_a_hello_shows_that_a_ticket_has_begun() {
    let whole = client_hello(&resuming(&noise(208, 9)));
    // As far as the type and the length.
    let first = whole.len() - 8 - 208;
    for end in 0..=whole.len() {
        assert_eq!(begins(&whole[..end]), end >= first, "{end} bytes");
    }
    let without = client_hello(&block(&[(35, &[]), (51, &[7; 1200])]));
    for end in 0..=without.len() {
        assert!(!begins(&without[..end]), "{end} bytes");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_looked_at_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = begins(&bytes);
        let mut hello = client_hello(&resuming(&[7; 64]));
        let from = bytes.len().min(hello.len());
        hello[..from].copy_from_slice(&bytes[..from]);
        let _ = begins(&hello);
    }
}
