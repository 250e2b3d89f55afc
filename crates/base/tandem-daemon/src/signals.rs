//! Signals that a daemon is sent, as something that can be polled: those that end it, and those by
//! which a hook says that the link is up or down.
//!
//! Is not: a handler that does anything; the event loop ends by itself.
//!
//! Invariant: what a hook says ends no daemon, also not one that does not listen to hooks.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::low_level::{pipe, unregister};

use crate::error::DaemonError;

/// Catches some signals as long as it lives.
#[derive(Debug)]
pub struct Signals {
    reader: UnixStream,
    ids: Vec<SigId>,
}

impl Signals {
    /// Those that end a daemon: SIGTERM, SIGINT and SIGHUP. From now on those of hooks do nothing
    /// but what their own handlers do.
    ///
    /// # Errors
    /// The system allows no handler, or has no descriptors left.
    pub fn catch() -> Result<Self, DaemonError> {
        let failed = DaemonError::system("catching signals");
        let mut signals = Self::these(&[SIGTERM, SIGINT, SIGHUP])?;
        for signal in [SIGUSR1, SIGUSR2] {
            let ignored = flag::register(signal, Arc::default()).map_err(&failed)?;
            signals.ids.push(ignored);
        }
        Ok(signals)
    }

    /// SIGUSR1, by which a hook says that the link is up.
    ///
    /// # Errors
    /// As of [`Signals::catch`].
    pub fn link_up() -> Result<Self, DaemonError> {
        Self::these(&[SIGUSR1])
    }

    /// SIGUSR2, by which a hook says that the link is down.
    ///
    /// # Errors
    /// As of [`Signals::catch`].
    pub fn link_down() -> Result<Self, DaemonError> {
        Self::these(&[SIGUSR2])
    }

    fn these(numbers: &[i32]) -> Result<Self, DaemonError> {
        let failed = DaemonError::system("catching signals");
        let (reader, writer) = UnixStream::pair().map_err(&failed)?;
        reader.set_nonblocking(true).map_err(&failed)?;
        let mut signals = Self {
            reader,
            ids: Vec::new(),
        };
        for signal in numbers {
            let writer = writer.try_clone().map_err(&failed)?;
            signals
                .ids
                .push(pipe::register(*signal, writer).map_err(&failed)?);
        }
        Ok(signals)
    }

    /// Whether any has arrived since this was last asked.
    #[must_use]
    pub fn have_arrived(&self) -> bool {
        let mut byte = [0];
        matches!((&self.reader).read(&mut byte), Ok(1..))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
    }
}
