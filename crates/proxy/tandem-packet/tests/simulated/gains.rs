//! Servers with which nothing is gained: offers to them end for a while, and nothing of ours goes
//! to them then.
//!
//! Is not: the account itself (`src/gain.rs`).

use std::time::Duration;

use crate::support::bare::has_option;
use crate::support::tls::{self, chain, client_hello, record, server_hello13};
use crate::support::{Flow, NAME, Pair};
use tandem_wire::TcpPacket;

/// How many of the packets that crossed from this one on have an option of ours.
fn offered(pair: &Pair, from: usize) -> usize {
    let crossed = pair.crossed[from..].iter();
    crossed.filter(|(_, packet)| has_option(packet)).count()
}

/// A connection from this port, answered so by the server: how many packets with an option of ours
/// crossed.
fn visit(pair: &mut Pair, port: u16, answer: &[u8]) -> usize {
    let mut flow = Flow::default();
    flow.client.set_port(port);
    let before = pair.crossed.len();
    pair.open(&flow);
    let hello = client_hello(Some(NAME), 0);
    pair.client(flow.client(0, &hello));
    flow.server_acked = hello.len() as u32;
    let mut at_client = Vec::new();
    let mut at = 0;
    for piece in answer.chunks(1_448) {
        at_client.extend(pair.server(flow.server(at, piece)).at_client);
        at += piece.len() as u32;
    }
    let payloads = at_client.iter().flat_map(|packet| {
        let packet = TcpPacket::parse(packet).expect("a segment");
        packet.payload().to_vec()
    });
    assert_eq!(payloads.collect::<Vec<_>>(), answer, "to the byte");
    offered(pair, before)
}

/// On the SYN, the SYN/ACK and the hello.
const OFFERED: usize = 3;

#[test]
fn a_server_of_tls_1_3_is_offered_nothing_after_three_connections_and_tried_again_later() {
    let answer = record(22, 0x0303, &server_hello13());
    let mut pair = Pair::knowing(&[]);
    let visits = [1, 2, 3, 4, 5].map(|port| visit(&mut pair, port, &answer));
    assert_eq!(visits, [OFFERED, OFFERED, OFFERED, 0, 0]);
    let left = pair.client_side.count("flows_given_up_nothing_to_gain");
    assert_eq!(left, 2);
    assert_eq!(pair.client_side.proxy.servers_without_gain(), 1);
    // The server-side proxy sees connections without an option, and leaves them alone.
    assert_eq!(pair.server_side.count("flows_given_up_no_answer"), 2);
    assert_eq!(pair.server_side.proxy.servers_without_gain(), 0);
    pair.wait(Duration::from_secs(600));
    let visits = [6, 7].map(|port| visit(&mut pair, port, &answer));
    assert_eq!(visits, [OFFERED, 0]);
}

#[test]
fn what_is_no_tls_is_offered_nothing_after_three_connections() {
    let mut pair = Pair::knowing(&[]);
    let visits = [1, 2, 3, 4].map(|port| visit(&mut pair, port, b"220 mail.example.org"));
    assert_eq!(visits, [OFFERED, OFFERED, OFFERED, 0]);
}

#[test]
fn a_server_that_has_changed_is_found_and_what_it_gains_pays_for_more_offers() {
    let known = chain(&[926, 900, 910]);
    let opaque = record(22, 0x0303, &server_hello13());
    let flight = tls::records(&tls::server_flight(&known), tls::Layout::MessageARecord);
    let mut pair = Pair::knowing(&known);
    for port in 1..=4 {
        visit(&mut pair, port, &opaque);
    }
    assert_eq!(visit(&mut pair, 5, &flight), 0);
    assert_eq!(pair.client_side.count("flights_rebuilt_bytes"), 0);
    pair.wait(Duration::from_secs(600));
    assert_eq!(visit(&mut pair, 6, &flight), OFFERED);
    assert_eq!(pair.client_side.count("flights_rebuilt_bytes"), 1);
    assert_eq!(pair.client_side.proxy.servers_without_gain(), 0);
    let visits: Vec<usize> = (7..=50)
        .map(|port| visit(&mut pair, port, &opaque))
        .collect();
    assert!(visits[..40].iter().all(|options| *options == OFFERED));
    assert!(visits[40..].iter().all(|options| *options == 0));
}
