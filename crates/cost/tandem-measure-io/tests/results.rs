//! What a result has in it, and that its parts agree with each other.

mod common;

use std::io::{Read as _, Write as _};

use common::{Place, has, is_written, number};
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

#[test]
fn the_files_of_a_mix_are_what_it_asks_for() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let written = std::process::Command::new(env!("CARGO_BIN_EXE_tandem-measure"))
        .args(["--mix", "specweb96", "--write-files"])
        .arg(place.path(""))
        .output()
        .unwrap();
    assert!(written.status.success(), "{written:?}");
    assert!(is_written(&place.path("class3_9")));
    let server = place.nginx("");
    let measured = place.measure(
        server.address(),
        "--duration 0.5 --mix specweb96 --keep-alive all --json",
    );
    let result = &measured.json()[0];
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    let (requests, body) = (number(result, "/requests"), number(result, "/bytes/body"));
    // The mean of the mix is 14.6 kB; of some requests it is at least a tenth of that.
    assert!(
        requests > 20 && body / requests > 1_000,
        "{requests}, {body}"
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
