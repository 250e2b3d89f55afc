//! Reading the head of a connection in which a client says where it wants to go, and refusing it.
//!
//! Is not: any protocol; the parsers are functions over the bytes so far (`socks.rs`,
//! `connect.rs`).
//!
//! Invariants: no more is kept than one head and one read beyond it; bytes behind the head are
//! never lost.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of one read. What is read beyond a head is at most this.
const READ: usize = 4 * 1024;

/// Bytes that a refused client may still send before its connection is closed in any case.
const MAX_DRAINED: usize = 256 * 1024;

/// Something that a parser has found at the beginning of the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found<T> {
    /// What it is.
    pub(super) value: T,
    /// How many bytes it takes.
    pub(super) len: usize,
}

/// Why no head was read.
#[derive(Debug)]
pub(super) enum NoHead<R> {
    /// The parser refuses the bytes.
    Refused(R),
    /// The client ended or broke the connection before.
    Gone,
}

/// A client's connection, and what was read of it.
#[derive(Debug)]
pub(super) struct HeadReader {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl HeadReader {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
        }
    }

    /// Reads until `parse` finds something, and takes it off the front. `parse` gives `None` where
    /// more bytes are needed; it bounds how many that can be.
    pub(super) async fn read<T, R>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<Option<Found<T>>, R>,
    ) -> Result<T, NoHead<R>> {
        loop {
            if let Some(Found { value, len }) = parse(&self.bytes).map_err(NoHead::Refused)? {
                self.bytes.drain(..len);
                return Ok(value);
            }
            self.bytes.reserve(READ);
            let mut room = (&mut self.stream).take(READ as u64);
            match room.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => return Err(NoHead::Gone),
                Ok(_) => {}
            }
        }
    }

    /// At which address of this side's it came.
    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Says `reply` and ends the connection. Reads on until the client ends it too: to close with
    /// bytes unread would reset the connection, and the client might lose the reply.
    pub(super) async fn refuse(&mut self, reply: &[u8]) -> io::Result<()> {
        self.stream.write_all(reply).await?;
        self.stream.shutdown().await?;
        let mut sink = [0; READ];
        let mut drained = 0;
        while drained < MAX_DRAINED {
            match self.stream.read(&mut sink).await? {
                0 => break,
                len => drained += len,
            }
        }
        Ok(())
    }

    /// The connection, and the bytes behind the head.
    pub(super) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.bytes)
    }
}
