//! How a program of Tandem ends: its exit code, and the one line that says why.
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
//! Is not: which failure of a program has which code; each program decides that in one function of
//! its own, and asks here about what all of them have.
//! Scripts rely on the codes (`docs/exit-codes.md`).

use core::fmt::Display;
use std::io;
use std::process::ExitCode;

use crate::error::DaemonError;

/// How a run of a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed at run time.
    RunTime = 1,
    /// Usage or configuration.
    Usage = 2,
    /// A privilege or a feature of the kernel is missing.
    Privilege = 3,
    /// Something is in use.
    Busy = 4,
    /// The input is damaged.
    Damaged = 5,
}

impl Exit {
    /// For a file. One that was named wrongly is a matter of usage, one that may not be touched of
    /// privilege.
    #[must_use]
    pub fn of_file(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory => Self::Usage,
            io::ErrorKind::PermissionDenied => Self::Privilege,
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Self::Damaged,
            _ => Self::RunTime,
        }
    }

    /// For an address to listen on. One that is not this machine's is a matter of usage.
    #[must_use]
    pub fn of_listening(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrNotAvailable => Self::Usage,
            io::ErrorKind::PermissionDenied => Self::Privilege,
            io::ErrorKind::AddrInUse => Self::Busy,
            _ => Self::RunTime,
        }
    }

    /// For a daemon that does not start, whatever it does.
    #[must_use]
    pub fn of_daemon(error: &DaemonError) -> Self {
        match error {
            DaemonError::Busy { .. } => Self::Busy,
            DaemonError::Listen { source, .. } => Self::of_listening(source),
            DaemonError::System { .. } => Self::RunTime,
        }
    }

    /// For standard output. A reader that goes away has what it wanted.
    #[must_use]
    pub fn of_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Done,
            _ => Self::RunTime,
        }
    }

    /// Says on standard error why `program` ends, in one line, unless it is done.
    pub fn report(self, program: &str, why: &dyn Display) -> ExitCode {
        if self != Self::Done {
            eprintln!("{program}: {}", one_line(&why.to_string()));
        }
        self.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A message in one line, whatever a library put into it.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_that_are_documented() {
        let page = include_str!("../../../../docs/exit-codes.md");
        let rows: Vec<(u8, &str)> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
            .filter_map(|(code, rest)| Some((code.parse().ok()?, rest.split(" | ").next()?)))
            .collect();
        let codes = [
            (Exit::Done, "done"),
            (Exit::RunTime, "failed at run time"),
            (Exit::Usage, "usage or configuration"),
            (Exit::Privilege, "missing privilege or kernel feature"),
            (Exit::Busy, "in use"),
            (Exit::Damaged, "damaged input"),
        ];
        assert_eq!(rows, codes.map(|(exit, means)| (exit as u8, means)));
    }

    #[test]
    fn a_file_and_an_output_that_fail_have_these_codes() {
        let table = [
            (io::ErrorKind::NotFound, Exit::Usage),
            (io::ErrorKind::AlreadyExists, Exit::Usage),
            (io::ErrorKind::IsADirectory, Exit::Usage),
            (io::ErrorKind::PermissionDenied, Exit::Privilege),
            (io::ErrorKind::UnexpectedEof, Exit::Damaged),
            (io::ErrorKind::StorageFull, Exit::RunTime),
        ];
        for (kind, expected) in table {
            assert_eq!(Exit::of_file(&kind.into()), expected, "{kind:?}");
        }
        let output = |kind: io::ErrorKind| Exit::of_output(&kind.into());
        assert_eq!(output(io::ErrorKind::BrokenPipe), Exit::Done);
        assert_eq!(output(io::ErrorKind::StorageFull), Exit::RunTime);
    }

    #[test]
    fn a_daemon_that_does_not_start_has_these_codes() {
        let address = ([127, 0, 0, 1], 9470).into();
        let listening = |kind: io::ErrorKind| {
            let error = DaemonError::listening("--listen", address, kind.into());
            Exit::of_daemon(&error)
        };
        assert_eq!(listening(io::ErrorKind::AddrInUse), Exit::Busy);
        assert_eq!(listening(io::ErrorKind::AddrNotAvailable), Exit::Usage);
        assert_eq!(listening(io::ErrorKind::PermissionDenied), Exit::Privilege);
        assert_eq!(listening(io::ErrorKind::Other), Exit::RunTime);
        let error = DaemonError::system("a thread")(io::ErrorKind::OutOfMemory.into());
        assert_eq!(Exit::of_daemon(&error), Exit::RunTime);
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(one_line("two\n  lines "), "two lines");
    }
}
