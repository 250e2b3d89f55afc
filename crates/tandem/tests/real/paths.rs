//! Unfriendly paths: address translation and firewalls between the proxies and on their own boxes,
//! options taken away, loss, reordering, duplication, corruption, a smaller MTU, fragments. Real
//! programs get the right bytes on all of them.
//!
//! Is not: proxies that fail (`faults.rs`). Root only; skipped, with a message, otherwise.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::support::real;
use nix::sys::signal::Signal;
use real::*;
use tandem_netsim::Probability;
use tandem_netsim::link::{
    Corruption, Duplication, GilbertElliott, LinkConfig, Loss, Oversize, Reordering,
};

const FILE: &str = "file";

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// What a careful administrator writes: nothing but connections that clients open to servers, and
/// nothing that connection tracking does not know.
const STRICT: [&str; 4] = [
    "-P FORWARD DROP",
    "-A FORWARD -m conntrack --ctstate INVALID -j DROP",
    "-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
    "-A FORWARD -p tcp --dport 443 --syn -m conntrack --ctstate NEW -j ACCEPT",
];

fn served(net: &Net, length: usize) -> Vec<u8> {
    let file = bytes(length);
    Server::publish(net, FILE, &file);
    file
}

/// A router in the middle that `prepare` makes unfriendly, and a server with a file.
fn scene(prepare: impl FnOnce(&Net)) -> (Net, Server, Vec<u8>) {
    let net = Net::new(Shape::Router);
    let file = served(&net, 50_000);
    let nginx = Server::nginx(&net, &net.server, &Site::default());
    prepare(&net);
    (net, nginx, file)
}

fn strict_firewall(host: &Host) {
    for family in FAMILIES {
        host.rules(family, "filter", &STRICT);
    }
}

/// A pair learns the chain by the first connection to `address`, and each later one is rewritten,
/// in either version of IP.
fn is_warm(net: &Net, pair: &Pair, file: &[u8], addresses: [IpAddr; 2]) {
    Fetch::new(addresses[0], FILE).curl(&net.client).is(file);
    pair.wait_learned(1);
    for address in addresses {
        let fetch = Fetch::new(address, FILE);
        pair.rewrites(file, || fetch.curl(&net.client));
        pair.rewrites(file, || fetch.s_client(&net.client));
    }
}

fn servers(net: &Net) -> [IpAddr; 2] {
    FAMILIES.map(|family| net.server_address(family))
}

/// Nothing was refused by the firewalls of these hosts, and nothing by the client's TCP.
#[track_caller]
fn nothing_was_refused<'h>(net: &Net, hosts: impl IntoIterator<Item = &'h Host>) {
    for host in hosts {
        assert_eq!(host.hits("--ctstate INVALID"), 0, "{}", host.name());
    }
    assert_eq!(net.client.tcp_counter("PAWSEstab"), 0);
}

#[test]
fn a_nat_with_a_strict_firewall_between_the_proxies_passes_rewritten_flights() {
    if !can_run() {
        return;
    }
    for wire in ["safe", "mcveety"] {
        let (net, _nginx, file) = scene(|net| {
            strict_firewall(net.middle());
            for family in FAMILIES {
                net.middle()
                    .rules(family, "nat", &["-A POSTROUTING -o east -j MASQUERADE"]);
            }
        });
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        is_warm(&net, &pair, &file, servers(&net));
        assert!(
            net.middle().hits("MASQUERADE") > 0,
            "the NAT has been at work"
        );
        nothing_was_refused(&net, [net.middle()]);
        pair.end(&net);
    }
}

