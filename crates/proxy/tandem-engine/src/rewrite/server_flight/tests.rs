//! Unit and property tests of flights written against what the far side holds. Not here: real
//! captures.

//! Flights against what the far side is known to hold: references for it, the bytes for the rest.

use super::*;
use crate::peer::Hints;
use crate::rewrite::StoreSource;
use crate::samples::{
    TODAY, apart, chain, client_hello, finished, flight, message, noise, packed, store,
};
use crate::transcript::Handshake;
use proptest::prelude::*;
use tandem_delta::{Delta, DeltaError, Encoding, Source};
use tandem_store::{Digest, Kind, MemoryStore, Site};

const SITE: Site = Site::Address(std::net::SocketAddr::V4(std::net::SocketAddrV4::new(
    std::net::Ipv4Addr::new(192, 0, 2, 1),
    443,
)));

fn read(bytes: &[u8]) -> Flight {
    let mut handshake = Handshake::new();
    handshake.client_sent(&client_hello(&[]));
    handshake.server_sent(bytes);
    handshake.flight().expect("a whole flight").clone()
}

/// What crosses for `bytes` where the writer knows `here` and the reader holds `there`, both told
/// by hints.
fn written(bytes: &[u8], here: &mut MemoryStore, there: &mut MemoryStore) -> Option<Vec<u8>> {
    let hints = Hints::to(there, &SITE, TODAY, 4);
    let hints: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
    let flight = read(bytes);
    plan_flight(bytes, &flight, &Possession::from_hints(&hints), here).finish(Encoding::One)
}

/// Lets a store see a whole handshake with this flight.
fn teach(store: &mut MemoryStore, bytes: &[u8]) {
    let mut handshake = Handshake::new();
    handshake.client_sent(&[client_hello(&[]), finished()].concat());
    let bytes = [bytes, &finished()].concat();
    handshake.server_sent(&bytes);
    assert!(handshake.learn(&bytes, store, &SITE, TODAY));
}

/// A flight with more of these kinds of messages: a staple behind the chain, a request before the
/// end, neither where it is empty.
fn with_extras(chain: &[Vec<u8>], staple: &[u8], request: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = flight(chain);
    for (kind, at, body) in [(13, 3, request), (22, 2, staple)] {
        if !body.is_empty() {
            messages.insert(at, message(kind, body));
        }
    }
    messages
}

fn followed(delta: &[u8], store: &mut MemoryStore) -> Result<Vec<u8>, DeltaError> {
    Delta::parse(Encoding::One, delta, 1 << 16)?.apply(&mut StoreSource::new(store))
}

#[test]
fn a_hinted_chain_costs_one_reference_however_records_cut_it() {
    let chain = chain(&[926, 900, 910]);
    for bytes in [
        apart(&flight(&chain)),
        packed(&flight(&chain), 1 << 14),
        packed(&flight(&chain), 500),
    ] {
        let mut there = store(&SITE, &[&chain]);
        let delta = written(&bytes, &mut MemoryStore::default(), &mut there).expect("held");
        let saved = bytes.len() - delta.len();
        // The list without its record headers, and what the references cost.
        let pieces = bytes.len() / 500 + 1;
        assert!(saved + 17 + 8 * pieces >= 926 + 900 + 910 + 9, "{saved}");
        assert_eq!(followed(&delta, &mut there).as_deref(), Ok(&bytes[..]));
        let missing = followed(&delta, &mut MemoryStore::default());
        assert!(matches!(missing, Err(DeltaError::Miss(_))), "{missing:?}");
    }
}

#[test]
fn a_renewed_leaf_crosses_in_full_under_issuers_that_are_held() {
    let old = chain(&[926, 900, 910]);
    let mut new = old.clone();
    new[0] = noise(930, 77);
    let bytes = packed(&flight(&new), 700);
    let mut here = store(&SITE, &[&old]);
    let mut there = store(&SITE, &[&old]);
    let delta = written(&bytes, &mut here, &mut there).expect("issuers are held");
    assert!(delta.len() + 900 + 910 < bytes.len() + 100);
    assert_eq!(followed(&delta, &mut there).as_deref(), Ok(&bytes[..]));
}

#[test]
fn what_the_writer_does_not_know_of_a_hint_it_does_not_use() {
    let (old, other) = (chain(&[926, 900]), vec![noise(800, 50)]);
    let bytes = apart(&flight(&other));
    let mut there = store(&SITE, &[&old]);
    assert_eq!(
        written(&bytes, &mut MemoryStore::default(), &mut there),
        None
    );
    let mut here = store(&SITE, &[&old]);
    assert_eq!(written(&bytes, &mut here, &mut there), None);
    let none = Possession::from_hints(&[]);
    let plan = plan_flight(&bytes, &read(&bytes), &none, &mut here);
    assert_eq!(plan.finish(Encoding::One), None);
}

#[test]
fn a_chain_that_lost_a_certificate_is_a_miss_and_a_certificate_can_be_named_alone() {
    let chain = chain(&[500, 400]);
    let mut held = store(&SITE, &[&chain]);
    let reference = Reference(Digest::of(&chain[1]).prefix16());
    let certificate = StoreSource::new(&mut held).resolve(&reference);
    assert_eq!(certificate.as_deref(), Some(&chain[1][..]));
    assert_eq!(
        StoreSource::new(&mut held).resolve(&Reference([0; 16])),
        None
    );
}

