//! A matrix of trials: its rows worked off side by side, its table, and the files with its results.
//!
//! Is not: what a trial is, or what its outcome means; that is each experiment's. Invariant: the
//! results are in the order of the rows, whichever is done first.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tandem_report::RunInfo;

use crate::LabError;

/// A program and the version that took part; `None`: not installed.
pub type Installed = (&'static str, Option<String>);

/// Rows that are tried at a time where clients and servers take turns within one, so that two rows
/// keep two processors busy.
pub const TWO_PROCESSORS: usize = 2;

/// Works off all rows, so many at a time; all cells, in the order of the rows.
///
/// # Errors
/// The first error of a row; rows that have not begun by then are left out.
pub fn work_off<R: Sync, C: Send>(
    side_by_side: usize,
    rows: &[R],
    row: impl Fn(&R) -> Result<Vec<C>, LabError> + Sync,
) -> Result<Vec<C>, LabError> {
    let queue: Mutex<VecDeque<_>> = Mutex::new(rows.iter().enumerate().collect());
    let results: Mutex<Vec<(usize, Vec<C>)>> = Mutex::default();
    let failure: Mutex<Option<LabError>> = Mutex::default();
    let next = || lock(&queue).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..side_by_side {
            scope.spawn(|| {
                while let Some((index, of)) = next() {
                    match row(of) {
                        Ok(cells) => lock(&results).push((index, cells)),
                        Err(error) => {
                            // The first error is the reason, those of the others are its
                            // consequences.
                            lock(&failure).get_or_insert(error);
                            lock(&queue).clear();
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    let mut results = std::mem::take(&mut *lock(&results));
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().flat_map(|(_, cells)| cells).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A table in Markdown, a row for each of `rows`; where `cell` has nothing to say, it stays empty.
pub fn table(
    corner: &str,
    rows: &[Installed],
    columns: &[&str],
    cell: impl Fn(&str, &str) -> Option<String>,
) -> String {
    let mut text = format!(
        "| {corner} | {} |\n|---|{}\n",
        columns.join(" | "),
        "---|".repeat(columns.len())
    );
    for (row, _) in rows {
        let cells: Vec<String> = columns
            .iter()
            .map(|column| cell(row, column).unwrap_or_default())
            .collect();
        let _ = writeln!(text, "| {row} | {} |", cells.join(" | "));
    }
    text
}

/// The files with a matrix's results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The page, Markdown.
    pub page: PathBuf,
    /// A line of JSON for each cell.
    pub lines: PathBuf,
}

/// Writes `NAME.md`, `NAME.jsonl` and `NAME.run.json`, the last with the `programs` that took part.
///
/// # Errors
/// `Io` where a file cannot be written.
pub fn write<'a, C: Serialize>(
    out: &Path,
    name: &str,
    cells: &[C],
    page: &str,
    programs: impl IntoIterator<Item = &'a Installed>,
) -> Result<Written, LabError> {
    let written = Written {
        page: out.join(format!("{name}.md")),
        lines: out.join(format!("{name}.jsonl")),
    };
    let lines = &written.lines;
    let failed = || LabError::io(format!("write {}", lines.display()));
    let mut file = BufWriter::new(File::create(lines).map_err(failed())?);
    for cell in cells {
        let text = serde_json::to_string(cell).map_err(|error| failed()(error.into()))?;
        writeln!(file, "{text}").map_err(failed())?;
    }
    file.flush().map_err(failed())?;
    fs::write(&written.page, page)
        .map_err(LabError::io(format!("write {}", written.page.display())))?;
    let mut info = RunInfo::here();
    for (name, found) in programs {
        if let Some(found) = found {
            info = info.with_program(*name, found);
        }
    }
    info.write_beside(lines)?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn cells_are_in_the_order_of_the_rows_whichever_is_done_first() {
        // The first row ends when the third has begun, so after the second.
        let third = Barrier::new(2);
        let cells = work_off(TWO_PROCESSORS, &[0, 1, 2], |row| {
            if *row != 1 {
                third.wait();
            }
            Ok(vec![row * 10, row * 10 + 1])
        });
        assert_eq!(cells.expect("no error"), [0, 1, 10, 11, 20, 21]);
    }

    #[test]
    fn an_error_ends_the_matrix() {
        let outcome = work_off(TWO_PROCESSORS, &[0, 1, 2], |row| match row {
            1 => Err(LabError::Interrupted),
            _ => Ok(vec![*row]),
        });
        assert!(matches!(outcome, Err(LabError::Interrupted)), "{outcome:?}");
    }

    #[test]
    fn a_table_leaves_empty_what_was_not_tried() {
        let rows = [("curl", None), ("wget", Some("1.2".to_owned()))];
        let text = table("client", &rows, &["nginx", "openssl"], |row, column| {
            (row == "curl" && column == "openssl").then(|| "works".to_owned())
        });
        let expected =
            "| client | nginx | openssl |\n|---|---|---|\n| curl |  | works |\n| wget |  |  |\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_files_have_a_line_a_cell_the_page_and_the_programs_there_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let programs = [("curl", Some("8.1".to_owned())), ("wget", None)];
        let written =
            write(folder.path(), "trial", &[1, 2], "the page", &programs).expect("writable");
        let read = |path: &Path| fs::read_to_string(path).expect("written");
        assert_eq!(read(&written.lines), "1\n2\n");
        assert_eq!(read(&written.page), "the page");
        let info = read(&folder.path().join("trial.run.json"));
        assert!(info.contains("8.1") && !info.contains("wget"), "{info}");
    }
}
