//! What a result has in it, and that its parts agree with each other.

mod common;

use std::io::{Read as _, Write as _};

use common::{Place, has, is_written, number};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

#[test]
fn a_result_has_what_is_promised_and_its_phases_add_up() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let server = place.nginx("ssl_session_tickets on;");
    let arguments = "--duration 0.5 --reuse 50 --keep-alive 3 --json --seed 4";
    let measured = place.measure(server.address(), arguments);
    assert!(measured.0.status.success(), "{}", measured.stderr());
    let result = &measured.json()[0];
    for path in [
        "/connections",
        "/full",
        "/resumed",
        "/requests",
        "/bytes/sent",
        "/bytes/received",
        "/errors",
        "/latency/p50",
        "/latency/p99_9",
        "/kinds/0/phases/0/time/mean",
        "/generator/cpu_seconds",
        "/generator/limit/is",
        "/whole_run/connections",
        "/server/tls",
        "/server/chain/0/subject",
        "/steady",
    ] {
        assert!(result.pointer(path).is_some(), "{path}: {result}");
    }
    assert_eq!(result["server"]["chain"][0]["key"], "P-256");
    assert_eq!(result["server"]["chain"][0]["issuer"], "CN=issuer");
    let count = |path: &str| number(result, path);
    assert_eq!(count("/full") + count("/resumed"), count("/connections"));
    // Three on each, but for the ten connections under way when it was over.
    let whole = |name: &str| count(&format!("/whole_run/{name}"));
    let (asked, opened) = (whole("requests"), whole("connections"));
    assert!(asked <= 3 * opened && asked + 20 >= 3 * opened, "{result}");
    assert_eq!(count("/bytes/body"), count("/requests") * 5_000);
    assert!(result.pointer("/generator/cpu_seconds").unwrap().as_f64() > Some(0.0));
    let kinds = result["kinds"].as_array().unwrap();
    let names: Vec<&str> = kinds
        .iter()
        .filter_map(|kind| kind["kind"].as_str())
        .collect();
    assert_eq!(names, ["full", "resumed", "kept"]);
    let trips = |kind: usize, phase: usize| {
        kinds[kind]["phases"][phase]["round_trips"]
            .as_f64()
            .unwrap()
    };
    // TLS 1.3: one for TCP, one for the handshake, one for the request; kept: the last alone.
    assert_eq!(
        [0, 1, 2, 3, 4].map(|phase| trips(0, phase)),
        [1.0, 1.0, 0.0, 1.0, 0.0]
    );
    assert_eq!([0, 1].map(|phase| trips(2, phase)), [1.0, 0.0]);
    for kind in kinds {
        let phases = kind["phases"].as_array().unwrap();
        let of = |value: &Value| value["mean"].as_f64().unwrap();
        let counts: Vec<u64> = phases
            .iter()
            .map(|phase| number(phase, "/time/count"))
            .collect();
        // Where no connection lies on an end of the measurement, the sum is exact.
        if counts
            .iter()
            .all(|count| *count == number(kind, "/whole/count"))
        {
            let sum: f64 = phases.iter().map(|phase| of(&phase["time"])).sum();
            let whole = of(&kind["whole"]);
            assert!((sum - whole).abs() <= 1.0, "{sum}, {whole}");
        }
    }
}

#[test]
fn tls_12_takes_a_round_trip_more_and_early_data_one_less() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let server = place.nginx("ssl_early_data on;");
    let trips = |arguments: &str, kind: &str| {
        let arguments = format!("--duration 0.5 --connections 2 --json {arguments}");
        let results = place.measure(server.address(), &arguments).json();
        let kinds = results[0]["kinds"].as_array().unwrap();
        let found = kinds.iter().find(|found| found["kind"] == kind).unwrap();
        let phases = found["phases"].as_array().unwrap();
        phases
            .iter()
            .map(|phase| phase["round_trips"].as_f64().unwrap())
            .sum::<f64>()
    };
    assert_eq!(trips("--tls 1.2", "full"), 4.0);
    assert_eq!(trips("--tls 1.2 --reuse 50", "resumed"), 3.0);
    assert_eq!(trips("--tls 1.3", "full"), 3.0);
    assert_eq!(trips("--reuse 50 --resumption 0rtt", "resumed"), 2.0);
}

