//! The page of the admin port, and what it shows: names that strangers choose are text, in real
//! browsers, and nobody reads it who did not ask for its address.
//!
//! Is not: the Host check itself (`tandem-daemon`), nor the policy's digests (`tandem-status`).

use std::process::{Command, Stdio};

use crate::support::{real, tunnel_pair};
use real::{Daemon, Family, Fetch, Net, PairSpec, Pki, Server, Shape};
use real::{bytes, can_run, has, wait_until};
use serde_json::{Value, json};
use tandem_daemon::admin::{AdminPort, Page};
use tandem_status::Report;
use tandem_testkit::browser::Browser;
use tunnel_pair::{Pair, Site, local, shown};

fn status(site: &str) -> String {
    json!({
        "version": "0", "role": "client-side", "link": site, "mode": "tunnel", "pid": 1,
        "queue": 0, "uptime_seconds": 1.0, "cpu_seconds": 0.0, "resident_bytes": 0,
        "peak_resident_bytes": 0, "counters": {}, "gauges": {"store_objects": 3}, "notes": {"spent": site},
        "tunnel": {"is_up": false, "since_seconds": 7, "last_end": site},
        "activity": {"connections": 1, "original_bytes": 5000, "crossed_bytes": 300,
            "sites": [{"name": site, "connections": 1, "original_bytes": 5000,
                "crossed_bytes": 300}],
            "flows": [{"began_unix_ms": 0, "site": site, "original_bytes": 5000,
                "crossed_bytes": 300, "outcome": site,
                "marks": [{"name": site, "at_ms": 5}]}]},
    })
    .to_string()
}

#[test]
fn chromium_shows_names_as_text_whatever_they_say() {
    shows_names_as_text_whatever_they_say(Browser::Chromium);
}

#[test]
fn firefox_shows_names_as_text_whatever_they_say() {
    shows_names_as_text_whatever_they_say(Browser::Firefox);
}

fn shows_names_as_text_whatever_they_say(browser: Browser) {
    if !has(browser.needs()) || !has(&["openssl"]) {
        return;
    }
    let hostile = "<img src=x onerror=\"document.body.dataset.owned=1\"><script>x</script>";
    let free = "127.0.0.1:0".parse().expect("an address");
    let port = AdminPort::bind("--admin", free).expect("a free port");
    let address = port.address().to_string();
    let html = Page::new("text/html; charset=utf-8", tandem_status::PAGE.to_owned())
        .with_policy(tandem_status::POLICY);
    let server = port.serve_status(html, move || status(hostile), String::new);
    let server = server.expect("it starts");
    let folder = tempfile::tempdir().expect("a folder");
    // The page is in clear: which authority is trusted makes no difference.
    let root = Pki::shared().root();
    let mut client = browser.start(folder.path(), &["127.0.0.1"], &root);
    let said = client.does(&format!("http://{address}/"), 20, "show 4,700");
    let shown = said.iter().find_map(|line| line.strip_prefix("shown "));
    let document = shown.unwrap_or_else(|| panic!("{said:?}"));
    let document: String = serde_json::from_str(document).expect("a string");
    // The script has run, and the style is there.
    assert!(
        document.contains("4,700 B of handshakes did not cross the link."),
        "{document}"
    );
    assert!(document.contains("&lt;img src=x onerror="), "{document}");
    assert!(
        !document.contains("<img") && !document.contains("data-owned"),
        "{document}"
    );
    assert_eq!(document.matches("<script>").count(), 1, "{document}");
    drop(server);
}

/// The status of the client side, as its page gets it.
fn of_client_side(pair: &Pair) -> Value {
    let answer = shown(pair.client_side_admin(), "/status");
    let (_, body) = answer.split_once("\r\n\r\n").expect("HTTP");
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn connections_are_reported_by_site_and_a_hostile_name_is_not_shown() {
    if !has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(1_000);
    site.publish("page", &page);
    let _server_side = tunnel_pair::start(&mut pair.server_side(site.port));
    let _client_side = tunnel_pair::start(&mut pair.client_side());
    for _ in 0..2 {
        pair.by_socks().gets(site.port, "page", &page);
    }
    wait_until("both connections are reported", || {
        of_client_side(&pair)["activity"]["connections"] == 2
    });
    let status = of_client_side(&pair);
    assert_eq!(status["tunnel"]["is_up"], true);
    let flows = status["activity"]["flows"].as_array().expect("a list");
    assert_eq!(flows.len(), 2, "{status:#}");
    let (second, first) = (&flows[0], &flows[1]);
    assert_eq!(first["site"], real::SITE);
    assert_eq!(second["outcome"], "finished");
    let crossed = |flow: &Value| flow["crossed_bytes"].as_u64().expect("a number");
    // Certificates cross once.
    assert!(crossed(second) + 2_000 < crossed(first), "{status:#}");
    let marks = second["marks"].as_array().expect("a list");
    let names: Vec<&str> = marks
        .iter()
        .filter_map(|mark| mark["name"].as_str())
        .collect();
    assert_eq!(names, ["tunnel", "hello", "open", "flight", "over"]);
    assert_eq!(status["activity"]["sites"][0]["connections"], 2);

    let hostile = "<script>alert(1)</script>";
    let target = local(site.port);
    let ran = Command::new("openssl")
        .args([
            "s_client",
            "-proxy",
            &local(pair.http_proxy),
            "-connect",
            &target,
        ])
        .args(["-servername", hostile, "-tls1_2"])
        .stdin(Stdio::null())
        .output();
    ran.expect("it runs");
    wait_until("the connection is reported", || {
        let status = of_client_side(&pair);
        status["activity"]["connections"].as_u64() >= Some(3)
    });
    let status = of_client_side(&pair);
    assert_eq!(status["activity"]["flows"][0]["site"], target.as_str());
    assert!(!status.to_string().contains("alert"), "{status:#}");
}

#[test]
fn packet_mode_reports_what_crossed_for_each_connection_at_both_sides() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = bytes(40_000);
    Server::publish(&net, "file", &file);
    let _server = Server::nginx(&net, &net.server, &real::Site::default());
    let pair = real::Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), "file");
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    let more = pair.rewrites(&file, || fetch.curl(&net.client));
    let activity = |daemon: &Daemon| -> Report { daemon.status().activity };
    for daemon in [&pair.a, &pair.b] {
        wait_until("all connections are reported", || {
            activity(daemon).flows.len() == more + 1
        });
        let report = activity(daemon);
        let (first, last) = (&report.flows[more], &report.flows[0]);
        for flow in [first, last] {
            assert_eq!((&*flow.site, &*flow.outcome), (real::SITE, "finished"));
            assert_eq!(flow.marks.last().expect("its end").name, "over");
        }
        assert!(first.crossed_bytes <= first.original_bytes, "{report:?}");
        assert!(
            last.crossed_bytes + 1_000 < first.crossed_bytes,
            "{report:?}"
        );
        // What was rebuilt counts. (No comparison with the first: on a busy machine a flight that
        // is repeated counts each time.)
        assert!(
            last.crossed_bytes + 1_000 < last.original_bytes,
            "{report:?}"
        );
    }
    pair.end(&net);
}
