//! Packet mode and what TLS may look like: other protocols and versions, every layout of records,
//! hostile lengths.

use std::time::Duration;

use crate::support::flight::payloads;
use crate::support::tls::{self, Conversation, Layout};
use crate::support::{
    CLIENT_SIDE, Closes, Flow, Pair, SERVER_SIDE, Scenario, clean, complete, proxy, repeats,
    store_with, teach, tls_bytes,
};
use tandem_netsim::host::Segmenter;
use tandem_netsim::script::Speaker;
use tandem_packet::{Limits, WireFormat};
use tandem_store::{MemoryStore, Site};

/// Runs to the end and closes; checks that nothing was sent again and nothing is left.
#[track_caller]
fn run(mut scenario: Scenario) -> tandem_netsim::World {
    scenario.closes = Closes::AtTheEnd;
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(repeats(&world), 0);
    world.run_for(Duration::from_secs(5)).expect("it ends");
    clean(&world);
    world
}

/// What a conversation leaves on the link beside its own bytes: nothing, both ways.
#[track_caller]
fn untouched(conversation: Conversation, reason: &str) {
    let world = run(Scenario::with(WireFormat::Safe, conversation.clone()));
    let said = [&conversation.from_client, &conversation.from_server];
    let [up, down] = said.map(|bytes| bytes.len() as u64);
    assert_eq!(tls_bytes(&world), (up, down));
    let counted: usize = [CLIENT_SIDE, SERVER_SIDE]
        .map(|index| proxy(&world, index).count(reason))
        .iter()
        .sum();
    assert_eq!(counted, 2, "{reason}");
}

fn chain() -> Vec<Vec<u8>> {
    tls::chain(&[926, 900, 910])
}

fn hello() -> Vec<u8> {
    tls::client_hello(Some(crate::support::NAME), 0)
}

#[test]
fn another_protocol_on_the_port_is_untouched() {
    untouched(Conversation::not_tls(&chain()), "flows_given_up_not_tls");
    let ssh = vec![
        (Speaker::Client, b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()),
        (Speaker::Server, b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()),
        (Speaker::Client, tls::noise(900, 1)),
        (Speaker::Server, tls::noise(900, 2)),
    ];
    untouched(Conversation::of(chain(), ssh), "flows_given_up_not_tls");
    let starttls = vec![
        (Speaker::Client, b"STARTTLS\r\n".to_vec()),
        (Speaker::Server, b"220 ready\r\n".to_vec()),
        (Speaker::Client, hello()),
        (
            Speaker::Server,
            tls::records(&tls::server_flight(&chain()), Layout::MessageARecord),
        ),
    ];
    untouched(
        Conversation::of(chain(), starttls),
        "flows_given_up_not_tls",
    );
}

#[test]
fn an_ssl_2_hello_is_untouched() {
    let mut old = vec![0x80, 46, 1, 3, 1, 0, 21, 0, 0, 0, 16];
    old.extend(tls::noise(37, 5));
    let turns = vec![
        (Speaker::Client, old),
        (
            Speaker::Server,
            tls::records(&tls::server_flight(&chain()), Layout::MessageARecord),
        ),
        (Speaker::Client, tls::finished(1)),
        (Speaker::Server, tls::finished(2)),
    ];
    untouched(Conversation::of(chain(), turns), "flows_given_up_not_tls");
}

#[test]
fn tls_1_3_is_untouched_after_its_server_hello() {
    untouched(
        Conversation::tls13(hello(), &chain()),
        "flows_given_up_tls13",
    );
}

#[test]
fn a_resumed_session_is_untouched() {
    untouched(
        Conversation::resumed(hello(), &chain()),
        "flows_given_up_resumed",
    );
}

#[test]
fn a_handshake_without_a_certificate_is_untouched() {
    let mut flight = tls::server_flight(&chain());
    flight.remove(1);
    let turns = vec![
        (Speaker::Client, hello()),
        (
            Speaker::Server,
            tls::records(&flight, Layout::MessageARecord),
        ),
        (Speaker::Client, tls::finished(1)),
        (Speaker::Server, tls::finished(2)),
    ];
    untouched(
        Conversation::of(chain(), turns),
        "flows_given_up_no_certificate",
    );
}

