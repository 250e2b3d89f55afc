//! A server's flight that has crossed in its opened form, until the client has answered it.
//!
//! Is: what becomes of the client's flight, where the server asks for a certificate and that
//! flight's key is there. Is not: a proof. Of most clients' flights the proxies hold no key, so
//! that they cannot read Finished; they go by its length. A client that does not like what the
//! server shows sends an alert, which is shorter (RFC 8446, section 6). One that pads its alert
//! makes the proxies remember a chain that the server has shown all the same.
//!
//! Invariants: work is linear in what the client sends; a flight of which a byte has crossed is not
//! opened.

use tandem_record_key::{CLIENT_RANDOM_LEN, Suite};
use tandem_wire::tls::{ContentType, Records};

use super::keys::{Randoms, ReleasedKeys};
use super::opened::Opened;
use super::opening::{Opening, Progress, Unsealed, protected_finished_len};
use crate::event::NotOpened;

/// A flight that has crossed.
#[derive(Debug)]
pub(crate) struct Crossed {
    opened: Opened,
    suite: Suite,
    /// Where in the client's stream its answer begins.
    from: usize,
    /// How far the client's stream was looked at.
    seen: usize,
    answer: Answer,
    client: ClientFlight,
}

/// What the client has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    ToCome,
    Finished,
    /// Something else that ends all reading.
    Strange,
}

/// The client's flight behind this one.
#[derive(Debug)]
enum ClientFlight {
    /// It passes as it is.
    Passes,
    /// The server has asked for a certificate.
    Asked,
    /// Client side: it has begun, and is held.
    Opening(Box<Opening>),
    /// Client side: it is whole, and may cross.
    Opened(Box<Unsealed>),
    /// It has crossed.
    Crossed(Box<Opened>),
}

impl Crossed {
    /// One of which the client's answer begins at `from` of its stream: behind its hello.
    pub(crate) fn new(opened: Opened, suite: Suite, from: usize) -> Self {
        let client = match opened.asks_for_certificate() {
            true => ClientFlight::Asked,
            false => ClientFlight::Passes,
        };
        Self {
            opened,
            suite,
            from,
            seen: from,
            answer: Answer::ToCome,
            client,
        }
    }

