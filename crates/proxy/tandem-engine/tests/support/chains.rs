//! Real chains of the web, flights with them, and what crosses of these.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tandem_delta::{Delta, Encoding};
use tandem_engine::{
    Authorities, ClientCertificates, Connection, Engine, Handshake, Hints, Moment, Possession,
    Role, Sender, StoreSource, plan_flight,
};
use tandem_store::{HostName, MemoryStore, Site};
use tandem_wire::{Instant, UnixTime};

/// Before any leaf has expired.
const THEN: UnixTime = UnixTime(1_300_000_000);

/// A server's first flight without its chain: a ServerHello, a ServerKeyExchange and the end, in
/// records of their own.
pub(crate) const BARE: usize = 5 + 4 + 38 + 5 + 4 + 200 + 5 + 4;

/// Chains that begin on this day or later were not looked at when the built-in dictionary was made
/// (`tandem-lab/examples/certificate-dictionary.rs`).
pub(crate) const HOLD_OUT: &str = "2024-07-01";

/// A chain that a site has shown.
pub(crate) struct Shown {
    pub(crate) since: String,
    pub(crate) site: String,
    pub(crate) chain: Vec<Vec<u8>>,
}

/// All of them, the oldest first.
pub(crate) fn chains() -> Vec<Shown> {
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
pub(crate) fn flight(chain: &[Vec<u8>]) -> Vec<u8> {
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
pub(crate) fn teach(store: &mut MemoryStore, site: &Site, bytes: &[u8]) {
    let finished = [&[20, 3, 3, 0, 1, 1][..], &record(&noise(40))].concat();
    assert!(read(bytes).learn(&[bytes, &finished].concat(), store, site, THEN));
}

/// The delta for this flight, checked; the flight where there is none.
pub(crate) fn written(
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

pub(crate) fn site_of(name: &str) -> Site {
    HostName::new(name).map_or_else(
        |_| Site::Address(SocketAddr::from(([192, 0, 2, 1], 443))),
        Site::Name,
    )
}

/// What other sites than this showed last before this day, as one side of the link keeps it.
pub(crate) fn shown_before(chains: &[Shown], since: &str, site: &str) -> MemoryStore {
    let others: BTreeMap<&str, &[Vec<u8>]> = chains
        .iter()
        .filter(|other| *other.since < *since && other.site != site)
        .map(|other| (other.site.as_str(), other.chain.as_slice()))
        .collect();
    let mut store = MemoryStore::default();
    for (other, chain) in others {
        teach(&mut store, &site_of(other), &flight(chain));
    }
    store
}

/// The delta for this flight in the tunnel's encoding, checked: from a proxy that has been given
/// `here` to one that has been given `there`, which both hold nothing else.
pub(crate) fn written_with(
    here: Option<&Authorities>,
    there: Option<&Authorities>,
    bytes: &[u8],
) -> Vec<u8> {
    let engine = |role, given: Option<&Authorities>| {
        let how = ClientCertificates::Persistent;
        let engine = Engine::new(role, how, None, MemoryStore::default());
        match given {
            Some(given) => engine.with_authorities(given.clone()),
            None => engine,
        }
    };
    let mut here = engine(Role::ServerSide, here);
    let mut there = engine(Role::ClientSide, there);
    let body = [&[3, 3][..], &noise(32), &[0, 0, 2, 0xc0, 0x2f, 1, 0]].concat();
    let hello = record(&message(1, &body));
    let mut near = Connection::new(None);
    near.read(Sender::Client, &hello);
    let moment = Moment {
        server: SocketAddr::from(([192, 0, 2, 1], 443)),
        now: Instant::ZERO,
        wall: THEN,
    };
    let said = near.say(None, &mut there, moment, 3);
    let mut far = Connection::new(None);
    far.read(Sender::Client, &hello);
    let ground = far.server_flight(&said, &mut here);
    far.read(Sender::Server, bytes);
    let outgoing = far.outgoing(Sender::Server, bytes, 0);
    let plan = ground.plan(outgoing, here.store()).expect("a whole flight");
    let Some(delta) = plan.finish(Encoding::Three) else {
        return bytes.to_vec();
    };
    let rebuilt = Delta::parse(Encoding::Three, &delta, bytes.len())
        .and_then(|delta| delta.apply(&mut near.source(&mut there)));
    assert!(rebuilt.as_deref() == Ok(bytes));
    delta
}

/// The authorities of all these chains among 2,000 others: as many as the public web has.
pub(crate) fn authorities(chains: &[Shown]) -> Authorities {
    let shown = chains.iter().flat_map(|shown| &shown.chain[1..]).cloned();
    let others = (0..2_000_u32).map(|number| number.to_be_bytes().to_vec());
    Authorities::new(shown.chain(others)).expect("some")
}

/// What a server would send of this chain in TLS 1.3, compressed (RFC 8879), and the eight bytes
/// before it: type, length, algorithm, length before.
pub(crate) fn compressed_certificate(
    chain: &[Vec<u8>],
    compress: impl Fn(&[u8]) -> Vec<u8>,
) -> usize {
    let entries = chain.iter().flat_map(|der| {
        let length = (der.len() as u32).to_be_bytes();
        [&length[1..], der, &[0, 0]].concat()
    });
    let entries: Vec<u8> = entries.collect();
    let length = (entries.len() as u32).to_be_bytes();
    4 + 2 + 3 + 3 + compress(&[&[0], &length[1..], &entries].concat()).len()
}

/// By Brotli, as small as it can.
pub(crate) fn brotli(mut message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let params = brotli::enc::BrotliEncoderParams::default();
    brotli::BrotliCompress(&mut message, &mut out, &params).expect("it is compressed");
    out
}
