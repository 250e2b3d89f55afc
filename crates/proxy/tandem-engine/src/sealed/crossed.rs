//! A flight that has crossed in its opened form, until the client has answered it.
//!
//! Is not: a proof. The proxies hold no key of the client's, so that they cannot read its Finished;
//! they go by its length. A client that does not like what the server shows sends an alert, which
//! is shorter (RFC 8446, section 6). One that pads its alert makes the proxies remember a chain
//! that the server has shown all the same.
//!
//! Invariant: work is linear in what the client sends.

use tandem_record_key::Suite;
use tandem_wire::tls::{ContentType, Records};

use super::opened::Opened;

/// Bytes of a protected Finished around its verify data: the message's header, the inner type, the
/// tag (RFC 8446, sections 4.4.4 and 5.2).
const AROUND_VERIFY_DATA: usize = 4 + 1 + 16;

/// Bytes of a record with Finished alone, without its header: the shortest that holds it.
pub(super) fn protected_finished_len(suite: Suite) -> usize {
    AROUND_VERIFY_DATA
        + match suite {
            Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => 32,
            Suite::Aes256Gcm => 48,
        }
}

/// A flight that has crossed.
#[derive(Debug)]
pub(crate) struct Crossed {
    opened: Opened,
    /// See [`protected_finished_len`].
    finished_len: usize,
    /// How far the client's stream was looked at.
    seen: usize,
    answer: Answer,
}

/// What the client has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    ToCome,
    Finished,
    /// Something else that ends all reading.
    Strange,
}

impl Crossed {
    /// One of which the client's answer begins at `from` of its stream: behind its hello.
    pub(crate) fn new(opened: Opened, suite: Suite, from: usize) -> Self {
        Self {
            opened,
            finished_len: protected_finished_len(suite),
            seen: from,
            answer: Answer::ToCome,
        }
    }

    /// The flight.
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Whether the client has answered as whoever accepts the flight does.
    pub(crate) fn is_finished(&self) -> bool {
        self.answer == Answer::Finished
    }

    /// Whether that may still come.
    pub(crate) fn is_open(&self) -> bool {
        self.answer == Answer::ToCome
    }

    /// Reads the client's stream, all of it from its first byte.
    pub(crate) fn client_sent(&mut self, stream: &[u8]) {
        if self.answer != Answer::ToCome {
            return;
        }
        let mut records = Records::new(stream.get(self.seen..).unwrap_or_default());
        for record in records.by_ref() {
            self.answer = match record {
                Ok(record) => match record.header.content_type {
                    ContentType::ApplicationData if record.fragment.len() >= self.finished_len => {
                        Answer::Finished
                    }
                    // Certificate messages may come first, in records of their own.
                    ContentType::ApplicationData | ContentType::ChangeCipherSpec => continue,
                    ContentType::Alert | ContentType::Handshake | ContentType::Heartbeat => {
                        Answer::Strange
                    }
                },
                Err(_) => Answer::Strange,
            };
            break;
        }
        self.seen += records.offset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{noise, opened_flight, record};

    fn crossed(suite: Suite) -> Crossed {
        let opened = Opened::of(opened_flight(&[300], &[])).expect("a flight");
        Crossed::new(opened, suite, 0)
    }

    fn after(suite: Suite, stream: &[u8]) -> (bool, bool) {
        let mut crossed = crossed(suite);
        for end in 0..=stream.len() {
            crossed.client_sent(&stream[..end]);
        }
        (crossed.is_finished(), crossed.is_open())
    }

    #[test]
    fn a_record_as_long_as_finished_is_one_and_an_alert_is_none() {
        let change = record(20, &[1]);
        for (suite, length) in [(Suite::Aes128Gcm, 53), (Suite::Aes256Gcm, 69)] {
            for (more, is_finished) in [(0, true), (1, true), (300, true)] {
                let stream = [&change[..], &record(23, &noise(length + more, 1))].concat();
                assert_eq!(after(suite, &stream), (is_finished, false));
            }
            let alert = [&change[..], &record(23, &noise(19, 1))].concat();
            assert_eq!(after(suite, &alert), (false, true));
            let shorter = record(23, &noise(length - 1, 1));
            assert_eq!(after(suite, &shorter), (false, true));
        }
    }

    #[test]
    fn an_alert_in_clear_ends_the_wait() {
        let suite = Suite::Aes128Gcm;
        assert_eq!(after(suite, &record(21, &[2, 40])), (false, false));
        assert_eq!(after(suite, b"no record"), (false, false));
    }
}