#[test]
fn translation_on_the_proxies_own_boxes_does_not_disturb_them() {
    if !can_run() {
        return;
    }
    for wire in ["safe", "mcveety"] {
        // The outer addresses that B's box has for the server, in TEST-NET-1 (RFC 5737) and the
        // documentation prefix (RFC 3849).
        let outer: [IpAddr; 2] = [
            Ipv4Addr::new(192, 0, 2, 80).into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x80).into(),
        ];
        let (net, _nginx, file) = scene(|net| {
            for host in [&net.a, net.middle(), &net.b] {
                strict_firewall(host);
            }
            for (family, outer) in FAMILIES.into_iter().zip(outer) {
                let inner = net.server_address(family);
                let to = match inner {
                    IpAddr::V4(inner) => format!("{inner}:443"),
                    IpAddr::V6(inner) => format!("[{inner}]:443"),
                };
                net.a
                    .rules(family, "nat", &["-A POSTROUTING -o link0 -j MASQUERADE"]);
                let inwards = format!(
                    "-A PREROUTING -d {outer} -p tcp --dport 443 -j DNAT --to-destination {to}"
                );
                net.b.rules(
                    family,
                    "nat",
                    &[&inwards, "-A POSTROUTING -o lan0 -j MASQUERADE"],
                );
                net.route_over_the_link(outer);
            }
        });
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        is_warm(&net, &pair, &file, servers(&net));
        is_warm(&net, &pair, &file, outer);
        for (host, rule) in [
            (&net.a, "MASQUERADE"),
            (&net.b, "MASQUERADE"),
            (&net.b, "DNAT"),
        ] {
            assert!(host.hits(rule) > 0, "{rule} has been at work");
        }
        nothing_was_refused(&net, [&net.a, net.middle(), &net.b]);
        pair.end(&net);
    }
}

#[test]
fn a_flight_that_nobody_rebuilds_is_made_good_through_nat_and_strict_firewalls() {
    if !can_run() {
        return;
    }
    let net = Net::emulated(fast(1), 3);
    let file = served(&net, 5_000);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    for host in [&net.a, &net.b] {
        strict_firewall(host);
    }
    net.a.rules(
        Family::V4,
        "nat",
        &["-A POSTROUTING -o link0 -j MASQUERADE"],
    );
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    net.change_link(fast(300));
    let written = pair.b.counter("packet_flights_written");
    std::thread::scope(|scope| {
        let connection = scope.spawn(|| fetch.curl(&net.client));
        pair.b.wait_for("packet_flights_written", written + 1);
        pair.a.end(Signal::SIGKILL);
        connection.join().expect("it does not panic").is(&file);
    });
    assert_eq!(pair.b.counter("packet_flows_given_up_failsafe"), 1);
    assert!(net.client.tcp_counter("PAWSEstab") > 0);
}

#[test]
fn without_timestamps_nothing_is_rewritten_and_all_is_well() {
    if !can_run() {
        return;
    }
    let (net, _nginx, file) = scene(|net| net.client.set("ipv4/tcp_timestamps", "0"));
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    for _ in 0..3 {
        fetch.curl(&net.client).is(&file);
    }
    pair.a.wait_for("packet_flows_given_up_no_timestamps", 3);

    // The other end has the same say.
    net.client.set("ipv4/tcp_timestamps", "1");
    net.server.set("ipv4/tcp_timestamps", "0");
    for _ in 0..3 {
        fetch.curl(&net.client).is(&file);
    }
    assert_eq!(pair.rewritten().written, 0);

    // With both, it goes on.
    net.server.set("ipv4/tcp_timestamps", "1");
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}

