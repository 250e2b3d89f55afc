//! Real chains of the web, renewal after renewal: what a flight costs as a delta against what was
//! held, and that it is rebuilt to the byte.
//!
//! The chains are not part of the project; without them the tests say so and pass.
//! `benches/chains.rs` prints more figures of the same.

#![expect(
    clippy::disallowed_methods,
    reason = "a test reads files; the crate does not"
)]

#[path = "support/chains.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};

use support::{
    BARE, HOLD_OUT, Shown, authorities, brotli, chains, compressed_certificate, flight,
    shown_before, site_of, teach, written, written_with,
};
use tandem_delta::{Encoding, Reference};
use tandem_engine::Authorities;
use tandem_store::{Digest, MemoryStore, Site};

/// The size of what crosses for this flight, checked.
fn crossing(bytes: &[u8], site: &Site, here: &mut MemoryStore, there: &mut MemoryStore) -> usize {
    written(Encoding::One, bytes, site, here, there).len()
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn a_renewal_costs_about_what_is_new_in_its_leaf() {
    let chains = chains();
    if chains.is_empty() {
        return;
    }
    let (mut here, mut there) = (MemoryStore::default(), MemoryStore::default());
    let mut before = BTreeSet::new();
    let (mut raw, mut leaf) = (Vec::new(), Vec::new());
    let (mut crossed, mut compressed) = (Vec::new(), Vec::new());
    let mut all = Vec::new();
    for Shown {
        site: name, chain, ..
    } in &chains
    {
        let (bytes, site) = (flight(chain), site_of(name));
        let delta = written(Encoding::One, &bytes, &site, &mut here, &mut there);
        let second = written(Encoding::Two, &bytes, &site, &mut here, &mut there);
        all.extend_from_slice(&delta);
        let size = delta.len();
        if !before.insert(name) {
            raw.push(bytes.len() - BARE);
            // What it would cost to send the leaf whole, and to name what is behind it.
            leaf.push(chain[0].len() + 40);
            crossed.push(size - BARE);
            compressed.push(second.len() - BARE);
        }
        teach(&mut here, &site, &bytes);
        teach(&mut there, &site, &bytes);
    }
    let count = raw.len();
    let [raw, leaf, crossed, compressed] = [raw, leaf, crossed, compressed].map(median);
    eprintln!(
        "{count} renewals, medians: chain {raw} bytes, leaf {leaf}, crossed {crossed}, in the second encoding {compressed}"
    );
    assert!(compressed < crossed);
    assert!(crossed * 3 < raw && crossed * 3 < leaf * 2);
    // What crossed, to the byte: a change of this value is a new version of the encoding.
    assert_eq!(
        format!("{:?}", Reference(Digest::of(&all).prefix16())),
        "4ddaa98c464040ee66295be8cbb5853b"
    );
}

#[test]
fn a_site_that_was_never_seen_has_issuers_of_others() {
    let chains = chains();
    // What each site showed last: all of one year.
    let latest: BTreeMap<&str, &[Vec<u8>]> = chains
        .iter()
        .map(|shown| (shown.site.as_str(), shown.chain.as_slice()))
        .collect();
    if latest.is_empty() {
        return;
    }
    let (mut raw, mut fresh, mut same, mut found) = (0, 0, 0, 0);
    for (name, chain) in &latest {
        let (mut here, mut there) = (MemoryStore::default(), MemoryStore::default());
        for (other, chain) in latest.iter().filter(|(other, _)| *other != name) {
            teach(&mut here, &site_of(other), &flight(chain));
            teach(&mut there, &site_of(other), &flight(chain));
        }
        let (bytes, site) = (flight(chain), site_of(name));
        let crossed = crossing(&bytes, &site, &mut MemoryStore::default(), &mut there) - BARE;
        raw += bytes.len() - BARE;
        fresh += crossed;
        same += crossing(&bytes, &site, &mut here, &mut there) - BARE;
        found += usize::from(crossed < bytes.len() - BARE);
    }
    eprintln!(
        "{} sites of one year at first contact, those before them known: {raw} bytes of chains; {fresh} to a far side that \
         holds nothing ({found} with something), {same} to one that holds the same",
        latest.len()
    );
    assert!(found >= 3 && fresh < raw && same < fresh);
}

#[test]
fn a_first_contact_crosses_shorter_than_a_certificate_compressed_by_its_server() {
    let chains = chains();
    let held_out = chains.iter().filter(|shown| *shown.since >= *HOLD_OUT);
    let (mut raw, mut compressed) = (Vec::new(), Vec::new());
    let (mut one, mut alone, mut lone_issuers, mut issuers) = (vec![], vec![], vec![], vec![]);
    for Shown { since, site, chain } in held_out {
        let bytes = flight(chain);
        let [mut here, mut there] = [(); 2].map(|()| shown_before(&chains, since, site));
        let site = site_of(site);
        let mut nothing = MemoryStore::default();
        let crossed = |encoding, here: &mut MemoryStore, there: &mut MemoryStore| {
            written(encoding, &bytes, &site, here, there).len() - BARE
        };
        raw.push(bytes.len() - BARE);
        compressed.push(compressed_certificate(chain, brotli));
        one.push(crossed(Encoding::One, &mut here, &mut there));
        alone.push(crossed(
            Encoding::Two,
            &mut nothing,
            &mut MemoryStore::default(),
        ));
        lone_issuers.push(crossed(Encoding::Two, &mut nothing, &mut there));
        issuers.push(crossed(Encoding::Two, &mut here, &mut there));
    }
    if raw.is_empty() {
        return;
    }
    let count = raw.len();
    let [raw, compressed, one, alone, lone_issuers, issuers] =
        [raw, compressed, one, alone, lone_issuers, issuers].map(median);
    eprintln!(
        "{count} chains at first contact, medians: {raw} bytes; RFC 8879 with Brotli {compressed}; issuers of other sites held, \
         first encoding {one}; second: nothing held {alone}, issuers held over there {lone_issuers}, and here {issuers}"
    );
    assert!(
        alone < compressed && lone_issuers <= alone && issuers <= lone_issuers && issuers < one
    );
}

/// The draft's own figure for its own chains (draft-ietf-tls-cert-abridge), which are longer.
const ABRIDGED_MEDIAN: usize = 1_060;

#[test]
fn a_first_contact_crosses_shorter_than_abridged_where_both_have_its_authority() {
    let chains = chains();
    if chains.is_empty() {
        return;
    }
    let given = authorities(&chains);
    let held_out = chains.iter().filter(|shown| *shown.since >= *HOLD_OUT);
    let crossed = |here, there| {
        let flights = held_out.clone().map(|shown| flight(&shown.chain));
        median(
            flights
                .map(|bytes| written_with(here, there, &bytes).len() - BARE)
                .collect(),
        )
    };
    let both = crossed(Some(&given), Some(&given));
    let none = crossed(None, None);
    eprintln!("first contact, medians: {none} bytes, with the authorities on both sides {both}");
    assert!(both < ABRIDGED_MEDIAN && both * 3 < none * 2);
}

#[test]
fn authorities_are_referred_to_only_where_both_have_the_same() {
    let chain: Vec<Vec<u8>> = (1..4_u8)
        .map(|number| {
            (0..=255)
                .map(|byte: u8| byte.wrapping_mul(number))
                .collect()
        })
        .collect();
    let given = |ders: &[Vec<u8>]| Authorities::new(ders.iter().cloned()).expect("some");
    let (all, some) = (given(&chain[1..]), given(&chain[2..]));
    let bytes = flight(&chain);
    let crossed = |here, there| written_with(here, there, &bytes).len();
    let none = crossed(None, None);
    let both = crossed(Some(&all), Some(&all));
    assert!(both + 400 < none, "{both} of {none}");
    // One that both have is worth about half.
    let one = crossed(Some(&some), Some(&some));
    assert!(both < one && one < none, "{one}");
    for (here, there) in [
        (Some(&all), None),
        (None, Some(&all)),
        (Some(&all), Some(&some)),
    ] {
        assert_eq!(crossed(here, there), none);
    }
}