#[test]
fn a_second_handshake_in_the_same_connection_is_untouched() {
    let mut conversation = Conversation::with_chain(&chain());
    // All of it is under the first one's keys: handshake records that hold ciphertext.
    for (speaker, seed) in [
        (Speaker::Server, 1),
        (Speaker::Client, 2),
        (Speaker::Server, 3),
    ] {
        let renegotiation = tls::record(22, 0x0303, &tls::noise(2_900, seed));
        conversation.turns.push((speaker, renegotiation));
    }
    let conversation = Conversation::of(conversation.chain, conversation.turns);
    let world = run(Scenario::with(WireFormat::Safe, conversation));
    assert_eq!(proxy(&world, CLIENT_SIDE).count("handshakes_finished"), 1);
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 1);
}

#[test]
fn a_request_for_a_hello_before_the_hello_does_not_matter() {
    let mut conversation = Conversation::with_chain(&chain());
    let request = tls::record(22, 0x0303, &tls::message(0, &[]));
    conversation.turns[1].1.splice(0..0, request);
    let conversation = Conversation::of(conversation.chain, conversation.turns);
    let world = run(Scenario::with(WireFormat::Safe, conversation));
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 1);
}

#[test]
fn every_layout_of_records_and_segments_saves_the_chain_or_is_untouched() {
    let layouts = [
        Layout::MessageARecord,
        Layout::Packed(1 << 14),
        Layout::Packed(1_000),
        Layout::Packed(100),
        Layout::Packed(20),
    ];
    let segmenters = [
        Segmenter::Full,
        Segmenter::AtMost(700),
        Segmenter::AtMost(100),
        Segmenter::CutAt(vec![1, 4, 5, 6, 9, 86, 90, 1_000, 3_000]),
    ];
    for layout in layouts {
        for segmenter in &segmenters {
            let conversation = Conversation::new(hello(), &chain(), layout);
            let flight = conversation.turns[1].1.len();
            let mut scenario = Scenario::with(WireFormat::Safe, conversation.clone());
            scenario.server.segmenter = segmenter.clone();
            scenario.server.initial_window = 64;
            let world = run(scenario);
            let saved = conversation.from_server.len() as u64 - tls_bytes(&world).1;
            // The chain, less references to each piece that record headers cut it into.
            let pieces = match layout {
                Layout::MessageARecord => 1,
                Layout::Packed(size) => flight / (size + 5) + 2,
            };
            let chain: usize = chain().iter().map(|der| der.len() + 3).sum();
            let least = (chain as u64).saturating_sub(60 + 6 * pieces as u64);
            assert!(
                saved >= least,
                "{layout:?} {segmenter:?}: {saved} of {least}"
            );
        }
    }
}

#[test]
fn a_flight_in_dust_is_untouched() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    scenario.server.segmenter = Segmenter::CutAt((1..600).collect());
    scenario.server.initial_window = 10_000;
    let conversation = scenario.conversation.clone();
    let world = run(scenario);
    assert_eq!(tls_bytes(&world).1, conversation.from_server.len() as u64);
    assert_eq!(proxy(&world, SERVER_SIDE).count("hold_released_bytes"), 1);
}

#[test]
fn a_hello_in_any_number_of_segments_is_hinted() {
    for (filler, segmenter) in [
        (1_700, Segmenter::Full),
        (4_000, Segmenter::Full),
        (0, Segmenter::AtMost(60)),
        (0, Segmenter::CutAt((1..200).collect())),
    ] {
        let long = tls::client_hello(Some(crate::support::NAME), filler);
        let conversation = Conversation::new(long, &chain(), Layout::MessageARecord);
        let mut scenario = Scenario::with(WireFormat::Safe, conversation);
        scenario.client.segmenter = segmenter.clone();
        scenario.client.initial_window = 1_000;
        let world = run(scenario);
        let written = proxy(&world, SERVER_SIDE).count("flights_written");
        assert_eq!(written, 1, "{filler} {segmenter:?}");
    }
}

