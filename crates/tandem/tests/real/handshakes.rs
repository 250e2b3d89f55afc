//! Handshakes of real programs through both daemons: warm ones are rewritten, and no endpoint can
//! tell; what packet mode leaves alone stays as it is.
//!
//! Is not: faults (`faults.rs`) or unfriendly paths (`paths.rs`). Root only; skipped,
//! with a message, otherwise.

use crate::support::real;
use real::*;

/// Both formats of what the proxies say to each other.
const WIRES: [&str; 2] = ["safe", "mcveety"];

/// What the servers serve.
const FILE: &str = "file";

fn served(net: &Net) -> Vec<u8> {
    let file = bytes(40_000);
    Server::publish(net, FILE, &file);
    file
}

#[test]
fn warm_handshakes_are_rewritten_on_gateways_and_at_the_endpoints_in_both_versions_of_ip() {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let _servers =
            [&net.server, &net.b].map(|host| Server::nginx(&net, host, &Site::default()));
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        let first = Fetch::new(net.server_address(Family::V4), FILE);
        first.curl(&net.client).is(&file);
        pair.wait_learned(1);
        for family in [Family::V4, Family::V6] {
            for client in [&net.client, &net.a] {
                for address in [net.server_address(family), net.b_address(family)] {
                    let fetch = Fetch::new(address, FILE);
                    pair.rewrites(&file, || fetch.curl(client));
                }
            }
        }
        pair.end(&net);
    }
}

/// What a server would send of this chain in TLS 1.3, compressed with Brotli (RFC 8879): the
/// message's head, algorithm and both lengths, and the compressed Certificate message.
fn compressed_certificate(chain: &[Vec<u8>]) -> usize {
    let entry = |der: &Vec<u8>| [&(der.len() as u32).to_be_bytes()[1..], der, &[0, 0]].concat();
    let entries: Vec<u8> = chain.iter().flat_map(entry).collect();
    let length = (entries.len() as u32).to_be_bytes();
    let mut message = &[&[0], &length[1..], &entries].concat()[..];
    let mut out = Vec::new();
    let params = brotli::enc::BrotliEncoderParams::default();
    brotli::BrotliCompress(&mut message, &mut out, &params).expect("it is compressed");
    4 + 2 + 3 + 3 + out.len()
}

#[test]
fn the_first_flight_of_two_empty_stores_crosses_shorter_than_a_certificate_compressed_by_its_server()
 {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = served(&net);
    let _server = Server::nginx(&net, &net.server, &Site::default());
    let chain = Pki::shared().certificates(KeyType::Rsa);
    let message = 4 + 3 + chain.iter().map(|der| 3 + der.len()).sum::<usize>();
    let compressed = compressed_certificate(&chain);
    // On a machine that is busy for longer than the daemons' patience a flight crosses as it is.
    let saved = (0..3).find_map(|tried| {
        let spec = PairSpec::new(&net);
        let spec = PairSpec {
            a: spec.a.store(net.path(&format!("a-{tried}"))),
            b: spec.b.store(net.path(&format!("b-{tried}"))),
        };
        let pair = Pair::start(&net, &spec);
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        fetch.curl(&net.client).is(&file);
        pair.wait_learned(1);
        assert_eq!(pair.a.counter("packet_hellos_nothing_held"), 1);
        let flights = pair.rewritten();
        let saved = pair.b.counter("packet_saved_bytes");
        pair.end(&net);
        (flights.written == 1 && flights.originals == 0).then_some(saved)
    });
    let saved = usize::try_from(saved.expect("it crosses rewritten")).expect("a flight");
    eprintln!(
        "a chain in a message of {message} bytes crosses in {}; compressed by its server {compressed}",
        message - saved
    );
    assert!(message - saved < compressed);
}

