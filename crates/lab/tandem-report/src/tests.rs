//! The whole report over made-up rows: what is written, and that it holds together.

use std::fs;

use super::exhibit::tests::exhibit;
use super::synthetic;
use super::{ReportOptions, RunInfo, number, report};
use crate::arm::Arm;
use crate::error::ReportError;
use crate::row::Row;

/// What a report wrote.
struct Written {
    directory: tempfile::TempDir,
}

impl Written {
    fn of(rows: &[Row]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("handshake.jsonl");
        fs::write(&path, synthetic::lines(rows)).unwrap();
        RunInfo::here()
            .with_program("nginx", "1.26.3")
            .with_link("iridium", "2.4 kbit/s up and down", "table 4.1")
            .write_beside(&path)
            .unwrap();
        synthetic::waterfall().write(directory.path()).unwrap();
        exhibit().write(directory.path()).unwrap();
        let written = Self { directory };
        assert_eq!(
            report(&written.options()).unwrap(),
            written.directory.path().join("report.html")
        );
        written
    }

    fn options(&self) -> ReportOptions {
        ReportOptions {
            dir: self.directory.path().to_owned(),
            out: None,
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap()
    }
}

/// Tags that are opened and closed in order; those that HTML never closes are left out.
fn assert_nested(markup: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in markup.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag
            .trim_start_matches('/')
            .split_ascii_whitespace()
            .next()
            .unwrap()
            .trim_end_matches('/');
        if tag.starts_with('!') || tag.ends_with('/') || name == "meta" {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes nothing");
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn a_page_has_every_part_and_needs_nothing_from_elsewhere() {
    let rows = synthetic::rows();
    let written = Written::of(&rows);
    let page = written.read("report.html");
    assert_nested(&page);
    let all = format!("All {} succeeded", number::plural(rows.len(), "trial"));
    for part in [
        "On iridium, a warm pair of proxies",
        "Figures to reach in packet mode",
        "Figure 4-2",
        "Figure 4-3",
        "Figure 4-6",
        "Bytes against certificate size",
        "Figures 4-7 and 4-8: a chain as a capture shows it",
        "A handshake on iridium, packet by packet: three",
        "All figures",
        "How it is measured",
        "Limits",
        &all,
        "nginx 1.26.3",
        "9.51",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    for outside in ["src=", "href=", "@import", "<script", "https://"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(
        page.matches("http://").count(),
        page.matches("http://www.w3.org/2000/svg").count()
    );
}

#[test]
fn peers_have_a_table_that_says_what_they_take() {
    let mut rows = synthetic::rows();
    rows.extend(super::peers::tests::rows());
    let written = Written::of(&rows);
    let page = written.read("report.html");
    assert_nested(&page);
    for part in [
        "Compared with what else can be done",
        "works at first contact",
        "75\u{a0}% of TLS 1.3",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    assert!(!written.read("plots/overview.svg").contains("rustls-three"));
    assert!(written.read("tables.md").contains("## Peers"));
}

#[test]
fn identifiers_in_a_page_are_unique() {
    let page = Written::of(&synthetic::rows()).read("report.html");
    let mut identifiers: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let count = identifiers.len();
    identifiers.sort_unstable();
    identifiers.dedup();
    assert_eq!(identifiers.len(), count);
}

#[test]
fn plots_are_files_of_their_own() {
    let written = Written::of(&synthetic::rows());
    for name in [
        "overview",
        "figure-4-2",
        "figure-4-3",
        "figure-4-6",
        "figure-4-7",
        "certificate-size",
        "waterfall-handshake-iridium-three",
    ] {
        let svg = written.read(&format!("plots/{name}.svg"));
        assert!(svg.starts_with("<svg xmlns="), "{name}");
        assert_nested(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
}

#[test]
fn bars_are_written_for_scripts() {
    let written = Written::of(&synthetic::rows());
    let bars: serde_json::Value = serde_json::from_str(&written.read("bars.json")).unwrap();
    let bar = |id: &str| {
        bars.as_array()
            .unwrap()
            .iter()
            .find(|bar| bar["id"] == id)
            .unwrap()
            .clone()
    };
    // 870 of 1,840, and 1,010 of 3,660.
    assert_eq!(bar("tls-bytes-one")["outcome"], "reached");
    assert_eq!(bar("tls-bytes-one")["unit"], "percent-of-plain");
    assert_eq!(bar("tls-bytes-three")["outcome"], "reached");
    assert_eq!(bar("tls-bytes-curl")["bar"], 36.0);
    assert_eq!(bar("added-time-tcdl-10")["outcome"], "reached");
    assert_eq!(bar("memory-finished")["outcome"], "not-measured");
    assert_eq!(bar("time-iridium-one")["trials"], 20);
}

#[test]
fn the_same_rows_make_the_same_report() {
    let written = Written::of(&synthetic::rows());
    let first = (written.read("report.html"), written.read("tables.md"));
    report(&written.options()).unwrap();
    assert!(first == (written.read("report.html"), written.read("tables.md")));
}

#[test]
fn any_arm_may_be_missing() {
    for missing in Arm::ALL {
        let rows: Vec<Row> = synthetic::rows()
            .into_iter()
            .filter(|row| row.arm != missing)
            .collect();
        assert_nested(&Written::of(&rows).read("report.html"));
    }
    for only in Arm::ALL {
        let rows = synthetic::arm_rows("kite", "own", only, &[1.0, 2.0]);
        let page = Written::of(&rows).read("report.html");
        assert!(page.contains("do not compare"), "{only:?}");
    }
}

#[test]
fn failures_and_differences_stand_on_top_and_at_the_end() {
    let mut rows = synthetic::rows();
    rows[0].ok = false;
    rows[0].error = Some("no end after 60 s".to_owned());
    rows[0].seconds_first_byte = None;
    rows[45].identical = false;
    let page = Written::of(&rows).read("report.html");
    assert!(page.contains("1 failed and 1 delivered other bytes"));
    assert!(page.contains("first: no end after 60 s"));
}

#[test]
fn trials_that_all_failed_make_a_page_all_the_same() {
    let mut rows = synthetic::rows();
    for row in &mut rows {
        row.ok = false;
        row.seconds_first_byte = None;
        row.seconds_handshake = None;
    }
    let page = Written::of(&rows).read("report.html");
    assert_nested(&page);
    // Twenty trials of each arm; twenty arms are listed.
    let more = format!("and {} more; the table has all", rows.len() / 20 - 20);
    assert!(page.contains(&more));
}

#[test]
fn names_cannot_become_markup() {
    let evil = "<script>alert('x')</script>";
    let mut rows = synthetic::arm_rows(evil, evil, Arm::Plain, &[1.0, 2.0]);
    rows.extend(synthetic::arm_rows(evil, evil, Arm::Packet, &[1.0, 2.0]));
    for row in &mut rows {
        row.experiment = evil.to_owned();
        row.version = evil.to_owned();
        row.key = evil.to_owned();
        row.error = Some(evil.to_owned());
    }
    rows[0].ok = false;
    let written = Written::of(&rows);
    for name in ["report.html", "tables.md", "plots/overview.svg"] {
        assert!(!written.read(name).contains("<script"), "{name}");
    }
}

#[test]
fn figures_without_bounds_do_not_break_a_plot() {
    let mut rows = synthetic::arm_rows("iridium", "one", Arm::Plain, &[0.0, 0.0]);
    rows.extend(synthetic::arm_rows(
        "iridium",
        "one",
        Arm::Packet,
        &[1e300, 1e300],
    ));
    rows.extend(synthetic::arm_rows(
        "iridium",
        "three",
        Arm::Packet,
        &[1e-300],
    ));
    for row in &mut rows {
        row.tls_bytes_up = Some(u64::MAX);
        row.floor_bytes = Some(0);
    }
    let written = Written::of(&rows);
    let page = written.read("report.html");
    assert!(!page.contains("NaN"));
    assert_nested(&page);
}

#[test]
fn what_tls_costs_has_a_part_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let row = |tls: &str, user: u32| {
        format!(
            r#"{{"part":"load","server":"nginx <1>","tls":{tls},"resumption":"none","reuse":0,"key":"RSA-2048",
            "bytes":12288,"connections_per_second":900.0,"requests_per_second":900.0,"connections":900,"resumed":0,
            "server_resumed":null,"refused":0,"nothing_to_offer":0,"failures":0,"p50_us":1,"p99_us":2,"user_us":{user}.0,
            "kernel_us":0.0,"switches":1.0,"peak_kib":1,"memory_kib":1,"processes":1,"generator_us":1.0,
            "generator_limited":false,"steady":true}}"#
        )
        .replace('\n', "")
    };
    let rows = [row("null", 100), row("\"1.3\"", 1_000)].join("\n");
    fs::write(directory.path().join(crate::cost_row::ROWS), rows).unwrap();
    let written = Written { directory };
    report(&written.options()).unwrap();
    let page = written.read("report.html");
    assert_nested(&page);
    for words in [
        "What TLS costs at servers",
        "1999: Netscape",
        "nginx &lt;1&gt;",
        "10.0 times",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let tables = written.read("tables.md");
    assert!(
        tables.contains("## What TLS costs at servers (cost.jsonl)"),
        "{tables}"
    );
}

#[test]
fn a_report_may_go_elsewhere() {
    let written = Written::of(&synthetic::rows());
    let out = written.directory.path().join("made/for/it");
    let page = report(&ReportOptions {
        out: Some(out.clone()),
        ..written.options()
    })
    .unwrap();
    assert_eq!(page, out.join("report.html"));
    assert!(out.join("plots/figure-4-2.svg").is_file());
}

#[test]
fn an_empty_directory_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = report(&ReportOptions {
        dir: directory.path().to_owned(),
        out: None,
    });
    assert!(matches!(outcome, Err(ReportError::NoResults { .. })));
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
}
