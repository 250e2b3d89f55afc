//! A search for the highest rate, at servers whose limit is known.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::number;
use serde_json::Value;

/// What each request takes of the server, which serves one at a time.
const SERVICE: Duration = Duration::from_millis(10);

/// A server that can serve so many requests a second at most: 100.
fn server(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("a bound socket").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1_024];
            if stream.read(&mut request).is_ok() {
                // Its work: what it takes is the limit that is to be found.
                thread::sleep(SERVICE);
                // A client that gave up is none of the server's.
                let _ = stream.write_all(answer);
            }
        }
    });
    port
}

fn search(port: u16, arguments: &str) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_tandem-measure"))
        .arg(format!("http://localhost:{port}/"))
        .args(arguments.split_whitespace())
        .output()
        .expect("the program was built for this test")
}

#[test]
fn the_limit_of_a_server_is_found_and_the_way_to_it_told() {
    let port = server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display();
    let arguments =
        format!("--find-rate --p99 100ms --rate 40 --duration 1.5 --seed 3 --json --out {out}");
    let output = search(port, &arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = &result["find_rate"];
    let rate = found["rate"].as_f64().unwrap();
    // 100 a second, of which a queue within 100 ms leaves a part. A busy machine serves fewer.
    assert!((20.0..=100.0).contains(&rate), "{found}");
    assert_eq!(found["p99_bound"], 100_000);
    assert_eq!(found["limited_by"], "latency", "{found}");
    assert!(number(&result, "/latency/p99") <= 100_000, "{result}");
    assert_eq!(result["load"]["rate"].as_f64(), Some(rate));
    let tried = found["tried"].as_array().unwrap();
    assert_eq!(tried[0]["rate"].as_f64(), Some(40.0));
    // A run that was a little too slow is repeated, and its rate may hold then.
    let above = tried.iter().filter(|trial| trial["verdict"] != "held");
    let lowest = above
        .filter_map(|trial| trial["rate"].as_f64())
        .filter(|above| *above != rate)
        .fold(f64::INFINITY, f64::min);
    assert!(tried.len() >= 4 && lowest > rate, "{found}");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    for part in [
        "The search for a rate",
        "is the highest rate with p99",
        "search",
        "too slow",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_server_that_is_always_too_slow_holds_no_rate() {
    let port = server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    // Each request takes ten times the bound.
    let output = search(port, "--find-rate --p99 1ms --rate 2 --duration 0.3");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    // The shortest run was long enough to judge the rate by.
    assert!(!stdout.contains("requests failed"), "{stdout}");
    assert!(stdout.contains("NO RATE HELD p99 within 1 ms"), "{stdout}");
    assert!(stdout.contains("too slow"), "the table of runs: {stdout}");
}

#[test]
fn a_server_that_answers_nothing_is_not_searched() {
    let port = server(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let output = search(port, "--find-rate --duration 0.3");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("500 or above"), "{stderr}");
}