#[test]
fn warm_handshakes_of_all_versions_keys_and_clients_are_rewritten_and_the_endpoints_see_the_same_bytes()
 {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let _nginx = Server::nginx(
            &net,
            &net.server,
            &Site {
                tls: vec![(443, vec![KeyType::Rsa, KeyType::Ecdsa])],
                ..Site::default()
            },
        );
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        let captures = [(&net.client, "client.pcap"), (&net.server, "server.pcap")]
            .map(|(host, name)| Capture::start(host, "eth0", net.path(name)));
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        for (learned, key) in [KeyType::Rsa, KeyType::Ecdsa].into_iter().enumerate() {
            fetch.clone().key(key).curl(&net.client).is(&file);
            pair.wait_learned(learned as u64 + 1);
        }
        let mut connections = 2;
        for key in [KeyType::Rsa, KeyType::Ecdsa] {
            for version in [TlsVersion::Tls10, TlsVersion::Tls11, TlsVersion::Tls12] {
                let fetch = fetch.clone().key(key).version(version);
                connections += pair.rewrites(&file, || fetch.curl(&net.client));
                connections += pair.rewrites(&file, || fetch.s_client(&net.client));
            }
        }
        if has(&["gnutls-cli"]) {
            connections += pair.rewrites(&file, || fetch.gnutls(&net.client));
        }
        let [client, server] = captures.map(|capture| capture.streams(connections));
        assert_same_streams(&client, &server);
        // The server's kernel hands its flight to the gateway as one super-packet, so this was
        // tried too.
        assert!(server.values().any(|stream| stream.longest > 1500));
        pair.end(&net);
    }
}

#[test]
fn servers_with_a_record_for_each_message_are_rewritten() {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let tls12 = TlsVersion::Tls12;
        let _rsa = Server::openssl(&net, &net.server, 443, KeyType::Rsa, tls12);
        let _ecdsa = Server::openssl(&net, &net.server, 1443, KeyType::Ecdsa, tls12);
        let pair = Pair::start(
            &net,
            &PairSpec::new(&net)
                .wire(wire)
                .more(&["--ports", "443,1443,2443"]),
        );
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        for (learned, port) in [443, 1443].into_iter().enumerate() {
            let fetch = fetch.clone().port(port);
            fetch.curl(&net.client).is(&file);
            pair.wait_learned(learned as u64 + 1);
            pair.rewrites(&file, || fetch.curl(&net.client));
            pair.rewrites(&file, || fetch.s_client(&net.client));
            if has(&["gnutls-cli"]) {
                pair.rewrites(&file, || fetch.gnutls(&net.client));
            }
        }
        if has(&["gnutls-serv"]) {
            let _server = Server::gnutls(&net, &net.server, 2443, KeyType::Rsa, tls12);
            let fetch = fetch.clone().port(2443);
            let text = b"what is sent comes back\n";
            fetch.echoed(&net.client, text).is(text);
            pair.rewrites(text, || fetch.echoed(&net.client, text));
        }
        pair.end(&net);
    }
}

#[test]
fn a_staple_and_a_request_for_a_certificate_cross_once() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = served(&net);
    let pki = Pki::shared();
    let staple = pki.staple(KeyType::Rsa, &net.path(""));
    let issuers = pki.issuers();
    let text = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    let more = ["-verify", "4", "-CAfile", &text(&issuers), "-status_file"];
    let _server = Server::openssl_told(
        &net,
        &net.server,
        443,
        (KeyType::Rsa, TlsVersion::Tls12),
        &[&more[..], &[&text(&staple)]].concat(),
    );
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    let asking = fetch.clone().more(&["-status"]);
    // What one more handshake saves, when one like it was seen before.
    let mut learned = 0;
    let mut saved = |fetch: &Fetch| {
        fetch.s_client(&net.client).is(&file);
        learned += 1;
        pair.wait_learned(learned);
        let before = pair.b.counter("packet_saved_bytes");
        learned += pair.rewrites(&file, || fetch.s_client(&net.client)) as u64;
        pair.wait_learned(learned);
        pair.b.counter("packet_saved_bytes") - before
    };
    let (without, with) = (saved(&fetch), saved(&asking));
    let length = std::fs::metadata(&staple).expect("it was made").len();
    assert!(length > 300, "an OCSP response of {length} bytes");
    // The message's own header and length are spared too; the request was in both.
    assert!(
        (without + length..without + length + 30).contains(&with),
        "{without}, {with}, {length}"
    );
    pair.end(&net);
}

