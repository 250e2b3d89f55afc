//! The client side comes from another address, and nobody has told either side: a NAT has forgotten
//! it, or the network is another.

use super::*;

const OTHER_PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 2_000);
const OTHER_NETWORK: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 1), 3_000);

#[test]
fn after_rest_a_new_address_costs_three_padded_packets_and_a_round_trip() {
    for name in LINKS {
        let mut pair = Pair::up(link(name));
        pair.exchange(500, 300);
        pair.pass(HOUR);
        let before = pair.counters().ip_bytes();
        pair.exchange(500, 300);
        pair.pass(MINUTE);
        let known = pair.counters().ip_bytes() - before;
        for address in [OTHER_PORT, OTHER_NETWORK] {
            pair.pass(HOUR);
            pair.rebind(address);
            let before = pair.counters().ip_bytes();
            let from = pair.carried.len();
            pair.exchange(500, 300);
            pair.pass(MINUTE);
            let cost = pair.counters().ip_bytes() - before;
            // A challenge to the old address and one to the new, and the answer to that; the
            // response travels with its challenge.
            assert!(
                cost < known + 3_350,
                "{name}: {cost} and {known} {}",
                pair.trace(from)
            );
        }
    }
}

/// A transfer whose client side gets another address in the middle.
fn transfer(name: &str, request: usize, response: usize, address: SocketAddrV4) {
    let mut pair = Pair::up(link(name));
    let rate = link(name).down.rate.expect("it has one").bits_per_second();
    let transfer = pair.ask(request, response);
    let half = request.max(response) as u64 * 4_000_000 / rate;
    pair.pass(Duration::from_micros(half));
    assert!(pair.response(transfer).done_at.is_none());
    pair.rebind(address);
    pair.finish(transfer, response, MINUTE * 5);
}

#[test]
fn a_transfer_goes_on_from_a_new_address() {
    for address in [OTHER_PORT, OTHER_NETWORK] {
        for (name, bytes) in [
            ("iridium", 40_000),
            ("certus-100", 200_000),
            ("tcdl-10", 500_000),
        ] {
            transfer(name, 100, bytes, address);
            transfer(name, bytes, 4, address);
        }
    }
}

#[test]
fn an_address_that_changes_with_each_exchange_is_followed() {
    let mut pair = Pair::up(link("certus-100"));
    for port in 2_000..2_020 {
        pair.rebind(SocketAddrV4::new(*OTHER_NETWORK.ip(), port));
        pair.exchange(500, 300);
        pair.pass(MINUTE);
    }
}
