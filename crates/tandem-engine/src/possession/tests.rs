//! Unit and property tests of flights written against what the far side holds. Not here: real captures.

//! Flights against what the far side is known to hold: references for it, the bytes for the rest.

use super::*;
use crate::delta::{Delta, DeltaError};
use crate::handshake::Handshake;
use crate::samples::{TODAY, apart, chain, client_hello, flight, noise, packed, store};
use proptest::prelude::*;
use tandem_store::MemoryStore;

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

/// What crosses for `bytes` where the writer knows `here` and the reader holds `there`, both told by hints.
fn written(bytes: &[u8], here: &mut MemoryStore, there: &mut MemoryStore) -> Option<Vec<u8>> {
    let hints: Vec<_> = expected_chains(there, &SITE, TODAY, 2)
        .iter()
        .map(|id| id.prefix8())
        .collect();
    write_flight(bytes, &read(bytes), &Possession::from_hints(&hints), here)
}

fn followed(delta: &[u8], store: &mut MemoryStore) -> Result<Vec<u8>, DeltaError> {
    Delta::parse(delta, 1 << 16)?.apply(&mut StoreSource::new(store))
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
    assert_eq!(write_flight(&bytes, &read(&bytes), &none, &mut here), None);
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

proptest! {
    #[test]
    fn any_flight_is_rebuilt_to_the_byte(
        sizes in proptest::collection::vec(1usize..1_500, 1..6),
        known in proptest::collection::vec(any::<bool>(), 6),
        size in 1usize..3_000,
        both in any::<bool>(),
    ) {
        let chain = chain(&sizes);
        let bytes = packed(&flight(&chain), size);
        // The far side knows another chain that shares some of the certificates, and perhaps this one.
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
            prop_assert!(!both && known.iter().take(sizes.len()).all(|known| !known));
        }
    }
}
