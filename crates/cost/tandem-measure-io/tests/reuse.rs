//! The share of reused sessions is kept, by the server's own count, whatever the means.

mod common;

use common::{Place, has, number};
use serde_json::Value;

/// Long enough for some hundreds of connections; the counts tell whether there were.
const LOAD: &str = "--connections 8 --duration 1 --json --reuse 50";

/// The counts of the whole run: full, resumed, by this means.
fn counts(result: &Value, means: &str) -> [u64; 3] {
    ["full", "resumed", &format!("resumed_by/{means}")]
        .map(|name| number(result, &format!("/whole_run/{name}")))
}

/// 50.0 %, within 0.5, or what the last connection of each of the generator's threads may change.
fn assert_half(full: u64, resumed: u64, what: &str) {
    let all = full + resumed;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let ends = 2 * threads.min(8) as u64;
    assert!(all >= 50, "{what}: {full} and {resumed}");
    assert!(
        full.abs_diff(resumed) <= ends.max(all / 100),
        "{what}: {} % of {all}",
        resumed as f64 * 100.0 / all as f64
    );
}

#[test]
fn nginx_counts_as_many_reused_sessions_as_were_asked_for() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    for (means, directives) in [
        (
            "id",
            "ssl_session_cache shared:s:1m; ssl_session_tickets off;",
        ),
        ("ticket", "ssl_session_tickets on;"),
        ("psk", "ssl_session_tickets on;"),
    ] {
        let server = place.nginx(directives);
        let measured = place.measure(server.address(), &format!("{LOAD} --resumption {means}"));
        let results = measured.json();
        let [full, resumed, by_means] = counts(&results[0], means);
        // It writes what it has at its end.
        drop(server);
        let log = place.text("access.log");
        let by_server = |mark: &str| log.lines().filter(|line| *line == mark).count() as u64;
        let (new, reused) = (by_server("."), by_server("r"));
        assert_half(new, reused, means);
        assert_eq!((new, reused), (full, resumed), "{means}");
        assert_eq!(by_means, resumed, "{means}");
        assert_eq!(number(&results[0], "/refused"), 0, "{means}");
        std::fs::remove_file(place.path("access.log")).unwrap();
    }
}

#[test]
fn s_server_counts_as_many_reused_sessions_as_were_asked_for() {
    if !has(&[]) {
        return;
    }
    let place = Place::new();
    for (means, flags) in [("id", "-no_ticket"), ("ticket", ""), ("psk", "")] {
        let server = place.s_server(flags);
        let measured = place.measure(server.address(), &format!("{LOAD} --resumption {means}"));
        let results = measured.json();
        let [full, resumed, by_means] = counts(&results[0], means);
        let says = |words| place.s_server_says(&server, words);
        let (hits, misses) = (says("session cache hits"), says("session cache misses"));
        let accepts = says("server accepts that finished");
        // The three that asked for these figures were new.
        let new = accepts - 3 - hits;
        // It keeps 128 sessions, and not always the newest ones: what it has dropped, it was
        // offered all the same.
        assert_half(new - misses, hits + misses, means);
        assert_eq!([new, hits, hits], [full, resumed, by_means], "{means}");
        assert_eq!(misses, number(&results[0], "/whole_run/refused"), "{means}");
    }
}

#[test]
fn a_sweep_has_a_result_for_each_share() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let server = place.nginx("ssl_session_tickets on;");
    let out = place.path("out");
    let arguments = format!(
        "--reuse-sweep 0,100 --rate 150 --duration 0.5 --out {}",
        out.display()
    );
    let measured = place.measure(server.address(), &arguments);
    assert!(measured.0.status.success(), "{}", measured.stderr());
    let lines = std::fs::read_to_string(out.join("results.jsonl")).unwrap();
    let results: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(results.len(), 2);
    let whole = |result: &Value, name: &str| number(result, &format!("/whole_run/{name}"));
    assert_eq!(whole(&results[0], "resumed"), 0);
    // Each thread's first is full, and those that start before it has brought a session: more of
    // them on a busy machine.
    let (full, resumed) = (whole(&results[1], "full"), whole(&results[1], "resumed"));
    assert!(full >= 1 && resumed > full, "{full}, {resumed}");
    assert!(
        measured.stdout().contains("a resumed handshake took"),
        "the advice"
    );
    assert!(
        measured.stdout().contains("connections/s"),
        "the comparison"
    );
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for part in [
        "sweep-rate",
        "phases",
        "100 % reuse",
        "What would help",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["<script", "<link", "src=", "href=", "url(http"] {
        assert!(!page.contains(outside), "{outside}");
    }
}
