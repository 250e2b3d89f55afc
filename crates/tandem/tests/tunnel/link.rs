//! Tunnel mode with `--link`: connections that would leave by an interface are taken in, in a
//! gateway and on the client itself; nothing else is, and the rules go.
//!
//! Root only; skipped, with a message, otherwise.

use crate::support::{real, tunnel_net};
use nix::sys::signal::Signal;
use real::{Family, TlsVersion, can_run};
use tunnel_net::{Place, off, rules};

/// Counts what the client side rebuilt.
const REBUILT: &str = "tunnel_flights_rebuilt";

#[test]
fn clients_without_a_proxy_setting_are_taken_in_and_their_pages_are_the_same() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let (before, at_b) = (rules(&place.net.a), rules(&place.net.b));
    let server_side = place.server_side();
    let client_side = place.client_side();
    let mut rebuilt = Vec::new();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for host in [&place.net.client, &place.net.a] {
            place.fetch(version).curl(host).is(&place.page);
            rebuilt.push(place.client_side_counts(REBUILT));
        }
    }
    // The second handshake of TLS 1.2 is the first that crosses short.
    assert!(rebuilt[1] > rebuilt[0], "{rebuilt:?}");
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.a), before);
    // Without it, connections go the usual way.
    let fetch = place.fetch(TlsVersion::Tls12);
    fetch.curl(&place.net.client).is(&place.page);
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.b), at_b);
}

#[test]
fn other_ports_and_other_interfaces_are_left_alone() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    // Nobody answers at B: what is taken in fails.
    let client_side = place.client_side();
    let fetch = place.fetch(TlsVersion::Tls12);
    let clear = fetch.clone().port(80);
    clear.curl_clear(&place.net.client).is(&place.page);
    clear.curl_clear(&place.net.a).is(&place.page);
    let taken = fetch.limit(3).curl(&place.net.client);
    assert_ne!(taken.code, Some(0), "{taken:?}");
    place.net.second_way();
    let server = place.net.server_address(Family::V4);
    place
        .net
        .a
        .run(&format!("ip route add {server}/32 via 10.77.9.2"));
    let fetch = place.fetch(TlsVersion::Tls12);
    fetch.curl(&place.net.a).is(&place.page);
    fetch.curl(&place.net.client).is(&place.page);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn rules_that_a_killed_proxy_left_go_at_the_next_start_or_by_tandem_off() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    // Rules of somebody else's, which stay.
    let others = ["-A FORWARD -p tcp -m tcp --dport 7 -j DROP"];
    place.net.a.rules(Family::V4, "filter", &others);
    let before = rules(&place.net.a);
    let _server_side = place.server_side();
    assert_eq!(place.client_side().end(Signal::SIGKILL), None);
    let next = place.client_side();
    let fetch = place.fetch(TlsVersion::Tls12);
    fetch.curl(&place.net.client).is(&place.page);
    assert_eq!(next.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.a), before);

    assert_eq!(place.client_side().end(Signal::SIGKILL), None);
    off(&place.net.a);
    assert_eq!(rules(&place.net.a), before);

    let running = place.client_side();
    let said = off(&place.net.a);
    assert!(said.contains("client-side"), "{said}");
    assert_eq!(running.end_by_itself(), Some(0));
    assert_eq!(rules(&place.net.a), before);
}

#[test]
fn a_second_proxy_on_the_same_link_is_told_so() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let client_side = place.client_side();
    let output = place
        .net
        .a
        .output(place.client_side_command("other").args(["--admin", "none"]));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let in_force = rules(&place.net.a);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_ne!(rules(&place.net.a), in_force);
}