#[test]
fn a_client_that_shows_a_certificate_of_its_own_is_served() {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let site = Site {
            asks_clients: Some(443),
            ..Site::default()
        };
        let _nginx = Server::nginx(&net, &net.server, &site);
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        let pki = Pki::shared();
        let (cert, key) = (pki.chain(KeyType::Ecdsa), pki.key(KeyType::Ecdsa));
        let fetch = Fetch::new(net.server_address(Family::V4), FILE).more(&[
            "--cert",
            cert.to_str().expect("UTF-8"),
            "--key",
            key.to_str().expect("UTF-8"),
        ]);
        fetch.curl(&net.client).is(&file);
        pair.wait_learned(1);
        pair.rewrites(&file, || fetch.curl(&net.client));
        // One that shows none is refused by the server, as it would be without proxies.
        let refused = Fetch::new(fetch.address, FILE).curl(&net.client);
        assert_eq!(refused.code, Some(22), "{refused:?}");
        pair.end(&net);
    }
}

#[test]
fn a_clients_chain_crosses_once_and_the_endpoints_see_the_same_bytes() {
    if !can_run() {
        return;
    }
    // The filter has no place in the thesis's messages.
    for (wire, how) in [
        ("safe", "persistent"),
        ("mcveety", "persistent"),
        ("safe", "filter"),
    ] {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let site = Site {
            asks_clients: Some(443),
            ..Site::default()
        };
        let _nginx = Server::nginx(&net, &net.server, &site);
        let pair = Pair::start(
            &net,
            &PairSpec::new(&net)
                .wire(wire)
                .more(&["--client-certificates", how]),
        );
        let captures = [(&net.client, "client.pcap"), (&net.server, "server.pcap")]
            .map(|(host, name)| Capture::start(host, "eth0", net.path(name)));
        let pki = Pki::shared();
        let (cert, key) = (pki.chain(KeyType::Ecdsa), pki.key(KeyType::Ecdsa));
        let (cert, key) = (cert.to_str().expect("UTF-8"), key.to_str().expect("UTF-8"));
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        let curl = fetch.clone().more(&["--cert", cert, "--key", key]);
        let s_client = fetch
            .clone()
            .more(&["-cert", cert, "-cert_chain", cert, "-key", key]);
        curl.curl(&net.client).is(&file);
        for daemon in [&pair.a, &pair.b] {
            daemon.wait_for("packet_client_chains_learned", 1);
        }
        assert_eq!(
            pair.rewritten_answers().written,
            0,
            "nothing is known at first"
        );
        let mut connections = 1;
        for version in [TlsVersion::Tls10, TlsVersion::Tls12] {
            let [curl, s_client] = [&curl, &s_client].map(|fetch| fetch.clone().version(version));
            connections += pair.rewrites_answer(&file, || curl.curl(&net.client));
            connections += pair.rewrites_answer(&file, || s_client.s_client(&net.client));
        }
        let [client, server] = captures.map(|capture| capture.streams(connections));
        assert_same_streams(&client, &server);
        pair.end(&net);
    }
}

#[test]
fn a_client_that_announces_its_certificate_is_spared_it_where_the_servers_side_holds_it() {
    if !can_run() {
        return;
    }
    let Some(keytap) = keytap() else {
        return;
    };
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let site = Site {
            asks_clients: Some(443),
            ..Site::default()
        };
        let _nginx = Server::nginx(&net, &net.server, &site);
        let spec = PairSpec::new(&net)
            .wire(wire)
            .more(&["--client-certificates", "cii"]);
        let pair = Pair::start(&net, &spec);
        let captures = [(&net.client, "client.pcap"), (&net.server, "server.pcap")]
            .map(|(host, name)| Capture::start(host, "eth0", net.path(name)));
        let pki = Pki::shared();
        let (cert, key) = (pki.chain(KeyType::Ecdsa), pki.key(KeyType::Ecdsa));
        let silent = Fetch::new(net.server_address(Family::V4), FILE).more(&[
            "--cert",
            cert.to_str().expect("UTF-8"),
            "--key",
            key.to_str().expect("UTF-8"),
        ]);
        let announcing = silent.clone().preload(keytap.clone());
        announcing.curl(&net.client).is(&file);
        for daemon in [&pair.a, &pair.b] {
            daemon.wait_for("packet_client_chains_learned", 1);
        }
        assert_eq!(pair.b.counter("packet_intentions_not_held"), 1);
        let mut connections = 1;
        for _ in 0..2 {
            connections += pair.rewrites_answer(&file, || announcing.curl(&net.client));
        }
        assert!(pair.a.counter("packet_intentions_confirmed") >= 2);
        let before = pair.rewritten_answers();
        silent.curl(&net.client).is(&file);
        assert_eq!(pair.rewritten_answers(), before);
        let [client, server] = captures.map(|capture| capture.streams(connections + 1));
        assert_same_streams(&client, &server);
        pair.end(&net);
    }
}