#[test]
fn where_options_are_taken_away_nothing_is_rewritten_and_all_is_well() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Router);
    let file = served(&net, 20_000);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch.curl(&net.client));

    let middle = net.middle();
    let strip = |which: &str, options: &str| {
        format!("-A FORWARD -p tcp {which} -j TCPOPTSTRIP --strip-options {options}")
    };
    let has_target = middle
        .try_rules(Family::V4, "mangle", &[&strip("", "253")])
        .is_ok();
    if has_target {
        for rule in [
            // Proxies' options everywhere; from SYNs only; from SYN/ACKs only; from all but those.
            strip("", "253"),
            strip("--tcp-flags SYN,ACK SYN", "253"),
            strip("--tcp-flags SYN,ACK SYN,ACK", "253"),
            strip("! --syn -i west", "253"),
            // Timestamps from SYNs, so that the ends do without; the proxies' option stays.
            strip("--tcp-flags SYN,ACK SYN", "timestamp"),
            strip("--tcp-flags SYN,ACK SYN,ACK", "timestamp"),
            // Everything but the size of segments, as some firewalls do.
            strip("--tcp-flags SYN SYN", "253,timestamp,sack-permitted,wscale"),
        ] {
            middle.rules(Family::V4, "mangle", &["-F FORWARD", &rule]);
            let before = pair.rewritten();
            for _ in 0..2 {
                fetch.curl(&net.client).is(&file);
            }
            assert_eq!(pair.rewritten(), before, "{rule}");
            assert!(middle.hits("TCPOPTSTRIP") > 0, "{rule}");
        }
    } else {
        skipped("needs a kernel with the target TCPOPTSTRIP");
    }

    // A firewall that drops what it does not know: the SYN is repeated without the option.
    middle.rules(
        Family::V4,
        "mangle",
        &["-F FORWARD", "-A FORWARD -p tcp --tcp-option 253 -j DROP"],
    );
    let before = pair.rewritten();
    fetch.curl(&net.client).is(&file);
    assert_eq!(pair.rewritten(), before);
    assert!(middle.hits("tcp-option 253") > 0);

    // And what is harmless does not matter.
    middle.rules(
        Family::V4,
        "mangle",
        &[
            "-F FORWARD",
            "-A FORWARD -p tcp --syn -j TCPMSS --set-mss 900",
        ],
    );
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}

#[test]
fn a_smaller_mtu_of_the_link_and_fragments_are_no_obstacle() {
    if !can_run() {
        return;
    }
    for wire in ["safe", "mcveety"] {
        let (net, nginx, file) = scene(|net| {
            net.b.run("ip link set link0 mtu 1280");
            net.middle().run("ip link set east mtu 1280");
        });
        let pair = Pair::start(&net, &PairSpec::new(&net).wire(wire));
        // Found out by the server from B's ICMP messages.
        is_warm(&net, &pair, &file, servers(&net));
        // Its next sockets let routers fragment (IPv4 only), and B does.
        drop(nginx);
        net.server.set("ipv4/ip_no_pmtu_disc", "1");
        net.server.run("ip route flush cache");
        let _nginx = Server::nginx(&net, &net.server, &Site::default());
        let fragmented = net.b.ip_counter("FragCreates");
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        fetch.curl(&net.client).is(&file);
        pair.rewrites(&file, || fetch.curl(&net.client));
        assert!(
            net.b.ip_counter("FragCreates") > fragmented,
            "nothing was fragmented"
        );
        pair.end(&net);
    }
}

#[test]
fn an_mtu_that_drops_in_the_middle_is_found_out_as_without_proxies() {
    if !can_run() {
        return;
    }
    let told = |mut config: LinkConfig| {
        config = config.with_both(|direction| {
            direction.mtu = 1280;
            direction.oversize = Oversize::TellSender {
                v4: Ipv4Addr::new(10, 77, 2, 9),
                v6: Ipv6Addr::new(0xfd77, 2, 0, 0, 0, 0, 0, 9),
            };
        });
        config
    };
    let black_hole = |config: LinkConfig| config.with_both(|direction| direction.mtu = 1280);
    let jobs = [true, false].map(|tells| {
        move || {
            let net = Net::emulated(fast(30), 4);
            let file = served(&net, 300_000);
            let _nginx = Server::nginx(&net, &net.server, &Site::default());
            // A sender finds a black hole by itself only where it looks for one (RFC 4821).
            net.server.set("ipv4/tcp_mtu_probing", "1");
            let pair = Pair::start(&net, &PairSpec::new(&net));
            let fetch = Fetch::new(net.server_address(Family::V4), FILE);
            fetch.curl(&net.client).is(&file);
            pair.wait_learned(1);
            std::thread::scope(|scope| {
                let connections: Vec<_> = (0..8)
                    .map(|_| {
                        let connection = scope.spawn(|| fetch.curl(&net.client));
                        std::thread::sleep(Duration::from_millis(40));
                        connection
                    })
                    .collect();
                net.change_link(if tells {
                    told(fast(30))
                } else {
                    black_hole(fast(30))
                });
                for connection in connections {
                    connection.join().expect("it does not panic").is(&file);
                }
            });
            let dropped = net.emulator().counters().down.dropped_oversize;
            assert!(dropped > 0, "no packet was too long");
            fetch.curl(&net.client).is(&file);
            pair.end(&net);
        }
    });
    all(2, jobs);
}

