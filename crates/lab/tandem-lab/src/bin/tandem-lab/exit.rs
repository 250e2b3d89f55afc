//! What can go wrong in the lab, and the exit code of each. What the codes mean:
//! [`tandem_daemon::exit`].

use std::process::ExitCode;

use tandem_daemon::exit::Exit;
use tandem_daemon::logging::LoggingError;
use tandem_report::ReportError;
use tandem_testbed::LabError;

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The log's settings.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// The lab itself.
    #[error(transparent)]
    Lab(#[from] LabError),
}

/// The exit code of each failure. Every arm is written out: a new failure has to choose.
fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::Logging(_) => Exit::Usage,
        Failure::Lab(error) => match error {
            LabError::NotRoot
            | LabError::Kernel { .. }
            | LabError::ProgramMissing { .. }
            | LabError::NotBuilt { .. } => Exit::Privilege,
            LabError::Usage { .. } => Exit::Usage,
            LabError::Report(error) => exit_of_report(error),
            LabError::Busy { .. } => Exit::Busy,
            LabError::Io { source, .. } => Exit::of_file(source),
            LabError::Command { .. }
            | LabError::BytesDiffer { .. }
            | LabError::TrialsFailed { .. }
            | LabError::Interrupted => Exit::RunTime,
        },
    }
}

/// A report that is not made.
fn exit_of_report(error: &ReportError) -> Exit {
    match error {
        ReportError::NoResults { .. } => Exit::Usage,
        ReportError::DamagedResults { .. } => Exit::Damaged,
        ReportError::Io { source, .. } => Exit::of_file(source),
    }
}

/// Says on standard error what went wrong, in one line, and ends with its code.
pub(crate) fn report(outcome: Result<ExitCode, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(failure) => exit_of(&failure).report("tandem lab", &failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::PathBuf;

    fn io_error(kind: io::ErrorKind) -> io::Error {
        io::Error::from(kind)
    }

    fn other() -> io::Error {
        io_error(io::ErrorKind::Other)
    }

    fn text() -> String {
        "text".to_owned()
    }

    fn path() -> PathBuf {
        PathBuf::from("/a/path")
    }

    #[test]
    fn failures_have_the_documented_codes() {
        let table = [
            (LabError::NotRoot, Exit::Privilege),
            (
                LabError::Kernel {
                    what: "TUN",
                    source: other(),
                },
                Exit::Privilege,
            ),
            (
                LabError::ProgramMissing {
                    program: "nginx",
                    package: "nginx-light",
                },
                Exit::Privilege,
            ),
            (
                LabError::Usage {
                    what: text(),
                    why: text(),
                },
                Exit::Usage,
            ),
            (
                LabError::Busy {
                    what: text(),
                    remedy: "wait",
                },
                Exit::Busy,
            ),
            (
                LabError::Command {
                    command: text(),
                    why: text(),
                },
                Exit::RunTime,
            ),
            (
                LabError::Io {
                    what: text(),
                    source: io_error(io::ErrorKind::NotFound),
                },
                Exit::Usage,
            ),
            (
                LabError::Io {
                    what: text(),
                    source: other(),
                },
                Exit::RunTime,
            ),
            (
                LabError::BytesDiffer {
                    differing: 1,
                    trials: 2,
                    rows: path(),
                },
                Exit::RunTime,
            ),
            (
                LabError::TrialsFailed {
                    failed: 1,
                    trials: 2,
                    why: text(),
                },
                Exit::RunTime,
            ),
            (ReportError::NoResults { dir: path() }.into(), Exit::Usage),
            (
                ReportError::DamagedResults {
                    file: path(),
                    line: 1,
                    why: text(),
                }
                .into(),
                Exit::Damaged,
            ),
            (LabError::Interrupted, Exit::RunTime),
            (
                LabError::NotBuilt {
                    program: "tandem",
                    remedy: "build it",
                },
                Exit::Privilege,
            ),
        ];
        for (error, expected) in table {
            assert_eq!(exit_of(&Failure::Lab(error)), expected);
        }
    }
}
