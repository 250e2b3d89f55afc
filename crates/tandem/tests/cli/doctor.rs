//! `tandem doctor`: each problem is made for real and found, with what to do about it.
//!
//! Is not: what is read out of a daemon's counters (`src/command/doctor/counts.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::support::{common, real, split_site, tunnel_pair};
use common::{Ran, run, tandem};
use real::{Family, Net, Shape, can_run, wait_until};
use tunnel_pair::{KEYS, Pair, local, start, write_private};

/// Verdict, and what was found, by what was looked at. Every line that is not `ok` says what to do.
#[track_caller]
fn checks(ran: &Ran) -> BTreeMap<String, (String, String)> {
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("a list");
    let text =
        |check: &serde_json::Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    let checks = checks.iter().map(|check| {
        let verdict = text(check, "verdict");
        assert_eq!(verdict == "ok", text(check, "to_do").is_empty(), "{check}");
        (text(check, "name"), (verdict, text(check, "found")))
    });
    checks.collect()
}

#[track_caller]
fn verdict(ran: &Ran, name: &str) -> String {
    let checks = checks(ran);
    let check = checks.get(name);
    let (verdict, _) = check.unwrap_or_else(|| panic!("no {name} in {checks:?}"));
    verdict.clone()
}

/// `tandem doctor` for the client side of this pair, with this key.
fn client_side(pair: &Pair, key: &str) -> Command {
    let mut command = tandem(&["doctor", "--json", "client-side", "--mode", "tunnel"]);
    command
        .args(["--peer", &local(pair.listen)])
        .args(["--socks", &local(pair.socks)])
        .args(["--admin", &local(pair.client_side_admin())])
        .arg("--key")
        .arg(pair.path(key))
        .arg("--store")
        .arg(pair.path("store-a"));
    command
}

#[test]
fn without_link_key_and_daemon_each_is_a_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = tandem(&["doctor", "client-side", "--link", "tandem-none"]);
    command
        .args(["--admin", &local(split_site::free_port())])
        .arg("--key")
        .arg(folder.path().join("key"))
        .arg("--store")
        .arg(folder.path().join("store"));
    let shown = run(&mut command);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(shown.stdout.contains("-> `ip link`"), "{}", shown.stdout);
    assert!(shown.stderr.contains("3 problems"), "{}", shown.stderr);
    let ran = run(command.arg("--json"));
    assert_eq!(ran.code, Some(1));
    for name in ["link", "key", "daemon"] {
        assert_eq!(verdict(&ran, name), "problem", "{name}");
    }
    assert!(!folder.path().join("store").exists(), "nothing is made");
}

#[test]
fn settings_that_the_proxy_would_refuse_are_refused_as_by_the_proxy() {
    let ran = run(&mut tandem(&["doctor", "client-side"]));
    assert!(ran.failed_with(2).starts_with("link: "), "{ran:?}");
    let ran = run(&mut tandem(&["doctor", "server-side", "--mode", "tunnel"]));
    assert!(ran.failed_with(2).starts_with("listen: "), "{ran:?}");
    let client = ["client-side", "--peer", "192.0.2.1:4433"];
    let server = ["server-side", "--listen", "127.0.0.1:4433"];
    let socks = &["--socks", "127.0.0.1:1080"][..];
    for (side, flags, name) in [
        (client, &[][..], "link"),
        (client, &["--rule", "perhaps"], "rule"),
        (client, &["--dns-from", "10.0.0.0/8"], "--dns-from"),
        (client, &["--link-rtt", "0"], "link-rtt"),
        (client, &["--tariff", "/nowhere/tariff.toml"], "--tariff"),
        (server, &["--allow", "everything"], "allow"),
        (server, &["--dns-server", "somebody"], "dns-server"),
    ] {
        let way_in = if side == client && name != "link" {
            socks
        } else {
            &[]
        };
        let ran = run(&mut tandem(
            &[&["doctor"], &side[..], flags, way_in].concat(),
        ));
        assert!(ran.failed_with(2).contains(name), "{ran:?}");
    }
}

