//! The matrix of clients at a split site, with the programs that every lab has: what works, what is
//! refused, and what is written.

use std::fs;
use std::io::Write as _;

use tandem_split_lab::{SplitClientsOptions, split_clients};
use tandem_testbed::{Effort, LabError};

#[test]
fn clients_are_served_by_an_honest_volunteer_and_deceived_by_none() -> Result<(), LabError> {
    let io = |source| LabError::Io {
        what: "use a file of the test".to_owned(),
        source,
    };
    let out = tempfile::tempdir().map_err(io)?;
    // Where a client is not served, is deceived, or is not counted, it is an error.
    let summary = split_clients(&SplitClientsOptions {
        effort: Effort::Quick,
        out: out.path().to_owned(),
    })?;
    if summary.not_installed > 0 {
        // Straight to the terminal: what is skipped is not to look like what has passed.
        let missing = "skipped in part: a client of the matrix is not installed";
        let _ = writeln!(std::io::stderr(), "{missing}");
    }
    let clients = 2 - summary.not_installed / 17;
    assert_eq!(summary.work, 9 * clients);
    assert_eq!(summary.refused, 8 * clients);
    let page = fs::read_to_string(&summary.page).map_err(io)?;
    for line in [
        "## An honest volunteer",
        "| client | page | resumption | keep-alive |",
        "## A dishonest volunteer",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    let lines = fs::read_to_string(&summary.lines).map_err(io)?;
    assert_eq!(lines.lines().count(), 2 * 17);
    Ok(())
}
