//! Real chains of the web, renewal after renewal: what a flight costs as a delta against what was
//! held, and that it is rebuilt to the byte.
//!
//! The chains are not part of the project; without them the tests say so and pass.

#![expect(
    clippy::disallowed_methods,
    reason = "a test reads files; the crate does not"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tandem_delta::{Delta, Encoding, Reference};
use tandem_engine::{Handshake, Hints, Possession, StoreSource, plan_flight};
use tandem_store::{Digest, HostName, MemoryStore, Site};
use tandem_wire::UnixTime;

/// Before any leaf has expired.
const THEN: UnixTime = UnixTime(1_300_000_000);

/// A server's first flight without its chain: a ServerHello, a ServerKeyExchange and the end, in
/// records of their own.
const BARE: usize = 5 + 4 + 38 + 5 + 4 + 200 + 5 + 4;

/// Chains that begin on this day or later were not looked at when the built-in dictionary was made
/// (`tandem-lab/examples/certificate-dictionary.rs`).
const HOLD_OUT: &str = "2024-07-01";

/// A chain that a site has shown.
struct Shown {
    since: String,
    site: String,
    chain: Vec<Vec<u8>>,
}

/// All of them, the oldest first.
fn chains() -> Vec<Shown> {
    let Some(file) = tandem_testkit::data("chains/web-chains-until-2025-06.jsonl") else {
        return Vec::new();
    };
    let text = std::fs::read_to_string(&file).expect("readable");
    let mut chains: Vec<Shown> = text
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
            let ders = line["chain"].as_array().expect("a list").iter();
            let decode = |der: &serde_json::Value| {
                let base64 = data_encoding::BASE64.decode(text(der).as_bytes());
                base64.expect("Base64")
            };
            Shown {
                since: text(&line["not_before"]),
                site: text(&line["site"]),
                chain: ders.map(decode).collect(),
            }
        })
        .collect();
    chains.sort_by(|one, other| one.since.cmp(&other.since));
    chains
}

fn record(fragment: &[u8]) -> Vec<u8> {
    let length = u16::try_from(fragment.len()).expect("a record's length");
    [&[22, 3, 3][..], &length.to_be_bytes(), fragment].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

/// Bytes that are nowhere else.
fn noise(length: usize) -> Vec<u8> {
    let step = |state: &mut u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Some((*state >> 56) as u8)
    };
    std::iter::repeat_n((), length)
        .scan(7, |state, ()| step(state))
        .collect()
}

/// A flight with this chain, which has `BARE` bytes and the Certificate message's record.
fn flight(chain: &[Vec<u8>]) -> Vec<u8> {
    let list: Vec<u8> = chain
        .iter()
        .flat_map(|der| [&(der.len() as u32).to_be_bytes()[1..], der].concat())
        .collect();
    let body = [&(list.len() as u32).to_be_bytes()[1..], &list].concat();
    let hello = [&[3, 3][..], &noise(32), &[0, 0xc0, 0x2f, 0]].concat();
    [
        record(&message(2, &hello)),
        record(&message(11, &body)),
        record(&message(12, &noise(200))),
        record(&message(14, &[])),
    ]
    .concat()
}

fn read(bytes: &[u8]) -> Handshake {
    let mut handshake = Handshake::new();
    let body = [&[3, 3][..], &noise(32), &[0, 0, 2, 0xc0, 0x2f, 1, 0]].concat();
    let finished = [&[20, 3, 3, 0, 1, 1][..], &record(&noise(40))].concat();
    handshake.client_sent(&[record(&message(1, &body)), finished.clone()].concat());
    handshake.server_sent(&[bytes, &finished].concat());
    handshake
}

/// One side of the link at a site: says what it holds, or learns.
fn teach(store: &mut MemoryStore, site: &Site, bytes: &[u8]) {
    let finished = [&[20, 3, 3, 0, 1, 1][..], &record(&noise(40))].concat();
    assert!(read(bytes).learn(&[bytes, &finished].concat(), store, site, THEN));
}