#[test]
fn a_pair_that_works_has_no_problem() {
    let pair = Pair::new();
    let server_side = start(&mut pair.server_side(1));
    // On a busy machine it may else run over TCP first, and over UDP later.
    let client_side_proxy = start(pair.client_side().args(["--link-rtt", "3000"]));
    wait_until("the tunnel is up", || {
        pair.client_side_shows("tunnels") > 0 && pair.server_side_counts("tunnels_up") > 0
    });
    let tunnels = pair.server_side_counts("tunnels_up");
    // The store's numbers come once a second.
    wait_until("no problem is found", || {
        run(&mut client_side(&pair, "key-0")).code == Some(0)
    });
    let ran = run(client_side(&pair, "key-0").arg("--probe"));
    let found = checks(&ran);
    assert_eq!(found["tunnel"].0, "ok", "{found:?}");
    assert_eq!(found["path"].0, "ok", "{found:?}");
    // It is known to be reached.
    assert!(!found.contains_key("peer"), "{found:?}");
    assert_eq!(pair.server_side_counts("tunnels_up"), tunnels);
    let admin = local(pair.client_side_admin());
    let running = run(&mut tandem(&["doctor", "--json", "--admin", &admin]));
    assert_eq!(verdict(&running, "tunnel"), "ok");
    drop((server_side, client_side_proxy));
}

#[test]
fn a_key_that_others_may_read_is_a_warning() {
    let pair = Pair::new();
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(pair.path("key-0"), open).expect("ours");
    let ran = run(&mut client_side(&pair, "key-0"));
    assert_eq!(verdict(&ran, "key"), "warning");
    // Nothing was sent to find out.
    assert_eq!(verdict(&ran, "peer"), "warning");
}

#[test]
fn a_peer_is_reached_refused_or_not_there() {
    let pair = Pair::new();
    let absent = run(client_side(&pair, "key-0").arg("--probe"));
    let (found, what) = &checks(&absent)["peer"];
    assert_eq!(found, "problem");
    assert!(what.contains("nobody listens"), "{what}");
    let _server_side = start(&mut pair.server_side(1));
    let reached = run(client_side(&pair, "key-0").arg("--probe"));
    let (found, what) = &checks(&reached)["peer"];
    assert_eq!(found, "ok", "{what}");
    let refused = run(client_side(&pair, "key-1").arg("--probe"));
    let (found, what) = &checks(&refused)["peer"];
    assert_eq!(found, "problem");
    assert!(what.contains("refused"), "{what}");
}

#[test]
fn without_probe_nothing_is_sent_to_the_peer() {
    let pair = Pair::new();
    let socket = UdpSocket::bind(local(pair.listen)).expect("a free port");
    run(&mut client_side(&pair, "key-0"));
    socket.set_nonblocking(true).expect("ours");
    assert!(socket.recv(&mut [0; 1]).is_err(), "nothing came");
}

#[test]
fn udp_that_is_blocked_is_silence() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    net.b.run("iptables -I INPUT -p udp --dport 4433 -j DROP");
    write_private(&net.path("key"), KEYS[0]);
    let peer = format!("{}:4433", net.b_address(Family::V4));
    let mut command = tandem(&["doctor", "--json", "--probe", "client-side"]);
    command
        .args(["--mode", "tunnel", "--link", "link0", "--peer", &peer])
        .arg("--key")
        .arg(net.path("key"))
        .arg("--store")
        .arg(net.path("store"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ran = net.a.spawn(&mut command).wait_with_output();
    let ran = Ran::new(ran.expect("it ends"));
    let found = checks(&ran);
    assert_eq!(found["peer"].0, "problem", "{found:?}");
    assert!(found["peer"].1.contains("does not answer"), "{found:?}");
    assert_eq!(found["link"].0, "ok", "{found:?}");
    assert_eq!(found["kernel"].0, "ok", "{found:?}");
}