    /// One that was opened here.
    pub(crate) fn of_unsealed(unsealed: Unsealed) -> Self {
        let (suite, from) = (unsealed.key.suite(), unsealed.place.answer);
        Self::new(unsealed.opened, suite, from)
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
        match self.client {
            // What is opened tells more.
            ClientFlight::Opening(_) | ClientFlight::Opened(_) => return,
            ClientFlight::Passes | ClientFlight::Asked | ClientFlight::Crossed(_) => {}
        }
        if self.answer != Answer::ToCome {
            return;
        }
        let finished_len = protected_finished_len(self.suite);
        let mut records = Records::new(stream.get(self.seen..).unwrap_or_default());
        for record in records.by_ref() {
            self.answer = match record {
                Ok(record) => match record.header.content_type {
                    ContentType::ApplicationData if record.fragment.len() >= finished_len => {
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

/// The client's flight.
impl Crossed {
    /// Client side, before more of the client's stream is read, which was read to this end: whether
    /// what comes next is opened. `None` where the server asks for no certificate, or the client
    /// has begun to answer; `false` where there is no key.
    pub(crate) fn begin_client_flight(
        &mut self,
        client_random: &[u8; CLIENT_RANDOM_LEN],
        end: usize,
        keys: &ReleasedKeys,
    ) -> Option<bool> {
        let ClientFlight::Asked = self.client else {
            return None;
        };
        if end != self.from {
            return None;
        }
        let randoms = Randoms {
            client: *client_random,
            server: self.opened.server_random()?,
        };
        let opening = Opening::of_client(randoms, self.suite, self.from);
        let has_key = opening.has_key(keys);
        self.client = match has_key {
            true => ClientFlight::Opening(opening),
            false => ClientFlight::Passes,
        };
        Some(has_key)
    }

    /// Client side: opens what has come of the client's flight. What came of that, where it was
    /// being opened, and whether its key was proved before.
    pub(crate) fn advance_client_flight(
        &mut self,
        client: &[u8],
        keys: &mut ReleasedKeys,
    ) -> Option<ClientProgress> {
        let opening = match std::mem::replace(&mut self.client, ClientFlight::Passes) {
            ClientFlight::Opening(opening) => opening,
            other @ (ClientFlight::Passes
            | ClientFlight::Asked
            | ClientFlight::Opened(_)
            | ClientFlight::Crossed(_)) => {
                self.client = other;
                return None;
            }
        };
        let was_proved = opening.is_proved();
        let progress = opening.advance(client, keys);
        let is_key_used = !was_proved && progress.is_proved();
        let step = match progress {
            Progress::Open(opening) => {
                self.client = ClientFlight::Opening(opening);
                ClientStep::Open
            }
            Progress::Whole(unsealed) => {
                self.client = ClientFlight::Opened(unsealed);
                ClientStep::Whole
            }
            Progress::Failed(why) => {
                self.client_sent(client);
                ClientStep::Failed(why)
            }
        };
        Some(ClientProgress { is_key_used, step })
    }

    /// Client side: the client's flight, once it is whole, until it has crossed or passes.
    pub(crate) fn unsealed_client_flight(&self) -> Option<&Unsealed> {
        match &self.client {
            ClientFlight::Opened(unsealed) => Some(unsealed),
            ClientFlight::Passes
            | ClientFlight::Asked
            | ClientFlight::Opening(_)
            | ClientFlight::Crossed(_) => None,
        }
    }

    /// Client side: whether a key has opened the client's flight, or its beginning, and it has not
    /// set out.
    pub(crate) fn holds_client_flight(&self) -> bool {
        match &self.client {
            ClientFlight::Opening(opening) => opening.is_proved(),
            ClientFlight::Opened(_) => true,
            ClientFlight::Passes | ClientFlight::Asked | ClientFlight::Crossed(_) => false,
        }
    }

    /// Client side: whether the client's flight is being opened, and is not whole.
    pub(crate) fn awaits_client_flight(&self) -> bool {
        matches!(self.client, ClientFlight::Opening(_))
    }

    /// Client side: the client's flight has set out in its message.
    pub(crate) fn client_flight_written(&mut self) {
        self.client = match std::mem::replace(&mut self.client, ClientFlight::Passes) {
            ClientFlight::Opened(unsealed) => {
                self.answer = Answer::Finished;
                ClientFlight::Crossed(Box::new(unsealed.into_opened()))
            }
            other @ (ClientFlight::Passes
            | ClientFlight::Asked
            | ClientFlight::Opening(_)
            | ClientFlight::Crossed(_)) => other,
        };
    }

    /// Client side: it passes as it is. This is the client's stream.
    pub(crate) fn client_flight_passes(&mut self, client: &[u8]) {
        self.client = ClientFlight::Passes;
        self.client_sent(client);
    }

    /// Server side: whether the client's flight may come in a message.
    pub(crate) fn is_client_flight_to_come(&self) -> bool {
        match self.client {
            ClientFlight::Asked => self.answer == Answer::ToCome,
            ClientFlight::Passes
            | ClientFlight::Opening(_)
            | ClientFlight::Opened(_)
            | ClientFlight::Crossed(_) => false,
        }
    }

    /// Server side: the client's flight has come so.
    pub(crate) fn client_flight_came(&mut self, opened: Opened) {
        self.client = ClientFlight::Crossed(Box::new(opened));
        self.answer = Answer::Finished;
    }

    /// The client's flight in its opened form, once it is whole: as it may cross, or has.
    pub(crate) fn client_opened(&self) -> Option<&Opened> {
        match &self.client {
            ClientFlight::Opened(unsealed) => Some(unsealed.opened()),
            ClientFlight::Crossed(opened) => Some(opened),
            ClientFlight::Passes | ClientFlight::Asked | ClientFlight::Opening(_) => None,
        }
    }

    /// The same once it has crossed.
    pub(crate) fn client_crossed(&self) -> Option<&Opened> {
        match &self.client {
            ClientFlight::Crossed(opened) => Some(opened),
            ClientFlight::Passes
            | ClientFlight::Asked
            | ClientFlight::Opening(_)
            | ClientFlight::Opened(_) => None,
        }
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        let client = match &self.client {
            ClientFlight::Opening(opening) => size_of::<Opening>() + opening.len(),
            ClientFlight::Opened(unsealed) => unsealed.opened().bytes().len(),
            ClientFlight::Crossed(opened) => opened.bytes().len(),
            ClientFlight::Passes | ClientFlight::Asked => 0,
        };
        self.opened.bytes().len() + client
    }
}

/// What came of an attempt to open more of a client's flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientProgress {
    /// A key has just opened the first record.
    pub(crate) is_key_used: bool,
    /// How far it is.
    pub(crate) step: ClientStep,
}

/// How far the opening of a client's flight is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientStep {
    /// More has to come.
    Open,
    /// It is whole.
    Whole,
    /// It passes as it is.
    Failed(NotOpened),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Sender;
    use crate::samples::{noise, opened_flight, opened_with_request, record};

    fn crossed(suite: Suite) -> Crossed {
        let opened = opened_flight(&[300], &[]);
        let opened = Opened::of(Sender::Server, opened).expect("a flight");
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
    fn no_flight_of_a_client_s_is_looked_for_behind_a_server_s_that_asks_for_none() {
        let suite = Suite::Aes128Gcm;
        let [asking, _] = opened_with_request();
        let asking = Opened::of(Sender::Server, asking).expect("a flight");
        let keys = ReleasedKeys::default();
        for (mut crossed, is_asked) in [
            (Crossed::new(asking, suite, 0), true),
            (crossed(suite), false),
        ] {
            assert_eq!(crossed.is_client_flight_to_come(), is_asked);
            let begun = crossed.begin_client_flight(&[1; CLIENT_RANDOM_LEN], 0, &keys);
            assert_eq!(begun, is_asked.then_some(false), "no key is there");
            assert!(!crossed.is_client_flight_to_come(), "it passes");
        }
    }

    #[test]
    fn an_alert_in_clear_ends_the_wait() {
        let suite = Suite::Aes128Gcm;
        assert_eq!(after(suite, &record(21, &[2, 40])), (false, false));
        assert_eq!(after(suite, b"no record"), (false, false));
    }
}
