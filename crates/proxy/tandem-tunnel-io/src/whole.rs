//! Messages that are the whole of one direction of a stream of the tunnel: questions and answers.
//!
//! Is not: what they say. Invariant: the side that answers waits in bounded time, and for bounded
//! bytes.

use std::time::Duration;

use tandem_link::tunnel::Ending;
use tokio::time::timeout;

use crate::transport::{Broken, Receiving, Sending};

/// For the other side to say what it asks.
pub(crate) const QUESTION: Duration = Duration::from_secs(30);

/// What the other side asks, behind what has been read of it already.
///
/// # Errors
/// `TimedOut` where it does not end in time; `Malformed` where it breaks, or has more than `max`
/// bytes.
pub(crate) async fn read_question(
    receiving: &mut impl Receiving,
    begun: &[u8],
    max: usize,
) -> Result<Vec<u8>, Ending> {
    let question = timeout(QUESTION, read_whole(receiving, begun, max)).await;
    question
        .map_err(|_| Ending::TimedOut)?
        .ok_or(Ending::Malformed)
}

/// Writes the answer. Where nobody waits for it any more, the stream is broken already.
///
/// # Errors
/// `TimedOut` where it is not taken in time: a part of it must not look like the whole.
pub(crate) async fn write_answer(
    sending: &mut impl Sending,
    answer: &[u8],
    patience: Duration,
) -> Result<(), Ending> {
    match timeout(patience, write_whole(sending, answer)).await {
        Ok(Ok(()) | Err(_)) => Ok(()),
        Err(_) => Err(Ending::TimedOut),
    }
}

/// Writes a message and ends the direction.
pub(crate) async fn write_whole(sending: &mut impl Sending, message: &[u8]) -> Result<(), Broken> {
    let mut rest = message;
    while !rest.is_empty() {
        let written = sending.write(rest).await?;
        rest = rest.get(written..).unwrap_or_default();
    }
    sending.finish();
    Ok(())
}

/// Reads on to the end of the direction, behind what has been read of it already. `None` where it
/// breaks, or has more than `max` bytes.
pub(crate) async fn read_whole(
    receiving: &mut impl Receiving,
    begun: &[u8],
    max: usize,
) -> Option<Vec<u8>> {
    let mut message = begun.to_vec();
    while message.len() <= max {
        match receiving.read().await.ok()? {
            Some(piece) => message.extend_from_slice(&piece),
            None => return Some(message),
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::keeper::tests::Never;
    use crate::transport::Stopped;

    /// The half of a stream that never takes anything; with which code it was reset.
    #[derive(Clone, Default)]
    pub(crate) struct Full(Arc<Mutex<Option<u32>>>);

    impl Full {
        pub(crate) fn reset_with(&self) -> Option<u32> {
            *self.0.lock().expect("no panic")
        }
    }

    impl Sending for Full {
        type Datagrams = Never;
        fn datagrams(&self) -> Never {
            panic!("a question has none")
        }
        async fn write(&mut self, _: &[u8]) -> Result<usize, Broken> {
            pending().await
        }
        fn finish(&mut self) {}
        fn reset(&mut self, code: u32) {
            *self.0.lock().expect("no panic") = Some(code);
        }
        fn lower_priority(&mut self) {}
        fn stopped(&self) -> Stopped {
            Box::pin(pending())
        }
    }

    /// What comes on the half of a stream that is read.
    pub(crate) enum Rest {
        End,
        /// So many pieces, and then nothing.
        Pieces(usize),
    }

    impl Receiving for Rest {
        async fn read(&mut self) -> Result<Option<Vec<u8>>, Broken> {
            match self {
                Self::End => Ok(None),
                Self::Pieces(0) => pending().await,
                Self::Pieces(left) => {
                    *left -= 1;
                    Ok(Some(vec![b'a'; 1024]))
                }
            }
        }
        fn stop(&mut self, _: u32) {}
    }
}
