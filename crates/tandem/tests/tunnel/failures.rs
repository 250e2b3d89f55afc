//! What a user sees when something is wrong with a command line or a settings file of tunnel mode:
//! one line that says what to do, and the documented exit code.
//!
//! Nothing here needs root, and no run lasts.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::{common, tunnel_pair};
use common::{Ran, run, tandem};
use tunnel_pair::{Pair, local};

/// A run of `tandem ROLE --mode tunnel` with these flags.
fn tunnel(role: &str, more: &[&str]) -> Ran {
    run(&mut tandem(&[&[role, "--mode", "tunnel"], more].concat()))
}

/// The same, with this key.
fn with_key(pair: &Pair, role: &str, more: &[&str]) -> Ran {
    let key = pair.path("key-0");
    let key = key.to_str().expect("temporary paths are UTF-8");
    let store = pair.path("store");
    let store = store.to_str().expect("temporary paths are UTF-8");
    tunnel(role, &[&["--key", key, "--store", store], more].concat())
}

const PEER: [&str; 2] = ["--peer", "192.0.2.1:4433"];
const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];
const SOCKS: [&str; 2] = ["--socks", "127.0.0.1:0"];

#[test]
fn a_flag_of_packet_mode_is_refused_by_name() {
    let pair = Pair::new();
    for flag in [
        &["--wire", "safe"][..],
        &["--cii-extension", "0x9a"],
        &["--insecure-no-key"],
        &["--max-flows", "7"],
    ] {
        let more = [flag, &PEER, &SOCKS].concat();
        let ran = with_key(&pair, "client-side", &more);
        let expected = format!("{} needs --mode packet", flag[0]);
        assert_eq!(ran.failed_with(2), expected);
    }
    for flag in [["--link", "lo"], ["--ports", "443"]] {
        let ran = with_key(&pair, "server-side", &[flag, LISTEN].concat());
        let expected = format!("{} needs --mode packet", flag[0]);
        assert_eq!(ran.failed_with(2), expected);
    }
}

#[test]
fn what_packet_mode_alone_does_with_client_certificates_is_refused() {
    let pair = Pair::new();
    let settings = pair.path("settings.toml");
    for how in ["cii", "filter"] {
        let flag = ["--client-certificates", how];
        fs::write(&settings, format!("client-certificates = \"{how}\"\n")).expect("ours");
        let file = ["--config", settings.to_str().expect("UTF-8")];
        for said in [flag, file] {
            for (role, more) in [
                ("client-side", [&said[..], &PEER, &SOCKS].concat()),
                ("server-side", [&said[..], &LISTEN].concat()),
            ] {
                let ran = with_key(&pair, role, &more);
                let expected = format!(
                    "client-certificates: `{how}` needs --mode packet; tunnel mode has \
                     `persistent` and `none`"
                );
                assert_eq!(ran.failed_with(2), expected);
            }
        }
    }
}

#[test]
fn a_flag_of_tunnel_mode_is_refused_by_name_in_packet_mode() {
    let client = [
        SOCKS,
        ["--http-proxy", "127.0.0.1:0"],
        ["--link-rate", "64k"],
        ["--link-rtt", "600"],
        ["--authorities", "/a.pem"],
        ["--from", "lan0"],
        ["--rule", "refuse"],
        ["--client-limit", "50M"],
        ["--tariff", "tariff.toml"],
        ["--dns", "127.0.0.1:0"],
        ["--dns-from", "10.0.0.0/8"],
        ["--when-down", "fail"],
        ["--intercept", "tproxy"],
        ["--udp", "reject"],
    ];
    let server = [
        ["--allow", "10.0.0.0/8"],
        ["--out", "own"],
        ["--client-networks", "10.1.0.0/16"],
        ["--dns-server", "none"],
        ["--handshake-keys", "/run/keys"],
        ["--link-rtt", "600"],
        ["--authorities", "/a.pem"],
    ];
    let refused = |role: &str, mode: &[&str], flag: [&str; 2], needs: &str| {
        let words = [&[role, "--link", "lo"], mode, &flag[..]].concat();
        let ran = run(&mut tandem(&words));
        let expected = format!("{} needs {needs}", flag[0]);
        assert_eq!(ran.failed_with(2), expected);
    };
    let packet = ["--mode", "packet"];
    let tunnel = "--mode tunnel";
    for flag in client {
        refused("client-side", &packet, flag, tunnel);
        // Without the other side's address it comes to packet mode by itself.
        refused("client-side", &[], flag, "--peer");
    }
    for flag in server {
        refused("server-side", &packet, flag, tunnel);
        refused("server-side", &["--mode", "auto"], flag, "--listen");
    }
    refused("client-side", &packet, PEER, tunnel);
    refused("server-side", &packet, LISTEN, tunnel);
    // With both, a server side would have to be two.
    let ran = run(tandem(&["server-side", "--link", "lo"]).args(LISTEN));
    assert_eq!(ran.failed_with(2), "--link needs --mode packet");
}

