//! A request's body on its way to the server behind the origin: piece by piece, while the client
//! still sends.
//!
//! Is not: how its end is told on the wire ([`super::inward`]), nor a place to keep it. A piece
//! waits for the server; the client waits for the piece.
//!
//! Invariant: a body that was cut off ends in an error and is never taken for a whole one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// Pieces of at most one record that wait for the server.
const WAITING: usize = 2;

/// The body of a request, as the server behind the origin reads it. Empty where the request had
/// none.
#[derive(Debug)]
pub struct RequestBody {
    pieces: Option<mpsc::Receiver<Piece>>,
    /// What is still to come, where the client has said how much.
    left: Option<u64>,
}

/// The client's connection ended before the body did.
#[derive(Debug, thiserror::Error)]
#[error("the client went away within its request")]
pub struct CutOff;

/// What is handed on.
#[derive(Debug)]
pub(super) enum Piece {
    Data(Bytes),
    End,
}

impl RequestBody {
    /// Of a request that has none.
    pub(super) fn none() -> Self {
        Self {
            pieces: None,
            left: Some(0),
        }
    }

    /// One of `len` bytes, or of as many as come until its end, and where they go in.
    pub(super) fn with_len(len: Option<u64>) -> (Self, mpsc::Sender<Piece>) {
        let (sender, pieces) = mpsc::channel(WAITING);
        let body = Self {
            pieces: Some(pieces),
            left: len,
        };
        (body, sender)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let Some(pieces) = &mut self.pieces else {
            return Poll::Ready(None);
        };
        let piece = ready!(pieces.poll_recv(context));
        Poll::Ready(match piece {
            Some(Piece::Data(data)) => {
                if let Some(left) = &mut self.left {
                    *left = left.saturating_sub(data.len() as u64);
                }
                Some(Ok(Frame::data(data)))
            }
            Some(Piece::End) => {
                self.pieces = None;
                None
            }
            None => {
                self.pieces = None;
                Some(Err(CutOff))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn a_body_is_whole_only_with_its_end() {
        for is_whole in [true, false] {
            let (body, sender) = RequestBody::with_len(None);
            for data in ["one", "two"] {
                let data = Piece::Data(Bytes::from_static(data.as_bytes()));
                sender.try_send(data).expect("there is room");
            }
            let read = tokio::spawn(body.collect());
            if is_whole {
                sender.send(Piece::End).await.expect("it is read");
            }
            drop(sender);
            let read = read.await.expect("it ends");
            assert_eq!(
                read.ok().map(|body| body.to_bytes()),
                is_whole.then(|| Bytes::from_static(b"onetwo"))
            );
        }
        assert!(RequestBody::none().is_end_stream());
    }
}
