//! The rules of the client side of tunnel mode, with both proxies as processes and an unmodified
//! curl. One test needs root, for the way in by `--link`.
//!
//! Is not: which rules match what (`tandem-tunnel`), nor what is wrong in their text
//! (`failures.rs`).

use std::fs;

use crate::support::{real, tunnel_net, tunnel_pair};
use nix::sys::signal::Signal;
use real::{SITE, TlsVersion, bytes, can_run, has};
use tunnel_net::{Place, rules};
use tunnel_pair::{Curl, Pair, Site, start};

/// TCP connections that went to their server from the client side, and that were refused.
const DIRECT: &str = "relays_direct";
const REFUSED: &str = "relays_refused_by_rule";
/// TCP connections that crossed the tunnel.
const OPENED: &str = "tunnel_relays_opened";

/// Exit codes of curl: the proxy refused by SOCKS, and by an error of HTTP.
const REFUSED_BY_SOCKS: i32 = 97;
const REFUSED_BY_HTTP: i32 = 22;
/// TLS was broken off.
const NO_TLS: i32 = 35;

/// Tries a few times: on a busy machine a hello may come later than a rule waits for its name.
#[track_caller]
fn in_time(mut matches: impl FnMut() -> bool) {
    assert!((0..5).any(|_| matches()), "the rule never matches");
}

fn code(curl: &Curl, port: u16) -> Option<i32> {
    curl.fetch(port, "page").status.code()
}

#[test]
fn each_way_in_knows_its_rules_and_refuses_in_its_own_words() {
    if !has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    site.publish("page", b"page");
    let _server_side = pair.start_server_side(&site);
    let refused = format!("refuse to=localhost ports={}", site.port);
    let mut client_side = pair.client_side();
    let client_side = start(client_side.args(["--rule", "refuse ports=1", "--rule", &refused]));
    // By address it is another target, and the hello has another name.
    for way in [pair.by_socks(), pair.by_http_proxy()] {
        way.gets(site.port, "page", b"page");
    }
    assert_eq!(
        code(&pair.by_socks_name(), site.port),
        Some(REFUSED_BY_SOCKS)
    );
    let by_http = pair.by_http_proxy().to("localhost");
    assert_eq!(code(&by_http, site.port), Some(REFUSED_BY_HTTP));
    assert_eq!(pair.client_side_counts(REFUSED), 2);
    assert_eq!(pair.server_side_counts(OPENED), 2);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn rules_of_the_settings_file_hold_by_the_name_in_the_hello() {
    if !has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(300_000);
    site.publish("page", &page);
    let _server_side = pair.start_server_side(&site);
    let settings = pair.path("settings.toml");
    let counts = || [DIRECT, REFUSED].map(|name| pair.client_side_counts(name));
    for action in ["direct", "refuse"] {
        let text = format!(
            "[[rules]]\ndo = \"tunnel\"\nto-ports = [1, 2]\n\
             [[rules]]\ndo = \"{action}\"\nto-name = [\"{SITE}\", \"a.example\"]\n\
             from = \"127.0.0.0/8\"\n"
        );
        fs::write(&settings, text).expect("ours");
        let client_side = start(pair.client_side().arg("--config").arg(&settings));
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let curl = pair.by_socks().version(version);
            let [direct, refused] = counts();
            in_time(|| {
                let output = curl.fetch(site.port, "page");
                match counts() {
                    now if now == [direct + 1, refused] => {
                        assert_eq!((action, output.stdout == page), ("direct", true));
                        true
                    }
                    now if now == [direct, refused + 1] => {
                        assert_eq!((action, output.status.code()), ("refuse", Some(NO_TLS)));
                        true
                    }
                    _ => false,
                }
            });
        }
        assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    }
}

#[test]
fn what_is_taken_in_at_the_link_goes_by_the_name_in_the_hello_and_directly_only_once() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let before = rules(&place.net.a);
    // There is no other proxy: what would use the tunnel goes to its server as if it were down.
    let client_side = |rule: &str| place.client_side_with(&["--rule", rule]);
    let counts = || [DIRECT, REFUSED].map(|name| place.client_side_counts(name));

    let direct = client_side("direct to=*.tandem.test");
    for (host, version) in [
        (&place.net.client, TlsVersion::Tls12),
        (&place.net.client, TlsVersion::Tls13),
        // Its own connection is one of this machine's, as this one is.
        (&place.net.a, TlsVersion::Tls13),
    ] {
        let [before, _] = counts();
        in_time(|| {
            place.fetch(version).curl(host).is(&place.page);
            counts() == [before + 1, 0]
        });
    }
    assert_eq!(direct.end(Signal::SIGTERM), Some(0));

    let refusing = client_side(&format!("refuse to={SITE}"));
    in_time(|| {
        let refused = place.fetch(TlsVersion::Tls12).curl(&place.net.client);
        let is_refused = counts() == [0, 1];
        assert_eq!(refused.code == Some(NO_TLS), is_refused, "{refused:?}");
        is_refused
    });
    assert_eq!(refusing.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.a), before);
}

#[test]
fn a_client_at_its_limit_gets_nothing_more_after_a_restart_either() {
    if !has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    site.publish("page", &bytes(400_000));
    let _server_side = pair.start_server_side(&site);
    let limited = || start(pair.client_side().args(["--client-limit", "300k"]));
    let client_side = limited();
    let output = pair.by_socks().fetch(site.port, "page");
    assert!(!output.status.success(), "its connection is reset");
    assert!(output.stdout.len() < 400_000);
    assert_eq!(pair.client_side_counts("relays_ended_by_limit"), 1);
    let refused = |curl: Curl| code(&curl, site.port);
    assert_eq!(refused(pair.by_socks()), Some(REFUSED_BY_SOCKS));
    assert_eq!(refused(pair.by_http_proxy()), Some(REFUSED_BY_HTTP));
    assert_eq!(pair.client_side_counts("relays_refused_by_limit"), 2);
    let log = client_side.end_with_log(Signal::SIGTERM);
    let lines = log.lines().filter(|line| line.contains("its limit"));
    assert_eq!(lines.count(), 1, "once, however often it is refused: {log}");
    let again = limited();
    assert_eq!(refused(pair.by_socks()), Some(REFUSED_BY_SOCKS));
    assert_eq!(again.end(Signal::SIGTERM), Some(0));
    // With a greater limit it goes on.
    let settings = pair.path("settings.toml");
    let text = "client-limit = 1\n[[limits]]\nfrom = \"127.0.0.0/8\"\nbytes = \"9M\"\n";
    fs::write(&settings, text).expect("ours");
    let client_side = start(pair.client_side().arg("--config").arg(&settings));
    pair.by_socks().gets(site.port, "page", &bytes(400_000));
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}