#[test]
fn who_knows_the_other_side_needs_no_mode() {
    let pair = Pair::new();
    for mode in [&[][..], &["--mode", "auto"]] {
        for (role, more) in [
            ("client-side", [PEER, SOCKS].concat()),
            ("server-side", LISTEN.to_vec()),
        ] {
            let mut command = tandem(&[&[role, "--dry-run"], mode, &more].concat());
            command.arg("--key").arg(pair.path("key-0"));
            command.arg("--store").arg(pair.path("store"));
            let ran = run(&mut command);
            assert!(ran.succeeded().contains("no rules"), "{ran:?}");
        }
    }
}

#[test]
fn a_flag_of_the_other_side_is_unknown() {
    let ran = tunnel("server-side", &SOCKS);
    assert!(ran.failed_with(2).contains("'--socks'"), "{ran:?}");
    let ran = tunnel("client-side", &LISTEN);
    assert!(ran.failed_with(2).contains("'--listen'"), "{ran:?}");
}

#[test]
fn what_is_missing_is_named() {
    let pair = Pair::new();
    let ran = with_key(&pair, "client-side", &PEER);
    let line = ran.failed_with(2);
    for way in ["--link", "--socks", "--http-proxy", "--dns"] {
        assert!(line.contains(way), "{way} in {line}");
    }
    let ran = with_key(&pair, "client-side", &SOCKS);
    assert!(ran.failed_with(2).starts_with("peer: "), "{ran:?}");
    let ran = with_key(&pair, "server-side", &[]);
    assert!(ran.failed_with(2).starts_with("listen: "), "{ran:?}");
    for (role, more) in [
        ("client-side", [PEER, SOCKS].concat()),
        ("server-side", LISTEN.to_vec()),
    ] {
        let ran = tunnel(role, &more);
        assert!(ran.failed_with(2).contains("tandem pair"), "{ran:?}");
    }
    for flag in [
        ["--ports", "443"],
        ["--from", "lan0"],
        ["--when-down", "pass"],
        ["--intercept", "tproxy"],
        ["--udp", "pass"],
    ] {
        let more = [PEER, SOCKS, flag].concat();
        let ran = with_key(&pair, "client-side", &more);
        let expected = format!("{} needs --link", flag[0]);
        assert_eq!(ran.failed_with(2), expected);
    }
    let more = [PEER, SOCKS, ["--dns-from", "10.0.0.0/8"]].concat();
    let ran = with_key(&pair, "client-side", &more);
    assert_eq!(ran.failed_with(2), "--dns-from needs --dns");
}

