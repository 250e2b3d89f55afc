//! Rows of `splitting.jsonl`: written as soon as there is one, and whether every byte was the
//! server's.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use tandem_report::split_row::{Part, SplitRow};

use tandem_testbed::LabError;

/// The parts of these names; all of them where there is no name.
///
/// # Errors
/// `Usage` for a name that is none.
pub(crate) fn parts(names: &[String]) -> Result<Vec<Part>, LabError> {
    if names.is_empty() {
        return Ok(Part::ALL.to_vec());
    }
    let known = || Part::ALL.map(Part::name).join(", ");
    names
        .iter()
        .map(|name| {
            Part::ALL
                .into_iter()
                .find(|part| part.name() == name)
                .ok_or_else(|| {
                    LabError::usage(
                        format!("part {name}"),
                        format!("is none of the evaluation's: {}", known()),
                    )
                })
        })
        .collect()
}

/// Where rows go, each as soon as there is one.
pub(crate) struct Rows {
    path: PathBuf,
    file: BufWriter<File>,
    rows: Vec<SplitRow>,
}

impl Rows {
    /// An empty file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(path: &Path) -> Result<Self, LabError> {
        let file = File::create(path).map_err(LabError::io(format!("write {}", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            rows: Vec::new(),
        })
    }

    /// Writes one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn push(&mut self, row: SplitRow) -> Result<(), LabError> {
        let io = || LabError::io(format!("write {}", self.path.display()));
        let line = serde_json::to_string(&row).map_err(|error| io()(error.into()))?;
        writeln!(self.file, "{line}").map_err(io())?;
        self.file.flush().map_err(io())?;
        self.rows.push(row);
        Ok(())
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[SplitRow] {
        &self.rows
    }

    /// # Errors
    /// `BytesDiffer` or `TrialsFailed` where something of that kind is in them.
    pub(crate) fn verdict(&self) -> Result<(), LabError> {
        let trials = self.rows.len();
        let differing = self
            .rows
            .iter()
            .filter(|row| row.ok && !row.identical)
            .count();
        if differing > 0 {
            return Err(LabError::BytesDiffer {
                differing,
                trials,
                rows: self.path.clone(),
            });
        }
        let failed = self.rows.iter().filter(|row| !row.ok).count();
        match self.rows.iter().find_map(|row| row.error.clone()) {
            Some(why) => Err(LabError::TrialsFailed {
                failed,
                trials,
                why,
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_the_names_that_rows_have() {
        for part in Part::ALL {
            let named = parts(&[part.name().to_owned()]).unwrap_or_default();
            assert_eq!(named, [part]);
            let in_rows = serde_json::to_value(part).unwrap_or_default();
            assert_eq!(in_rows.as_str(), Some(part.name()));
        }
        assert_eq!(parts(&[]).unwrap_or_default(), Part::ALL);
        let unknown = parts(&["everything".to_owned()]);
        assert!(matches!(unknown, Err(LabError::Usage { .. })));
    }
}
