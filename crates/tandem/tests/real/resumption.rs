//! Sessions that real clients resume by a ticket (RFC 5077), through both daemons over an emulated
//! link: what their hellos are spared, and what becomes of them when a server or a daemon has
//! started anew.
//!
//! Root only; skipped, with a message, otherwise.

use std::path::Path;

use crate::support::real;
use nix::sys::signal::Signal;
use real::*;

const FILE: &str = "file";

/// Of so many connections the one with the fewest bytes counts: on a busy machine something may be
/// sent again.
const TRIES: usize = 3;

/// A client that keeps its session there, and one that comes back with it.
fn sessions(fetch: &Fetch, ticket: &Path) -> [Fetch; 2] {
    let ticket = ticket.to_str().expect("UTF-8");
    ["-sess_out", "-sess_in"].map(|word| fetch.clone().more(&[word, ticket]))
}

/// TLS bytes that crossed the link from the client's side for one such connection.
fn least_sent(net: &Net, file: &[u8], fetch: &Fetch) -> u64 {
    let sent = || net.emulator().counters().up.tls_bytes;
    let one = |_| {
        let before = sent();
        fetch.s_client(&net.client).is(file);
        sent() - before
    };
    (0..TRIES).map(one).min().unwrap_or_default()
}

/// Waits until both daemons have counted so much.
fn both(pair: &Pair, counter: &str, least: u64) {
    pair.a.wait_for(counter, least);
    pair.b.wait_for(counter, least);
}

#[test]
fn a_session_that_is_resumed_sends_its_ticket_once_and_the_endpoints_see_the_same_bytes() {
    if !can_run() {
        return;
    }
    for server in ["nginx", "s_server"] {
        let net = Net::emulated(link(1_000_000, 30), 7);
        let file = bytes(1_000);
        Server::publish(&net, FILE, &file);
        let _server = match server {
            "nginx" => Server::nginx(&net, &net.server, &Site::default()),
            _ => Server::openssl(&net, &net.server, 443, KeyType::Rsa, TlsVersion::Tls12),
        };
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        let [first, again] = sessions(&fetch, &net.path("ticket"));
        first.s_client(&net.client).is(&file);
        let plain = least_sent(&net, &file, &again);

        let pair = Pair::start(&net, &PairSpec::new(&net));
        let captures = [(&net.client, "client.pcap"), (&net.server, "server.pcap")]
            .map(|(host, name)| Capture::start(host, "eth0", net.path(name)));
        first.s_client(&net.client).is(&file);
        both(&pair, "packet_session_tickets_learned", 1);
        let ours = least_sent(&net, &file, &again);
        both(&pair, "packet_flows_given_up_resumed", TRIES as u64);
        assert!(pair.a.counter("packet_session_tickets_referred") >= 1);
        assert!(pair.b.counter("packet_flights_rebuilt_bytes") >= 1);
        assert_eq!(pair.b.counter("packet_misses_sent"), 0);
        println!("{server}: {plain} TLS bytes of a resumed session's client, {ours} with us");
        // Tickets of OpenSSL have 160 bytes and more; a frame with a reference takes 45 at most.
        // The client's last alert, 31 bytes, may cross after its end.
        assert!(ours + 70 <= plain, "{server}: {ours} of {plain} bytes");
        let [client, server] = captures.map(|capture| capture.streams(1 + TRIES));
        assert_same_streams(&client, &server);
        pair.end(&net);
    }
}

#[test]
fn a_server_or_a_daemon_that_has_started_anew_costs_no_connection() {
    if !can_run() {
        return;
    }
    let net = Net::emulated(link(1_000_000, 30), 8);
    let file = bytes(1_000);
    Server::publish(&net, FILE, &file);
    let nginx = Server::nginx(&net, &net.server, &Site::default());
    let spec = PairSpec::new(&net);
    let pair = Pair::start(&net, &spec);
    let captures = [(&net.client, "client.pcap"), (&net.server, "server.pcap")]
        .map(|(host, name)| Capture::start(host, "eth0", net.path(name)));
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    let [first, again] = sessions(&fetch, &net.path("ticket"));
    first.s_client(&net.client).is(&file);
    both(&pair, "packet_session_tickets_learned", 1);

    // The server's side forgets tickets with its process: one miss, and from then on they are known
    // again.
    let Pair { a, b } = pair;
    assert_eq!(b.end(Signal::SIGTERM).code, Some(0));
    let pair = Pair {
        a,
        b: Daemon::start(&net.b, &spec.b),
    };
    again.s_client(&net.client).is(&file);
    pair.a.wait_for("packet_session_tickets_missed", 1);
    both(&pair, "packet_flows_given_up_resumed", 1);
    again.s_client(&net.client).is(&file);
    both(&pair, "packet_flows_given_up_resumed", 2);
    assert_eq!(pair.a.counter("packet_session_tickets_missed"), 1);

    // Another key for tickets: the server takes none of before, and shows its certificates.
    drop(nginx);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let finished = pair.a.counter("packet_handshakes_finished");
    again.s_client(&net.client).is(&file);
    pair.a.wait_for("packet_handshakes_finished", finished + 1);
    let [client, server] = captures.map(|capture| capture.streams(4));
    assert_same_streams(&client, &server);
    pair.end(&net);
}
