//! What can go wrong, and the exit code of each. What the codes mean: [`tandem_daemon::exit`].

use std::process::ExitCode;

use tandem_daemon::DaemonError;
use tandem_daemon::exit::Exit;
use tandem_daemon::logging::LoggingError;
use tandem_mc::McError;

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What the library says.
    #[error(transparent)]
    Mc(#[from] McError),
    /// A session ended otherwise than it should; its report was shown.
    #[error("{0}")]
    Session(String),
    /// SIGTERM or SIGINT came first.
    #[error("interrupted")]
    Interrupted,
    /// The log's settings.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// A report has no form in JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        Self::Mc(error.into())
    }
}

/// The exit code of each failure.
fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::Logging(_) => Exit::Usage,
        Failure::Session(_) | Failure::Interrupted | Failure::Json(_) => Exit::RunTime,
        Failure::Mc(error) => match error {
            McError::Argument(_)
            | McError::Content { .. }
            | McError::Config(_)
            | McError::Tls(_) => Exit::Usage,
            McError::File { source, .. } => Exit::of_file(source),
            McError::Output(source) => Exit::of_output(source),
            McError::Daemon(error) => Exit::of_daemon(error),
            McError::Openssl(_) => Exit::Privilege,
            McError::Demo(_) | McError::Discovery(_) => Exit::RunTime,
        },
    }
}

/// Says on standard error what went wrong, in one line, and ends with its code.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit_of(&failure).report("tandem mc", &failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn each_failure_has_its_code() {
        let file = |kind: io::ErrorKind| McError::File {
            path: "x".into(),
            source: kind.into(),
        };
        let listen = |kind: io::ErrorKind| DaemonError::Listen {
            setting: "--listen",
            address: ([127, 0, 0, 1], 1).into(),
            source: kind.into(),
        };
        let busy = DaemonError::Busy {
            setting: "--listen",
            address: ([127, 0, 0, 1], 1).into(),
        };
        let table: [(Failure, Exit); 13] = [
            (Failure::Interrupted, Exit::RunTime),
            (Failure::Session(String::new()), Exit::RunTime),
            (McError::Argument(String::new()).into(), Exit::Usage),
            (McError::Config(String::new()).into(), Exit::Usage),
            (McError::Demo(String::new()).into(), Exit::RunTime),
            (McError::Discovery(String::new()).into(), Exit::RunTime),
            (McError::Openssl(String::new()).into(), Exit::Privilege),
            (file(io::ErrorKind::NotFound).into(), Exit::Usage),
            (
                file(io::ErrorKind::PermissionDenied).into(),
                Exit::Privilege,
            ),
            (
                McError::Output(io::ErrorKind::BrokenPipe.into()).into(),
                Exit::Done,
            ),
            (busy.into(), Exit::Busy),
            (listen(io::ErrorKind::AddrNotAvailable).into(), Exit::Usage),
            (
                listen(io::ErrorKind::PermissionDenied).into(),
                Exit::Privilege,
            ),
        ];
        for (failure, code) in table {
            assert_eq!(exit_of(&failure), code, "{failure:?}");
        }
    }
}
