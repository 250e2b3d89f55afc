//! Tunnel mode while the other side is away: what `--link` takes in goes to its servers without the
//! tunnel, or fails, as `--when-down` says; and uses the tunnel again when it is back.
//!
//! Root only; skipped, with a message, otherwise.

use crate::support::{common, real, tunnel_net, tunnel_pair};
use common::tandem;
use nix::sys::signal::Signal;
use real::{Host, TlsVersion, can_run, wait_until};
use tunnel_net::Place;
use tunnel_pair::Proxy;

/// TCP connections that crossed the tunnel.
const OPENED: &str = "tunnel_relays_opened";
/// TCP connections that went to their server because the tunnel was down.
const PASSED: &str = "relays_passed_without_tunnel";
/// TCP connections that failed because there was no tunnel.
const FAILED: &str = "relays_without_tunnel";
/// What the log says when the tunnel is down.
const GONE_WITHOUT: &str = "go to their servers without it";

/// Fetches until one crosses the tunnel.
#[track_caller]
fn uses_the_tunnel(place: &Place, host: &Host) {
    let before = place.client_side_counts(OPENED);
    wait_until("the tunnel is used", || {
        fetch(place, host);
        place.client_side_counts(OPENED) > before
    });
}

#[track_caller]
fn fetch(place: &Place, host: &Host) {
    place.fetch(TlsVersion::Tls13).curl(host).is(&place.page);
}

/// How often the log of a proxy says this.
fn said(proxy: &Proxy, words: &str) -> usize {
    proxy.log().matches(words).count()
}

#[test]
fn a_far_side_that_ends_in_order_is_gone_without_and_used_again_when_it_is_back() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let hosts = [&place.net.client, &place.net.a];
    let server_side = place.server_side();
    let client_side = place.client_side_with(&[]);
    uses_the_tunnel(&place, &place.net.client);
    // On a busy machine the first ones may have come before it was up.
    let [opened, passed] = [OPENED, PASSED].map(|name| place.client_side_counts(name));
    let gone_without = said(&client_side, GONE_WITHOUT);
    for host in hosts {
        fetch(&place, host);
    }
    assert_eq!(place.client_side_counts(OPENED), opened + 2);
    assert_eq!(place.client_side_counts(PASSED), passed);
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    wait_until("the tunnel has ended", || {
        place.client_side_shows("tunnels") == 0
    });
    for round in 1..=5 {
        // The daemon's own connection is one of A, as that of A's own program is.
        for host in hosts {
            fetch(&place, host);
        }
        assert_eq!(place.client_side_counts(PASSED), passed + 2 * round);
    }
    assert_eq!(place.client_side_counts(OPENED), opened + 2);
    let status = place.net.a.output(&mut tandem(&["status"]));
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    let line = status.lines().find(|line| line.contains("tunnel_down"));
    assert!(line.is_some_and(|line| line.ends_with(" 1")), "{status}");
    wait_until("it is said", || {
        said(&client_side, GONE_WITHOUT) > gone_without
    });
    let times = said(&client_side, GONE_WITHOUT) - gone_without;
    assert_eq!(times, 1, "once, for all of them");

    let _server_side = place.server_side();
    uses_the_tunnel(&place, &place.net.client);
    let passed = place.client_side_counts(PASSED);
    fetch(&place, &place.net.a);
    assert_eq!(place.client_side_counts(PASSED), passed);
    client_side.wait_for_log("use the tunnel again");
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_far_side_that_falls_silent_is_gone_without_and_used_again_when_it_is_back() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let client = &place.net.client;
    let server_side = place.server_side();
    let client_side = place.client_side_with(&[]);
    uses_the_tunnel(&place, client);
    assert_eq!(server_side.end(Signal::SIGKILL), None);
    let passed = place.client_side_counts(PASSED);
    // Whoever comes before that is known waits in the tunnel; the next ones get through.
    wait_until("pages come without the tunnel", || {
        let limited = place.fetch(TlsVersion::Tls13).limit(3);
        limited.curl(client).code == Some(0)
    });
    assert!(place.client_side_counts(PASSED) > passed);
    fetch(&place, client);
    let _server_side = place.server_side();
    uses_the_tunnel(&place, client);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn before_the_other_side_is_there_pages_come_without_it_or_not_as_the_operator_says() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let client = &place.net.client;
    let passing = place.client_side_with(&[]);
    for _ in 0..6 {
        fetch(&place, client);
    }
    assert_eq!(place.client_side_counts(PASSED), 6);
    assert_eq!(passing.end(Signal::SIGTERM), Some(0));

    let failing = place.client_side();
    let fetched = place.fetch(TlsVersion::Tls13).limit(15);
    let fetched = fetched.curl(client);
    assert_ne!(fetched.code, Some(0), "{fetched:?}");
    assert_eq!(place.client_side_counts(PASSED), 0);
    let _server_side = place.server_side();
    uses_the_tunnel(&place, client);
    assert_eq!(place.client_side_counts(FAILED), 0);
    assert_eq!(failing.end(Signal::SIGTERM), Some(0));
}