/// Writes the files of a mix to where nginx serves them.
fn write_files(place: &Place, mix: &str) {
    let written = std::process::Command::new(env!("CARGO_BIN_EXE_tandem-measure"))
        .args(["--mix", mix, "--write-files"])
        .arg(place.path(""))
        .output()
        .expect("the program was built for this test");
    assert!(written.status.success(), "{written:?}");
}

#[test]
fn the_files_of_a_mix_are_what_it_asks_for() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    for (mix, file, least) in [
        // The means are 14.6 and 28.2 kB; of some requests they are at least a tenth of that.
        ("specweb96", "class3_9", 1_000),
        ("modern", "image_5", 2_000),
        ("fixed:2048", "fixed_2048", 2_047),
    ] {
        write_files(&place, mix);
        assert!(is_written(&place.path(file)), "{mix}");
        let server = place.nginx("");
        let measured = place.measure(
            server.address(),
            &format!("--duration 0.5 --mix {mix} --keep-alive all --json"),
        );
        let result = &measured.json()[0];
        assert_eq!(result["errors"], serde_json::json!({}), "{mix}: {result}");
        let (requests, body) = (number(result, "/requests"), number(result, "/bytes/body"));
        assert!(
            requests > 20 && body / requests > least,
            "{mix}: {requests}, {body}"
        );
        assert_eq!(result["mix"], mix);
    }
}

#[test]
fn a_list_of_urls_is_asked_for_as_it_is() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    write_files(&place, "fixed:2048");
    let server = place.nginx("");
    let port = server.address().port();
    let list = format!("# twice as often\n/fixed_2048\n/fixed_2048\nhttps://localhost:{port}/\n");
    place.write("urls.txt", &list);
    let arguments = "--duration 0.5 --mix urls.txt --json --connections 4";
    let measured = place.measure(server.address(), arguments);
    assert!(measured.0.status.success(), "{}", measured.stderr());
    let result = &measured.json()[0];
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    let whole = |name: &str| number(result, &format!("/whole_run/{name}"));
    let (requests, body) = (whole("requests"), whole("bytes/body"));
    // So many of 5,000 bytes: the page; the others have 2,048.
    let pages = (body - 2_048 * requests) as f64 / (5_000.0 - 2_048.0);
    let share = pages / requests as f64;
    assert!(requests > 30, "{requests}");
    // A third, within four standard errors.
    let error = (2.0 / 9.0 / requests as f64).sqrt();
    assert!((share - 1.0 / 3.0).abs() < 4.0 * error, "{share}");
    place.write("urls.txt", "https://example.net/\n");
    let other = place.measure(server.address(), arguments);
    assert_eq!(other.0.status.code(), Some(2));
    assert!(other.stderr().contains("line 1 is a URL of another server"));
}

