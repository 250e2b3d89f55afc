//! Tunnel mode's ways out of the server side: as itself, from the client's address, and with a
//! header of the PROXY protocol. What nginx logs is whom it saw.
//!
//! Root only; skipped, with a message, otherwise.

use crate::support::{common, real, tunnel_net};
use common::tandem;
use nix::sys::signal::Signal;
use real::{Family, Site, TlsVersion, can_run};
use tunnel_net::{LISTEN, Place, off, rules};

/// Whose connection it was, as the kernel says.
const BY_SOCKET: &str = "$remote_addr";
/// Whose it was and where it went, as the header says; who brought it.
const BY_HEADER: &str = "$proxy_protocol_addr $proxy_protocol_server_addr \
                         $proxy_protocol_server_port $realip_remote_addr";

/// The client's networks; those of the link are not among them.
const CLIENTS: [&str; 2] = ["--client-networks", "10.77.1.0/24,fd77:1::/64"];

/// And the tunnel alone is used: a page that comes has come through it.
const TELLS: [&str; 3] = ["--tell-client-address", "--when-down", "fail"];

fn place(logs: &'static str, listen: &'static str) -> Place {
    let place = Place::with(Site {
        logs,
        listen,
        ..Site::default()
    });
    // Strict, as distributions set it.
    place.net.b.set("ipv4/conf/all/rp_filter", "1");
    place
}

fn out(how: &'static str) -> [&'static str; 4] {
    let [networks, these] = CLIENTS;
    ["--out", how, networks, these]
}

/// What `tandem doctor` finds at B of this, with `--out client`.
#[track_caller]
fn verdict(place: &Place, name: &str) -> String {
    let mut command = tandem(&["doctor", "--json", "server-side", "--mode", "tunnel"]);
    let listen = format!("{}:{LISTEN}", place.net.b_address(Family::V4));
    command.args(["--listen", &listen]).args(out("client"));
    command.arg("--key").arg(place.net.path("key"));
    command.arg("--store").arg(place.net.path("store-b"));
    let output = place.net.b.output(&mut command);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no {name} in {report}"));
    check["verdict"].as_str().expect("a word").to_owned()
}

/// Fetches from the client and from A, over both versions of IP; what nginx says of each.
#[track_caller]
fn fetched(place: &Place) -> Vec<String> {
    let before = place.logged(0).len();
    let mut count = before;
    for family in [Family::V4, Family::V6] {
        for (host, version) in [
            (&place.net.client, TlsVersion::Tls12),
            (&place.net.client, TlsVersion::Tls13),
            (&place.net.a, TlsVersion::Tls13),
        ] {
            let fetch = place.fetch_by(family).version(version);
            fetch.curl(host).is(&place.page);
            count += 1;
            place.logged(count);
        }
    }
    place.logged(count).split_off(before)
}

#[test]
fn servers_see_the_server_side_unless_it_is_told_otherwise() {
    if !can_run() {
        return;
    }
    let place = place(BY_SOCKET, "");
    let own = [
        "10.77.3.1",
        "10.77.3.1",
        "10.77.3.1",
        "fd77:3::1",
        "fd77:3::1",
        "fd77:3::1",
    ];
    let server_side = place.server_side();
    let client_side = place.client_side_with(&TELLS);
    assert_eq!(fetched(&place), own);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    // And where it is, but the client side does not tell.
    let _server_side = place.server_side_with(&out("client"));
    let _client_side = place.client_side();
    assert_eq!(fetched(&place), own);
    assert_eq!(place.server_side_counts("client_addresses_not_told"), 6);
}

#[test]
fn servers_see_the_address_of_a_client_that_is_in_the_named_networks() {
    if !can_run() {
        return;
    }
    let place = place(BY_SOCKET, "");
    let before = rules(&place.net.b);
    let server_side = place.server_side_with(&out("client"));
    let client_side = place.client_side_with(&TELLS);
    let seen = fetched(&place);
    assert_eq!(
        seen,
        [
            "10.77.1.2",
            "10.77.1.2",
            "10.77.3.1",
            "fd77:1::2",
            "fd77:1::2",
            "fd77:3::1"
        ]
    );
    assert_eq!(place.server_side_counts("client_addresses_not_believed"), 2);
    // CAP_NET_ADMIN and CAP_NET_RAW (capabilities(7)).
    let kept = server_side.capabilities();
    assert!(kept.iter().all(|set| *set == 0x3000), "{kept:x?}");
    // Traffic that is not the tunnel's is forwarded as before.
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    let fetch = place.fetch(TlsVersion::Tls13);
    fetch.curl(&place.net.client).is(&place.page);
    assert_ne!(rules(&place.net.b), before);
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.b), before);
}

#[test]
fn rules_for_answers_that_a_killed_proxy_left_go_at_the_next_start_or_by_tandem_off() {
    if !can_run() {
        return;
    }
    let place = place(BY_SOCKET, "");
    let before = rules(&place.net.b);
    let _client_side = place.client_side_with(&TELLS);
    let killed = place.server_side_with(&out("client"));
    assert_eq!(killed.end(Signal::SIGKILL), None);
    let next = place.server_side_with(&out("client"));
    let fetch = place.fetch(TlsVersion::Tls13);
    fetch.limit(60).curl(&place.net.client);
    assert_eq!(next.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.b), before);

    assert_eq!(verdict(&place, "kernel"), "ok");
    let killed = place.server_side_with(&out("client"));
    assert_eq!(verdict(&place, "rules"), "ok");
    assert_eq!(killed.end(Signal::SIGKILL), None);
    off(&place.net.b);
    assert_eq!(rules(&place.net.b), before);

    let running = place.server_side_with(&out("client"));
    let said = off(&place.net.b);
    assert!(said.contains("server-side on 4433"), "{said}");
    assert_eq!(running.end_by_itself(), Some(0));
    assert_eq!(rules(&place.net.b), before);
}

#[test]
fn nginx_reads_who_the_client_is_in_the_header_of_the_proxy_protocol() {
    if !can_run() {
        return;
    }
    let place = place(BY_HEADER, "proxy_protocol");
    let before = rules(&place.net.b);
    let server_side = place.server_side_with(&out("proxy-v2"));
    let client_side = place.client_side_with(&TELLS);
    let known = |client: &str, family: &str| match family {
        "v4" => format!("{client} 10.77.3.2 443 10.77.3.1"),
        _ => format!("{client} fd77:3::2 443 fd77:3::1"),
    };
    let (unknown, unknown6) = ("- - - 10.77.3.1".to_owned(), "- - - fd77:3::1".to_owned());
    assert_eq!(
        fetched(&place),
        [
            known("10.77.1.2", "v4"),
            known("10.77.1.2", "v4"),
            unknown.clone(),
            known("fd77:1::2", "v6"),
            known("fd77:1::2", "v6"),
            unknown6.clone(),
        ]
    );
    let kept = server_side.capabilities();
    assert!(kept.iter().all(|set| *set == 0), "{kept:x?}");
    assert_eq!(rules(&place.net.b), before);
    // A client side that does not tell.
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    let _client_side = place.client_side();
    let [v4, v6] = [
        [(); 3].map(|()| unknown.clone()),
        [(); 3].map(|()| unknown6.clone()),
    ];
    assert_eq!(fetched(&place), [v4, v6].concat());
}