#[test]
fn where_one_direction_takes_another_way_nothing_is_rewritten_and_all_is_well() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = served(&net, 20_000);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    net.second_way();
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch.curl(&net.client));
    let before = pair.rewritten();

    // Answers take the other way.
    net.b.run("ip route replace 10.77.1.0/24 via 10.77.9.1");
    for _ in 0..2 {
        fetch.curl(&net.client).is(&file);
    }
    // And requests instead.
    net.b.run("ip route replace 10.77.1.0/24 via 10.77.2.1");
    net.a.run("ip route replace 10.77.3.0/24 via 10.77.9.2");
    for _ in 0..2 {
        fetch.curl(&net.client).is(&file);
    }
    assert_eq!(pair.rewritten(), before);

    // In the middle of connections, the ways change again and again.
    std::thread::scope(|scope| {
        let connections: Vec<_> = (0..20)
            .map(|number| {
                let connection = scope.spawn(|| fetch.curl(&net.client));
                let [there, back] = [["10.77.2.2", "10.77.9.2"], ["10.77.2.1", "10.77.9.1"]];
                net.a.run(&format!(
                    "ip route replace 10.77.3.0/24 via {}",
                    there[number % 2]
                ));
                net.b.run(&format!(
                    "ip route replace 10.77.1.0/24 via {}",
                    back[number / 2 % 2]
                ));
                connection
            })
            .collect();
        for connection in connections {
            connection.join().expect("it does not panic").is(&file);
        }
    });
    net.a.run("ip route replace 10.77.3.0/24 via 10.77.2.2");
    net.b.run("ip route replace 10.77.1.0/24 via 10.77.2.1");
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}

#[test]
fn a_firewall_that_is_emptied_or_forgets_its_connections_costs_none() {
    if !can_run() {
        return;
    }
    let net = Net::emulated(fast(40), 5);
    let file = served(&net, 400_000);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let mut pair = Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    let meets = |what: &dyn Fn()| {
        std::thread::scope(|scope| {
            let connections: Vec<_> = (0..10)
                .map(|_| {
                    let connection = scope.spawn(|| fetch.curl(&net.client));
                    std::thread::sleep(Duration::from_millis(40));
                    connection
                })
                .collect();
            what();
            for connection in connections {
                connection.join().expect("it does not panic").is(&file);
            }
        });
    };
    if has(&["conntrack"]) {
        // The marks by which connections have left the queue go with it: they come back to the
        // queue, and leave again.
        meets(&|| {
            for host in [&net.a, &net.b] {
                let _ = host.output(std::process::Command::new("conntrack").args(["-F"]));
            }
        });
        pair.rewrites(&file, || fetch.curl(&net.client));
    }
    // Somebody reloads a firewall of his own.
    for host in [&net.a, &net.b] {
        meets(&|| {
            for family in FAMILIES {
                host.rules(family, "mangle", &["-F"]);
            }
        });
        assert!(pair.a.is_alive() && pair.b.is_alive());
    }
    fetch.curl(&net.client).is(&file);
    // The daemons notice, and set theirs again.
    for daemon in [&pair.a, &pair.b] {
        daemon.wait_for("rules_restored", 2);
        daemon.wait_for_log("took Tandem's rules out of the firewall");
    }
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}

