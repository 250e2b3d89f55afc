//! At rest: nothing is sent, and the first data afterwards goes at once and costs what data cost.

use super::*;

/// A request and a response as a TLS handshake has them, and what its packets cost, each way
/// together, acknowledgements too.
fn handshake(pair: &mut Pair) -> u64 {
    let before = pair.counters().ip_bytes();
    pair.exchange(500, 300);
    pair.pass(MINUTE * 5);
    pair.counters().ip_bytes() - before
}

#[test]
fn a_day_costs_nothing_in_either_direction() {
    for name in LINKS {
        let mut pair = Pair::up(link(name));
        pair.exchange(500, 20_000);
        pair.pass(MINUTE * 5);
        let before = pair.counters();
        pair.pass(HOUR * 23 + MINUTE * 54);
        assert_eq!(pair.counters(), before, "{name}");
        assert_eq!(pair.client.lost, None);
        assert_eq!(pair.server.lost, None);
    }
}

#[test]
fn the_first_data_after_rest_is_in_the_first_packet_and_costs_as_when_awake() {
    for name in LINKS {
        let mut pair = Pair::up(link(name));
        handshake(&mut pair);
        let awake = handshake(&mut pair);
        for rest in [HOUR, HOUR * 23] {
            pair.pass(rest);
            let first = pair.carried.len();
            let asked = pair.now;
            let cost = handshake(&mut pair);
            assert!(
                cost <= awake + 60,
                "{name}: {cost} after {rest:?}, {awake} before"
            );
            let first = &pair.carried[first];
            assert_eq!(first.at, asked);
            assert!(first.content.contains("STREAM"), "{}", first.content);
            // 500 bytes of request, and 62 of which IP and UDP are 28.
            assert!(first.len <= 562 + 4, "{name}: {}", first.len);
        }
    }
}

#[test]
fn a_connection_that_rests_for_longer_than_a_day_ends_on_both_sides_without_a_packet() {
    let mut pair = Pair::up(link("iridium"));
    pair.exchange(500, 300);
    pair.pass(MINUTE * 5);
    let before = pair.counters();
    pair.pass(HOUR * 25);
    assert_eq!(pair.counters(), before);
    assert_eq!(pair.client.lost, Some(ConnectionError::TimedOut));
    assert_eq!(pair.server.lost, Some(ConnectionError::TimedOut));
}
