//! The signals that end a daemon, as something that can be polled.
//!
//! Is not: a handler that does anything; the event loop ends by itself.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

use crate::error::DaemonError;

/// Catches SIGTERM, SIGINT and SIGHUP as long as it lives.
#[derive(Debug)]
pub struct Signals {
    reader: UnixStream,
    ids: Vec<SigId>,
}

impl Signals {
    /// From now on.
    ///
    /// # Errors
    /// The system allows no handler, or has no descriptors left.
    pub fn catch() -> Result<Self, DaemonError> {
        let failed = DaemonError::system("catching signals");
        let (reader, writer) = UnixStream::pair().map_err(&failed)?;
        reader.set_nonblocking(true).map_err(&failed)?;
        let mut signals = Self {
            reader,
            ids: Vec::new(),
        };
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let writer = writer.try_clone().map_err(&failed)?;
            signals
                .ids
                .push(pipe::register(signal, writer).map_err(&failed)?);
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