/// Eight connections at a time over such a link, all well, until one of them is rewritten: where
/// the first SYN or its answer is lost, the flow goes on without the proxies. Two flights in a row
/// that are lost look like a device that withholds them: then nothing is rewritten for a while.
fn survives(config: LinkConfig, seed: u64) {
    const AT_ONCE: usize = 8;
    const ROUNDS: usize = 4;
    let net = Net::emulated(fast(5), seed);
    let file = served(&net, 6_000);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let pair = Pair::start(&net, &PairSpec::new(&net));
    // A capture sees damaged packets too, and does not tell them from the others.
    let captures = (config.down.corruption == Corruption::default()).then(|| {
        [(&net.client, "client.pcap"), (&net.server, "server.pcap")]
            .map(|(host, name)| Capture::start(host, "eth0", net.path(name)))
    });
    let fetch = Fetch::new(net.server_address(Family::V4), FILE).limit(100);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    net.change_link(config);
    let is_stopped = || pair.b.gauge("stopped_paths") > 0;
    let mut connections = 1;
    for _ in 0..ROUNDS {
        connections += AT_ONCE;
        all(
            AT_ONCE,
            (0..AT_ONCE).map(|_| || fetch.curl(&net.client).is(&file)),
        );
        if pair.rewritten().rebuilt > 0 {
            break;
        }
    }
    assert!(
        pair.rewritten().rebuilt > 0 || is_stopped(),
        "no flight was rewritten"
    );
    net.change_link(fast(5));
    if is_stopped() {
        fetch.curl(&net.client).is(&file);
        connections += 1;
    } else {
        connections += pair.rewrites(&file, || fetch.curl(&net.client));
    }
    if let Some(captures) = captures {
        let [client, server] = captures.map(|capture| capture.streams(connections));
        assert_same_streams(&client, &server);
    }
    pair.end(&net);
}

fn percent(share: u8) -> Probability {
    Probability::percent(share)
}

fn losing(share: u8) -> LinkConfig {
    fast(20).with_both(|direction| direction.loss = Loss::Independent(percent(share)))
}

#[test]
fn handshakes_complete_over_links_that_lose_packets() {
    if !can_run() {
        return;
    }
    let bursts = fast(20).with_both(|direction| {
        direction.loss = Loss::GilbertElliott(GilbertElliott {
            good_to_bad: percent(4),
            bad_to_good: percent(25),
            loss_in_good: Probability::NEVER,
            loss_in_bad: Probability::ALWAYS,
        });
    });
    let jobs = [losing(0), losing(10), losing(30), bursts]
        .into_iter()
        .zip(1..)
        .map(|(config, seed)| move || survives(config, seed));
    all(4, jobs);
}

#[test]
fn handshakes_complete_over_links_that_reorder_repeat_and_damage_packets() {
    if !can_run() {
        return;
    }
    let reordering = fast(20).with_both(|direction| {
        direction.reordering = Reordering {
            probability: percent(30),
            extra_delay: Duration::from_millis(15),
        };
    });
    let repeating = fast(20).with_both(|direction| {
        direction.duplication = Duplication {
            probability: percent(50),
            after: Duration::from_millis(10),
        };
    });
    // Copies that come seconds later.
    let echoing = fast(20).with_both(|direction| {
        direction.duplication = Duplication {
            probability: percent(50),
            after: Duration::from_secs(2),
        };
    });
    let damaging = fast(20).with_both(|direction| {
        direction.corruption = Corruption {
            probability: percent(10),
            ..Corruption::default()
        };
    });
    let everything = fast(20).with_both(|direction| {
        direction.loss = Loss::Independent(percent(5));
        direction.reordering = reordering.up.reordering;
        direction.duplication = repeating.up.duplication;
        direction.corruption = damaging.up.corruption;
    });
    let jobs = [reordering, repeating, echoing, damaging, everything]
        .into_iter()
        .zip(10..)
        .map(|(config, seed)| move || survives(config, seed));
    all(5, jobs);
}
