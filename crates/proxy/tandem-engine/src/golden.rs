//! The bytes of deltas, pinned: what stands here crossed the link before, and still does.
//!
//! Is not: a test that a delta is rebuilt. A change of these values is a new version of the
//! encoding.

use data_encoding::HEXLOWER;
use tandem_delta::{Encoding, Reference};
use tandem_store::{Digest, MemoryStore, Site};

use crate::objects::ticket;
use crate::peer::{ClientChain, Hints, Possession};
use crate::rewrite::{plan_client_flight, plan_flight};
use crate::samples::{
    TODAY, apart, certificates, chain, client_hello, finished, flight, hello_body, message, named,
    noise, packed, server_hello, store,
};
use crate::transcript::Handshake;

const SITE: Site = Site::Address(std::net::SocketAddr::V4(std::net::SocketAddrV4::new(
    std::net::Ipv4Addr::new(192, 0, 2, 1),
    443,
)));

/// The length and the front of the digest of some bytes.
fn print(bytes: &[u8]) -> String {
    let digest = HEXLOWER.encode(&Digest::of(bytes).prefix16());
    format!("{} {digest}", bytes.len())
}

/// What crosses for `bytes`, in full; its far side holds `there`, the writer `here`.
fn written(bytes: &[u8], here: &mut MemoryStore, there: &mut MemoryStore) -> Vec<u8> {
    let hints = Hints::to(there, &SITE, TODAY, 4);
    let hints: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
    let mut handshake = Handshake::new();
    handshake.client_sent(&client_hello(&[]));
    handshake.server_sent(bytes);
    let flight = handshake.flight().expect("a whole flight");
    let plan = plan_flight(bytes, flight, &Possession::from_hints(&hints), here);
    plan.finish(Encoding::One).expect("something is held")
}

fn teach(store: &mut MemoryStore, bytes: &[u8]) {
    let mut handshake = Handshake::new();
    handshake.client_sent(&[client_hello(&[]), finished()].concat());
    let bytes = [bytes, &finished()].concat();
    handshake.server_sent(&bytes);
    assert!(handshake.learn(&bytes, store, &SITE, TODAY));
}

#[test]
fn a_short_flight_has_these_bytes() {
    let chain = chain(&[60, 40]);
    let messages = [
        server_hello(0x0303),
        message(11, &certificates(&chain)),
        message(14, &[]),
    ];
    let bytes = packed(&messages, 70);
    let mut there = store(&SITE, &[&chain]);
    let delta = written(&bytes, &mut MemoryStore::default(), &mut there);
    assert_eq!(
        HEXLOWER.encode(&delta),
        concat!(
            "0111866f27f058b3778fea38bf4d6bf4b86c1603030046020000260303304ff29ade41b49fc8380bdcc3",
            "ce253eef3535ba21d109b0c57850f1c822bb4800c02f000b00006d00006a2b00000a16030300468d0100",
            "150a16030300131f005b080e000000"
        )
    );
}

#[test]
fn flights_of_each_kind_have_these_bytes() {
    let old = chain(&[926, 900, 910]);
    let mut renewed = old.clone();
    renewed[0][300..320].copy_from_slice(&noise(20, 99));
    let mut other_leaf = old.clone();
    other_leaf[0] = noise(930, 77);
    let mut with_staple = flight(&old);
    with_staple.insert(2, message(22, &noise(1_400, 60)));
    with_staple.insert(4, message(13, &noise(300, 61)));
    let mut new_staple = with_staple.clone();
    new_staple[2] = message(22, &[&noise(1_000, 60)[..], &noise(400, 62)].concat());
    let (mut here, mut there) = (MemoryStore::default(), MemoryStore::default());
    for store in [&mut here, &mut there] {
        teach(store, &apart(&with_staple));
    }
    let prints: Vec<String> = [
        apart(&flight(&old)),
        packed(&flight(&old), 500),
        apart(&flight(&renewed)),
        packed(&flight(&renewed), 300),
        packed(&flight(&other_leaf), 1 << 14),
        packed(&with_staple, 300),
        apart(&new_staple),
    ]
    .iter()
    .map(|bytes| print(&written(bytes, &mut here, &mut there)))
    .collect();
    assert_eq!(
        prints,
        [
            "301 3439254ba154d616c6f5a3ebd23295bb",
            "346 732d64e015c76e13b0d0ab34ddff88ae",
            "327 6279fdd94f8e518b58936ac17f7ccdf3",
            "415 1af717db1f8979f51c206b25937e8b26",
            "1221 3fdab6d396aeedaed9d80b1bb3513b4a",
            "471 7081adcb024c75bce685c7f1cb929fd6",
            "738 894d3281acb064e7b53d27d06074996f"
        ]
    );
}

#[test]
fn flights_of_clients_have_these_bytes() {
    let chain = chain(&[700, 600]);
    let hello = client_hello(&[]);
    let messages = [
        message(11, &certificates(&chain)),
        message(16, &noise(66, 5)),
        message(15, &noise(260, 6)),
    ];
    let mut asking = flight(&chain);
    asking.insert(3, message(13, &noise(40, 7)));
    let mut prints = Vec::new();
    for records in [apart(&messages), packed(&messages, 100)] {
        let stream = [&hello[..], &records, &finished()].concat();
        let mut handshake = Handshake::new();
        handshake.client_sent(&hello);
        handshake.server_sent(&apart(&asking));
        handshake.client_sent(&stream);
        let flight = handshake.client_flight().expect("a whole flight");
        let shown = ClientChain::of(flight, &stream).expect("it has a chain");
        let issuer = Reference(Digest::of(&chain[1]).prefix16());
        for believed in [
            shown.whole(),
            shown.among(|name| *name == issuer),
            shown.among(|_| true),
        ] {
            let plan = plan_client_flight(&stream, hello.len(), flight, &believed);
            let delta = plan.and_then(|plan| plan.finish(Encoding::One));
            prints.push(print(&delta.expect("something is believed")));
        }
    }
    assert_eq!(
        prints,
        [
            "431 99b517bbc835555a0746ab6a99ae0768",
            "1138 f911555f80dbdc4781067e1f9e4769d3",
            "458 3e48f08f82c70d9eb0bfcc57c23ea2c0",
            "577 194be248a513384da429fedcf53d1f85",
            "1242 6dd81f90167dd21f26c2eb8a40cfd5a4",
            "602 7aea1dc446d8a89b498a90f38b120af3"
        ]
    );
}

#[test]
fn hellos_with_tickets_have_these_bytes() {
    let ticket = noise(208, 9);
    let mut block = named("example.org");
    let length = (ticket.len() as u16).to_be_bytes();
    block.extend([&[0, 35][..], &length, &ticket].concat());
    let length = (block.len() as u16 - 2).to_be_bytes();
    block[..2].copy_from_slice(&length);
    let hello = message(1, &hello_body(&block));
    let prints = [1 << 14, 100].map(|size| {
        let stream = packed(std::slice::from_ref(&hello), size);
        let mut handshake = Handshake::new();
        handshake.client_sent(&stream);
        let shown = handshake.shown_ticket().expect("it shows one");
        let delta = shown
            .plan_hello(&stream, ticket::name_of(&ticket))
            .finish(Encoding::One);
        print(&delta.expect("the ticket is in it"))
    });
    assert_eq!(
        prints,
        [
            "101 1217284c4b0371e91eb656b70179bfd5",
            "120 33364e6a59f209c11cf3d313289c7458"
        ]
    );
}
