//! Why there is no report.

use std::io;
use std::path::PathBuf;

/// What kept a report from being made, by who is at fault.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is nothing to report on.
    #[error(
        "{} holds no results: `tandem lab run FILE --out {}` makes some",
        dir.display(),
        dir.display()
    )]
    NoResults {
        /// Where rows were looked for.
        dir: PathBuf,
    },
    /// A file of results does not read.
    #[error("{}, line {line}: {why}", file.display())]
    DamagedResults {
        /// The file.
        file: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A file could not be read or written.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl ReportError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
