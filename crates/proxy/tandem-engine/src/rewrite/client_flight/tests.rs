//! Unit tests of clients' chains: what is believed of them, and the delta for the flight that shows
//! one.

use super::*;
use crate::peer::ClientChain;
use crate::rewrite::StoreSource;
use crate::samples::{
    TODAY, apart, certificates, chain, client_hello, finished, flight, message, noise, packed,
    store,
};
use crate::transcript::{ClientCertificate, Handshake, Stage};
use tandem_delta::{Delta, DeltaError, Encoding};
use tandem_store::{Kind, MemoryStore, Site, Store};

const SITE: Site = Site::Address(std::net::SocketAddr::V4(std::net::SocketAddrV4::new(
    std::net::Ipv4Addr::new(192, 0, 2, 1),
    443,
)));

fn client_messages(chain: &[Vec<u8>]) -> Vec<Vec<u8>> {
    vec![
        message(11, &certificates(chain)),
        message(16, &noise(66, 5)),
        message(15, &noise(260, 6)),
    ]
}

/// A client's stream with its flight in records of one kind, and where the flight begins.
fn streams(chain: &[Vec<u8>]) -> Vec<(Vec<u8>, usize)> {
    let hello = client_hello(&[]);
    let messages = client_messages(chain);
    [
        apart(&messages),
        packed(&messages, 1 << 14),
        packed(&messages, 100),
    ]
    .map(|flight| ([&hello[..], &flight, &finished()].concat(), hello.len()))
    .to_vec()
}

/// What a server says that asks for a certificate: up to its ServerHelloDone, and all of it.
fn server(asks: bool) -> (usize, Vec<u8>) {
    let mut messages = flight(&chain(&[600]));
    if asks {
        messages.insert(3, message(13, &noise(40, 7)));
    }
    let first = apart(&messages);
    (first.len(), [first, finished()].concat())
}

fn read(stream: &[u8]) -> Handshake {
    let mut handshake = Handshake::new();
    let hello = client_hello(&[]);
    handshake.client_sent(&hello);
    let (first, server) = server(true);
    assert!(!handshake.asks_for_certificate());
    handshake.server_sent(&server[..first]);
    assert!(handshake.asks_for_certificate());
    for end in hello.len()..stream.len() {
        handshake.client_sent(&stream[..end]);
        assert!(handshake.client_flight().is_none());
    }
    handshake.client_sent(stream);
    handshake
}

fn followed(delta: &[u8], store: &mut MemoryStore) -> Result<Vec<u8>, DeltaError> {
    Delta::parse(Encoding::One, delta, 1 << 16)?.apply(&mut StoreSource::new(store))
}

#[test]
fn a_chain_that_both_remember_costs_one_reference_however_records_cut_it() {
    let certificates = chain(&[926, 900]);
    let mut held = store(&SITE, &[&certificates]);
    for (stream, from) in streams(&certificates) {
        let handshake = read(&stream);
        let flight = handshake.client_flight().expect("it is whole");
        let names = ClientChain::of(flight, &stream).expect("a chain");
        let believed = names.remembered(&mut held);
        assert!(names.remembered(&mut MemoryStore::default()).is_nothing());
        let delta = plan_client_flight(&stream, from, flight, &believed)
            .and_then(|plan| plan.finish(Encoding::One))
            .expect("held");
        let saved = stream.len() - from - delta.len();
        let pieces = stream.len() / 100 + 1;
        assert!(saved + 17 + 8 * pieces >= 926 + 900 + 6, "{saved}");
        assert_eq!(followed(&delta, &mut held).as_deref(), Ok(&stream[from..]));
        let missing = followed(&delta, &mut MemoryStore::default());
        assert!(matches!(missing, Err(DeltaError::Miss(_))), "{missing:?}");
    }
}

#[test]
fn what_is_held_in_part_is_referred_to_in_part() {
    let certificates = chain(&[926, 900]);
    let mut held = store(&SITE, &[&certificates[1..]]);
    for (stream, from) in streams(&certificates) {
        let handshake = read(&stream);
        let flight = handshake.client_flight().expect("it is whole");
        let names = ClientChain::of(flight, &stream).expect("a chain");
        let issuer = Reference(Digest::of(&certificates[1]).prefix16());
        for believed in [
            names.remembered(&mut held),
            names.among(|reference| *reference == issuer),
        ] {
            let delta = plan_client_flight(&stream, from, flight, &believed)
                .and_then(|plan| plan.finish(Encoding::One))
                .expect("held");
            assert!(delta.len() > 926 && delta.len() + 700 < stream.len() - from);
            assert_eq!(followed(&delta, &mut held).as_deref(), Ok(&stream[from..]));
        }
        let nothing = names.among(|_| false);
        assert!(nothing.is_nothing());
        let plan = plan_client_flight(&stream, from, flight, &nothing).expect("its own flight");
        assert_eq!(plan.finish(Encoding::One), None);
    }
}

#[test]
fn a_clients_chain_is_learned_after_both_finished_and_not_before() {
    let certificates = chain(&[500]);
    let (stream, _) = streams(&certificates).remove(0);
    let mut handshake = read(&stream);
    let mut learner = MemoryStore::default();
    assert_eq!(handshake.learn_client(&stream, &mut learner, TODAY), None);
    handshake.server_sent(&server(true).1);
    assert_eq!(handshake.stage(), Stage::Finished);
    let id = handshake.learn_client(&stream, &mut learner, TODAY);
    let names = ClientChain::of(handshake.client_flight().expect("whole"), &stream);
    assert_eq!(id, names.map(|names| names.id()));
    assert!(id.is_some_and(|id| learner.object(Kind::Chain, &id).is_some()));
}

#[test]
fn a_client_without_a_certificate_says_so_at_once() {
    let hello = client_hello(&[]);
    for (first, shown) in [
        (message(11, &[0, 0, 0]), ClientCertificate::None),
        (message(16, &noise(66, 5)), ClientCertificate::None),
        // Lengths that do not agree: nothing that could be referred to.
        (message(11, &[0, 0, 9, 1]), ClientCertificate::None),
    ] {
        let stream = [hello.clone(), apart(&[first]), finished()].concat();
        let mut handshake = Handshake::new();
        handshake.client_sent(&hello);
        assert_eq!(*handshake.client_certificate(), ClientCertificate::NotYet);
        handshake.client_sent(&stream);
        assert_eq!(*handshake.client_certificate(), shown);
        assert!(handshake.client_flight().is_none());
    }
    let mut handshake = Handshake::new();
    handshake.client_sent(&hello);
    handshake.server_sent(&server(false).1);
    assert!(!handshake.asks_for_certificate());
}
