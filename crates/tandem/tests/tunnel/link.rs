//! Tunnel mode with `--link`: connections that would leave by an interface are taken in, in a
//! gateway and on the client itself; nothing else is, and the rules go.
//!
//! Root only; skipped, with a message, otherwise.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use crate::support::{common, real, tunnel_net, tunnel_pair};
use common::tandem;
use nix::sys::signal::Signal;
use real::{Family, Hold, TlsVersion, can_run, has, in_place_of, wait_until};
use tunnel_net::{Place, off, rules};
use tunnel_pair::Proxy;

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

/// TPROXY, and the tunnel alone is used.
const TPROXY: [&str; 4] = ["--intercept", "tproxy", "--when-down", "fail"];

#[test]
fn tproxy_takes_in_other_machines_without_a_rule_of_nat_for_them() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    // Strict, as distributions set it; and a firewall that drops by default, as in the operator's
    // guide.
    place.net.a.set("ipv4/conf/all/rp_filter", "1");
    for family in [Family::V4, Family::V6] {
        let rules = [
            "-A INPUT -i lan0 -p tcp -m addrtype ! --dst-type LOCAL -j ACCEPT",
            "-A INPUT -i lan0 -p tcp -j DROP",
        ];
        place.net.a.rules(family, "filter", &rules);
    }
    let before = rules(&place.net.a);
    let server_side = place.server_side();
    assert_eq!(checked(&place, "kernel"), "ok");
    let client_side = place.client_side_with(&TPROXY);
    for family in [Family::V4, Family::V6] {
        for (host, version) in [
            (&place.net.client, TlsVersion::Tls12),
            (&place.net.client, TlsVersion::Tls13),
            (&place.net.a, TlsVersion::Tls13),
        ] {
            let opened = place.client_side_counts("tunnel_relays_opened");
            let fetch = place.fetch_by(family).version(version);
            fetch.curl(host).is(&place.page);
            assert!(place.client_side_counts("tunnel_relays_opened") > opened);
        }
    }
    let in_force = rules(&place.net.a);
    let of_nat = ["iptables", "ip6tables"].map(|program| {
        let rules = place.net.a.run(&format!("{program} -t nat -S PREROUTING"));
        rules.contains("tandem")
    });
    assert_eq!(of_nat, [false; 2], "{in_force:?}");
    assert_eq!(checked(&place, "rules"), "ok");
    // CAP_NET_ADMIN and CAP_NET_RAW (capabilities(7)).
    let kept = client_side.capabilities();
    assert!(kept.iter().all(|set| *set == 0x3000), "{kept:x?}");
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.a), before);
    // Killed, it cannot take them away.
    let killed = place.client_side_with(&TPROXY);
    assert_eq!(killed.end(Signal::SIGKILL), None);
    wait_until("rules and routes are gone", || {
        rules(&place.net.a) == before
    });
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
}

/// Whom the services run as here; their own user is not one of this machine's.
const NOBODY: u32 = 65_534;

/// The same command as a service runs it that has these capabilities.
fn as_service(command: &Command, capabilities: &str) -> Command {
    let granted = capabilities.split(' ').map(|name| name.to_lowercase());
    let granted = granted.map(|name| name.replace("cap_", "+"));
    let granted = granted.collect::<Vec<_>>().join(",");
    let mut service = Command::new("setpriv");
    service
        .args(["--clear-groups", "--no-new-privs"])
        .args(["reuid", "regid"].map(|id| format!("--{id}={NOBODY}")));
    for set in ["inh-caps", "ambient-caps", "bounding-set"] {
        service.arg(format!("--{set}=-all,{granted}"));
    }
    service
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args());
    service
}

#[test]
fn what_the_package_s_example_grants_is_enough_for_both_services() {
    if !can_run() || !has(&["setpriv"]) {
        return;
    }
    let example = "../../packaging/examples/tunnel-firewall.conf";
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join(example);
    let example = fs::read_to_string(example).expect("it is part of the source");
    let granted = |name: &str| {
        let value = example.lines().find_map(|line| line.strip_prefix(name));
        value.expect("the example sets it")
    };
    let capabilities = granted("AmbientCapabilities=");
    assert_eq!(granted("CapabilityBoundingSet="), capabilities);
    let place = Place::new();
    let folder = place.net.directory.path();
    for path in [folder, &place.net.path("key")] {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let before = [&place.net.a, &place.net.b].map(rules);
    let mut server_side = place.server_side_command();
    server_side.args(["--out", "client", "--client-networks", "10.77.1.0/24"]);
    let server_side = Proxy::start(&mut as_service(&server_side, capabilities), |command| {
        place.net.b.spawn(command)
    });
    let mut client_side = place.client_side_command("store-a");
    client_side.args(["--tell-client-address", "--when-down", "fail"]);
    let client_side = Proxy::start(&mut as_service(&client_side, capabilities), |command| {
        place.net.a.spawn(command)
    });
    let fetch = place.fetch(TlsVersion::Tls13);
    fetch.curl(&place.net.client).is(&place.page);
    assert_eq!(place.server_side_counts("client_addresses_not_told"), 0);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    assert_eq!([&place.net.a, &place.net.b].map(rules), before);
}

/// What `tandem doctor` finds at A with TPROXY, of this.
#[track_caller]
fn checked(place: &Place, name: &str) -> String {
    let mut command = tandem(&["doctor", "--json", "client-side", "--mode", "tunnel"]);
    command.args(["--peer", &place.address(), "--link", "link0"]);
    command.args(TPROXY).arg("--key").arg(place.net.path("key"));
    command.arg("--store").arg(place.net.path("store-a"));
    let output = place.net.a.output(&mut command);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no {name} in {report}"));
    check["verdict"].as_str().expect("a word").to_owned()
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
fn a_proxy_that_is_killed_while_it_sets_its_rules_leaves_none() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let before = rules(&place.net.a);
    // Those of IPv4 are set by then.
    let (hold, script) = Hold::of(&place.net, "-A OUTPUT");
    let under = in_place_of(&place.net, "ip6tables-restore", &script);
    let mut command = place.client_side_command("store-a");
    let path = under[1].strip_prefix("PATH=").expect("a variable");
    let mut proxy = place.net.a.spawn(command.env("PATH", path));
    hold.wait();
    assert_ne!(rules(&place.net.a), before);
    proxy.kill().expect("ours");
    proxy.wait().expect("ours");
    // What sets rules outlives the proxy.
    hold.release();
    wait_until("the rules are gone", || rules(&place.net.a) == before);
}

#[test]
fn the_rules_of_the_guide_keep_connections_off_the_link_without_a_proxy_alone() {
    if !can_run() {
        return;
    }
    let guide = include_str!("../../../../docs/operating.md");
    let lines = guide.lines().map(str::trim);
    let standing = lines.filter(|line| line.ends_with("-j REJECT --reject-with tcp-reset"));
    let standing: Vec<&str> = standing.collect();
    assert_eq!(standing.len(), 2, "of FORWARD and of OUTPUT");
    let place = Place::new();
    let b = place.net.b_address(Family::V4).to_string();
    for line in standing {
        let line = line.replace("ppp0", "link0").replace("192.0.2.1", &b);
        place.net.a.run(&line);
    }
    let _server_side = place.server_side();
    let client_side = place.client_side();
    let fetch = place.fetch(TlsVersion::Tls12);
    let hosts = [&place.net.client, &place.net.a];
    for host in hosts {
        fetch.curl(host).is(&place.page);
    }
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    for host in hosts {
        let refused = fetch.clone().limit(10).curl(host);
        assert_ne!(refused.code, Some(0), "{refused:?}");
    }
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
