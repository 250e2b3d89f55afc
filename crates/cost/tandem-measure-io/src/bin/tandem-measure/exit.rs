//! What can go wrong, and the exit code of each. What the codes mean: [`tandem_daemon::exit`].

use std::io;
use std::process::ExitCode;

use tandem_daemon::exit::Exit;
use tandem_measure_io::MeasureError;

/// Why nothing was measured, or what was is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It could not be begun, or its files could not be written.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// The server never answered.
    #[error("nothing was measured: {0}")]
    NoAnswer(String),
    /// A result has no form in JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Standard output takes no more.
    #[error("standard output: {0}")]
    Output(io::Error),
}

/// The exit code of each failure.
fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::Output(source) => Exit::of_output(source),
        Failure::NoAnswer(_) | Failure::Json(_) => Exit::RunTime,
        Failure::Measure(error) => match error {
            MeasureError::Url { .. }
            | MeasureError::Options(_)
            | MeasureError::Certificates { .. }
            | MeasureError::Identity { .. }
            | MeasureError::Mix { .. } => Exit::Usage,
            MeasureError::File { source, .. } => Exit::of_file(source),
            // Also what a later version of the library may add: none of it is the caller's fault.
            _ => Exit::RunTime,
        },
    }
}

/// Says on standard error what went wrong, in one line, and ends with its code.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit_of(&failure).report("tandem measure", &failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_code() {
        let no_file = |kind: io::ErrorKind| MeasureError::File {
            path: "x".into(),
            source: kind.into(),
        };
        for (failure, code) in [
            (Failure::NoAnswer(String::new()), Exit::RunTime),
            (
                Failure::Output(io::ErrorKind::BrokenPipe.into()),
                Exit::Done,
            ),
            (no_file(io::ErrorKind::NotFound).into(), Exit::Usage),
            (
                no_file(io::ErrorKind::PermissionDenied).into(),
                Exit::Privilege,
            ),
            (MeasureError::Options("x").into(), Exit::Usage),
        ] {
            assert_eq!(exit_of(&failure), code, "{failure}");
        }
    }
}
