//! The bytes that wait for the next hop.
//!
//! Is not: what they say; who waits how long.
//!
//! Invariant: each byte is written once, in order, also where a call is given up half-way: the next
//! one goes on where it stopped. So a frame is never torn by another.

use std::io::{Error, ErrorKind};

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;

/// A stream to write to, and what has not been written yet.
#[derive(Debug)]
pub(crate) struct Outgoing {
    write: OwnedWriteHalf,
    /// What waits, behind what is written. Append to it, and flush.
    pub(crate) waiting: Vec<u8>,
    /// How much of that is written.
    written: usize,
    /// How often something was.
    #[cfg(test)]
    pub(crate) writes: usize,
}

impl Outgoing {
    pub(crate) const fn new(write: OwnedWriteHalf) -> Self {
        Self {
            write,
            waiting: Vec::new(),
            written: 0,
            #[cfg(test)]
            writes: 0,
        }
    }

    /// Writes everything that waits.
    pub(crate) async fn flush(&mut self) -> Result<(), Error> {
        while self.written < self.waiting.len() {
            // Unlike `write_all`, this has written nothing where it is dropped.
            match self.write.write(&self.waiting[self.written..]).await? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => self.written += written,
            }
            #[cfg(test)]
            {
                self.writes += 1;
            }
        }
        self.waiting.clear();
        self.written = 0;
        Ok(())
    }

    /// Ends the stream; what still waits is lost.
    pub(crate) async fn end(&mut self) -> Result<(), Error> {
        self.write.shutdown().await
    }
}
