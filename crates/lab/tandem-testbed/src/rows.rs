//! Rows of a run: each is written as soon as there is one, so that an interrupted run keeps what it
//! has measured.
//!
//! Is not: what a row says, nor whether the run went well.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::LabError;

/// A file of rows, a line of JSON each.
pub struct Rows<T> {
    path: PathBuf,
    file: BufWriter<File>,
    rows: Vec<T>,
}

impl<T: Serialize> Rows<T> {
    /// An empty file.
    ///
    /// # Errors
    /// `Io`.
    pub fn create(path: &Path) -> Result<Self, LabError> {
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
    pub fn push(&mut self, row: T) -> Result<(), LabError> {
        let io = || LabError::io(format!("write {}", self.path.display()));
        let line = serde_json::to_string(&row).map_err(|error| io()(error.into()))?;
        writeln!(self.file, "{line}").map_err(io())?;
        self.file.flush().map_err(io())?;
        self.rows.push(row);
        Ok(())
    }

    /// All of them.
    pub fn all(&self) -> &[T] {
        &self.rows
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_the_file_as_soon_as_it_is_pushed() -> Result<(), LabError> {
        let directory = tempfile::tempdir().map_err(LabError::io("a directory"))?;
        let path = directory.path().join("rows.jsonl");
        let mut rows = Rows::create(&path)?;
        rows.push(1)?;
        rows.push(2)?;
        let written = std::fs::read_to_string(&path).map_err(LabError::io("read"))?;
        assert_eq!(written, "1\n2\n");
        assert_eq!(rows.all(), [1, 2]);
        Ok(())
    }
}
