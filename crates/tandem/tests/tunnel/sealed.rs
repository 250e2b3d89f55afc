//! TLS 1.3 through the tunnel, with the server's consent: an unmodified nginx that releases its
//! handshake keys, both proxies as processes, and an unmodified curl.
//!
//! Is not: the library that releases them (`tandem-keytap`), nor every shape of a flight
//! (`tandem-tunnel`).

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use crate::support::{real, split_site, tunnel_pair};
use nix::sys::signal::Signal;
use real::{KeyType, Pki, TlsVersion, bytes, has, keytap, wait_until};
use split_site::{Running, free_port};
use tunnel_pair::{Curl, Pair, Proxy, Site, start};

/// Both programs, and the library that is loaded into nginx.
pub(super) fn can_run() -> bool {
    has(&["nginx", "curl", "openssl"]) && keytap().is_some()
}

/// A server that hands its keys in at the pair's socket.
pub(super) fn consenting<'a>(server: &'a mut Command, pair: &Pair) -> &'a mut Command {
    server
        .env("LD_PRELOAD", keytap().expect("looked for before"))
        .env("TANDEM_KEYTAP_SOCKET", pair.path("keys"))
}

fn server_side(pair: &Pair, port: u16) -> Proxy {
    let mut command = pair.server_side(port);
    start(command.arg("--handshake-keys").arg(pair.path("keys")))
}

/// A pair, and nginx with a page, started so.
fn place(nginx: impl FnOnce(&Pair) -> Site) -> (Pair, Site, Vec<u8>) {
    let pair = Pair::new();
    let (site, page) = (nginx(&pair), bytes(1_000));
    site.publish("page", &page);
    (pair, site, page)
}

fn consenting_nginx(pair: &Pair) -> Site {
    Site::with(consenting(&mut Command::new("nginx"), pair))
}

fn tls13(pair: &Pair) -> Curl {
    pair.by_socks().version(TlsVersion::Tls13)
}

/// nginx that asks its clients for a certificate, started by this.
pub(super) fn asking(nginx: &mut Command) -> Site {
    let root = Pki::shared().root();
    let asks = format!(
        "ssl_verify_client on; ssl_verify_depth 3; ssl_client_certificate {};",
        root.display()
    );
    Site::with_settings(nginx, &asks)
}

/// curl with a certificate, by TLS 1.3.
pub(super) fn certified(pair: &Pair) -> Curl {
    let pki = Pki::shared();
    let file = |path: std::path::PathBuf| path.display().to_string();
    let (chain, key) = (pki.chain(KeyType::Ecdsa), pki.key(KeyType::Ecdsa));
    tls13(pair).more(&["--cert", &file(chain), "--key", &file(key)])
}

