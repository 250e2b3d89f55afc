//! What repeats from handshake to handshake beside the chain, and what is only like something that
//! was there before: through both proxies, one handshake after the other, to the byte.

use crate::support::flight::payloads;
use crate::support::tls::{
    self, Layout, chain, client_hello, finished, message, noise, record, records,
};
use crate::support::{Flow, NAME, Pair};
use tandem_netsim::element::Port;
use tandem_store::{Kind, MemoryStore, Store};

/// A pair of proxies that know nothing.
fn strangers() -> Pair {
    let mut pair = Pair::knowing(&[]);
    *pair.client_side.proxy.store_mut() = MemoryStore::default();
    pair
}

/// A first flight with a staple behind the chain and a request for a certificate before the end.
fn flight(chain: &[Vec<u8>], staple: &[u8], request: &[u8]) -> Vec<u8> {
    let mut messages = tls::server_flight(chain);
    messages.insert(2, message(22, staple));
    messages.insert(4, message(13, request));
    records(&messages, Layout::MessageARecord)
}

/// A full handshake with `name` through both proxies from this port: payload bytes of the server's
/// first flight that crossed.
fn handshake(pair: &mut Pair, port: u16, name: &str, flight: &[u8]) -> usize {
    let mut flow = Flow::default();
    flow.client.set_port(port);
    pair.open(&flow);
    let hello = client_hello(Some(name), 0);
    let at_server = pair.client(flow.client(0, &hello)).at_server;
    assert_eq!(payloads(&at_server), hello);
    flow.server_acked = hello.len() as u32;
    let before = pair.crossed.len();
    let mut at_client = Vec::new();
    for (index, piece) in flight.chunks(1_448).enumerate() {
        let arrived = pair.server(flow.server(index as u32 * 1_448, piece));
        at_client.extend(arrived.at_client);
    }
    assert_eq!(payloads(&at_client), flight, "to the byte");
    let crossed = pair.crossed[before..]
        .iter()
        .filter(|(port, _)| *port == Port::Left);
    let crossed: Vec<Vec<u8>> = crossed.map(|(_, packet)| packet.clone()).collect();
    flow.client_acked = flight.len() as u32;
    let answer = [
        record(22, 0x0303, &message(16, &noise(33, 300))),
        finished(301),
    ]
    .concat();
    pair.client(flow.client(hello.len() as u32, &answer));
    flow.server_acked += answer.len() as u32;
    pair.server(flow.server(flight.len() as u32, &finished(302)));
    // What was held back takes its leave with the next segment.
    flow.client_acked += finished(302).len() as u32;
    pair.client(flow.client((hello.len() + answer.len()) as u32, b"request"));
    payloads(&crossed).len()
}

/// What is new in each flight, whatever is held: hello, key exchange, headers.
const FRESH: usize = 500;

#[test]
fn a_staple_and_a_request_that_come_again_cost_one_reference_together() {
    let mut pair = strangers();
    let flight = flight(&chain(&[900, 700]), &noise(1_500, 7), &noise(2_000, 8));
    assert_eq!(handshake(&mut pair, 1, NAME, &flight), flight.len());
    let again = handshake(&mut pair, 2, NAME, &flight);
    assert!(again < FRESH, "{again} of {}", flight.len());
    // The far side need not hold any of it.
    *pair.server_side.proxy.store_mut() = MemoryStore::default();
    assert_eq!(handshake(&mut pair, 3, NAME, &flight), again);
}

#[test]
fn a_new_staple_crosses_and_the_request_beside_it_does_not() {
    let mut pair = strangers();
    let chain = chain(&[900, 700]);
    let request = noise(2_000, 8);
    let old = noise(1_500, 7);
    handshake(&mut pair, 1, NAME, &flight(&chain, &old, &request));
    // Signed anew: 300 bytes in the middle are others.
    let mut new = old.clone();
    new[500..800].copy_from_slice(&noise(300, 9));
    let flight = flight(&chain, &new, &request);
    let crossed = handshake(&mut pair, 2, NAME, &flight);
    assert!((300..300 + FRESH + 60).contains(&crossed), "{crossed}");
    // Where the far side lost the old one, all of the new one crosses.
    *pair.server_side.proxy.store_mut() = MemoryStore::default();
    let other = noise(1_500, 10);
    let flight = self::flight(&chain, &other, &request);
    let crossed = handshake(&mut pair, 3, NAME, &flight);
    assert!((3_500..3_500 + FRESH).contains(&crossed), "{crossed}");
}

#[test]
fn a_renewed_leaf_costs_what_is_new_in_it() {
    let mut pair = strangers();
    let old = chain(&[900, 700, 800]);
    let plain = |chain: &[Vec<u8>]| records(&tls::server_flight(chain), Layout::Packed(1 << 14));
    handshake(&mut pair, 1, NAME, &plain(&old));
    let mut new = old.clone();
    new[0][100..250].copy_from_slice(&noise(150, 20));
    new[0].truncate(880);
    let crossed = handshake(&mut pair, 2, NAME, &plain(&new));
    assert!((150..150 + FRESH + 40).contains(&crossed), "{crossed}");
    let crossed = handshake(&mut pair, 3, NAME, &plain(&new));
    assert!(crossed < FRESH, "{crossed}");
}

#[test]
fn first_contact_spares_issuers_that_other_sites_have_shown() {
    let mut pair = strangers();
    let plain = |chain: &[Vec<u8>]| records(&tls::server_flight(chain), Layout::MessageARecord);
    let one = chain(&[900, 700, 800]);
    handshake(&mut pair, 1, "one.example", &plain(&one));
    let mut other = one.clone();
    other[0] = noise(950, 30);
    // The far side is another one, which has seen nothing.
    *pair.server_side.proxy.store_mut() = MemoryStore::default();
    let crossed = handshake(&mut pair, 2, "other.example", &plain(&other));
    assert!((950..950 + FRESH).contains(&crossed), "{crossed}");
    assert_eq!(pair.client_side.count("hellos_nothing_held"), 2);
    assert_eq!(pair.client_side.count("hints_sent"), 2);
    // No name of a chain of another site has crossed.
    let held = pair.client_side.proxy.store_mut();
    let site =
        tandem_store::Site::Name(tandem_store::HostName::new("one.example").expect("a name"));
    let id = held.expected(Kind::Chain, &site, crate::support::TODAY, 1)[0].prefix4();
    let said = pair
        .crossed
        .iter()
        .any(|(_, packet)| packet.windows(id.len()).any(|window| window == id));
    assert!(!said);
}
