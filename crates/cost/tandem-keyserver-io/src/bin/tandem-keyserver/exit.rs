//! What can go wrong, and the exit code of each. What the codes mean: [`tandem_daemon::exit`].

use std::io;
use std::process::ExitCode;

use tandem_daemon::DaemonError;
use tandem_daemon::exit::Exit;
use tandem_daemon::logging::LoggingError;
use tandem_keyserver_io::KeyServerError;

/// Why the program ends before it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The log's settings.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// The key server does not start.
    #[error(transparent)]
    Server(#[from] KeyServerError),
    /// Standard output takes no more.
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        Self::Server(error.into())
    }
}

/// The exit code of each failure.
fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::Logging(_) => Exit::Usage,
        Failure::Output(source) => Exit::of_output(source),
        Failure::Server(error) => match error {
            KeyServerError::File { source, .. } => Exit::of_file(source),
            KeyServerError::Content { .. } => Exit::Usage,
            KeyServerError::System { .. } => Exit::RunTime,
            KeyServerError::Daemon(error) => Exit::of_daemon(error),
        },
    }
}

/// Says on standard error what went wrong, in one line, and ends with its code.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit_of(&failure).report("tandem keyserver", &failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_code() {
        let file = |kind: io::ErrorKind| KeyServerError::File {
            path: "x".into(),
            source: kind.into(),
        };
        let address = ([127, 0, 0, 1], 1).into();
        let listening = |kind: io::ErrorKind| DaemonError::listening("x", address, kind.into());
        let content = KeyServerError::Content {
            path: "x".into(),
            reason: String::new(),
        };
        for (failure, code) in [
            (
                Failure::Output(io::ErrorKind::BrokenPipe.into()),
                Exit::Done,
            ),
            (file(io::ErrorKind::NotFound).into(), Exit::Usage),
            (
                file(io::ErrorKind::PermissionDenied).into(),
                Exit::Privilege,
            ),
            (content.into(), Exit::Usage),
            (listening(io::ErrorKind::AddrInUse).into(), Exit::Busy),
            (
                listening(io::ErrorKind::AddrNotAvailable).into(),
                Exit::Usage,
            ),
            (
                listening(io::ErrorKind::PermissionDenied).into(),
                Exit::Privilege,
            ),
        ] {
            assert_eq!(exit_of(&failure), code, "{failure}");
        }
    }
}