#[test]
fn a_group_and_a_cipher_are_what_was_asked_for() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let server = place.nginx("ssl_ecdh_curve X25519:P-256:P-384;");
    let of = |arguments: &str, name: &str| {
        let arguments = format!("--duration 0.1 --connections 2 --json {arguments}");
        let result = place.measure(server.address(), &arguments).json().remove(0);
        assert!(number(&result, "/whole_run/requests") > 0, "{result}");
        result["server"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for (group, negotiated) in [
        ("X25519", "X25519"),
        ("p-256", "secp256r1"),
        ("P-384", "secp384r1"),
    ] {
        assert_eq!(of(&format!("--group {group}"), "group"), negotiated);
    }
    for (arguments, suite) in [
        ("--cipher aes-128-gcm", "TLS13_AES_128_GCM_SHA256"),
        ("--cipher AES-256-GCM", "TLS13_AES_256_GCM_SHA384"),
        (
            "--cipher ChaCha20-Poly1305",
            "TLS13_CHACHA20_POLY1305_SHA256",
        ),
        (
            "--tls 1.2 --cipher AES-128-GCM",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
    ] {
        assert_eq!(of(arguments, "cipher_suite"), suite);
    }
    let quantum = place.serve(
        "good",
        |config| config,
        &[&rustls::version::TLS13],
        |stream| {
            let _ = stream.write_all(ANSWER);
        },
    );
    let arguments = "--duration 0.1 --connections 2 --json --group X25519MLKEM768";
    let result = place.measure(quantum, arguments).json().remove(0);
    assert_eq!(result["server"]["group"], "X25519MLKEM768");
    assert_eq!(result["asked"]["group"], "X25519MLKEM768");
}

/// Each request was answered with this.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

#[test]
fn a_server_that_asks_gets_the_client_certificate() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let asking = place.nginx("ssl_client_certificate ca.pem; ssl_verify_client on;");
    let short = "--duration 0.1 --connections 2 --json";
    let with = format!("{short} --client-cert good.pem --client-key good.key");
    for version in ["1.2", "1.3"] {
        let measured = place.measure(asking.address(), &format!("{with} --tls {version}"));
        let result = &measured.json()[0];
        assert_eq!(result["errors"], serde_json::json!({}), "{result}");
        assert!(number(result, "/whole_run/requests") > 0, "{result}");
        assert_eq!(result["server"]["asked_for_certificate"], true);
    }
    // nginx answers a client without one, after the handshake.
    let without = &place.measure(asking.address(), short).json()[0];
    assert!(
        number(without, "/whole_run/errors/status4xx") > 0,
        "{without}"
    );
    assert_eq!(number(without, "/whole_run/requests"), 0);
    drop(asking);
    let indifferent = place.nginx("");
    let with = with.replace("--json", "");
    let table = place.measure(indifferent.address(), &with).stdout();
    assert!(
        table.contains("never asked for the client certificate"),
        "{table}"
    );
    let wrong = "--client-cert good.pem --client-key other.key";
    let measured = place.measure(indifferent.address(), wrong);
    assert_eq!(measured.0.status.code(), Some(2));
    assert!(
        measured.stderr().contains("--client-key"),
        "{}",
        measured.stderr()
    );
}

/// Answers with a staple of so many bytes, which no client of this test reads.
#[derive(Debug)]
struct Stapling(std::sync::Arc<rustls::sign::CertifiedKey>);

impl rustls::server::ResolvesServerCert for Stapling {
    fn resolve(
        &self,
        _: rustls::server::ClientHello<'_>,
    ) -> Option<std::sync::Arc<rustls::sign::CertifiedKey>> {
        Some(std::sync::Arc::clone(&self.0))
    }
}

#[test]
fn a_staple_is_seen_and_told() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    let chain = CertificateDer::pem_file_iter(place.path("good.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(place.path("good.key")).unwrap();
    let provider = tandem_channel::crypto::default_provider();
    let chain = chain.map(Result::unwrap).collect();
    let mut own = rustls::sign::CertifiedKey::from_der(chain, key, &provider).unwrap();
    own.ocsp = Some(vec![0x30; 471]);
    let server = place.serve(
        "good",
        move |mut config| {
            config.cert_resolver = std::sync::Arc::new(Stapling(std::sync::Arc::new(own)));
            config
        },
        &[&rustls::version::TLS13],
        |stream| {
            let _ = stream.write_all(ANSWER);
        },
    );
    let short = "--duration 0.3 --connections 2";
    let result = &place.measure(server, &format!("{short} --json")).json()[0];
    assert_eq!(number(result, "/server/staple_bytes"), 471, "{result}");
    let table = place.measure(server, short).stdout();
    assert!(
        table.contains("Staple: the OCSP response takes 471"),
        "{table}"
    );
}

#[test]
fn advice_is_given_from_each_choice_that_the_server_has() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let server = place.nginx("ssl_session_cache shared:s:1m; ssl_ecdh_curve X25519:P-256;");
    let out = place.path("out");
    let arguments = format!(
        "--advise --duration 0.2 --connections 4 --out {}",
        out.display()
    );
    let measured = place.measure(server.address(), &arguments);
    assert!(measured.0.status.success(), "{}", measured.stderr());
    let stdout = measured.stdout();
    for words in [
        "\n0 % reuse, TLS 1.2 ",
        "\n0 % reuse, P-256 ",
        "\n0 % reuse, ChaCha20-Poly1305 ",
        "\n0 % reuse, 10 requests each ",
        "\n100 % reuse (id) ",
        "What would help",
        "  - TLS version: ",
        "  - Group: ",
        "  - Cipher: ",
        "  - Session reuse in TLS 1.2: by id resumed ",
        "  - Keep-alive: ",
    ] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    // The server has neither; that is no failure of the run.
    assert!(!stdout.contains("MLKEM"), "{stdout}");
    let lines = std::fs::read_to_string(out.join("results.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 12, "{lines}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        page.contains("0 % reuse, TLS 1.2: full"),
        "the plot's label"
    );
}

#[test]
fn without_tls_a_connection_has_no_handshake() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1_024];
            if stream.read(&mut request).is_ok() {
                let answer =
                    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
                // A client that went away is none of this test's.
                let _ = stream.write_all(answer);
            }
        }
    });
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_tandem-measure"));
    program.arg(format!("http://localhost:{port}/"));
    program.args("--connections 2 --duration 0.3 --json".split(' '));
    let output = program.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    let count = |path| number(&result, path);
    assert!(count("/connections") > 0, "{result}");
    assert_eq!(count("/clear"), count("/connections"));
    assert_eq!((count("/full"), count("/resumed")), (0, 0));
    assert_eq!(count("/bytes/body"), 5 * count("/requests"));
    let phases = result["kinds"][0]["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str()).collect();
    let expected = ["tcp", "first_byte", "transfer"].map(Some);
    assert_eq!(
        (&result["kinds"][0]["kind"], names),
        (&Value::from("clear"), expected.to_vec())
    );
}

