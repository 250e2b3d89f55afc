//! What must hold for any input of this crate: one function for each parser, called by the fuzz
//! targets in `fuzz/` and by the replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use std::net::SocketAddr;
use std::sync::Arc;

use tandem_delta::{Delta, Encoding, Reference};
use tandem_store::{Kind, MemoryStore, Site, Store};
use tandem_wire::{Instant, UnixTime};

use crate::objects::Flight;
use crate::objects::hello::Hello;
use crate::peer::{HelloTemplates, Hints, Peer, Possession, Role, expected_chains};
use crate::rewrite::thesis::{self, Codes, Expanded};
use crate::rewrite::{
    FlightSource, KnownHello, LocalSource, StoreSource, plan_after, plan_flight, plan_numbered,
};
use crate::transcript::{Handshake, Stage};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 2] = [
    ("handshake_read_along", handshake_read_along),
    ("thesis_messages", thesis_messages),
];

const NOW: UnixTime = UnixTime(1_790_000_000);

/// Both directions of a connection, the client's first with its length in two bytes: read byte by
/// byte as at once; a flight that is found is rebuilt to the byte in both formats.
pub fn handshake_read_along(data: &[u8]) {
    let Some(&[high, low]) = data.first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let (client, server) = data[2..].split_at(length.min(data.len() - 2));

    let mut at_once = Handshake::new();
    at_once.client_sent(client);
    at_once.server_sent(server);
    let mut in_steps = Handshake::new();
    for end in 0..=client.len() {
        in_steps.client_sent(&client[..end]);
    }
    for end in 0..=server.len() {
        in_steps.server_sent(&server[..end]);
    }
    assert_eq!(in_steps.stage(), at_once.stage());
    assert_eq!(in_steps.flight(), at_once.flight());
    assert_eq!(in_steps.server_name(), at_once.server_name());
    assert!(at_once.footprint() <= 64 * (data.len() + 64));

    against_the_last(&at_once, client);

    let site = Site::Address(SocketAddr::from(([192, 0, 2, 1], 443)));
    let mut store = MemoryStore::default();
    let learned = at_once.learn(server, &mut store, &site, NOW);
    assert_eq!(
        learned,
        at_once.stage() == Stage::Finished && at_once.flight().is_some()
    );
    let Some(flight) = at_once.flight() else {
        return;
    };
    let chain = flight.certificates(server).expect("a flight has a chain");
    let chain: Vec<&[u8]> = chain.iter().map(|der| &**der).collect();
    store.learn(Kind::Chain, Some(&site), &chain, NOW);
    let hints = Hints::to(&mut store, &site, NOW, 4);
    let hints: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
    let possession = Possession::from_hints(&hints);
    for encoding in [Encoding::One, Encoding::Two, Encoding::Three] {
        let plan = plan_flight(server, flight, &possession, &mut MemoryStore::default());
        if let Some(delta) = plan.finish(encoding) {
            let rebuilt = Delta::parse(encoding, &delta, server.len())
                .and_then(|delta| delta.apply(&mut StoreSource::new(&mut store)));
            assert!(rebuilt.as_deref() == Ok(server));
        }
    }
    by_number(server, flight, &site, &mut store);
    let references: Vec<Reference> = chain
        .iter()
        .map(|der| Reference(tandem_store::Digest::of(der).prefix16()))
        .collect();
    let possession = Possession::from_references(&references);
    let codes = Codes::default();
    if let Some(shorter) = thesis::compress(server, flight, &possession, codes) {
        assert!(shorter.len() < server.len());
        let expanded = thesis::expand(&shorter, &mut store, codes);
        assert!(expanded == Expanded::Whole(server.to_vec()));
    }
}

/// The flight as a carrier with numbers has it, from hints or after an earlier one, is rebuilt.
fn by_number(server: &[u8], flight: &Flight, site: &Site, store: &mut MemoryStore) {
    let hints = Hints::to(store, site, NOW, 4);
    let prefixes: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
    let possession = Possession::from_hints(&prefixes);
    let mut earlier = server.to_vec();
    earlier[server.len() / 2] ^= 1;
    let earlier = Arc::from(earlier);
    for plan in [
        plan_numbered(server, flight, &possession, &mut MemoryStore::default()),
        plan_after(server, flight, Arc::clone(&earlier)),
    ] {
        if let Some(delta) = plan.finish(Encoding::Three) {
            let mut source = FlightSource::new(store, Some(&earlier), hints.ids());
            let rebuilt = Delta::parse(Encoding::Three, &delta, server.len())
                .and_then(|delta| delta.apply(&mut source));
            assert!(rebuilt.as_deref() == Ok(server));
        }
    }
}

/// A hello, written against one that differs from it in a byte, is rebuilt.
fn against_the_last(handshake: &Handshake, client: &[u8]) {
    let Some(hello) = handshake.hello(client) else {
        return;
    };
    let mut last = hello.bytes.to_vec();
    last[hello.bytes.len() / 2] ^= 1;
    let last = Hello {
        bytes: &last,
        ..hello.clone()
    };
    let mut near = HelloTemplates::new(Role::ClientSide);
    let mut far = Peer::new(Role::ServerSide);
    near.learn(&last);
    far.hellos.learn(&last);
    let plan = KnownHello::Similar {
        templates: near.similar_to(&hello),
        steady: hello.steady,
        ticket: None,
    };
    if let Some(delta) = plan.plan(client).finish(Encoding::Three) {
        let mut store = MemoryStore::default();
        let mut source = LocalSource::new(&mut far, &mut store, Instant::ZERO);
        let delta = Delta::parse(Encoding::Three, &delta, client.len());
        assert!(delta.and_then(|delta| delta.apply(&mut source)).as_deref() == Ok(client));
    }
}

/// A payload: what is stripped or announced comes back, what is expanded is bounded.
pub fn thesis_messages(data: &[u8]) {
    let codes = Codes::default();
    let site = Site::Address(SocketAddr::from(([192, 0, 2, 1], 443)));
    let mut store = MemoryStore::default();
    let chain: [&[u8]; 2] = [b"a certificate of some length", b"another"];
    store.learn(Kind::Chain, Some(&site), &chain, NOW);
    let chains = expected_chains(&mut store, &site, NOW, 1);
    if let Some(announced) = thesis::announce(data, &chains, &mut store, codes) {
        let stripped = thesis::strip(&announced, codes).expect("our own");
        assert_eq!(stripped.hello, data);
        assert_eq!(stripped.references.len(), chain.len());
    }
    if let Some(stripped) = thesis::strip(data, codes) {
        assert!(stripped.hello.len() + 16 * stripped.references.len() < data.len());
    }
    let held = [Reference([9; 16])];
    if let Some(confirmed) = thesis::confirmation::add(data, &held, codes) {
        let taken = thesis::confirmation::take(&confirmed, codes).expect("our own");
        assert_eq!(taken, (data.to_vec(), held.to_vec()));
    }
    match thesis::expand(data, &mut store, codes) {
        Expanded::Whole(bytes) => assert!(bytes.len() <= 3 * data.len() + 64),
        Expanded::Miss(_) | Expanded::Ordinary => {}
    }
}