#[test]
fn values_that_cannot_be_are_named() {
    let pair = Pair::new();
    for (flag, value) in [
        ("--link-rate", "0"),
        ("--link-rate", "fast"),
        ("--link-rtt", "0"),
        ("--client-limit", "much"),
        ("--peer", "here"),
        ("--socks", "1080"),
        ("--admin", "here"),
        ("--link", "no such link"),
        ("--dns", "127.0.0.1"),
        // A reply from another address than the one that was asked is no reply.
        ("--dns", "0.0.0.0:53"),
        ("--dns", "[::]:53"),
    ] {
        let more = [&PEER[..], &SOCKS, &[flag, value]].concat();
        // A flag given twice is a mistake of its own.
        let more: Vec<&str> = match flag {
            "--peer" => [&SOCKS[..], &[flag, value]].concat(),
            "--socks" => [&PEER[..], &[flag, value]].concat(),
            _ => more,
        };
        let ran = with_key(&pair, "client-side", &more);
        let name = flag.trim_start_matches('-');
        assert!(ran.failed_with(2).contains(name), "{ran:?}");
    }
    for value in ["10.0.0.0/33", "example.org", "10.0.0.0/8:", "10.0.0.0/8:0"] {
        let more = [&LISTEN[..], &["--allow", value]].concat();
        let ran = with_key(&pair, "server-side", &more);
        assert!(ran.failed_with(2).contains("allow"), "{value}: {ran:?}");
    }
    for value in ["lan0", "10.0.0.1/8", ""] {
        let more = [PEER, ["--dns", "127.0.0.1:0"], ["--dns-from", value]].concat();
        let ran = with_key(&pair, "client-side", &more);
        let line = ran.failed_with(2);
        assert!(line.starts_with(&format!("dns-from: `{value}`")), "{line}");
    }
    for value in ["192.0.2.1", "dns.example:53", "nobody"] {
        let more = [LISTEN, ["--dns-server", value]].concat();
        let ran = with_key(&pair, "server-side", &more);
        let line = ran.failed_with(2);
        assert!(
            line.starts_with(&format!("dns-server: `{value}`")),
            "{line}"
        );
    }
}

#[test]
fn a_rule_that_cannot_be_is_shown_with_what_is_wrong_in_it() {
    let pair = Pair::new();
    for (rule, expected) in [
        (
            "direct to=*.example.com port=443",
            "rule: in `direct to=*.example.com port=443`: `port=443` is no part of a rule: behind \
             the action stand `to=`, `ports=` and `from=`",
        ),
        (
            "block",
            "rule: in `block`: `block` is no action: a rule begins with `tunnel`, `direct` or \
             `refuse`",
        ),
    ] {
        let more = [&PEER[..], &SOCKS, &["--rule", "tunnel", "--rule", rule]].concat();
        let ran = with_key(&pair, "client-side", &more);
        assert_eq!(ran.failed_with(2), expected);
    }
}

#[test]
fn clients_addresses_are_used_only_with_their_networks() {
    let pair = Pair::new();
    for (flags, part) in [
        (&["--out", "client"][..], "client-networks: name the"),
        (&["--out", "proxy-v2"], "client-networks: name the"),
        (&["--client-networks", "10.1.0.0/16"], "--out client"),
        (
            &["--out", "own", "--client-networks", "10.1.0.0/16"],
            "--out client",
        ),
        (
            &["--out", "client", "--client-networks", "10.1.0.0"],
            "client-networks: not a network",
        ),
        (
            &["--out", "client", "--client-networks", "10.1.0.1/16"],
            "client-networks: the address has bits",
        ),
        (&["--out", "theirs"], "theirs"),
    ] {
        let ran = with_key(&pair, "server-side", &[&LISTEN, flags].concat());
        assert!(ran.failed_with(2).contains(part), "{flags:?}: {ran:?}");
    }
}

#[test]
fn a_key_that_is_none_is_refused_without_being_shown() {
    let pair = Pair::new();
    let key = pair.path("bad");
    let key_text = key.to_str().expect("temporary paths are UTF-8");
    let more = [&["--key", key_text][..], &LISTEN].concat();
    let ran = tunnel("server-side", &more);
    assert!(ran.failed_with(2).contains(key_text), "{ran:?}");
    tunnel_pair::write_private(&key, "secret words");
    let ran = tunnel("server-side", &more);
    let line = ran.failed_with(2);
    assert!(line.contains("tandem keygen"), "{line}");
    assert!(!line.contains("secret"), "{line}");
}

