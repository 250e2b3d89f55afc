//! Rows of `mctls.jsonl`: written as soon as there is one.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use tandem_report::mctls_row::{McPart, McRow};
use tandem_testbed::LabError;

/// The parts of these names; all of them where there is no name.
///
/// # Errors
/// `Usage` for a name that is none.
pub(crate) fn parts(names: &[String]) -> Result<Vec<McPart>, LabError> {
    if names.is_empty() {
        return Ok(McPart::ALL.to_vec());
    }
    let named = |name: &String| {
        let found = McPart::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| {
            let known = McPart::ALL.map(McPart::name).join(", ");
            LabError::usage(
                format!("part {name}"),
                format!("the parts of the evaluation are {known}"),
            )
        })
    };
    names.iter().map(named).collect()
}

/// Where rows go.
pub(crate) struct Rows {
    path: PathBuf,
    file: BufWriter<File>,
    rows: Vec<McRow>,
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
    pub(crate) fn push(&mut self, row: McRow) -> Result<(), LabError> {
        let io = || LabError::io(format!("write {}", self.path.display()));
        let line = serde_json::to_string(&row).map_err(|error| io()(error.into()))?;
        writeln!(self.file, "{line}").map_err(io())?;
        self.file.flush().map_err(io())?;
        self.rows.push(row);
        Ok(())
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[McRow] {
        &self.rows
    }

    /// # Errors
    /// `TrialsFailed` where one of them has failed.
    pub(crate) fn verdict(&self) -> Result<(), LabError> {
        let failed = self.rows.iter().filter(|row| !row.ok).count();
        match self.rows.iter().find_map(|row| row.error.clone()) {
            Some(why) => Err(LabError::TrialsFailed {
                failed,
                trials: self.rows.len(),
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
    fn parts_are_known_by_name() {
        for part in McPart::ALL {
            let named = parts(&[part.name().to_owned()]).unwrap_or_default();
            assert_eq!(named, [part]);
        }
        assert_eq!(parts(&[]).unwrap_or_default(), McPart::ALL);
        let unknown = parts(&["everything".to_owned()]);
        assert!(matches!(unknown, Err(LabError::Usage { .. })));
    }
}