#[test]
fn wrong_arguments_are_one_line_and_code_2() {
    for (arguments, words) in [
        ("ftp://localhost/", "https://"),
        ("http://localhost/ --tls 1.3", "https://"),
        ("http://localhost/ --reuse 50", "leave out --reuse"),
        (
            "https://localhost/ --tls 1.3 --resumption id",
            "leave out --tls 1.3",
        ),
        ("https://localhost/ --reuse 101", "0 to 100"),
        (
            "https://localhost/ --rate 5 --connections 2",
            "cannot be used with",
        ),
        (
            "https://localhost/ --rate 5 --keep-alive all",
            "--connections",
        ),
        (
            "https://localhost/ --reuse 1 --resumption none",
            "nothing to reuse",
        ),
        ("https://localhost/ --mix fixed:x", "fixed:10240"),
        ("https://localhost/ --mix no-such-file", "no-such-file"),
        ("https://localhost/ --ca no-such-file", "no-such-file"),
        ("https://localhost/ --group X448", "X25519"),
        (
            "https://localhost/ --tls 1.2 --group X25519MLKEM768",
            "of TLS 1.3",
        ),
        ("http://localhost/ --cipher AES-128-GCM", "https://"),
        ("https://localhost/ --client-cert x", "--client-key"),
        (
            "https://localhost/ --client-cert no-such --client-key no-such",
            "no-such",
        ),
        (
            "https://localhost/ --find-rate --connections 2",
            "cannot be used with",
        ),
        (
            "https://localhost/ --find-rate --keep-alive all",
            "--connections",
        ),
        ("https://localhost/ --find-rate --p99 fast", "100ms"),
        ("https://localhost/ --p99 1s", "--find-rate"),
        (
            "https://localhost/ --advise --tls 1.2",
            "cannot be used with",
        ),
        ("--mix page --write-files x", "page"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tandem-measure"))
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(stderr.contains(words), "{arguments}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments}: {stderr}");
    }
}