#[test]
fn a_settings_file_may_hold_all_of_it_and_is_held_to_the_same() {
    let pair = Pair::new();
    let file = pair.path("settings.toml");
    let key = pair.path("key-0");
    let with = |role: &str, lines: &str| {
        let text = format!("mode = \"tunnel\"\nkey = {key:?}\n{lines}");
        fs::write(&file, text).expect("ours");
        run(tandem(&[role, "--config"]).arg(&file))
    };
    for (role, lines, expected) in [
        (
            "client-side",
            "peer = \"192.0.2.1:4433\"\nsocks = \"127.0.0.1:0\"\nwire = \"safe\"\n",
            "--wire needs --mode packet",
        ),
        (
            "server-side",
            "socks = \"127.0.0.1:0\"\n",
            "--socks is for `tandem client-side`",
        ),
        (
            "client-side",
            "allow = [\"10.0.0.0/8\"]\n",
            "--allow is for `tandem server-side`",
        ),
    ] {
        assert_eq!(with(role, lines).failed_with(2), expected);
    }
    let ran = with("client-side", "per = \"192.0.2.1:4433\"\n");
    let line = ran.failed_with(2);
    assert!(line.contains("line 3") && line.contains("`peer`"), "{line}");
    let ran = with("client-side", "[[rules]]\ndo = \"direct\"\nport = 443\n");
    let line = ran.failed_with(2);
    assert!(
        line.contains("line 5") && line.contains("`to-ports`"),
        "{line}"
    );
    let ran = with("client-side", "link-rate = \"fast\"\n");
    assert!(ran.failed_with(2).contains("line 3"), "{ran:?}");
    // Not the default, which permits most.
    let ran = with("server-side", "listen = \"127.0.0.1:0\"\nallow = []\n");
    assert!(ran.failed_with(2).starts_with("allow: "), "{ran:?}");
    let lines = "peer = \"192.0.2.1:4433\"\ndns = \"127.0.0.1:0\"\ndns-from = []\n";
    let ran = with("client-side", lines);
    assert!(ran.failed_with(2).starts_with("dns-from: "), "{ran:?}");
    // Not the default, which serves all.
    let lines = "peer = \"192.0.2.1:4433\"\nlink = \"lo\"\nfrom = []\n";
    let ran = with("client-side", lines);
    assert!(ran.failed_with(2).starts_with("from: "), "{ran:?}");
}

/// A run that has to end by itself: its address is in use.
#[track_caller]
fn is_busy(command: &mut Command, address: &str) {
    let ran = run(command.args(["--log", "warn"]));
    assert!(ran.failed_with(4).contains(address), "{ran:?}");
}

#[test]
fn an_address_in_use_is_named() {
    let pair = Pair::new();
    let udp = UdpSocket::bind(local(pair.listen)).expect("free until now");
    is_busy(&mut pair.server_side(443), &local(pair.listen));
    drop(udp);
    for port in [pair.socks, pair.http_proxy] {
        let tcp = TcpListener::bind(local(port)).expect("free until now");
        is_busy(&mut pair.client_side(), &local(port));
        drop(tcp);
    }
    let dns = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let dns = dns.local_addr().map(|address| (address.to_string(), dns));
    let (dns, _held) = dns.expect("bound");
    is_busy(pair.client_side().args(["--dns", &dns]), &dns);
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let admin = tcp.local_addr().expect("bound").to_string();
    let mut own = tandem(&["server-side", "--mode", "tunnel", "--admin", &admin]);
    own.args(LISTEN).arg("--key").arg(pair.path("key-0"));
    own.arg("--store").arg(pair.path("store"));
    is_busy(&mut own, &admin);
}

