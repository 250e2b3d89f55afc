//! One TCP connection: what comes in, as the core reads it, and what goes out.

use std::time::Duration;

use mctls::party::ContextId;
use mctls12::Entropy;
use mctls12::record::{ContentType, Incoming, Input, Record};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::error::Error;

const READ_LEN: usize = 1 << 14;

/// What comes in.
#[derive(Debug)]
pub(crate) struct Reading {
    read: OwnedReadHalf,
    incoming: Incoming,
    patience: Duration,
}

/// What goes out.
#[derive(Debug)]
pub(crate) struct Writing {
    write: OwnedWriteHalf,
    patience: Duration,
}

/// Both halves of a connection. No read and no write waits longer than `patience`.
pub(crate) fn halves(stream: TcpStream, patience: Duration) -> Result<(Reading, Writing), Error> {
    // Records of several contexts are small writes (the paper, section 5.1).
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let reading = Reading {
        read,
        incoming: Incoming::new(),
        patience,
    };
    Ok((reading, Writing { write, patience }))
}

impl Reading {
    /// The next message or record; `None` at the end of the stream. Where this future is dropped,
    /// nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<Input>, Error> {
        loop {
            if let Some(input) = self.incoming.next()? {
                return Ok(Some(input));
            }
            let mut buffer = vec![0; READ_LEN];
            let read = timeout(self.patience, self.read.read(&mut buffer)).await;
            let length = read.map_err(|_| Error::TimedOut(self.patience))??;
            if length == 0 {
                return Ok(None);
            }
            self.incoming.push(&buffer[..length])?;
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
    let mut bytes = Zeroizing::new([0; Entropy::LEN]);
    let filled = aws_lc_rs::rand::fill(&mut *bytes);
    filled.map_err(|_| Error::Settings("the system has no random bytes".into()))?;
    Ok(Entropy::new(&bytes))
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