#[test]
fn tls_1_3_and_clear_text_stay_as_they_are_and_no_server_s_flight_of_a_resumed_session_is_rewritten()
 {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let _tls = Server::nginx(&net, &net.server, &Site::default());
        let clear = Site {
            tls: Vec::new(),
            clear: vec![443],
            ..Site::default()
        };
        let _clear = Server::nginx(&net, &net.b, &clear);
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        let captures = [(&net.client, "client.pcap"), (&net.server, "server.pcap")]
            .map(|(host, name)| Capture::start(host, "eth0", net.path(name)));
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        fetch.curl(&net.client).is(&file);
        pair.wait_learned(1);

        let ticket = net.path("ticket");
        let ticket = ticket.to_str().expect("UTF-8");
        let full = fetch.clone().more(&["-sess_out", ticket]);
        let full = pair.rewrites(&file, || full.s_client(&net.client));
        let before = pair.rewritten();

        let resumed = fetch.clone().more(&["-sess_in", ticket]);
        for _ in 0..2 {
            resumed.s_client(&net.client).is(&file);
        }
        for _ in 0..2 {
            let fetch = fetch.clone().version(TlsVersion::Tls13);
            fetch.curl(&net.client).is(&file);
            fetch.s_client(&net.client).is(&file);
        }
        for _ in 0..2 {
            let fetch = Fetch::new(net.b_address(Family::V4), FILE);
            fetch.curl_clear(&net.client).is(&file);
        }
        assert_eq!(pair.rewritten(), before);
        for (name, least) in [("resumed", 2), ("tls13", 4), ("not_tls", 2)] {
            let name = format!("packet_flows_given_up_{name}");
            pair.a.wait_for(&name, least);
            pair.b.wait_for(&name, least);
        }
        let [client, server] = captures.map(|capture| capture.streams(full + 7));
        let with_server: std::collections::BTreeMap<_, _> = client
            .into_iter()
            .filter(|((from, to), _)| [from, to].iter().any(|end| end.ip() == fetch.address))
            .collect();
        assert_same_streams(&with_server, &server);
        pair.end(&net);
    }
}

#[test]
fn a_server_of_tls_1_3_is_offered_nothing_after_three_connections_of_a_client() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = served(&net);
    let _server = Server::nginx(&net, &net.server, &Site::default());
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    let opaque = fetch.clone().version(TlsVersion::Tls13);
    for made in 1..=3 {
        opaque.curl(&net.client).is(&file);
        pair.a.wait_for("packet_flows_given_up_tls13", made);
    }
    // A gauge is brought up to date now and then.
    wait_until("the server is left alone", || {
        pair.a.gauge("servers_without_gain") == 1
    });
    for made in 1..=3 {
        opaque.curl(&net.client).is(&file);
        pair.a
            .wait_for("packet_flows_given_up_nothing_to_gain", made);
        // No option of ours crossed.
        pair.b.wait_for("packet_flows_given_up_no_answer", made);
    }
    assert_eq!(pair.a.counter("packet_flows_with_peer"), 3);
    assert_eq!(pair.b.counter("packet_flows_with_peer"), 3);
    // Another client's account is its own.
    pair.rewrites(&file, || fetch.curl(&net.a));
    pair.end(&net);
}

