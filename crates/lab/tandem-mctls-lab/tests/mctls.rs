//! The evaluation of multi-context TLS in brief: every protocol carries every byte, and the figures
//! that are no matter of time are as they should be.

#[path = "../../tandem-lab/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::PathBuf;

use common::io;
use serde_json::Value;
use tandem_mctls_lab::{MctlsOptions, mctls};
use tandem_report::{ReportOptions, report};
use tandem_testbed::{Effort, LabError};

fn options(out: PathBuf, parts: &[&str]) -> MctlsOptions {
    MctlsOptions {
        effort: Effort::Quick,
        out,
        parts: parts.iter().map(|part| (*part).to_owned()).collect(),
        seed: 1,
    }
}

#[test]
fn every_protocol_carries_every_byte_and_its_handshake_is_counted() -> Result<(), LabError> {
    const NAME: &str = "every_protocol_carries_every_byte_and_its_handshake_is_counted";
    if !common::may_run(NAME) {
        return Ok(());
    }
    let out = tempfile::tempdir().map_err(io)?;
    // A trial that fails, and a byte that differs, are errors.
    let path = mctls(&options(out.path().to_owned(), &[]))?;
    let rows: Vec<Value> = fs::read_to_string(path)
        .map_err(io)?
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |part: &str, arm: &str, middleboxes: u64, contexts: u64| {
        let found = rows.iter().find(|row| {
            row["part"] == part
                && row["arm"] == arm
                && row["middleboxes"] == middleboxes
                && row["contexts"] == contexts
        });
        found
            .unwrap_or_else(|| panic!("no row of {part}, {arm}"))
            .clone()
    };
    let figure = |row: &Value, name: &str| row[name].as_u64().unwrap_or_default();
    let handshake = |arm, middleboxes, contexts| {
        let row = of("handshake", arm, middleboxes, contexts);
        figure(&row, "stream_up") + figure(&row, "stream_down")
    };
    // The prototype's with one context and one middlebox.
    let ours = handshake("mctls13", 1, 1);
    assert!((1_500..3_899).contains(&ours), "{ours} bytes");
    assert!(handshake("mctls13", 2, 1) - ours < 2_000);
    assert!(handshake("mctls13", 1, 4) > ours);
    let split = handshake("split-tls", 1, 1);
    assert!(
        (800..1_800).contains(&split) && split < ours,
        "{split} bytes"
    );
    assert_eq!(handshake("none", 1, 1), 0);
    let overhead = |arm, contexts| {
        let row = of("overhead", arm, 1, contexts);
        figure(&row, "stream_up") + figure(&row, "stream_down") - figure(&row, "bytes")
    };
    assert_eq!(overhead("none", 1), 0);
    assert!(overhead("mctls13", 4) > overhead("split-tls", 1));
    for arm in ["mctls13", "mctls12", "split-tls", "end-to-end-tls"] {
        let row = of("connections", arm, 1, 1);
        assert!(
            figure(&row, "server_us") > 0 && figure(&row, "middlebox_us") > 0,
            "{row}"
        );
    }
    let files = rows.iter().filter(|row| row["part"] == "transfer");
    assert_eq!(files.count(), 2 * 5, "two files by five protocols");
    let lines = rows.iter().find(|row| row["part"] == "lines");
    assert!(lines.is_some_and(|row| row["lines"]["added"].as_u64() > Some(5)));

    let options = ReportOptions {
        dir: out.path().to_owned(),
        out: None,
    };
    let page = fs::read_to_string(report(&options)?).map_err(io)?;
    assert!(page.contains("Multi-context TLS: figures to reach") && page.contains("Figure 8"));
    let tables = fs::read_to_string(out.path().join("mctls.md")).map_err(io)?;
    assert!(tables.starts_with("# Multi-context TLS\n\nMeasured "));
    assert!(tables.contains("## Figures to reach") && !tables.contains("not measured"));
    assert!(out.path().join("mctls.run.json").is_file());
    Ok(())
}

#[test]
fn a_part_that_is_none_is_named() -> Result<(), LabError> {
    const NAME: &str = "a_part_that_is_none_is_named";
    if !common::may_run(NAME) {
        return Ok(());
    }
    let out = tempfile::tempdir().map_err(io)?;
    let wrong = mctls(&options(out.path().to_owned(), &["savings"]));
    let words = wrong.map_err(|error| error.to_string());
    assert!(
        words
            .as_ref()
            .is_err_and(|words| words.contains("savings") && words.contains("first-byte")),
        "{words:?}"
    );
    Ok(())
}
