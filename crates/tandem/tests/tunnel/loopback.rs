//! Tunnel mode without root: both proxies on the loopback interface, nginx behind them, an
//! unmodified curl before them.
//!
//! Is not: what is wrong in command lines (`failures.rs`), nor the way in by `--link`
//! (`link.rs`).

use crate::support::{common, real, split_site, tunnel_pair};
use common::run;
use nix::sys::signal::Signal;
use real::{PATIENCE, TlsVersion, bytes, has, has_root_and, wait_until};
use split_site::free_port;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use tunnel_pair::{CURL_TIMED_OUT, Curl, Pair, Site, start};

/// Counts what the server side wrote shorter.
const WRITTEN: &str = "tunnel_flights_written";
/// Counts what the client side rebuilt.
const REBUILT: &str = "tunnel_flights_rebuilt";

/// Counts the bytes that the server side did not have to send.
const ELIDED: &str = "tunnel_elided_bytes";

fn can_run() -> bool {
    has(&["nginx", "curl", "openssl"])
}

/// Fetches until curl ends well, or the patience does.
#[track_caller]
fn eventually_gets(curl: &Curl, port: u16, path: &str, expected: &[u8]) {
    let curl = curl.clone().more(&["--max-time", "5"]);
    wait_until("a fetch through the tunnel", || {
        let output = curl.fetch(port, path);
        output.status.success() && output.stdout == expected
    });
}

#[test]
fn pages_are_the_same_by_every_way_in_and_both_versions_of_tls() {
    if !can_run() {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(300_000);
    site.publish("page", &page);
    let _server_side = pair.start_server_side(&site);
    let _client_side = pair.start_client_side();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for way in [pair.by_socks(), pair.by_socks_name(), pair.by_http_proxy()] {
            way.version(version).gets(site.port, "page", &page);
        }
    }
    let by_name = pair.by_http_proxy().to("localhost");
    by_name.gets(site.port, "page", &page);
}

#[test]
fn without_a_link_root_is_good_for_low_ports_and_then_given_up() {
    if !can_run() || !has_root_and(&[]) {
        return;
    }
    let (site, mut pair) = (Site::new(), Pair::new());
    site.publish("page", b"page");
    // Nobody uses these (RFC 1078, and a protocol that is gone).
    (pair.socks, pair.listen) = (1, 2);
    let server_side = pair.start_server_side(&site);
    let client_side = pair.start_client_side();
    pair.by_socks().gets(site.port, "page", b"page");
    for proxy in [server_side, client_side] {
        let kept = proxy.capabilities();
        assert!(
            !kept.is_empty() && kept.iter().all(|set| *set == 0),
            "{kept:x?}"
        );
    }
}

