//! One proxy without the other, with another's key, or with another format: found out before
//! anything is rewritten, and the connections of real programs are as without proxies.
//!
//! Is not: a proxy that goes away in the middle of a handshake (`faults.rs`). Root only;
//! skipped, with a message, otherwise.

use crate::support::real;
use nix::sys::signal::Signal;
use real::*;

const FILE: &str = "file";

/// A net with a server, and what it serves.
fn with_server() -> (Net, Server, Vec<u8>) {
    let net = Net::new(Shape::Wire);
    let file = bytes(20_000);
    Server::publish(&net, FILE, &file);
    let nginx = Server::nginx(&net, &net.server, &Site::default());
    (net, nginx, file)
}

/// Both versions of IP, forwarded and from the gateway itself.
fn connections_are_well(net: &Net, file: &[u8]) -> u64 {
    let mut made = 0;
    for family in [Family::V4, Family::V6] {
        let fetch = Fetch::new(net.server_address(family), FILE);
        for client in [&net.client, &net.a] {
            fetch.curl(client).is(file);
            fetch
                .clone()
                .version(TlsVersion::Tls13)
                .curl(client)
                .is(file);
            made += 2;
        }
    }
    made
}

fn fetch(net: &Net) -> Fetch {
    Fetch::new(net.server_address(Family::V4), FILE)
}

#[test]
fn a_client_side_alone_does_no_harm_and_finds_the_other_when_it_appears() {
    if !can_run() {
        return;
    }
    let (net, _nginx, file) = with_server();
    let spec = PairSpec::new(&net);
    let a = Daemon::start(&net.a, &spec.a);
    let made = connections_are_well(&net, &file);
    a.wait_for("packet_flows_given_up_no_answer", made);
    assert_eq!(a.counter("packet_flows_with_peer"), 0);

    let b = Daemon::start(&net.b, &spec.b);
    let pair = Pair { a, b };
    fetch(&net).curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch(&net).curl(&net.client));

    // It goes in good order, and the client side holds a chain that nobody asks for.
    let ended = pair.b.end(Signal::SIGTERM);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let rebuilt = pair.a.counter("packet_flights_rebuilt_bytes");
    connections_are_well(&net, &file);
    assert_eq!(pair.a.counter("packet_flights_rebuilt_bytes"), rebuilt);

    // Back without its store: it needs nothing of its own to write what the other holds.
    let b = Daemon::start(&net.b, &spec.b.clone().store(net.path("another-store")));
    let pair = Pair { a: pair.a, b };
    pair.rewrites(&file, || fetch(&net).curl(&net.client));
    pair.end(&net);
}

#[test]
fn a_server_side_alone_does_no_harm_and_finds_the_other_when_it_appears() {
    if !can_run() {
        return;
    }
    for wire in ["safe", "mcveety"] {
        let (net, _nginx, file) = with_server();
        let spec = PairSpec::new(&net).wire(wire);
        let b = Daemon::start(&net.b, &spec.b);
        let made = connections_are_well(&net, &file);
        match wire {
            "safe" => b.wait_for("packet_flows_given_up_no_answer", made),
            _ => b.wait_for("packet_flows_opened", made),
        }
        assert_eq!(b.counter("packet_flights_written"), 0);

        let a = Daemon::start(&net.a, &spec.a);
        let pair = Pair { a, b };
        fetch(&net).curl(&net.client).is(&file);
        pair.a.wait_for("packet_chains_learned", 1);
        pair.rewrites(&file, || fetch(&net).curl(&net.client));

        let ended = pair.a.end(Signal::SIGTERM);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let written = pair.b.counter("packet_flights_written");
        connections_are_well(&net, &file);
        assert_eq!(pair.b.counter("packet_flights_written"), written);
    }
}

#[test]
fn proxies_with_different_keys_do_not_see_each_other() {
    if !can_run() {
        return;
    }
    let (net, _nginx, file) = with_server();
    let spec = PairSpec::new(&net);
    // Both have held the chain since they had the same key.
    let pair = Pair::start(&net, &spec);
    fetch(&net).curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch(&net).curl(&net.client));
    pair.end(&net);

    let other = PairSpec {
        b: spec.b.clone().key(1),
        ..spec.clone()
    };
    let pair = Pair::start(&net, &other);
    let made = connections_are_well(&net, &file);
    pair.b.wait_for("packet_options_refused", made);
    pair.a.wait_for("packet_flows_given_up_no_answer", made);
    assert_eq!(pair.rewritten().written, 0);
    assert_eq!(pair.rewritten().rebuilt, 0);
    pair.end(&net);

    // And the other way round: only one of them goes without a key.
    let none = PairSpec {
        a: Spec {
            key: None,
            ..spec.a.clone()
        },
        ..spec
    };
    let pair = Pair::start(&net, &none);
    connections_are_well(&net, &file);
    assert_eq!(pair.rewritten().written, 0);
    pair.end(&net);
}

#[test]
fn proxies_without_a_key_see_each_other_and_say_that_it_is_for_trials() {
    if !can_run() {
        return;
    }
    let (net, _nginx, file) = with_server();
    let spec = PairSpec::new(&net);
    let pair = Pair::start(
        &net,
        &PairSpec {
            a: Spec {
                key: None,
                ..spec.a
            },
            b: Spec {
                key: None,
                ..spec.b
            },
        },
    );
    pair.a.wait_for_log("WARN");
    fetch(&net).curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch(&net).curl(&net.client));
    pair.end(&net);
}

#[test]
fn proxies_with_different_formats_leave_each_others_connections_alone() {
    if !can_run() {
        return;
    }
    let (net, _nginx, file) = with_server();
    let spec = PairSpec::new(&net);
    let warm = Pair::start(&net, &spec);
    fetch(&net).curl(&net.client).is(&file);
    warm.wait_learned(1);
    warm.end(&net);

    // The client side holds the chain, and gets no answer to its option.
    let pair = Pair::start(
        &net,
        &PairSpec {
            a: spec.a.clone(),
            b: spec.b.clone().wire("mcveety"),
        },
    );
    let made = connections_are_well(&net, &file);
    pair.a.wait_for("packet_flows_given_up_no_answer", made);
    assert_eq!(pair.rewritten().written, 0);
    pair.end(&net);

    // The thesis's client side finds out nothing and announces what it holds to whoever is there:
    // with a store, its format needs its partner (documented). Without one it has nothing to
    // announce.
    let pair = Pair::start(
        &net,
        &PairSpec {
            a: spec.a.wire("mcveety").store(net.path("empty-store")),
            b: spec.b,
        },
    );
    for version in [TlsVersion::Tls13, TlsVersion::Tls12] {
        fetch(&net).version(version).curl(&net.client).is(&file);
    }
    assert_eq!(pair.rewritten().written, 0);
    pair.end(&net);
}