#[test]
fn a_client_with_tiny_segments_gets_rebuilt_flights_in_its_size() {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let _nginx = Server::nginx(&net, &net.server, &Site::default());
        // A hello of 517 bytes takes two segments, the server's flight nine of the ten that it may
        // send at first (RFC 6928).
        net.client.run("ip link set eth0 mtu 450");
        net.a.run("ip link set lan0 mtu 450");
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        let captures = [(&net.client, "client.pcap"), (&net.server, "server.pcap")]
            .map(|(host, name)| Capture::start(host, "eth0", net.path(name)));
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        fetch.curl(&net.client).is(&file);
        pair.wait_learned(1);
        let mut connections = 1;
        if wire == "safe" {
            connections += pair.rewrites(&file, || fetch.curl(&net.client));
        } else {
            // The thesis's announcement needs a hello in one segment.
            fetch.curl(&net.client).is(&file);
            connections += 1;
        }
        let [client, server] = captures.map(|capture| capture.streams(connections));
        assert_same_streams(&client, &server);
        pair.end(&net);
    }
}

#[test]
fn a_flight_larger_than_the_servers_first_window_is_not_held_for_long() {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        // About 28 kB of certificates: more than ten segments (RFC 6928), less than what may be
        // held.
        let site = Site {
            issuers: 15,
            ..Site::default()
        };
        let _nginx = Server::nginx(&net, &net.server, &site);
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        fetch.curl(&net.client).is(&file);
        pair.wait_learned(1);
        for _ in 0..2 {
            fetch.curl(&net.client).is(&file);
        }
        assert_eq!(pair.rewritten().written, 0);
        // The first window's ten segments at least, both times.
        pair.b.wait_for("packet_hold_released_bytes", 2 * 10 * 1400);
        pair.end(&net);
    }
}

#[test]
fn a_four_tuple_that_is_used_again_is_a_new_connection() {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        let _nginx = Server::nginx(&net, &net.server, &Site::default());
        // Two ports to choose from, which the client's kernel gives out again while they are in
        // TIME_WAIT (RFC 6191), and which connection tracking on both gateways meets again.
        net.client.set("ipv4/tcp_tw_reuse", "1");
        net.client.set("ipv4/ip_local_port_range", "40000 40001");
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        fetch.curl(&net.client).is(&file);
        pair.wait_learned(1);
        for _ in 0..5 {
            let mut fetched = None;
            wait_until("a port is given out again", || {
                let next = fetch.curl(&net.client);
                // 7: the kernel has no port to connect from.
                let made = next.code != Some(7);
                fetched = Some(next);
                made
            });
            fetched.expect("one was made").is(&file);
        }
        let rewritten = pair.rewritten();
        assert!(rewritten.written >= 4, "{rewritten:?}");
        assert_eq!(pair.a.counter("packet_flows_opened"), 6);
        pair.end(&net);
    }
}

#[test]
fn fast_open_is_left_alone() {
    if !can_run() {
        return;
    }
    for wire in WIRES {
        let net = Net::new(Shape::Wire);
        let file = served(&net);
        for host in [&net.client, &net.server] {
            host.set("ipv4/tcp_fastopen", "3");
        }
        let site = Site {
            listen: "fastopen=64",
            ..Site::default()
        };
        let _nginx = Server::nginx(&net, &net.server, &site);
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        fetch.curl(&net.client).is(&file);
        pair.wait_learned(1);
        let before = pair.rewritten();
        let open = fetch.clone().more(&["--tcp-fastopen"]);
        // The first asks for a cookie, the others send their hello with the SYN.
        for _ in 0..3 {
            open.curl(&net.client).is(&file);
        }
        assert!(
            net.server.tcp_counter("TCPFastOpenPassive") >= 2,
            "Fast Open was at work"
        );
        pair.a.wait_for("packet_flows_given_up_foreign_syn", 3);
        assert_eq!(pair.rewritten(), before);
        pair.rewrites(&file, || fetch.curl(&net.client));
        pair.end(&net);
    }
}
