//! Whatever is wrong at the server or at our side is a line of the result and a count by its kind,
//! never a silent number.

mod common;

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{Measured, Place, free_port, has, listen, number};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{StoresServerSessions, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};

/// A short run, in lines of JSON.
const SHORT: &str = "--connections 2 --duration 0.5 --json";
/// The same, with little time for each connection.
const HASTY: &str = "--connections 2 --duration 0.5 --timeout 1 --json";

/// Each request was answered with this.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// Nothing was measured, for this reason alone, which is said.
fn assert_fails(measured: &Measured, kind: &str, words: &str) {
    let results = measured.json();
    let errors = results[0].pointer("/whole_run/errors").expect("errors");
    let kinds: Vec<&String> = errors.as_object().expect("by kind").keys().collect();
    assert_eq!(kinds, [kind], "{errors}");
    assert!(number(errors, &format!("/{kind}")) > 0);
    assert_eq!(number(&results[0], "/requests"), 0);
    assert_eq!(measured.0.status.code(), Some(1), "{}", measured.stderr());
    let stderr = measured.stderr();
    assert!(stderr.contains(words), "{words}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_server_that_is_down_is_said_to_refuse() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let address = ([127, 0, 0, 1], free_port()).into();
    assert_fails(
        &place.measure(address, SHORT),
        "refused",
        "start the server",
    );
}

#[test]
fn a_server_that_says_nothing_is_a_time_out() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let silent = listen(|tcp| {
        thread::park_timeout(Duration::from_secs(60));
        drop(tcp);
    });
    assert_fails(
        &place.measure(silent, HASTY),
        "handshake_timed_out",
        "overloaded",
    );
    let slow = place.serve(
        "good",
        |config| config,
        &[&TLS13],
        |_| {
            thread::park_timeout(Duration::from_secs(60));
        },
    );
    assert_fails(
        &place.measure(slow, HASTY),
        "answer_timed_out",
        "no whole answer",
    );
}

#[test]
fn an_answer_that_trickles_is_a_time_out_and_no_request() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let trickling = place.serve(
        "good",
        |config| config,
        &[&TLS13],
        |stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
            // A byte now and then: never silent for as long as the client waits.
            while stream.write_all(b"x").and_then(|()| stream.flush()).is_ok() {
                thread::park_timeout(Duration::from_millis(200));
            }
        },
    );
    let measured = place.measure(trickling, HASTY);
    assert_fails(&measured, "answer_timed_out", "no whole answer");
}

#[test]
fn a_client_certificate_that_is_missing_is_told_with_its_remedy() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let roots = CertificateDer::pem_file_iter(place.path("ca.pem")).unwrap();
    let mut store = rustls::RootCertStore::empty();
    store.add_parsable_certificates(roots.map(Result::unwrap));
    let asks = |_: rustls::ServerConfig| {
        let provider = Arc::new(tandem_channel::crypto::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider);
        let chain = CertificateDer::pem_file_iter(place.path("good.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(place.path("good.key")).unwrap();
        let provider = Arc::new(tandem_channel::crypto::default_provider());
        rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(builder.build().unwrap())
            .with_single_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap()
    };
    let server = place.serve("good", asks, &[&TLS13], |stream| {
        let _ = stream.write_all(ANSWER);
    });
    let measured = place.measure(server, SHORT);
    assert_fails(&measured, "client_certificate", "--client-cert");
    // A certificate that no issuer of the server's has signed.
    let other = "--client-cert stranger.pem --client-key stranger.key";
    place.openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout stranger.key \
         -out stranger.pem -days 30 -subj /CN=stranger",
    );
    let measured = place.measure(server, &format!("{SHORT} {other}"));
    assert_fails(&measured, "client_certificate", "--client-cert");
    let own = "--client-cert good.pem --client-key good.key";
    let measured = place.measure(server, &format!("{SHORT} {own}"));
    assert!(number(&measured.json()[0], "/requests") > 0);
}

#[test]
fn resets_and_ends_are_told_apart_by_when_they_come() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let resetting = listen(|tcp| {
        // Wait for the hello, so that the reset answers it.
        let _ = tcp.peek(&mut [0]);
        reset(&tcp);
    });
    assert_fails(
        &place.measure(resetting, SHORT),
        "reset",
        "reset by the server",
    );
    let closing = listen(|mut tcp| {
        let mut hello = [0; 4_096];
        let _ = std::io::Read::read(&mut tcp, &mut hello);
    });
    let measured = place.measure(closing, SHORT);
    assert_fails(&measured, "closed_in_handshake", "during the handshake");
    let cut = place.serve(
        "good",
        |config| config,
        &[&TLS13],
        |stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        },
    );
    assert_fails(
        &place.measure(cut, SHORT),
        "closed_in_answer",
        "within an answer",
    );
}

/// Ends a connection with a reset (socket(7), SO_LINGER of 0).
fn reset(tcp: &TcpStream) {
    let none = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    nix::sys::socket::setsockopt(tcp, nix::sys::socket::sockopt::Linger, &none).expect("a socket");
}

#[test]
fn a_certificate_that_is_wrong_is_said_to_be_so() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let answer = |certificate| {
        place.serve(
            certificate,
            |config| config,
            &[&TLS12, &TLS13],
            |stream| {
                let _ = stream.write_all(ANSWER);
            },
        )
    };
    assert_fails(
        &place.measure(answer("expired"), SHORT),
        "expired",
        "renew it",
    );
    let other = answer("other");
    assert_fails(
        &place.measure(other, SHORT),
        "wrong_name",
        "not for the name",
    );
    let program = env!("CARGO_BIN_EXE_tandem-measure");
    let url = format!("https://localhost:{}/", answer("good").port());
    let distrusting = Command::new(program)
        .args([&url, "--ca"])
        .arg(place.path("other.pem"))
        .args(SHORT.split_whitespace())
        .output()
        .unwrap();
    assert_fails(&Measured(distrusting), "untrusted", "--ca");
    let insecure = Command::new(program)
        .args([
            &format!("https://localhost:{}/", other.port()),
            "--insecure",
        ])
        .args(SHORT.split_whitespace())
        .output()
        .unwrap();
    assert!(number(&Measured(insecure).json()[0], "/requests") > 0);
}

