//! What can go wrong in the lab, by who is at fault.
//!
//! Every message is one line that says what to do. A failed trial is not an error: it is a result
//! row with `ok: false`.

use std::io;
use std::path::PathBuf;

use tandem_report::ReportError;

/// Why the lab could not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The caller lacks a privilege.
    #[error(
        "the lab needs root (network namespaces, TUN devices, packet capture): run it with sudo"
    )]
    NotRoot,
    /// The kernel lacks something.
    #[error("the kernel does not offer {what}: {source}")]
    Kernel {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// The machine lacks a program.
    #[error("the program {program} is not installed; it is in the package {package}")]
    ProgramMissing {
        /// Its name.
        program: &'static str,
        /// Where Debian has it.
        package: &'static str,
    },
    /// A program of this repository is not there.
    #[error("{program} is neither beside this program nor on the PATH; {remedy}")]
    NotBuilt {
        /// Its name.
        program: &'static str,
        /// What makes it.
        remedy: &'static str,
    },
    /// The caller's experiment file, preset, host name or option does not fit.
    #[error("{what}: {why}")]
    Usage {
        /// The file or option at fault.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// Another lab holds what is needed.
    #[error("{what} is in use: {remedy}")]
    Busy {
        /// What is held.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A program that the lab started did not do its part.
    #[error("{command} failed: {why}")]
    Command {
        /// As it was called.
        command: String,
        /// Its own words, or how it ended.
        why: String,
    },
    /// A file or socket could not be used.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The promise is broken: an endpoint received other bytes than were sent.
    #[error(
        "{differing} of {trials} trials delivered other bytes than were sent; see `identical: false` in {rows}"
    )]
    BytesDiffer {
        /// Trials with a difference.
        differing: usize,
        /// Trials in all.
        trials: usize,
        /// The file with the rows.
        rows: PathBuf,
    },
    /// Trials failed where each was to succeed.
    #[error("{failed} of {trials} trials failed: {why}")]
    TrialsFailed {
        /// Trials that failed.
        failed: usize,
        /// Trials in all.
        trials: usize,
        /// The first one's reason.
        why: String,
    },
    /// There is no report to be made of these results.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The user ended it.
    #[error("interrupted; all that the lab set up is taken down")]
    Interrupted,
}

impl LabError {
    /// Makes an `Io` of the system's answer to what was tried: `map_err(LabError::io("..."))`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let what = what.into();
        move |source| LabError::Io { what, source }
    }

    /// What the caller gave, and what is wrong with it.
    pub fn usage(what: impl Into<String>, why: impl Into<String>) -> LabError {
        LabError::Usage {
            what: what.into(),
            why: why.into(),
        }
    }
}
