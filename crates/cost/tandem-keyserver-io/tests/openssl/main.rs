//! Unmodified programs on OpenSSL that use a key server, set up as docs/keyserver.md says.

#[path = "../common/mod.rs"]
mod common;
mod servers;

use std::fs;
use std::time::{Duration, Instant};

use common::{Place, Served, allow, wait_until};
use nix::sys::signal::Signal;
use servers::{Server, follow_the_guide, openssl, text};
use tandem_testkit::memory::Patterns;

const KINDS: [&str; 5] = ["rsa", "p256", "p384", "p521", "ed25519"];

/// What a busy machine needs.
const PATIENT: &str = "patience-ms = 30000\ndeadline-ms = 60000\n";

/// Certificates of these kinds, and the settings of key servers of these names, at which a web
/// server may use all of them.
fn place(kinds: &[&str], servers: &[&str]) -> Place {
    let place = Place::new(kinds);
    let rules: String = kinds.iter().map(|kind| allow("web", kind)).collect();
    for server in servers {
        place.settings(server, kinds, &(place.peer("web", 1_000) + &rules));
    }
    place
}

/// The schemes of the audit log, in order.
fn signed(place: &Place, server: &str) -> Vec<String> {
    let audit = fs::read_to_string(place.path(&format!("{server}.audit"))).unwrap_or_default();
    let lines = audit.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["outcome"], "signed", "{line}");
        format!("{} {}", line["tls"], line["scheme"]).replace('"', "")
    });
    lines.collect()
}

#[test]
fn every_kind_of_key_serves_both_versions() {
    if !tandem_testkit::has(&["openssl"]) {
        return;
    }
    let place = place(&KINDS, &["a"]);
    let served = Served::start(&place, "a");
    follow_the_guide(&place, &KINDS, &[&served], PATIENT);
    for (kind, words, scheme) in [
        ("rsa", "-tls1_3", "1.3 rsa_pss_rsae_sha256"),
        (
            "rsa",
            "-tls1_3 -sigalgs rsa_pss_rsae_sha384",
            "1.3 rsa_pss_rsae_sha384",
        ),
        (
            "rsa",
            "-tls1_3 -sigalgs rsa_pss_rsae_sha512",
            "1.3 rsa_pss_rsae_sha512",
        ),
        (
            "rsa",
            "-tls1_2 -sigalgs rsa_pss_rsae_sha256",
            "1.2 rsa_pss_rsae_sha256",
        ),
        ("rsa", "-tls1_2 -sigalgs RSA+SHA256", "1.2 rsa_pkcs1_sha256"),
        ("rsa", "-tls1_2 -sigalgs RSA+SHA384", "1.2 rsa_pkcs1_sha384"),
        ("rsa", "-tls1_2 -sigalgs RSA+SHA512", "1.2 rsa_pkcs1_sha512"),
        ("p256", "-tls1_3", "1.3 ecdsa_secp256r1_sha256"),
        ("p256", "-tls1_2", "1.2 ecdsa_secp256r1_sha256"),
        ("p384", "-tls1_3", "1.3 ecdsa_secp384r1_sha384"),
        ("p384", "-tls1_2", "1.2 ecdsa_secp384r1_sha384"),
        ("p521", "-tls1_3", "1.3 ecdsa_secp521r1_sha512"),
        ("p521", "-tls1_2", "1.2 ecdsa_secp521r1_sha512"),
        ("ed25519", "-tls1_3", "1.3 ed25519"),
        ("ed25519", "-tls1_2", "1.2 ed25519"),
    ] {
        let server = Server::s_server(&place, kind);
        let before = signed(&place, "a").len();
        let said = server.visit(
            &place,
            &format!("{words} -CAfile {kind}.pem -verify_return_error"),
        );
        assert!(
            said.contains("Verification: OK"),
            "{kind} {words}: {said}{}",
            server.log()
        );
        assert_eq!(signed(&place, "a")[before..], [scheme], "{kind} {words}");
    }
}