#[test]
fn a_hello_in_many_records_is_hinted() {
    let body = &hello()[5..];
    let cut: Vec<u8> = body
        .chunks(3)
        .flat_map(|piece| tls::record(22, 0x0301, piece))
        .collect();
    let conversation = Conversation::new(cut, &chain(), Layout::MessageARecord);
    let world = run(Scenario::with(WireFormat::Safe, conversation));
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 1);
}

#[test]
fn a_client_that_names_nobody_is_known_by_the_servers_address() {
    let conversation =
        Conversation::new(tls::client_hello(None, 0), &chain(), Layout::MessageARecord);
    let mut store = MemoryStore::default();
    teach(
        &mut store,
        &Site::Address(crate::support::server_address()),
        &chain(),
    );
    let scenario = Scenario::with(WireFormat::Safe, conversation.clone()).holding(store);
    let world = run(scenario);
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 1);
    // Another address is another site.
    let mut scenario = Scenario::with(WireFormat::Safe, conversation);
    scenario.server.local = "10.0.9.2:443".parse().expect("an address");
    let world = run(scenario);
    assert_eq!(proxy(&world, CLIENT_SIDE).count("hellos_nothing_held"), 1);
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 0);
}

#[test]
fn either_of_two_chains_of_one_name_is_saved() {
    let other = [tls::noise(600, 71), tls::noise(610, 72)];
    for shown in [chain(), other.to_vec()] {
        let mut store = store_with(&chain());
        teach(&mut store, &crate::support::site(), &other);
        let conversation = Conversation::new(hello(), &shown, Layout::MessageARecord);
        let world = run(Scenario::with(WireFormat::Safe, conversation).holding(store));
        assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 1);
        assert_eq!(proxy(&world, CLIENT_SIDE).count("misses_sent"), 0);
    }
}

#[test]
fn a_renewed_leaf_crosses_under_issuers_that_both_sides_know() {
    let mut renewed = chain();
    renewed[0] = tls::noise(930, 81);
    let conversation = Conversation::new(hello(), &renewed, Layout::MessageARecord);
    // Where the servers' side knows what the hint names, the issuers are saved; where it does not,
    // nothing is.
    for (known, least) in [(true, 900 + 910 - 60), (false, 0)] {
        let mut scenario =
            Scenario::with(WireFormat::Safe, conversation.clone()).holding(store_with(&chain()));
        if let (Some(side), true) = (&mut scenario.server_side, known) {
            *side.proxy.store_mut() = store_with(&chain());
        }
        let world = run(scenario);
        let saved = conversation.from_server.len() as u64 - tls_bytes(&world).1;
        assert!((least..=least + 60).contains(&saved), "{saved}");
        for index in [CLIENT_SIDE, SERVER_SIDE] {
            assert_eq!(proxy(&world, index).count("chains_learned"), 1);
        }
    }
}

#[test]
fn another_chain_than_the_one_that_is_expected_goes_as_it_is() {
    let shown = [tls::noise(1_200, 91), tls::noise(1_100, 92)];
    let conversation = Conversation::new(hello(), &shown, Layout::MessageARecord);
    let scenario =
        Scenario::with(WireFormat::Safe, conversation.clone()).holding(store_with(&chain()));
    let world = run(scenario);
    assert_eq!(tls_bytes(&world).1, conversation.from_server.len() as u64);
    assert_eq!(proxy(&world, CLIENT_SIDE).count("misses_sent"), 0);
}

#[test]
fn a_long_chain_of_certificates_is_one_reference() {
    let chain = tls::chain(&[300; 30]);
    let conversation = Conversation::new(hello(), &chain, Layout::MessageARecord);
    let mut scenario = Scenario::with(WireFormat::Safe, conversation.clone());
    scenario.server.initial_window = 20;
    let world = run(scenario);
    let saved = conversation.from_server.len() as u64 - tls_bytes(&world).1;
    assert!(saved > 30 * 303 - 60, "{saved}");
}

