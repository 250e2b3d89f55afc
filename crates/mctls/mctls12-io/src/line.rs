//! One TCP connection: what comes in, as the core reads it, and what goes out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mctls::party::ContextId;
use mctls12::Entropy;
use mctls12::record::{ContentType, Incoming, Input, Record};
use mctls12_prototype::record as prototype;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout, timeout_at};
use zeroize::Zeroizing;

use crate::error::Error;

const READ_LEN: usize = 1 << 14;

/// When something was last heard: of one connection, or of all that share it.
///
/// A middlebox's two directions share one: while a file goes one way, the other way is silent for
/// as long as that takes.
#[derive(Clone, Debug)]
pub(crate) struct Heard(Arc<Mutex<Instant>>);

impl Heard {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How bytes become messages and records.
pub(crate) trait Framing: Default {
    type Input;

    fn push(&mut self, bytes: &[u8]) -> Result<(), Error>;

    fn next(&mut self) -> Result<Option<Self::Input>, Error>;
}

impl Framing for Incoming {
    type Input = Input;

    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(Self::push(self, bytes)?)
    }

    fn next(&mut self) -> Result<Option<Input>, Error> {
        Ok(Self::next(self)?)
    }
}

impl Framing for prototype::Incoming {
    type Input = prototype::Input;

    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(Self::push(self, bytes)?)
    }

    fn next(&mut self) -> Result<Option<prototype::Input>, Error> {
        Ok(Self::next(self)?)
    }
}

/// What comes in, in the prototype's format.
pub(crate) type Lines = Reading<prototype::Incoming>;

/// What comes in.
#[derive(Debug)]
pub(crate) struct Reading<F = Incoming, R = OwnedReadHalf> {
    read: R,
    incoming: F,
    patience: Duration,
    heard: Heard,
}

/// What goes out.
#[derive(Debug)]
pub(crate) struct Writing {
    write: OwnedWriteHalf,
    patience: Duration,
}

/// Both halves of a connection. No read and no write waits longer than `patience`.
pub(crate) fn halves<F: Framing>(
    stream: TcpStream,
    patience: Duration,
) -> Result<(Reading<F>, Writing), Error> {
    // Records of several contexts are small writes (the paper, section 5.1).
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    Ok((Reading::new(read, patience), Writing { write, patience }))
}

impl<F: Framing, R: AsyncRead + Unpin> Reading<F, R> {
    fn new(read: R, patience: Duration) -> Self {
        Self {
            read,
            incoming: F::default(),
            patience,
            heard: Heard::new(),
        }
    }

    /// From now on it waits for as long as anybody is heard who shares this.
    pub(crate) fn share(&mut self, heard: &Heard) {
        self.heard = heard.clone();
    }

    /// The next message or record; `None` at the end of the stream. Where this future is dropped,
    /// nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<F::Input>, Error> {
        loop {
            if let Some(input) = self.incoming.next()? {
                return Ok(Some(input));
            }
            let mut buffer = vec![0; READ_LEN];
            let length = self.read(&mut buffer).await?;
            if length == 0 {
                return Ok(None);
            }
            self.incoming.push(&buffer[..length])?;
        }
    }

    /// Reads, and gives up where nobody who shares the clock has been heard for too long. Whoever
    /// begins to wait has just been at work.
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.heard.note();
        loop {
            let end = self.heard.last() + self.patience;
            if let Ok(read) = timeout_at(end, self.read.read(buffer)).await {
                return Ok(read?);
            }
            if self.heard.last() + self.patience <= Instant::now() {
                return Err(Error::TimedOut(self.patience));
            }
        }
    }
}

impl Writing {
    pub(crate) async fn all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = timeout(self.patience, self.write.write_all(bytes)).await;
        written.map_err(|_| Error::TimedOut(self.patience))??;
        Ok(())
    }

    pub(crate) async fn end(&mut self) {
        // Whoever has gone cannot be told.
        let _ = self.write.shutdown().await;
    }
}

/// Random bytes for one session.
pub(crate) fn entropy() -> Result<Entropy, Error> {
    Ok(Entropy::new(&*seed()?))
}

/// Random bytes of the system.
pub(crate) fn seed<const N: usize>() -> Result<Zeroizing<[u8; N]>, Error> {
    let mut bytes = Zeroizing::new([0; N]);
    let filled = aws_lc_rs::rand::fill(&mut *bytes);
    filled.map_err(|_| Error::Settings("the system has no random bytes".into()))?;
    Ok(bytes)
}

/// An alert in clear, for which nobody vouches.
pub(crate) fn alert(code: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let record = Record {
        kind: ContentType::Alert,
        context: ContextId::END_TO_END,
        fragment: vec![2, code],
    };
    record.write(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::time::sleep;

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_transfer_one_way_keeps_the_silent_way_open_and_silence_both_ways_ends_both() {
        let ((near, mut far), (silent, _open)) = (duplex(1 << 14), duplex(1 << 14));
        let mut busy = Reading::<Incoming, _>::new(near, IDLE);
        let mut quiet = Reading::<Incoming, _>::new(silent, IDLE);
        let heard = Heard::new();
        busy.share(&heard);
        quiet.share(&heard);
        let begun = Instant::now();
        let (sent, gap) = (10, IDLE - Duration::from_secs(10));
        let send = async {
            for _ in 0..sent {
                sleep(gap).await;
                far.write_all(&alert(0)).await.expect("the other end reads");
            }
        };
        let take = async {
            let mut taken = 0;
            let why = loop {
                match busy.next().await {
                    Ok(_) => taken += 1,
                    Err(error) => break error,
                }
            };
            (taken, why)
        };
        let wait = async { (quiet.next().await, begun.elapsed()) };
        let ((), (taken, busy), (quiet, waited)) = tokio::join!(send, take, wait);
        assert_eq!(taken, sent);
        for why in [busy, quiet.map(drop).expect_err("nothing has come")] {
            assert!(matches!(why, Error::TimedOut(IDLE)), "{why}");
        }
        // The silent way ends with the other one, not before.
        let late = waited.saturating_sub(gap * sent);
        assert!(
            late >= IDLE && late < IDLE + Duration::from_secs(1),
            "{late:?}"
        );
    }
}