/// A run of the client side with `--link lo`, by another user than the tests' where these are
/// root's.
fn unprivileged_with_link(more: &[&str]) -> Ran {
    let pair = Pair::new();
    let key = pair.path("key-0");
    let folder = key.parent().expect("it lies in one");
    for (path, mode) in [(key.as_path(), 0o644), (folder, 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }
    run(common::unprivileged(&["client-side", "--mode", "tunnel"])
        .args(["--link", "lo", "--admin", "none", "--log", "error"])
        .args(PEER)
        .args(more)
        .arg("--key")
        .arg(&key)
        .arg("--store")
        .arg(folder.join("store")))
}

#[test]
fn the_link_needs_privileges_and_names_them() {
    let ran = unprivileged_with_link(&[]);
    let said = ran.failed_with(3);
    assert!(said.contains("CAP_NET_ADMIN"), "{ran:?}");
    assert!(said.contains("examples/tunnel-firewall.conf"), "{ran:?}");
}

#[test]
fn a_dry_run_needs_no_privileges_and_shows_the_rules() {
    let flags = ["--dry-run", "--ports", "443,8443", "--from", "lan0,wg0"];
    let ran = unprivileged_with_link(&flags);
    let commands = ran.succeeded();
    for part in [
        "iptables-restore --noflush",
        "-p tcp --syn -j REDIRECT --to-ports ",
        "-A PREROUTING -i wg0 -p tcp -m multiport --dports 443,8443 -j ",
        "-A OUTPUT -o lo -p tcp -m multiport --dports 443,8443 -j ",
        "# At the end:",
    ] {
        assert!(commands.contains(part), "{part} in {commands}");
    }
}

#[test]
fn a_dry_run_shows_how_answers_to_clients_addresses_find_back() {
    let pair = Pair::new();
    let flags = ["--out", "client", "--client-networks", "10.1.0.0/16"];
    let more = [&["--listen", "127.0.0.1:4433", "--dry-run"][..], &flags].concat();
    let ran = with_key(&pair, "server-side", &more);
    let commands = ran.succeeded();
    for part in [
        "ip -4 -batch - <<'END'\nrule add fwmark ",
        "route replace local default dev lo table 14",
        "-A PREROUTING -p tcp -m socket --transparent -j tandem-o-4433\n",
        "# At the end:",
        "rule del lookup 14",
    ] {
        assert!(commands.contains(part), "{part} in {commands}");
    }
}

#[test]
fn a_dry_run_finds_the_faults_that_a_start_would_find() {
    let pair = Pair::new();
    for (flags, part) in [
        (["--link", "no/such"], "no/such"),
        (["--link-rtt", "0"], "link-rtt"),
    ] {
        let more = [&PEER[..], &SOCKS, &flags, &["--dry-run"]].concat();
        let ran = with_key(&pair, "client-side", &more);
        assert!(ran.failed_with(2).contains(part), "{ran:?}");
    }
}

#[test]
fn a_link_that_is_not_there_yet_is_warned_of() {
    let pair = Pair::new();
    let flags = ["--link", "nosuchlink0", "--dry-run"];
    let ran = with_key(&pair, "client-side", &[&PEER[..], &flags].concat());
    assert!(ran.succeeded().contains("-o nosuchlink0"), "{ran:?}");
    let warned = ran.stderr.contains("no network interface nosuchlink0 now");
    assert!(warned, "{ran:?}");
}

#[test]
fn without_a_link_a_dry_run_says_that_no_rules_are_set() {
    let pair = Pair::new();
    let dry = ["--dry-run"];
    for (role, more) in [
        ("client-side", [&PEER[..], &SOCKS, &dry].concat()),
        ("server-side", [&LISTEN[..], &dry].concat()),
    ] {
        let ran = with_key(&pair, role, &more);
        let said = ran.succeeded();
        assert!(
            said.starts_with("# ") && said.contains("no rules"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1);
    }
}

#[test]
fn a_setting_for_a_fleet_that_is_of_no_use_is_refused_by_name() {
    let pair = Pair::new();
    let list = pair.path("clients");
    fs::write(&list, "0123\n").expect("ours");
    let list = list.to_str().expect("temporary paths are UTF-8");
    for (flag, value, words) in [
        ("--clients", list, "line 1: a key is 64 hexadecimal digits"),
        ("--clients", "/nowhere/clients", "/nowhere/clients"),
        (
            "--shared-store-password",
            "/nowhere/p",
            "needs --shared-store",
        ),
        (
            "--shared-store-trust",
            "/nowhere/ca",
            "needs --shared-store",
        ),
        ("--shared-store", "10.0.0.1", "shared-store: "),
        (
            "--shared-store",
            "rediss://db.example",
            "TLS needs --shared-store-trust FILE",
        ),
    ] {
        let ran = with_key(
            &pair,
            "server-side",
            &[&LISTEN[..], &[flag, value]].concat(),
        );
        assert!(ran.failed_with(2).contains(words), "{ran:?}");
    }
    let more = [&PEER[..], &SOCKS, &["--server-key", "0123"]].concat();
    let ran = with_key(&pair, "client-side", &more);
    let words =
        "server-key: a key is 64 hexadecimal digits; `tandem keygen --names FILE` prints it";
    assert!(ran.failed_with(2).starts_with(words), "{ran:?}");
}
