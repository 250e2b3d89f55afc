//! A connection of any arm: data in contexts where the arm has some, a stream of bytes elsewhere.

use mctls::party::ContextId;
use tandem_report::mctls_row::McArm;
use tandem_testbed::LabError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// What is read at once where there are no records of our own: one of TLS.
const READ_LEN: usize = 1 << 14;

/// Data for one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) context: u8,
    pub(crate) data: &'a [u8],
}

/// An established connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Mctls13(Box<mctls_io::Session>),
    Mctls12(Box<mctls12_io::Session>),
    Tls(Box<TlsStream<TcpStream>>),
    Plain(TcpStream),
}

impl Connection {
    /// Sends it all.
    ///
    /// # Errors
    /// `Command`, in the words of whoever fails.
    pub(crate) async fn send(&mut self, pieces: &[Piece<'_>]) -> Result<(), LabError> {
        for Piece { context, data } in pieces {
            let context = ContextId(*context);
            match self {
                Self::Mctls13(session) => {
                    let sent = session.sender.send(context, data).await;
                    sent.map_err(|error| failed(McArm::Mctls13, &error))?;
                }
                Self::Mctls12(session) => {
                    let sent = session.sender.send(context, data).await;
                    sent.map_err(|error| failed(McArm::Mctls12, &error))?;
                }
                Self::Tls(stream) => {
                    let sent = stream.write_all(data).await;
                    sent.map_err(|error| failed(McArm::EndToEndTls, &error))?;
                }
                Self::Plain(stream) => {
                    let sent = stream.write_all(data).await;
                    sent.map_err(|error| failed(McArm::None, &error))?;
                }
            }
        }
        if let Self::Tls(stream) = self {
            let sent = stream.flush().await;
            sent.map_err(|error| failed(McArm::EndToEndTls, &error))?;
        }
        Ok(())
    }

    /// The next data, in place of what `buffer` holds; `false` at the end.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub(crate) async fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<bool, LabError> {
        let length = match self {
            Self::Mctls13(session) => {
                let received = session.receiver.recv().await;
                let received = received.map_err(|error| failed(McArm::Mctls13, &error))?;
                return Ok(received.map(|next| *buffer = next.payload).is_some());
            }
            Self::Mctls12(session) => {
                let received = session.receiver.recv().await;
                let received = received.map_err(|error| failed(McArm::Mctls12, &error))?;
                return Ok(received.map(|next| *buffer = next.data).is_some());
            }
            Self::Tls(stream) => {
                buffer.resize(READ_LEN, 0);
                let read = stream.read(buffer).await;
                read.map_err(|error| failed(McArm::EndToEndTls, &error))?
            }
            Self::Plain(stream) => {
                buffer.resize(READ_LEN, 0);
                let read = stream.read(buffer).await;
                read.map_err(|error| failed(McArm::None, &error))?
            }
        };
        buffer.truncate(length);
        Ok(length > 0)
    }

    /// Says that no more comes from here.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub(crate) async fn close(&mut self) -> Result<(), LabError> {
        match self {
            Self::Mctls13(session) => {
                let closed = session.sender.close().await;
                closed.map_err(|error| failed(McArm::Mctls13, &error))
            }
            Self::Mctls12(session) => {
                let closed = session.sender.close().await;
                closed.map_err(|error| failed(McArm::Mctls12, &error))
            }
            Self::Tls(stream) => {
                let closed = stream.shutdown().await;
                closed.map_err(|error| failed(McArm::EndToEndTls, &error))
            }
            Self::Plain(stream) => {
                let closed = stream.shutdown().await;
                closed.map_err(|error| failed(McArm::None, &error))
            }
        }
    }

    /// Closes it and waits until the other side has, too.
    ///
    /// # Errors
    /// As [`Connection::send`]; data that nobody has asked for.
    pub(crate) async fn end(mut self) -> Result<(), LabError> {
        self.close().await?;
        match self.receive(&mut Vec::new()).await? {
            true => Err(differs("data came behind the last answer")),
            false => Ok(()),
        }
    }
}

/// An arm that has failed, in its own words.
pub(crate) fn failed(arm: McArm, error: &dyn std::fmt::Display) -> LabError {
    LabError::Command {
        command: arm.label().to_owned(),
        why: error.to_string(),
    }
}

/// Bytes that are not those that were sent.
pub(crate) fn differs(why: &str) -> LabError {
    LabError::Command {
        command: "comparing what arrived".to_owned(),
        why: why.to_owned(),
    }
}