#[test]
fn a_server_that_asks_for_a_client_certificate_is_saved_all_the_same() {
    let mut flight = tls::server_flight(&chain());
    flight.insert(3, tls::message(13, &[1, 1, 0, 2, 4, 1, 0, 0]));
    let mut conversation = Conversation::with_chain(&chain());
    conversation.turns[1].1 = tls::records(&flight, Layout::MessageARecord);
    let own = [tls::noise(800, 61)];
    let mut certificate = tls::records(&tls::server_flight(&own)[1..2], Layout::MessageARecord);
    certificate.append(&mut conversation.turns[2].1);
    conversation.turns[2].1 = certificate;
    let conversation = Conversation::of(conversation.chain, conversation.turns);
    let world = run(Scenario::with(WireFormat::Safe, conversation));
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 1);
    assert_eq!(proxy(&world, CLIENT_SIDE).count("chains_learned"), 1);
}

#[test]
fn a_client_that_refuses_the_chain_is_heard_and_teaches_nothing() {
    for layout in [Layout::MessageARecord, Layout::Packed(1 << 14)] {
        let conversation = Conversation::alerted(hello(), &chain(), layout);
        let world = run(Scenario::with(WireFormat::Safe, conversation));
        for index in [CLIENT_SIDE, SERVER_SIDE] {
            assert_eq!(proxy(&world, index).count("chains_learned"), 0);
            assert_eq!(proxy(&world, index).count("flows_closed_early"), 1);
        }
    }
}

#[test]
fn a_server_that_refuses_the_client_after_its_finished_teaches_nothing() {
    let mut conversation = Conversation::with_chain(&chain());
    conversation.turns.truncate(3);
    // Its own ChangeCipherSpec and an alert under the new keys.
    let alert = [
        tls::record(20, 0x0303, &[1]),
        tls::record(21, 0x0303, &tls::noise(26, 1)),
    ];
    conversation.turns.push((Speaker::Server, alert.concat()));
    let conversation = Conversation::of(conversation.chain, conversation.turns);
    let world = run(Scenario::with(WireFormat::Safe, conversation));
    for index in [CLIENT_SIDE, SERVER_SIDE] {
        assert_eq!(proxy(&world, index).count("chains_learned"), 0);
    }
}

/// Puts these through a pair, hello in one segment and flight in full ones; what each end received
/// in the end.
fn through(hello: &[u8], flight: &[u8]) -> (Vec<u8>, Vec<u8>, Pair) {
    let mut flow = Flow::default();
    let mut pair = Pair::knowing(&chain());
    pair.open(&flow);
    let mut at_server = Vec::new();
    let mut at_client = Vec::new();
    for (index, piece) in hello.chunks(1_448).enumerate() {
        let arrived = pair.client(flow.client(index as u32 * 1_448, piece));
        at_server.extend(arrived.at_server);
    }
    flow.server_acked = hello.len() as u32;
    for (index, piece) in flight.chunks(1_448).enumerate() {
        let arrived = pair.server(flow.server(index as u32 * 1_448, piece));
        at_client.extend(arrived.at_client);
        at_server.extend(arrived.at_server);
    }
    let late = pair.wait(Limits::default().hold_time);
    at_client.extend(late.at_client);
    (payloads(&at_server), payloads(&at_client), pair)
}

#[test]
fn every_byte_that_may_be_a_length_may_be_wrong() {
    let (hello, flight) = (
        hello(),
        tls::records(&tls::server_flight(&chain()), Layout::MessageARecord),
    );
    let mut written = 0;
    for at in 0..hello.len() {
        for change in [1u8, 0x7f, 0x80, 0xff] {
            let mut wrong = hello.clone();
            wrong[at] ^= change;
            let (at_server, at_client, pair) = through(&wrong, &flight);
            assert!(
                at_server == wrong && at_client == flight,
                "hello {at} {change:x}"
            );
            written += pair.server_side.count("flights_written");
        }
    }
    assert!(written > 0, "some bytes do not matter");
    let lengths = (0..180).chain(flight.len() - 330..flight.len());
    for at in lengths {
        for change in [1u8, 0x7f, 0x80, 0xff] {
            let mut wrong = flight.clone();
            wrong[at] ^= change;
            let (at_server, at_client, _) = through(&hello, &wrong);
            assert!(
                at_server == hello && at_client == wrong,
                "flight {at} {change:x}"
            );
        }
    }
}

