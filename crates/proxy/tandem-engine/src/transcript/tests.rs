//! Unit tests of reading a handshake along. Not here: real captures (`tests/captures.rs`).

//! Following handshakes: full and abbreviated, cut anywhere, and those that are passed, each for
//! its reason.

use super::*;
use crate::samples::{
    TODAY, apart, certificates, chain, client_hello, finished, flight, message, named, noise,
    packed, record, server_hello, store,
};
use tandem_store::{Kind, Limits, MemoryStore, ObjectId};

#[path = "../../../../base/tandem-store/tests/support/certificate.rs"]
mod certificate;

fn site() -> Site {
    Site::Name(HostName::new("www.example.org").expect("a host name"))
}

/// A handshake to which this was said, in pieces of `step` bytes.
fn read(client: &[u8], server: &[u8], step: usize) -> Handshake {
    let mut handshake = Handshake::new();
    for end in (0..client.len()).step_by(step).chain([client.len()]) {
        handshake.client_sent(&client[..end]);
    }
    for end in (0..server.len()).step_by(step).chain([server.len()]) {
        handshake.server_sent(&server[..end]);
    }
    handshake
}

fn stage_of(client: &[u8], server: &[u8]) -> Stage {
    let at_once = read(client, server, usize::MAX).stage();
    assert_eq!(
        read(client, server, 1).stage(),
        at_once,
        "byte by byte is the same"
    );
    at_once
}

#[test]
fn a_full_handshake_is_followed_to_both_finished_and_its_chain_is_learned() {
    let hello = client_hello(&named("www.example.org"));
    let chain = chain(&[700, 300]);
    for server in [
        apart(&flight(&chain)),
        packed(&flight(&chain), 1 << 14),
        packed(&flight(&chain), 97),
        packed(&flight(&chain), 1),
    ] {
        let mut handshake = Handshake::new();
        handshake.client_sent(&hello);
        assert!(handshake.hello_is_complete());
        assert_eq!(
            handshake.server_name().map(HostName::as_str),
            Some("www.example.org")
        );
        handshake.server_sent(&server[..server.len() - 1]);
        assert!(handshake.flight().is_none());
        handshake.server_sent(&server);
        let found = handshake.flight().expect("the flight is whole").clone();
        assert_eq!(found.certificates(&server).expect("a chain"), chain);
        assert_eq!(found.list(&server), &certificates(&chain)[3..]);

        let mut held = store(&site(), &[]);
        let client = [&hello[..], &record(22, &message(16, &[1; 33])), &finished()].concat();
        handshake.client_sent(&client);
        assert!(!handshake.learn(&server, &mut held, &site(), TODAY));
        let server = [&server[..], &finished()].concat();
        handshake.server_sent(&server[..server.len() - 1]);
        assert_eq!(handshake.stage(), Stage::Going);
        handshake.server_sent(&server);
        assert_eq!(handshake.stage(), Stage::Finished);
        assert!(handshake.learn(&server, &mut held, &site(), TODAY));
        assert_eq!(held.expected(Kind::Chain, &site(), TODAY, 9).len(), 1);
        // What the store refuses was not learned.
        let mut closed = MemoryStore::new(Limits {
            parts_per_object: 0,
            ..Limits::default()
        });
        assert!(!handshake.learn(&server, &mut closed, &site(), TODAY));
    }
}

/// A whole handshake with this chain, and this staple beside it.
fn stapled(chain: &[Vec<u8>], staple: &[u8]) -> (Handshake, Vec<u8>) {
    let mut messages = flight(chain);
    messages.insert(2, message(22, staple));
    let server = [apart(&messages), finished()].concat();
    let client = [client_hello(&named("www.example.org")), finished()].concat();
    (read(&client, &server, usize::MAX), server)
}

#[test]
fn a_chain_is_learned_with_its_issuers_and_what_came_beside_it() {
    let chain = chain(&[700, 300, 400]);
    let (handshake, server) = stapled(&chain, &noise(500, 40));
    let mut held = MemoryStore::default();
    assert!(handshake.learn(&server, &mut held, &site(), TODAY));
    let issuers = ObjectId::of(&[&chain[1], &chain[2]]);
    assert_eq!(
        held.expected(Kind::Issuers, &Site::Any, TODAY, 9),
        [issuers]
    );
    let beside = message(22, &noise(500, 40));
    let beside = ObjectId::of(&[&beside]);
    assert_eq!(held.expected(Kind::Messages, &site(), TODAY, 9), [beside]);
    // A chain of one has no issuers, and a flight without more has none.
    let mut held = MemoryStore::default();
    let server = [apart(&flight(&chain[..1])), finished()].concat();
    let client = [client_hello(&[]), finished()].concat();
    let handshake = read(&client, &server, usize::MAX);
    assert!(handshake.learn(&server, &mut held, &site(), TODAY));
    assert_eq!(held.health().objects, 1);
}