#[test]
fn nginx_apache_and_haproxy_serve_and_have_no_key() {
    if !tandem_testkit::has(&["openssl", "curl", "nginx", "apache2", "haproxy"]) {
        return;
    }
    let place = place(&["p256", "rsa"], &["a"]);
    let served = Served::start(&place, "a");
    follow_the_guide(&place, &["p256", "rsa"], &[&served], PATIENT);
    // SEC 1, ECPrivateKey: the number is in the first octet string; the point is at the end.
    let der = openssl(&place, "ec -in p256.key -outform DER -no_public").stdout;
    let private = Patterns::of(&[der[7..39].to_vec()]);
    let public = openssl(&place, "pkey -in p256.key -pubout -outform DER").stdout;
    let public = Patterns::of(&[public[public.len() - 64..].to_vec()]);
    let servers = [
        Server::nginx(&place, &["p256", "rsa"]),
        Server::apache(&place, "p256"),
        Server::haproxy(&place, "p256"),
    ];
    // None of them can have read it.
    for kind in ["p256", "rsa"] {
        fs::rename(
            place.path(&format!("{kind}.key")),
            place.path(&format!("{kind}.gone")),
        )
        .expect("moved");
    }
    for server in &servers {
        for version in ["1.2", "1.3"] {
            let before = signed(&place, "a").len();
            assert!(
                server.serves(&place, "p256", version),
                "{version}: {}",
                server.log()
            );
            let scheme = format!("{version} ecdsa_secp256r1_sha256");
            assert_eq!(signed(&place, "a")[before..], [scheme]);
        }
        let mut is_public_there = false;
        for process in server.processes() {
            let has_key = private.are_in_process(process);
            assert!(!has_key, "{process}: {}", server.log());
            is_public_there |= public.are_in_process(process);
        }
        assert!(is_public_there, "the search finds what is there");
    }
    // nginx has both certificates.
    let [nginx, ..] = &servers;
    let before = signed(&place, "a").len();
    let said = nginx.visit(
        &place,
        "-tls1_3 -sigalgs rsa_pss_rsae_sha256 -CAfile rsa.pem -verify_return_error",
    );
    assert!(said.contains("Verification: OK"), "{said}");
    assert_eq!(signed(&place, "a")[before..], ["1.3 rsa_pss_rsae_sha256"]);
}

