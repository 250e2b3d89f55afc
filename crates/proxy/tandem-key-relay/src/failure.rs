//! What can go wrong, and the exit code of each. What the codes mean: [`tandem_daemon::exit`].

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::errno::Errno;
use tandem_channel::ChannelError;
use tandem_daemon::DaemonError;
use tandem_daemon::exit::Exit;
use tandem_daemon::logging::LoggingError;

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line, or what it names, is wrong.
    #[error("{0}")]
    Usage(String),
    /// A file that the command line names cannot be used.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A socket that cannot be bound. The message names it.
    #[error("--socket: {0}")]
    Socket(io::Error),
    /// What every daemon needs.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The channel's keys.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// Logging.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        source: io::Error,
    },
}

impl Failure {
    pub(crate) fn file(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::File {
            path: path.to_owned(),
            source: source.into(),
        }
    }

    pub(crate) fn system(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::System {
            what,
            source: errno.into(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Logging(_) => Exit::Usage,
            Self::File { source, .. } => Exit::of_file(source),
            Self::Socket(error) => match error.kind() {
                io::ErrorKind::AddrInUse => Exit::Busy,
                _ => Exit::of_file(error),
            },
            Self::Daemon(error) => Exit::of_daemon(error),
            Self::System { .. } => Exit::RunTime,
            Self::Channel(ChannelError::File { source, .. }) => Exit::of_file(source),
            Self::Channel(ChannelError::Content { .. }) => Exit::Usage,
            Self::Channel(ChannelError::System { .. }) => Exit::RunTime,
        }
    }
}

/// Ends the program: its exit code, and one line that says why.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => Exit::Done.into(),
        Err(failure) => failure.exit().report("tandem keytap", &failure),
    }
}