#[test]
fn a_stranger_who_is_asked_for_a_name_does_not_put_a_staple_under_it() {
    let named = |name: &str| {
        let dns_names = &[name];
        let certificate = certificate::Certificate {
            dns_names,
            not_after: "20400101000000Z",
            ..certificate::Certificate::default()
        };
        vec![certificate.der()]
    };
    let mut held = MemoryStore::default();
    let (own, server) = stapled(&named("www.example.org"), &noise(500, 40));
    assert!(own.learn(&server, &mut held, &site(), TODAY));
    let before = held.expected(Kind::Messages, &site(), TODAY, 9);
    assert_eq!(before.len(), 1);
    let (other, server) = stapled(&named("elsewhere.example"), &noise(500, 41));
    assert!(other.learn(&server, &mut held, &site(), TODAY));
    assert_eq!(held.expected(Kind::Messages, &site(), TODAY, 9), before);
}

#[test]
fn what_holds_nothing_for_the_proxies_is_passed_for_its_reason() {
    let hello = client_hello(&[]);
    let with_ticket = [server_hello(0x0303), message(4, &[0; 50])];
    let no_certificate = [
        server_hello(0x0303),
        message(12, &[0; 50]),
        message(14, &[]),
    ];
    let no_hello = [message(11, &certificates(&chain(&[9])))];
    let empty_chain = flight(&[]);
    let cases: [(&[u8], &[u8], Pass); 15] = [
        (b"GET / HTTP/1.1\r\n", b"", Pass::NotTls),
        (b"SSH-2.0-OpenSSH_9.9\r\n", b"", Pass::NotTls),
        (&[0x80, 46, 1, 3, 1, 0, 3, 0], b"", Pass::NotTls),
        (&record(23, &[1, 2, 3]), b"", Pass::NotTls),
        (&record(22, &message(2, &[0; 40])), b"", Pass::NotTls),
        (&record(22, &message(1, &[0; 3])), b"", Pass::Malformed),
        (&hello, b"220 mail.example.org ESMTP\r\n", Pass::NotTls),
        (&hello, &apart(&[server_hello(0x0304)]), Pass::Tls13),
        (
            &hello,
            &[apart(&[server_hello(0x0303)]), finished()].concat(),
            Pass::Resumed,
        ),
        (
            &hello,
            &[apart(&with_ticket), finished()].concat(),
            Pass::Resumed,
        ),
        (&hello, &apart(&no_certificate), Pass::NoCertificate),
        (&hello, &apart(&no_hello), Pass::Malformed),
        (&hello, &apart(&empty_chain), Pass::Malformed),
        (&hello, &apart(&[message(2, &[0; 5])]), Pass::Malformed),
        (
            &hello,
            &[apart(&[server_hello(0x0303)]), vec![22, 3, 3, 0, 0]].concat(),
            Pass::Malformed,
        ),
    ];
    for (client, server, pass) in cases {
        assert_eq!(
            stage_of(client, server),
            Stage::Pass(pass),
            "{client:x?} {server:x?}"
        );
    }
}

#[test]
fn a_server_that_asks_for_a_hello_first_is_followed_all_the_same() {
    let chain = chain(&[300]);
    let server = [record(22, &message(0, &[])), apart(&flight(&chain))].concat();
    let handshake = read(&client_hello(&[]), &server, 50);
    assert_eq!(handshake.stage(), Stage::Going);
    assert!(handshake.flight().is_some());
}

#[test]
fn only_finished_may_follow_change_cipher_spec() {
    let hello = client_hello(&[]);
    let server = [apart(&flight(&chain(&[300]))), finished()].concat();
    let alert = record(21, &noise(26, 9));
    for after in [
        alert,
        record(20, &[1]),
        record(23, &[0; 30]),
        b"HTTP/1.1 400".to_vec(),
    ] {
        let client = [&hello[..], &record(20, &[1]), &after].concat();
        assert_eq!(
            stage_of(&client, &server),
            Stage::Pass(Pass::Malformed),
            "{after:x?}"
        );
    }
}

#[test]
fn change_cipher_specs_without_end_are_not_read_again_for_each_byte() {
    // 64 KiB of them, byte by byte: looked at from the first each time, this is 350 million
    // headers.
    let specs = record(20, &[1]).repeat(10_000);
    let server = [apart(&flight(&chain(&[300]))), specs].concat();
    let mut handshake = Handshake::new();
    handshake.client_sent(&client_hello(&[]));
    for end in 0..server.len() {
        handshake.server_sent(&server[..end]);
    }
    assert_eq!(handshake.stage(), Stage::Pass(Pass::Malformed));
}
