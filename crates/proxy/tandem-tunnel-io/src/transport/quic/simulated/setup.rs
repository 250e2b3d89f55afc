//! The handshake of the tunnel: which datagrams it takes, and what they cost.

use super::*;

#[test]
fn the_handshake_is_ten_datagrams_and_none_is_repeated() {
    // On the fastest link the server side asks before the client side can have said that its last
    // packets are there.
    for name in ["iridium", "certus-100", "geo-hts"] {
        let mut pair = Pair::new(link(name));
        pair.until(MINUTE, Pair::is_up);
        pair.pass(MINUTE * 10);
        // Two hellos each way, what the client has to pad, both ends of it, and acknowledgements.
        // Some numbers take a byte more or less from time to time.
        let carried = pair.counters();
        assert!(carried.up.packets == 5, "{name}: {}", pair.trace(0));
        assert!(carried.down.packets == 5, "{name}: {}", pair.trace(0));
        assert!(carried.up.ip_bytes <= 4_070, "{name}: {}", pair.trace(0));
        assert!(carried.down.ip_bytes <= 1_930, "{name}: {}", pair.trace(0));
        pair.assert_nothing_twice(0);
    }
}

#[test]
fn at_2400_bit_a_second_it_takes_fifteen_seconds_and_data_goes_with_its_end() {
    let mut pair = Pair::new(link("iridium"));
    let took = pair.until(MINUTE, |pair| !pair.client.machine().is_handshaking());
    assert!(took < Duration::from_secs(15), "{took:?}");
    let took = pair.exchange(500, 300);
    assert!(took < Duration::from_millis(7_300), "{took:?}");
    pair.pass(MINUTE * 10);
    pair.assert_nothing_twice(0);
}

#[test]
fn a_handshake_whose_datagrams_are_lost_completes() {
    for seed in 0..20 {
        let lossy = link("certus-100")
            .with_both(|way| way.loss = Loss::Independent(Probability::percent(20)));
        let (up, down) = stated(&lossy);
        let mut pair = Pair::with_lines(lossy, seed, &up, &down);
        pair.until(MINUTE * 3, Pair::is_up);
        pair.exchange(500, 300);
    }
}

#[test]
fn a_path_that_carries_no_more_than_quic_asks_for_carries_the_tunnel() {
    let narrow = link("certus-100").with_both(|way| way.mtu = 1_228);
    let mut pair = Pair::new(narrow);
    let took = pair.until(MINUTE, Pair::is_up);
    assert!(took < Duration::from_secs(12), "{took:?}");
    pair.exchange(500, 20_000);
    pair.exchange(20_000, 4);
}