/// The size of what crosses for this flight, checked.
fn crossing(bytes: &[u8], site: &Site, here: &mut MemoryStore, there: &mut MemoryStore) -> usize {
    written(Encoding::One, bytes, site, here, there).len()
}

/// The delta for this flight, checked; the flight where there is none.
fn written(
    encoding: Encoding,
    bytes: &[u8],
    site: &Site,
    here: &mut MemoryStore,
    there: &mut MemoryStore,
) -> Vec<u8> {
    let hints = Hints::to(there, site, THEN, 4);
    let hints: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
    let handshake = read(bytes);
    let flight = handshake.flight().expect("a whole flight");
    let plan = plan_flight(bytes, flight, &Possession::from_hints(&hints), here);
    let Some(delta) = plan.finish(encoding) else {
        return bytes.to_vec();
    };
    let rebuilt = Delta::parse(encoding, &delta, bytes.len())
        .and_then(|delta| delta.apply(&mut StoreSource::new(there)));
    assert!(rebuilt.as_deref() == Ok(bytes));
    delta
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values[values.len() / 2]
}

fn site_of(name: &str) -> Site {
    HostName::new(name).map_or_else(
        |_| Site::Address(SocketAddr::from(([192, 0, 2, 1], 443))),
        Site::Name,
    )
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

/// What a server would send of this chain in TLS 1.3, compressed with Brotli (RFC 8879), and the
/// eight bytes before it: type, length, algorithm, length before.
fn compressed_certificate(chain: &[Vec<u8>]) -> usize {
    let entries = chain.iter().flat_map(|der| {
        let length = (der.len() as u32).to_be_bytes();
        [&length[1..], der, &[0, 0]].concat()
    });
    let entries: Vec<u8> = entries.collect();
    let length = (entries.len() as u32).to_be_bytes();
    let mut message = &[&[0], &length[1..], &entries].concat()[..];
    let mut out = Vec::new();
    let params = brotli::enc::BrotliEncoderParams::default();
    brotli::BrotliCompress(&mut message, &mut out, &params).expect("it is compressed");
    4 + 2 + 3 + 3 + out.len()
}

#[test]
fn a_first_contact_crosses_shorter_than_a_certificate_compressed_by_its_server() {
    let chains = chains();
    let held_out = chains.iter().filter(|shown| *shown.since >= *HOLD_OUT);
    let (mut raw, mut brotli) = (Vec::new(), Vec::new());
    let (mut one, mut alone, mut lone_issuers, mut issuers) = (vec![], vec![], vec![], vec![]);
    for Shown { since, site, chain } in held_out {
        let bytes = flight(chain);
        // What other sites showed last until then.
        let (mut here, mut there) = (MemoryStore::default(), MemoryStore::default());
        let others: BTreeMap<&str, &[Vec<u8>]> = chains
            .iter()
            .filter(|other| other.since < *since && other.site != *site)
            .map(|other| (other.site.as_str(), other.chain.as_slice()))
            .collect();
        for (other, chain) in others {
            teach(&mut here, &site_of(other), &flight(chain));
            teach(&mut there, &site_of(other), &flight(chain));
        }
        let site = site_of(site);
        let mut nothing = MemoryStore::default();
        let crossed = |encoding, here: &mut MemoryStore, there: &mut MemoryStore| {
            written(encoding, &bytes, &site, here, there).len() - BARE
        };
        raw.push(bytes.len() - BARE);
        brotli.push(compressed_certificate(chain));
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
    let [raw, brotli, one, alone, lone_issuers, issuers] =
        [raw, brotli, one, alone, lone_issuers, issuers].map(median);
    eprintln!(
        "{count} chains at first contact, medians: {raw} bytes; RFC 8879 with Brotli {brotli}; issuers of other sites held, \
         first encoding {one}; second: nothing held {alone}, issuers held over there {lone_issuers}, and here {issuers}"
    );
    assert!(alone < brotli && lone_issuers <= alone && issuers <= lone_issuers && issuers < one);
}