#[test]
fn certificates_cross_once() {
    if !can_run() {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(1_000);
    site.publish("page", &page);
    let _server_side = pair.start_server_side(&site);
    let _client_side = pair.start_client_side();
    let curl = pair.by_socks();
    curl.gets(site.port, "page", &page);
    let rebuilt = pair.client_side_counts(REBUILT);
    let written = pair.server_side_counts(WRITTEN);
    let elided = pair.server_side_counts(ELIDED);
    curl.gets(site.port, "page", &page);
    assert!(pair.server_side_counts(WRITTEN) > written);
    assert!(pair.client_side_counts(REBUILT) > rebuilt);
    // The chain alone has three certificates of some 900 bytes.
    let more = pair.server_side_counts(ELIDED) - elided;
    assert!(more > 2_000, "{more} bytes elided");
    let status = run(&mut pair.client_side_status());
    let status = status.succeeded();
    assert!(status.contains("client-side"), "{status}");
    assert!(status.contains("tunnel"), "{status}");
    assert!(status.contains("peer is set"), "{status}");
}

#[test]
fn what_was_learned_outlives_both_proxies() {
    if !can_run() {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(1_000);
    site.publish("page", &page);
    for round in 0..2 {
        let server_side = pair.start_server_side(&site);
        let client_side = pair.start_client_side();
        pair.by_socks().gets(site.port, "page", &page);
        if round == 1 {
            assert!(pair.server_side_counts(ELIDED) > 2_000);
        }
        assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
        assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    }
}

#[test]
fn a_client_side_is_ready_before_its_peer_and_works_once_that_appears() {
    if !can_run() {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(1_000);
    site.publish("page", &page);
    let _client_side = pair.start_client_side();
    let curl = pair.by_socks();
    let alone = curl.clone().more(&["--max-time", "2"]);
    assert!(!alone.fetch(site.port, "page").status.success());
    let _server_side = pair.start_server_side(&site);
    eventually_gets(&curl, site.port, "page", &page);
}

#[test]
fn a_server_side_that_is_started_anew_is_found_again() {
    if !can_run() {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(1_000);
    site.publish("page", &page);
    let first = pair.start_server_side(&site);
    let _client_side = pair.start_client_side();
    let curl = pair.by_socks();
    curl.gets(site.port, "page", &page);
    assert_eq!(first.end(Signal::SIGTERM), Some(0));
    wait_until("the client side has heard of it", || {
        pair.client_side_shows("tunnels") == 0
    });
    let second = pair.start_server_side(&site);
    curl.gets(site.port, "page", &page);
    // One that had no time to say good-bye.
    assert_eq!(second.end(Signal::SIGKILL), None);
    let _third = pair.start_server_side(&site);
    eventually_gets(&curl, site.port, "page", &page);
}

#[test]
fn what_cannot_be_reached_fails_at_once() {
    if !can_run() {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let closed = free_port();
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let not_allowed = other.local_addr().expect("bound").port();
    let mut server_side = pair.server_side(site.port);
    let allowed = format!("127.0.0.0/8:{closed}");
    let server_side = start(server_side.args(["--allow", &allowed]));
    let _client_side = pair.start_client_side();
    let ways = [
        (pair.by_socks(), closed, "refused"),
        (pair.by_http_proxy(), closed, "refused"),
        (pair.by_socks(), not_allowed, "not_allowed"),
        (
            pair.by_socks_name().to("no-such-name.invalid"),
            site.port,
            "name_not_found",
        ),
    ];
    for (curl, port, reason) in ways {
        let ended = || pair.client_side_counts(&format!("tunnel_relays_ended_{reason}"));
        let before = ended();
        let output = curl.fetch(port, "page");
        assert!(!output.status.success(), "{reason}");
        assert_ne!(output.status.code(), Some(CURL_TIMED_OUT), "{reason}");
        wait_until(reason, || ended() == before + 1);
    }
    other.set_nonblocking(true).expect("it is ours");
    assert!(other.accept().is_err(), "nobody came");
    // What failed has not harmed the rest.
    site.publish("page", b"page");
    pair.by_socks().gets(site.port, "page", b"page");
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn with_another_key_there_is_a_warning_and_no_service() {
    if !can_run() {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    site.publish("page", b"page");
    let _server_side = pair.start_server_side(&site);
    let client_side = start(&mut pair.client_side_with_key("key-1"));
    let curl = pair.by_socks().more(&["--max-time", "5"]);
    assert!(!curl.fetch(site.port, "page").status.success());
    wait_until("a warning that names the key", || {
        let warnings = client_side.warnings();
        warnings.iter().any(|line| line.contains("key"))
    });
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn both_end_well_when_asked_while_connections_are_open() {
    if !can_run() {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    site.publish("page", &bytes(5_000_000));
    let server_side = pair.start_server_side(&site);
    let client_side = pair.start_client_side();
    let slow = pair.by_socks().more(&["--limit-rate", "100k"]);
    let mut curl = slow
        .command(site.port, "page")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("curl runs");
    let mut output = curl.stdout.take().expect("it is piped");
    output.read_exact(&mut [0; 1]).expect("the page has begun");
    // Read on, so that curl waits for nothing but the network.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGINT), Some(0));
    // The client notices: its connection is over.
    wait_until("curl ends", || {
        curl.try_wait().expect("it is ours").is_some()
    });
}

#[test]
fn two_hundred_connections_at_once() {
    if !can_run() {
        return;
    }
    const CONNECTIONS: usize = 200;
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(20_000);
    site.publish("page", &page);
    let _server_side = pair.start_server_side(&site);
    let _client_side = pair.start_client_side();
    let folder = pair.path("got");
    fs::create_dir(&folder).expect("ours");
    let parallel = ["--parallel", "--parallel-immediate", "--parallel-max"];
    let output = pair
        .by_socks()
        .more(&parallel)
        .more(&["200", "--max-time", "120", "--output", "#1"])
        .command(site.port, &format!("page?[1-{CONNECTIONS}]"))
        .current_dir(&folder)
        .output()
        .expect("curl runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    for number in 1..=CONNECTIONS {
        let got = fs::read(folder.join(number.to_string())).expect("curl wrote it");
        assert!(got == page, "{number}: {} bytes", got.len());
    }
}

/// A connection by SOCKS5 to a port of the loopback network, when success has been answered.
fn socks(pair: &Pair, port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", pair.socks)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    // RFC 1928: no authentication; CONNECT to an IPv4 address.
    stream.write_all(&[5, 1, 0]).expect("it reads");
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).expect("it answers");
    assert_eq!(chosen, [5, 0]);
    let [high, low] = port.to_be_bytes();
    let request = [5, 1, 0, 1, 127, 0, 0, 1, high, low];
    stream.write_all(&request).expect("it reads");
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).expect("it answers");
    assert_eq!(reply[..2], [5, 0]);
    stream
}

#[test]
fn what_is_no_tls_passes_also_where_the_server_speaks_first_and_sides_end_apart() {
    let pair = Pair::new();
    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = server.local_addr().expect("bound").port();
    let _server_side = start(&mut pair.server_side(port));
    let _client_side = start(&mut pair.client_side());
    let mut client = socks(&pair, port);
    server.set_nonblocking(true).expect("it is ours");
    let mut served = None;
    wait_until("the server is called", || {
        served = server.accept().ok();
        served.is_some()
    });
    let (mut served, _) = served.expect("waited for");
    served.set_nonblocking(false).expect("a socket");
    served.set_read_timeout(Some(PATIENCE)).expect("a socket");
    served.write_all(b"220 ready\r\n").expect("it reads");
    let mut greeting = [0; 11];
    client.read_exact(&mut greeting).expect("it comes");
    assert_eq!(&greeting, b"220 ready\r\n");
    // The client says all that it has to say; the answer comes nevertheless.
    crosses(client.try_clone().expect("a socket"), &mut served);
    crosses(served, &mut client);
}

/// Says a lot at one end and then ends it; all of it has to come to the other, and the end.
#[track_caller]
fn crosses(mut from: TcpStream, to: &mut TcpStream) {
    let said = bytes(100_000);
    let mut heard = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            from.write_all(&said).expect("it reads");
            from.shutdown(Shutdown::Write).expect("a socket");
        });
        to.read_to_end(&mut heard).expect("all of it");
    });
    assert!(heard == said, "{} bytes", heard.len());
}