/// What the client side sends on the link for one more visit, which has to be answered with the
/// page: its program says how.
#[track_caller]
fn sent_for(pair: &Pair, page: &[u8], curl: &mut Command) -> u64 {
    let before = pair.client_side_counts("udp_sent_bytes");
    let output = curl.output().expect("curl runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout == page, "other bytes came");
    pair.client_side_counts("udp_sent_bytes") - before
}

/// The same for each visit, until two of the client's flights have crossed in their opened form.
fn sent_until_two_cross(pair: &Pair, page: &[u8], curl: &mut Command) -> Vec<u64> {
    let mut sent = Vec::new();
    wait_until("two of its flights cross in their opened form", || {
        sent.push(sent_for(pair, page, curl));
        pair.client_side_counts("tunnel_opened_flights_written") >= 2
    });
    sent
}

/// What one more visit takes where nobody consents; the second of two.
fn sent_without_consent() -> u64 {
    let (pair, site, page) = place(|_| asking(&mut Command::new("nginx")));
    let _server_side = start(&mut pair.server_side(site.port));
    let _client_side = start(&mut pair.client_side());
    let mut curl = certified(&pair).command(site.port, "page");
    sent_for(&pair, &page, &mut curl);
    sent_for(&pair, &page, &mut curl)
}

#[test]
fn a_server_that_consents_has_its_certificates_cross_once() {
    if !can_run() {
        return;
    }
    let (pair, site, page) = place(consenting_nginx);
    let server_side = server_side(&pair, site.port);
    let client_side = start(&mut pair.client_side());
    let visits = 4;
    let mut elided = Vec::new();
    for visit in 1..=visits {
        tls13(&pair).gets(site.port, "page", &page);
        wait_until("the key was of use", || {
            pair.server_side_counts("tunnel_flights_opened") == visit
        });
        elided.push(pair.server_side_counts("tunnel_elided_bytes"));
    }
    assert_eq!(
        pair.server_side_counts("tunnel_record_keys_released"),
        visits
    );
    assert_eq!(pair.server_side_counts("tunnel_record_keys_used"), visits);
    let written = pair.server_side_counts("tunnel_opened_flights_written");
    assert_eq!(written, visits);
    wait_until("every flight was sealed again", || {
        pair.client_side_counts("tunnel_flights_sealed") == visits
    });
    assert_eq!(pair.server_side_counts("tunnel_flights_written"), visits);
    assert_eq!(pair.client_side_counts("tunnel_flights_rebuilt"), visits);
    // A chain of three RSA certificates.
    let last = elided[elided.len() - 1] - elided[elided.len() - 2];
    assert!(last > 2_000, "{elided:?}");
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    assert!(
        !pair.path("keys").exists(),
        "the socket goes with the daemon"
    );
}

#[test]
fn a_client_that_consents_has_certificates_of_other_people_s_servers_cross_once() {
    if !can_run() {
        return;
    }
    // A plain server, and a server side that takes no keys.
    let (pair, site, page) = place(|_| Site::new());
    let _server_side = start(&mut pair.server_side(site.port));
    let mut client_side = pair.client_side();
    client_side.arg("--handshake-keys").arg(pair.path("keys"));
    let _client_side = start(client_side.args(["--prefer", "bytes"]));
    let visit = || {
        let crossed = pair.server_side_counts("tunnel_elided_bytes");
        let mut command = tls13(&pair).command(site.port, "page");
        let output = consenting(&mut command, &pair).output();
        let output = output.expect("curl runs");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stdout == page, "other bytes came");
        pair.server_side_counts("tunnel_elided_bytes") - crossed
    };
    // Its first key comes late, and says that the client hands them in. On a busy machine another
    // one may be late, too.
    let mut elided = 0;
    wait_until("a repeated flight crosses in its opened form", || {
        elided = visit();
        pair.client_side_counts("tunnel_flights_sealed") > 1 && elided > 0
    });
    // A chain of three RSA certificates did not cross.
    assert!(elided > 2_000, "{elided}");
    assert!(pair.client_side_counts("tunnel_record_keys_handed_over") > 1);
    wait_until("each side counts in its own time", || {
        pair.server_side_counts("tunnel_record_keys_asked") > 1
    });
    assert_eq!(pair.server_side_counts("tunnel_record_keys_released"), 0);
    // Without the library nothing is released, and nothing breaks.
    tls13(&pair).gets(site.port, "page", &page);
}

#[test]
fn a_server_s_consent_alone_leaves_its_clients_certificates_closed() {
    if !can_run() {
        return;
    }
    let (pair, site, page) = place(|pair| asking(consenting(&mut Command::new("nginx"), pair)));
    let _server_side = server_side(&pair, site.port);
    let _client_side = start(&mut pair.client_side());
    let mut curl = certified(&pair).command(site.port, "page");
    for visit in 1..=2 {
        sent_for(&pair, &page, &mut curl);
        wait_until("the server's flight crossed opened", || {
            pair.server_side_counts("tunnel_flights_opened") == visit
        });
    }
    // One key for each visit: the server's own.
    assert_eq!(pair.server_side_counts("tunnel_record_keys_released"), 2);
    assert_eq!(pair.client_side_counts("tunnel_opened_flights_written"), 0);
    assert_eq!(pair.server_side_counts("tunnel_flights_sealed"), 0);
    // Without a certificate nginx refuses the request, and nothing breaks.
    let refused = tls13(&pair).fetch(site.port, "page");
    assert_eq!(refused.status.code(), Some(22), "{refused:?}");
}

#[test]
fn with_the_client_s_consent_its_certificate_crosses_once() {
    if !can_run() {
        return;
    }
    let (pair, site, page) = place(|_| asking(&mut Command::new("nginx")));
    let _server_side = start(&mut pair.server_side(site.port));
    let mut client_side = pair.client_side();
    client_side.arg("--handshake-keys").arg(pair.path("keys"));
    let _client_side = start(client_side.args(["--prefer", "bytes"]));
    let mut curl = certified(&pair).command(site.port, "page");
    consenting(&mut curl, &pair);
    let sent = sent_until_two_cross(&pair, &page, &mut curl);
    wait_until("they were sealed", || {
        pair.server_side_counts("tunnel_flights_sealed") >= 2
    });
    assert_eq!(pair.server_side_counts("tunnel_record_keys_released"), 0);
    let plain = sent_without_consent();
    let last = sent.last().copied().unwrap_or_default();
    eprintln!("the client side sent {sent:?} bytes, without consent {plain}");
    assert!(last + 800 < plain, "{sent:?} {plain}");
}

