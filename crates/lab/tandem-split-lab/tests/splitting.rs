//! The evaluation of splitting in brief: every way delivers every byte, and the ways differ as they
//! should.

#[path = "../../tandem-lab/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::PathBuf;

use common::io;
use serde_json::Value;
use tandem_report::{ReportOptions, report};
use tandem_split_lab::{SplitOptions, split};
use tandem_testbed::{Effort, LabError};

/// Noon of the day that the log is of, a request that comes again, and one that does not count.
const LOG: &str = "time\tmethod\turl\tstatus\tbytes\n\
    807256800\tGET\t/early\t200\t900\n\
    807300000\tGET\t/a\t200\t60000\n\
    807300001\tGET\t/b\t200\t20000\n\
    807300002\tGET\t/a\t304\t0\n\
    807300003\tGET\t/a\t200\t60000\n";

fn options(exe: PathBuf, out: PathBuf, parts: &[&str]) -> SplitOptions {
    SplitOptions {
        effort: Effort::Quick,
        parts: parts.iter().map(|part| (*part).to_owned()).collect(),
        logs: Some(out.clone()),
        out,
        exe,
        seed: 1,
    }
}

#[test]
fn a_warm_volunteer_spares_the_origin_what_a_cold_one_costs() -> Result<(), LabError> {
    const NAME: &str = "a_warm_volunteer_spares_the_origin_what_a_cold_one_costs";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    fs::write(out.path().join("nasa-1995-08-01.tsv"), LOG).map_err(io)?;
    // A request that fails, and a body that differs, are errors.
    let options = options(exe, out.path().to_owned(), &["sizes", "trace"]);
    let path = split(&options)?;
    let rows: Vec<Value> = fs::read_to_string(path)
        .map_err(io)?
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert_eq!(
        rows.len(),
        3 * 5 + 5,
        "three sizes and a trace by five ways"
    );
    let down = |part: &str, way: &str, size: u64| {
        let found = rows.iter().find(|row| {
            row["part"] == part && row["way"] == way && row["sizes"][0].as_u64() == Some(size)
        });
        found.and_then(|row| row["link_bytes_down"].as_u64())
    };
    let megabyte = |way| down("sizes", way, 1_000_000).unwrap_or_default();
    assert!(megabyte("http") > 1_000_000, "{rows:?}");
    assert!(
        (1_000_000..1_100_000).contains(&megabyte("cold")),
        "{rows:?}"
    );
    assert!((1_000..5_000).contains(&megabyte("warm")), "{rows:?}");
    let traced = |way| down("trace", way, 60_000).unwrap_or_default();
    assert!(traced("https") > 140_000, "{rows:?}");
    assert!(
        (80_000..100_000).contains(&traced("cold")),
        "what repeats is sent once: {rows:?}"
    );
    assert!((1_000..15_000).contains(&traced("warm")), "{rows:?}");
    let page = report(&ReportOptions {
        dir: out.path().to_owned(),
        out: None,
    })?;
    let page = fs::read_to_string(page).map_err(io)?;
    assert!(
        page.contains("Figure 5-5") && page.contains("All 30\u{a0}requests succeeded"),
        "{page}"
    );
    Ok(())
}

#[test]
fn a_part_that_is_none_is_named() -> Result<(), LabError> {
    let out = tempfile::tempdir().map_err(io)?;
    let wrong = split(&options(
        PathBuf::new(),
        out.path().to_owned(),
        &["savings"],
    ));
    let words = wrong.map_err(|error| error.to_string());
    assert!(
        words
            .as_ref()
            .is_err_and(|words| words.contains("savings") && words.contains("sizes")),
        "{words:?}"
    );
    Ok(())
}
