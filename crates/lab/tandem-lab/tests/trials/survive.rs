//! The command that tells which programs survive a slow link, on one that is fast enough for all.

use std::fs;

use crate::common::{self, io};
use tandem_lab::{SurviveOptions, survive};
use tandem_testbed::LabError;

#[test]
fn every_installed_program_survives_a_link_of_some_tens_of_kilobits() -> Result<(), LabError> {
    const NAME: &str = "every_installed_program_survives_a_link_of_some_tens_of_kilobits";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    let page = survive(&SurviveOptions {
        tries: 1,
        links: vec!["certus-100".to_owned()],
        out: out.path().to_owned(),
        exe,
    })?;
    let page = fs::read_to_string(page).map_err(io)?;
    for version in ["## certus-100, TLS 1.2", "## certus-100, TLS 1.3"] {
        assert!(page.contains(version), "{page}");
    }
    let curl: Vec<usize> = page
        .lines()
        .filter(|line| line.starts_with("| curl"))
        .map(|row| row.matches("1 of 1").count())
        .collect();
    assert_eq!(
        curl,
        [3, 4],
        "a row in each version, with consent in 1.3: {page}"
    );
    assert!(!page.contains("**0 of 1**"), "{page}");
    Ok(())
}