#[test]
fn by_time_a_client_s_certificate_counts_beside_the_server_s() {
    if !can_run() {
        return;
    }
    // What 600 ms carry at 22 kbit/s up and 88 kbit/s down: 1,650 bytes, and 6,600. Neither flight
    // is as long, both together are.
    let (pair, site, page) = place(|_| asking(&mut Command::new("nginx")));
    let rates = |rate| ["--link-rate", rate, "--link-rtt", "600"];
    let mut server_side = pair.server_side(site.port);
    let _server_side = start(server_side.args(rates("88k")));
    let mut client_side = pair.client_side();
    client_side.arg("--handshake-keys").arg(pair.path("keys"));
    let _client_side = start(client_side.args(rates("22k")));
    let asked = || pair.server_side_counts("tunnel_record_keys_asked");
    // A client without a certificate: nginx refuses its request behind the handshake.
    let mut nameless = tls13(&pair).command(site.port, "page");
    consenting(&mut nameless, &pair);
    for _ in 0..3 {
        let refused = nameless.output().expect("curl runs");
        assert_eq!(refused.status.code(), Some(22), "{refused:?}");
    }
    wait_until("it was weighed", || {
        pair.server_side_counts("tunnel_record_keys_not_worth") > 0
    });
    assert_eq!(asked(), 0);
    let mut curl = certified(&pair).command(site.port, "page");
    consenting(&mut curl, &pair);
    let sent = sent_until_two_cross(&pair, &page, &mut curl);
    wait_until("each side counts in its own time", || asked() >= 2);
    let last = sent.last().copied().unwrap_or_default();
    assert!(last + 800 < sent[0], "{sent:?}");
}

#[test]
fn whatever_way_openssl_sends_its_flight_it_arrives_as_it_wrote_it() {
    if !can_run() {
        return;
    }
    let (pair, folder) = (Pair::new(), tempfile::tempdir().expect("a directory"));
    let (page, pki, port) = (bytes(1_000), Pki::shared(), free_port());
    fs::write(folder.path().join("page"), &page).expect("ours");
    let _server_side = server_side(&pair, port);
    let _client_side = start(&mut pair.client_side());
    let layouts: [&[&str]; 4] = [
        &["-record_padding", "512"],
        &["-max_send_frag", "512"],
        // A CertificateRequest beside the chain.
        &["-verify", "1"],
        // A group that the client does not offer a share of: it has to say hello again.
        &["-groups", "P-384"],
    ];
    let mut visits = 0;
    for layout in layouts {
        let server = consenting(&mut Command::new("openssl"), &pair)
            .args(["s_server", "-WWW", "-quiet", "-tls1_3", "-accept"])
            .arg(port.to_string())
            .arg("-cert")
            .arg(pki.chain(KeyType::Rsa))
            .arg("-cert_chain")
            .arg(pki.issuers())
            .arg("-key")
            .arg(pki.key(KeyType::Rsa))
            .args(layout)
            .current_dir(folder.path())
            .env("OPENSSL_CONF", "/dev/null")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let _server = Running(server.expect("it is installed"));
        wait_until("it listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        for _ in 0..2 {
            visits += 1;
            tls13(&pair).gets(port, "page", &page);
            wait_until("the flight was opened", || {
                pair.server_side_counts("tunnel_flights_opened") == visits
            });
        }
        let rebuilt = pair.client_side_counts("tunnel_flights_rebuilt");
        assert_eq!(rebuilt, visits, "{layout:?}");
    }
}

#[test]
fn without_a_key_or_with_nonsense_for_one_a_handshake_crosses_as_it_is() {
    if !can_run() {
        return;
    }
    let (pair, site, page) = place(|_| Site::new());
    let _server_side = server_side(&pair, site.port);
    let _client_side = start(&mut pair.client_side());
    let program = UnixDatagram::unbound().expect("a socket");
    for round in 1..=3 {
        let sent = program.send_to(b"nonsense", pair.path("keys"));
        sent.expect("the daemon is there");
        tls13(&pair).gets(site.port, "page", &page);
        wait_until("it is counted", || {
            pair.server_side_counts("tunnel_record_keys_malformed") == round
        });
    }
    assert_eq!(pair.server_side_counts("tunnel_flights_opened"), 0);
    assert_eq!(pair.server_side_counts("tunnel_handshakes_passed_tls13"), 3);
}

#[test]
fn a_server_that_outlives_the_proxy_serves_on() {
    if !can_run() {
        return;
    }
    let (pair, site, page) = place(consenting_nginx);
    let _client_side = start(&mut pair.client_side());
    for _ in 0..2 {
        let server_side = server_side(&pair, site.port);
        let before = pair.server_side_counts("tunnel_flights_opened");
        wait_until("a flight is opened", || {
            tls13(&pair).fetch(site.port, "page");
            pair.server_side_counts("tunnel_flights_opened") > before
        });
        // Killed, it leaves its socket behind.
        assert_eq!(server_side.end(Signal::SIGKILL), None);
        assert!(pair.path("keys").exists());
        Curl::direct()
            .version(TlsVersion::Tls13)
            .gets(site.port, "page", &page);
    }
}