#[test]
fn hostile_tls_is_bounded_and_untouched() {
    let long_message = tls::record(22, 0x0303, &[11, 0xff, 0xff, 0xff, 0, 0]);
    let endless = tls::record(22, 0x0303, &[11, 0, 0xff, 0xff]);
    let server_hello = tls::records(&tls::server_flight(&chain())[..1], Layout::MessageARecord);
    let ones = {
        let list = [0, 0, 1, 7].repeat(4_000);
        let body = [&(list.len() as u32).to_be_bytes()[1..], &list].concat();
        let messages = [
            tls::server_flight(&chain())[0].clone(),
            tls::message(11, &body),
            tls::message(14, &[]),
        ];
        tls::records(&messages, Layout::Packed(1 << 14))
    };
    let flights = [
        [&server_hello[..], &long_message].concat(),
        [
            &server_hello[..],
            &endless,
            &tls::record(22, 0x0303, &[0; 16_000]).repeat(3),
        ]
        .concat(),
        [
            &server_hello[..],
            &tls::record(22, 0x0303, &[]).repeat(5_000),
        ]
        .concat(),
        [
            &server_hello[..],
            &tls::record(23, 0x0303, &[]).repeat(5_000),
        ]
        .concat(),
        [
            &server_hello[..],
            &tls::record(21, 0x0303, &[1, 90]).repeat(5_000),
        ]
        .concat(),
        [
            &server_hello[..],
            &tls::record(20, 0x0303, &[1]).repeat(5_000),
        ]
        .concat(),
        tls::record(22, 0x0303, &tls::message(0, &[])).repeat(5_000),
        ones,
        tls::noise(40_000, 3),
    ];
    for (index, flight) in flights.iter().enumerate() {
        let (_, at_client, pair) = through(&hello(), flight);
        assert!(at_client == *flight, "flight {index}");
        for side in [&pair.client_side, &pair.server_side] {
            assert!(
                side.gauges().memory < 400_000,
                "{index}: {:?}",
                side.gauges()
            );
        }
    }
    let extensions = {
        let block = [0xab, 0xcd, 0, 0].repeat(10_000);
        let mut body = vec![3, 3];
        body.extend([0; 32]);
        body.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
        body.extend((block.len() as u16).to_be_bytes());
        body.extend(block);
        let messages = [tls::message(1, &body)];
        tls::records(&messages, Layout::Packed(1 << 14))
    };
    let sixteen = tls::record(22, 0x0301, &[1, 0xff, 0xff, 0xff, 3, 3]);
    let hellos = [
        extensions,
        sixteen,
        tls::record(22, 0x0301, &[]).repeat(5_000),
        tls::record(22, 0x0301, &[1, 0, 0xff, 0xff]).repeat(2_000),
        tls::noise(40_000, 4),
    ];
    let flight = tls::records(&tls::server_flight(&chain()), Layout::MessageARecord);
    for (index, hello) in hellos.iter().enumerate() {
        let (at_server, at_client, _) = through(hello, &flight);
        assert!(at_server == *hello && at_client == flight, "hello {index}");
    }
}

#[test]
fn a_hostile_flight_in_dust_takes_linear_time() {
    // 60,000 segments of a byte, of a stream that never becomes anything: some milliseconds each
    // way if read once, minutes if each segment were read from the start.
    let server_hello = tls::records(&tls::server_flight(&chain())[..1], Layout::MessageARecord);
    let flight = [
        &server_hello[..],
        &tls::record(22, 0x0303, &[11]).repeat(9_000),
    ]
    .concat();
    let mut flow = Flow::default();
    let mut pair = Pair::knowing(&[]);
    pair.open(&flow);
    pair.client(flow.client(0, &hello()));
    flow.server_acked = hello().len() as u32;
    for (index, byte) in flight.iter().enumerate() {
        pair.server(flow.server(index as u32, &[*byte]));
    }
}
