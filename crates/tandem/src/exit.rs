//! What can go wrong, and the exit code of each: the one place where the two meet.
//!
//! | code | means |
//! |---|---|
//! | 0 | done; a daemon was asked to stop and has cleaned up |
//! | 1 | failed at run time: the network, the disk, a peer, ourselves |
//! | 2 | usage or configuration: the command line, the settings file or a file that they name is wrong |
//! | 3 | a privilege or a feature of the kernel is missing |
//! | 4 | something that is needed is in use: queue, port, store, lock |
//! | 5 | the input is damaged: capture, export, store |
//!
//! Scripts rely on the codes (`docs/exit-codes.md`); a table test pins them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How a run of the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    RunTime = 1,
    Usage = 2,
    Privilege = 3,
    Busy = 4,
    Damaged = 5,
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line, or what it names, is wrong.
    #[error("{0}")]
    Usage(String),
    /// The usage was shown instead of a message.
    #[error("no command was given")]
    Shown,
    /// A file that the command line names could not be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The operating system gave no random bytes.
    #[error("no random bytes from the operating system: {0}")]
    Random(String),
    /// Standard output takes no more.
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl Failure {
    /// A file that could not be read or written.
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// The exit code of each failure. Every arm is written out: a new failure has to choose.
fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::Usage(_) | Failure::Shown => Exit::Usage,
        Failure::File { source, .. } => exit_of_file(source),
        Failure::Random(_) => Exit::RunTime,
        Failure::Output(source) if source.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Failure::Output(_) => Exit::RunTime,
    }
}

/// A file that was named wrongly is a matter of usage, one that may not be touched of privilege.
fn exit_of_file(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            Exit::Usage
        }
        io::ErrorKind::PermissionDenied => Exit::Privilege,
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Exit::Damaged,
        _ => Exit::RunTime,
    }
}

/// Says on standard error what went wrong, in one line, and ends with its code.
pub(crate) fn report(outcome: Result<ExitCode, Failure>) -> ExitCode {
    let failure = match outcome {
        Ok(code) => return code,
        Err(failure) => failure,
    };
    let exit = exit_of(&failure);
    if exit != Exit::Done && !matches!(failure, Failure::Shown) {
        eprintln!("tandem: {}", one_line(&failure.to_string()));
    }
    ExitCode::from(exit as u8)
}

/// A message in one line, whatever a library put into it.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