#[test]
fn what_comes_beside_the_chain_is_copied_though_nothing_is_held_here() {
    let (staple, request) = (noise(1_400, 60), noise(2_300, 61));
    let messages = with_extras(&chain(&[926, 900]), &staple, &request);
    for bytes in [apart(&messages), packed(&messages, 300)] {
        let mut there = MemoryStore::default();
        teach(&mut there, &bytes);
        let delta = written(&bytes, &mut MemoryStore::default(), &mut there).expect("held");
        let pieces = bytes.len() / 300 + 2;
        assert!(delta.len() < 500 + 10 * pieces, "{}", delta.len());
        assert_eq!(followed(&delta, &mut there).as_deref(), Ok(&bytes[..]));
    }
}

#[test]
fn a_staple_of_yesterday_is_no_reason_for_a_miss() {
    let chain = chain(&[926, 900]);
    let (old, new) = (noise(1_400, 60), noise(1_400, 62));
    let mut there = MemoryStore::default();
    teach(&mut there, &apart(&with_extras(&chain, &old, &[])));
    let bytes = apart(&with_extras(&chain, &new, &[]));
    let delta = written(&bytes, &mut MemoryStore::default(), &mut there).expect("chain is held");
    assert!(delta.len() > 1_400);
    assert_eq!(followed(&delta, &mut there).as_deref(), Ok(&bytes[..]));
}

#[test]
fn a_hint_has_no_more_staples_than_chains_and_no_chain_is_crowded_out() {
    let mut there = MemoryStore::default();
    let chains = [chain(&[500, 400]), chain(&[600, 400])];
    for day in 0..20 {
        for chain in &chains {
            teach(
                &mut there,
                &apart(&with_extras(chain, &noise(300, day), &[])),
            );
        }
    }
    let Hints::OfSite(ids) = Hints::to(&mut there, &SITE, TODAY, 4) else {
        panic!("the site is known")
    };
    let [shown, beside] =
        [Kind::Chain, Kind::Messages].map(|kind| there.expected(kind, &SITE, TODAY, 2));
    assert_eq!(ids, [shown[0], beside[0], shown[1], beside[1]]);
    let Hints::Issuers(ids) = Hints::to(&mut there, &Site::Any, TODAY, 0) else {
        panic!("no room for any")
    };
    assert_eq!(ids, []);
}

#[test]
fn a_garbled_staple_is_literal_and_so_are_messages_nobody_knows() {
    let chain = chain(&[926, 900]);
    let mut there = MemoryStore::default();
    teach(
        &mut there,
        &apart(&with_extras(&chain, &noise(900, 60), &[1; 40])),
    );
    for kind in [23, 4, 99] {
        let mut messages = with_extras(&chain, &noise(10, 63), &[2; 3]);
        messages.insert(3, message(kind, &noise(700, kind)));
        let bytes = apart(&messages);
        let delta = written(&bytes, &mut MemoryStore::default(), &mut there).expect("chain");
        assert!(delta.len() > 700);
        assert_eq!(followed(&delta, &mut there).as_deref(), Ok(&bytes[..]));
    }
}

proptest! {
    #[test]
    fn any_flight_is_rebuilt_out_of_what_was_like_it(
        sizes in proptest::collection::vec(1usize..900, 1..4),
        staple in 0usize..600,
        request in 0usize..600,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..12),
        size in 1usize..3_000,
        lost in any::<bool>(),
    ) {
        let old = (chain(&sizes), noise(staple, 70), noise(request, 71));
        let mut new = old.clone();
        for (at, with) in changes {
            let (chain, staple, request) = &mut new;
            let mut parts: Vec<&mut Vec<u8>> = chain.iter_mut().collect();
            parts.extend([staple, request]);
            let part = usize::from(at) % parts.len();
            if let Some(byte) = parts[part].get_mut(usize::from(at / 7)) {
                *byte = with;
            }
        }
        let (mut here, mut there) = (MemoryStore::default(), MemoryStore::default());
        let before = packed(&with_extras(&old.0, &old.1, &old.2), 1 << 14);
        teach(&mut there, &before);
        if !lost {
            teach(&mut here, &before);
        }
        let bytes = packed(&with_extras(&new.0, &new.1, &new.2), size);
        if let Some(delta) = written(&bytes, &mut here, &mut there) {
            prop_assert_eq!(followed(&delta, &mut there), Ok(bytes));
        } else {
            prop_assert!(old != new);
        }
    }

    #[test]
    fn any_flight_is_rebuilt_to_the_byte(
        sizes in proptest::collection::vec(1usize..1_500, 1..6),
        known in proptest::collection::vec(any::<bool>(), 6),
        size in 1usize..3_000,
        both in any::<bool>(),
    ) {
        let chain = chain(&sizes);
        let bytes = packed(&flight(&chain), size);
        // The far side knows another chain that shares some of the certificates, and perhaps this
        // one.
        let mut other: Vec<Vec<u8>> = chain
            .iter()
            .zip(&known)
            .filter(|(_, known)| **known)
            .map(|(der, _)| der.clone())
            .collect();
        other.push(noise(100, 99));
        let chains: Vec<&[Vec<u8>]> = if both { vec![&other, &chain] } else { vec![&other] };
        let mut here = store(&SITE, &[&other]);
        let mut there = store(&SITE, &chains);
        if let Some(delta) = written(&bytes, &mut here, &mut there) {
            prop_assert_eq!(followed(&delta, &mut there), Ok(bytes));
        } else {
            // What is shorter than this costs as much to name, be it a certificate or a record.
            let worth = |(bytes, known): (&usize, &bool)| (*known || both) && *bytes >= 60;
            prop_assert!(size < 60 || !sizes.iter().zip(&known).any(worth));
        }
    }
}
