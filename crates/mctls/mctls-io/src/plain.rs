//! Plain TLS end to end, over the same hop: what is left where the other side does not speak `mc13`
//! and the policy permits it. Middleboxes forward it blindly.
//!
//! Is not: interception. The session ends at the other endpoint, as in any TLS.

use std::time::Duration;

use mctls::error::Breach;
use mctls::frame::{Frame, Frames};
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;

use crate::error::{Error, Part};
use crate::hop::{Hop, LEG, SEND_LEN, Timeouts, fill, unexpected};
use crate::outgoing::Outgoing;
use crate::tls::Tls;

/// A plain TLS session.
pub struct Plain {
    tls: Tls,
    read: OwnedReadHalf,
    out: Outgoing,
    frames: Frames,
    /// Data that has come and was not asked for yet.
    waiting: Vec<u8>,
    idle: Duration,
}

impl std::fmt::Debug for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}

impl Plain {
    pub(crate) fn new(hop: Hop, timeouts: Timeouts) -> Self {
        Self {
            tls: hop.session.tls,
            read: hop.read,
            out: hop.out,
            frames: hop.frames,
            waiting: hop.plain,
            idle: timeouts.idle,
        }
    }

    /// Sends data. Where this future is dropped before it is done, a part of it was sent, and the
    /// next call goes on behind that.
    ///
    /// # Errors
    /// The connection failed, or takes nothing for as long as [`Timeouts::idle`].
    pub async fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        self.flush().await?;
        for piece in data.chunks(SEND_LEN) {
            self.tls.send(piece)?;
            self.flush().await?;
        }
        Ok(())
    }

    /// Closes this direction.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn close(&mut self) -> Result<(), Error> {
        self.tls.close();
        self.flush().await?;
        Ok(self.out.end().await?)
    }

    /// The next data; `None` once the other endpoint has closed.
    ///
    /// # Errors
    /// The connection failed, was cut, or nothing has come for as long as [`Timeouts::idle`].
    pub async fn recv(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if !self.waiting.is_empty() {
                return Ok(Some(std::mem::take(&mut self.waiting)));
            }
            if self.tls.is_closed() {
                return Ok(None);
            }
            match self.frames.next().map_err(mctls::Error::from)? {
                Some(Frame::Tls(record)) => self.tls.feed(record, &mut self.waiting)?,
                // A middlebox's leg that nobody needs any more.
                Some(Frame::Leg(_)) => {}
                Some(
                    Frame::Record(_)
                    | Frame::Announce
                    | Frame::Route(_)
                    | Frame::Short(_)
                    | Frame::Holds(_),
                ) => {
                    return Err(unexpected(LEG));
                }
                None => self.read().await?,
            }
        }
    }

    async fn read(&mut self) -> Result<(), Error> {
        let read = timeout(self.idle, fill(&mut self.read, &mut self.frames)).await;
        match read.map_err(|_| Error::TimedOut(Part::EndToEnd, self.idle))?? {
            0 => Err(mctls::Error::from(Breach::Truncated).into()),
            _ => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        self.tls.take(&mut self.out.waiting)?;
        let written = timeout(self.idle, self.out.flush()).await;
        written.map_err(|_| Error::TimedOut(Part::NextHop, self.idle))??;
        Ok(())
    }
}