#[test]
fn a_version_that_is_refused_is_nothing_in_common() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    for (own, other) in [("1.3", &TLS12), ("1.2", &TLS13)] {
        let server = place.serve(
            "good",
            |config| config,
            &[other],
            |stream| {
                let _ = stream.write_all(ANSWER);
            },
        );
        let measured = place.measure(server, &format!("{SHORT} --tls {own}"));
        assert_fails(&measured, "nothing_in_common", "--tls");
    }
}

#[test]
fn an_answer_of_500_is_a_failure_and_no_request() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let server = place.serve(
        "good",
        |config| config,
        &[&TLS13],
        |stream| {
            let _ = stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
        },
    );
    assert_fails(&place.measure(server, SHORT), "status5xx", "500 or above");
    let other = place.serve(
        "good",
        |config| config,
        &[&TLS13],
        |stream| {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9\r\n\r\n");
        },
    );
    assert_fails(&place.measure(other, SHORT), "not_http", "not HTTP/1");
}

/// Takes sessions, hands out their names, and finds none again.
#[derive(Debug)]
struct Forgetful;

impl StoresServerSessions for Forgetful {
    fn put(&self, _: Vec<u8>, _: Vec<u8>) -> bool {
        true
    }

    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[test]
fn a_resumption_that_is_promised_and_refused_is_a_full_handshake() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    for version in [&TLS12, &TLS13] {
        let forgetful = |mut config: rustls::ServerConfig| {
            config.session_storage = Arc::new(Forgetful);
            config
        };
        let server = place.serve("good", forgetful, &[version], |stream| {
            let _ = stream.write_all(ANSWER);
        });
        let measured = place.measure(server, &format!("{SHORT} --reuse 50"));
        let result = &measured.json()[0];
        let count = |name: &str| number(result, &format!("/whole_run/{name}"));
        assert_eq!(count("resumed"), 0);
        assert_eq!(count("full"), count("connections"));
        // Half of them were offered, but for the first ones.
        let (offers, all) = (count("refused"), count("connections"));
        assert!(
            offers * 2 + 4 >= all && offers * 2 <= all,
            "{offers} of {all}"
        );
        let table = place.measure(server, "--connections 2 --duration 0.5 --reuse 50");
        assert!(
            table.stdout().contains("were offered and refused"),
            "{}",
            table.stdout()
        );
    }
}

#[test]
fn a_server_that_gives_no_session_is_said_to_give_none() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let none = |mut config: rustls::ServerConfig| {
        config.send_tls13_tickets = 0;
        config
    };
    let server = place.serve("good", none, &[&TLS13], |stream| {
        let _ = stream.write_all(ANSWER);
    });
    let measured = place.measure(server, "--connections 2 --duration 0.5 --reuse 50");
    let stdout = measured.stdout();
    assert!(stdout.contains("resumed 0 (0.0 %)"), "{stdout}");
    assert!(stdout.contains("the server had given none"), "{stdout}");
}

#[test]
fn our_own_lack_of_ports_is_said_with_its_remedy() {
    if !has(&["unshare", "ip"]) {
        return;
    }
    if !tandem_testkit::is_root() {
        tandem_testkit::skipped("needs root for a network of its own");
        return;
    }
    let place = Place::new();
    // A network of its own, with three ports for connections. The server answers one at a time, so
    // that more than three are wanted at once.
    let script = "ip link set lo up\n\
        echo 40000 40002 > /proc/sys/net/ipv4/ip_local_port_range\n\
        openssl s_server -www -cert good.pem -key good.key -accept 127.0.0.1:4433 >server.log 2>&1 &\n\
        server=$!\n\
        trap 'kill $server' EXIT\n\
        until grep -q ' 0100007F:1151 .* 0A ' /proc/net/tcp; do kill -0 $server || exit 9; done\n\
        \"$0\" https://localhost:4433/ --ca ca.pem --connections 20 --duration 0.5\n";
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_tandem-measure"))
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let measured = Measured(output);
    let stdout = measured.stdout();
    for words in ["this side has no ports left", "ip_local_port_range"] {
        assert!(
            stdout.contains(words),
            "{words}: {stdout}{}",
            measured.stderr()
        );
    }
}

#[test]
fn our_own_lack_of_descriptors_is_said_with_its_remedy() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let server = place.serve(
        "good",
        |config| config,
        &[&TLS13],
        |stream| {
            let _ = stream.write_all(ANSWER);
        },
    );
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let limit = 20 + 8 * threads;
    let output = Command::new("sh")
        .arg("-c")
        // The hard limit, too, so that the program cannot raise it.
        .arg(format!("ulimit -n {limit}; exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_tandem-measure"))
        .arg(format!("https://localhost:{}/", server.port()))
        .arg("--ca")
        .arg(place.path("ca.pem"))
        .args(["--duration", "0.5", "--connections"])
        .arg((limit + 100).to_string())
        .output()
        .unwrap();
    let measured = Measured(output);
    let stdout = measured.stdout();
    for words in ["this side has no descriptors left", "ulimit -n"] {
        assert!(
            stdout.contains(words),
            "{words}: {stdout}{}",
            measured.stderr()
        );
    }
}
