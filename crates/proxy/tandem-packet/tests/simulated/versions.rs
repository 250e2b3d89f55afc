//! Two proxies of different versions: they use what both know, and where they share nothing,
//! nothing is rewritten.
//!
//! What later versions will say is not known; here each of them says what the second one says,
//! under its own number.

use crate::support::{
    CLIENT_SIDE, Flow, ProxyElement, SERVER_SIDE, Scenario, clean, complete, config, proxy,
    repeats, store_with, tls, tls_bytes,
};
use tandem_link::inband::option::EXPERIMENT_ID;
use tandem_link::inband::{Spoken, Version};
use tandem_packet::{Role, WireFormat};
use tandem_store::MemoryStore;
use tandem_wire::TcpPacket;

fn version(number: u8) -> Version {
    Version::new(number).expect("a version")
}

fn spoken(oldest: u8, newest: u8) -> Spoken {
    Spoken::between(version(oldest), version(newest)).expect("in order")
}

/// A warm scenario whose proxies speak these versions.
fn scenario(client: (u8, u8), server: (u8, u8)) -> Scenario {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    let store = store_with(&scenario.conversation.chain);
    let side = |role, store, (oldest, newest)| {
        let mut element = ProxyElement::new(config(role, WireFormat::Safe), store);
        element.proxy.speak(spoken(oldest, newest));
        element
    };
    scenario.client_side = Some(side(Role::ClientSide, store, client));
    scenario.server_side = Some(side(Role::ServerSide, MemoryStore::default(), server));
    scenario
}

#[test]
fn what_both_know_is_used_and_where_they_share_nothing_the_flow_goes_plain() {
    // Client side, server side, whether they share a version, and which of them says so where they
    // do not.
    let cases = [
        ((1, 1), (1, 1), None),
        ((1, 2), (1, 1), None),
        ((1, 1), (1, 2), None),
        ((1, 2), (1, 2), None),
        ((2, 2), (1, 2), None),
        ((1, 2), (2, 2), None),
        ((2, 2), (2, 2), None),
        ((1, 1), (2, 2), Some(SERVER_SIDE)),
        ((2, 2), (1, 1), Some(CLIENT_SIDE)),
        ((3, 15), (1, 2), Some(CLIENT_SIDE)),
    ];
    for (client, server, apart) in cases {
        let scenario = scenario(client, server);
        let conversation = scenario.conversation.clone();
        let mut world = scenario.world();
        complete(&mut world, &conversation).expect("it completes");
        assert_eq!(repeats(&world), 0, "{client:?} and {server:?}");
        let rebuilt = proxy(&world, CLIENT_SIDE).count("flights_rebuilt_bytes");
        assert_eq!(
            rebuilt,
            usize::from(apart.is_none()),
            "{client:?} and {server:?}"
        );
        for side in [CLIENT_SIDE, SERVER_SIDE] {
            let count = proxy(&world, side).count("flows_given_up_no_common_version");
            assert_eq!(
                count,
                usize::from(apart == Some(side)),
                "{client:?} and {server:?}"
            );
            assert_eq!(proxy(&world, side).count("options_refused"), 0);
        }
        if apart.is_some() {
            assert_eq!(tls_bytes(&world).1, conversation.from_server.len() as u64);
        }
        clean(&world);
    }
}

/// The version of each option and of the frame that crossed, in order.
fn versions(crossed: &[Vec<u8>]) -> Vec<u8> {
    let heads = crossed.iter().flat_map(|packet| {
        let packet = TcpPacket::parse(packet).expect("a segment");
        let [high, low] = EXPERIMENT_ID.to_be_bytes();
        let option = match *packet.options_bytes() {
            [253, _, first, second, head, ..] if (first, second) == (high, low) => Some(head),
            _ => None,
        };
        // What begins with no content type of TLS is a frame.
        let frame = packet
            .payload()
            .first()
            .filter(|head| !(20..=24).contains(*head));
        [option, frame.copied()]
    });
    heads.flatten().map(|head| head >> 4).collect()
}

#[test]
fn everything_after_the_answer_is_of_the_agreed_version() {
    let scenario = scenario((1, 3), (1, 2));
    let conversation = scenario.conversation.clone();
    let (Some(client_side), Some(server_side)) = (scenario.client_side, scenario.server_side)
    else {
        panic!("both are there")
    };
    let mut pair = crate::support::Pair::knowing(&conversation.chain);
    (pair.client_side, pair.server_side) = (client_side, server_side);
    let mut flow = Flow::default();
    pair.open(&flow);
    let [hello, flight] = [0, 1].map(|turn| conversation.turns[turn].1.clone());
    pair.client(flow.client(0, &hello));
    flow.server_acked = hello.len() as u32;
    let mut at = 0;
    let mut rebuilt = 0;
    for piece in flight.chunks(1_448) {
        let arrived = pair.server(flow.server(at, piece));
        rebuilt += arrived.at_client.len();
        at += piece.len() as u32;
    }
    assert!(rebuilt > 0);
    let crossed: Vec<Vec<u8>> = pair
        .crossed
        .iter()
        .map(|(_, packet)| packet.clone())
        .collect();
    // Presence, answer, hint, frame.
    assert_eq!(versions(&crossed), [3, 2, 2, 2]);
}

/// Certificates that are not known, of which some words are in all certificates.
fn unknown() -> Vec<Vec<u8>> {
    let words = b"http://crl3.digicert.com/DigiCertGlobalRootG2.crl, http://ocsp.digicert.com0";
    [300, 200]
        .map(|length| [&tls::noise(length, 9), &words.repeat(8)[..]].concat())
        .to_vec()
}

#[test]
fn what_is_not_held_is_compressed_for_a_proxy_that_can_undo_it_and_for_no_other() {
    let known = tls::chain(&[926, 900, 910]);
    // Issuers of other sites are held, or nothing at all: the first flight of a new proxy.
    for holds_issuers in [true, false] {
        let crossed = [(1, 1), (1, 2)].map(|client| {
            let conversation = tls::Conversation::with_chain(&unknown());
            let mut scenario = scenario(client, (1, 2));
            scenario.conversation = conversation.clone();
            let store = if holds_issuers {
                store_with(&known)
            } else {
                MemoryStore::default()
            };
            let mut world = scenario.holding(store).world();
            complete(&mut world, &conversation).expect("it completes");
            clean(&world);
            assert_eq!(repeats(&world), 0);
            assert_eq!(proxy(&world, SERVER_SIDE).count("options_refused"), 0);
            let rebuilt = proxy(&world, CLIENT_SIDE).count("flights_rebuilt_bytes");
            (rebuilt, tls_bytes(&world).1)
        });
        let whole = tls::Conversation::with_chain(&unknown()).from_server.len() as u64;
        assert_eq!(crossed[0], (0, whole));
        assert_eq!(crossed[1].0, 1);
        assert!(crossed[1].1 + 900 < whole, "{crossed:?} of {whole}");
    }
}