#[test]
fn without_a_key_server_full_handshakes_fail_and_sessions_are_resumed() {
    if !tandem_testkit::has(&["openssl", "curl", "nginx"]) {
        return;
    }
    let place = place(&["p256"], &["a"]);
    let mut served = Served::start(&place, "a");
    follow_the_guide(
        &place,
        &["p256"],
        &[&served],
        "patience-ms = 50\ndeadline-ms = 1500\n",
    );
    let nginx = Server::nginx(&place, &["p256"]);
    let full = |version: &str| {
        // With TLS 1.3 the ticket comes after the handshake: s_client asks for a page and waits.
        nginx.visit(
            &place,
            &format!("-{version} -sess_out {version}.session -ign_eof -CAfile p256.pem"),
        )
    };
    let resumed =
        |version: &str| nginx.visit(&place, &format!("-{version} -sess_in {version}.session"));
    for version in ["tls1_2", "tls1_3"] {
        ask_for_a_page(&place, &nginx, version);
        assert!(resumed(version).contains("Reused, TLS"), "{version}");
    }
    // It is there and does not answer: the handshake fails when it is due.
    served.stop();
    let begun = Instant::now();
    assert!(!nginx.serves(&place, "p256", "1.3"));
    assert!(
        begun.elapsed() >= Duration::from_millis(1_500),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    // nginx writes it once the client has its alert.
    wait_until("the line", || {
        count(&nginx, "sign failed:no key server has answered in time") == 1
    });
    // It is gone.
    served.kill();
    wait_until("the line", || {
        let before = count(&nginx, "sign failed");
        let said = full("tls1_2");
        assert!(said.contains("alert internal error"), "{said}");
        assert_eq!(
            count(&nginx, "sign failed"),
            before + 1,
            "one line of the handshake: {}",
            nginx.log()
        );
        nginx
            .log()
            .contains("tandem::sign failed:no key server can be reached")
    });
    for version in ["tls1_2", "tls1_3"] {
        assert!(
            resumed(version).contains("Reused, TLS"),
            "{version}: {}",
            nginx.log()
        );
    }
}

/// Has the session written to `VERSION.session`.
fn ask_for_a_page(place: &Place, server: &Server, version: &str) {
    let line = format!(
        "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | openssl s_client -connect localhost:{} -{version} \
         -sess_out {version}.session -ign_eof",
        server.port
    );
    let output = std::process::Command::new("sh")
        .args(["-ec", &line])
        .current_dir(place.path(""))
        .output()
        .expect("a shell");
    assert!(
        text(&output.stdout).contains("served"),
        "{output:?} {}",
        server.log()
    );
}

fn count(server: &Server, what: &str) -> usize {
    server.log().matches(what).count()
}

#[test]
fn a_second_key_server_takes_over() {
    if !tandem_testkit::has(&["openssl", "curl", "nginx", "apache2", "haproxy"]) {
        return;
    }
    let place = place(&["p256"], &["a", "b"]);
    let mut first = Served::start(&place, "a");
    let second = Served::start(&place, "b");
    follow_the_guide(&place, &["p256"], &[&first, &second], PATIENT);
    let servers = [
        Server::nginx(&place, &["p256"]),
        Server::apache(&place, "p256"),
        Server::haproxy(&place, "p256"),
    ];
    for server in &servers {
        assert!(server.serves(&place, "p256", "1.3"), "{}", server.log());
    }
    assert_eq!(
        (signed(&place, "a").len(), signed(&place, "b").len()),
        (3, 0)
    );
    first.kill();
    for server in &servers {
        assert!(server.serves(&place, "p256", "1.3"), "{}", server.log());
    }
    assert_eq!(
        (signed(&place, "a").len(), signed(&place, "b").len()),
        (3, 3)
    );
}

#[test]
fn a_full_disk_costs_lines_of_the_log_and_no_connection() {
    if !tandem_testkit::has(&["openssl", "curl"]) {
        return;
    }
    let place = place(&["p256"], &["a"]);
    let mut served = Served::start(&place, "a");
    let address = served.address.to_string();
    follow_the_guide(&place, &["p256"], &[&served], PATIENT);
    // Its standard error, to which each write fails.
    let log = place.path("s_server-p256.log");
    std::os::unix::fs::symlink("/dev/full", log).expect("a link");
    let server = Server::s_server(&place, "p256");
    let is_served = || server.serves(&place, "p256", "1.3");
    assert!(is_served());
    served.kill();
    assert!(!is_served());
    let _again = Served::start_at(&place, "a", &address, &[]);
    wait_until("the key server", is_served);
}

#[test]
fn the_key_signs_handshakes_and_nothing_else() {
    if !tandem_testkit::has(&["openssl", "nginx"]) {
        return;
    }
    let place = place(&["rsa", "p256", "ed25519"], &["a"]);
    let served = Served::start(&place, "a");
    follow_the_guide(&place, &["rsa", "p256", "ed25519"], &[&served], PATIENT);
    place.write("digest", &"d".repeat(32));
    place.write("secret", &"s".repeat(256));
    let refused = "a key server signs messages of TLS handshakes and does nothing else";
    for (words, says) in [
        (
            "pkeyutl -sign -inkey rsa.web -in digest -pkeyopt digest:sha256",
            refused,
        ),
        ("pkeyutl -sign -inkey p256.web -in digest", refused),
        ("pkeyutl -decrypt -inkey rsa.web -in secret", refused),
        (
            "pkeyutl -sign -rawin -inkey ed25519.web -in rsa.pem",
            "not one of a TLS handshake",
        ),
        // In parts, as libssl signs none.
        (
            "pkeyutl -sign -rawin -digest sha256 -inkey p256.web -in rsa.pem",
            "EVP_DigestSignUpdate",
        ),
        ("pkey -in rsa.web -outform DER", "unsupported type"),
    ] {
        let output = openssl(&place, words);
        let error = text(&output.stderr);
        let has_key = text(&output.stdout).contains("PRIVATE");
        assert!(!output.status.success() && !has_key, "{words}: {output:?}");
        assert!(error.contains(says), "{words}: {error}");
    }
    // What is no key of a key server is the default provider's, as without this one.
    let public = openssl(&place, "pkey -in rsa.web -pubout");
    place.write("rsa.pub", &text(&public.stdout));
    for words in [
        "genpkey -algorithm RSA -out own.key",
        "pkeyutl -sign -inkey rsa.key -in digest -pkeyopt digest:sha256 -out signature",
        "pkeyutl -verify -pubin -inkey rsa.pub -in digest -sigfile signature -pkeyopt digest:sha256",
        "verify -CAfile p256.pem p256.pem",
    ] {
        let output = openssl(&place, words);
        assert!(output.status.success(), "{words}: {output:?}");
    }
    // RSA key exchange; a digest with which no key server signs on this curve.
    let nginx = Server::nginx(&place, &["rsa", "p256"]);
    let said = nginx.visit(&place, "-tls1_2 -cipher AES128-SHA");
    assert!(said.contains("alert"), "{said}");
    wait_until("the line", || nginx.log().contains(refused));
    let said = nginx.visit(&place, "-tls1_2 -sigalgs ECDSA+SHA384");
    assert!(said.contains("alert handshake failure"), "{said}");
    assert_eq!(signed(&place, "a").len(), 0);
}

#[test]
fn what_is_wrong_is_said_when_the_server_starts() {
    if !tandem_testkit::has(&["openssl"]) {
        return;
    }
    let place = place(&["rsa", "p256"], &["a"]);
    let served = Served::start(&place, "a");
    follow_the_guide(&place, &["rsa", "p256"], &[&served], PATIENT);
    let start = |words: &str| {
        let output = openssl(
            &place,
            &format!("s_server -accept 127.0.0.1:0 -naccept 1 {words}"),
        );
        assert!(!output.status.success(), "{words}: {output:?}");
        text(&output.stderr)
    };
    // The key of another certificate.
    let error = start("-cert rsa.pem -key p256.web");
    assert!(error.contains("does not match the certificate"), "{error}");
    // A file that is cut, and one with something else in it.
    let file = place.text("p256.web");
    place.write("cut.web", &file[..90]);
    let error = start("-cert p256.pem -key cut.web");
    assert!(error.contains("has no end"), "{error}");
    let other = place
        .text("p256.pem")
        .replace("CERTIFICATE", "TANDEM KEY SERVER KEY");
    place.write("other.web", &other);
    let error = start("-cert p256.pem -key other.web");
    assert!(
        error.contains("is no public key of a kind that key servers have"),
        "{error}"
    );
    // A channel key that is not there: none is made, which no key server would know.
    let right = place.text("keyclient.toml");
    place.write(
        "keyclient.toml",
        &right.replace("web.channel", "wbe.channel"),
    );
    let error = start("-cert p256.pem -key p256.web");
    assert!(
        error.contains("wbe.channel: there is no channel key"),
        "{error}"
    );
    assert!(!place.path("wbe.channel").exists());
    // Settings that are not there, or wrong.
    place.write("keyclient.toml", "deadline-ms = 0\n");
    let error = start("-cert p256.pem -key p256.web");
    assert!(error.contains("keyclient.toml"), "{error}");
    let settings = place.text("openssl.cnf");
    let without: String = settings
        .lines()
        .filter(|line| !line.starts_with("settings"))
        .map(|line| format!("{line}\n"))
        .collect();
    place.write("openssl.cnf", &without);
    let error = start("-cert p256.pem -key p256.web");
    assert!(error.contains("has no `settings = FILE`"), "{error}");
}

#[test]
fn a_server_forks_without_threads_and_ends_when_it_is_told() {
    if !tandem_testkit::has(&["openssl", "curl", "nginx"]) {
        return;
    }
    let place = place(&["p256"], &["a"]);
    let served = Served::start(&place, "a");
    follow_the_guide(&place, &["p256"], &[&served], PATIENT);
    let nginx = Server::nginx(&place, &["p256"]);
    let threads = |process: u32| {
        fs::read_dir(format!("/proc/{process}/task"))
            .expect("it runs")
            .count()
    };
    // It listens before it forks.
    wait_until("the worker", || nginx.processes().len() > 1);
    let processes = nginx.processes();
    let [first, worker] = processes[..] else {
        panic!("{processes:?}: one worker");
    };
    assert_eq!(
        (threads(first), threads(worker)),
        (1, 1),
        "before a signature"
    );
    assert!(nginx.serves(&place, "p256", "1.3"), "{}", nginx.log());
    assert_eq!(
        (threads(first), threads(worker)),
        (1, 2),
        "the one that signed has a thread"
    );
    // No signal goes to that thread: nginx waits for its own where it waits for connections.
    for task in fs::read_dir(format!("/proc/{worker}/task")).expect("it runs") {
        let task = task.expect("a thread").path();
        let status = fs::read_to_string(task.join("status")).expect("it runs");
        let blocked = status
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:"))
            .expect("a mask");
        let blocked = u64::from_str_radix(blocked.trim(), 16).expect("a mask");
        let is_ours = !task.ends_with(worker.to_string());
        let quit = 1 << (Signal::SIGQUIT as u32 - 1);
        assert_eq!(blocked & quit != 0, is_ours, "{status}");
    }
    nginx.quit(Signal::SIGQUIT);
}
