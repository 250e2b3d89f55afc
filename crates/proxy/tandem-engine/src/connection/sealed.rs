//! What becomes of a server's flight in TLS 1.3 whose key was released: opened at the server side,
//! sealed at the client side, remembered at both.
//!
//! ```text
//! server side   Unread [-> AskedAgain] [-> Awaiting] -> Opening -> Opened -> Crossed
//!                                      [-> Offered -> Asked -^]
//! client side   Unread [-> AskedAgain] ------------------------------------> Crossed
//!                                                 any but Crossed ------> Passes
//! ```
//!
//! Is not: when a flight is held, or a message asked for again; nor the keys of clients
//! (`client_key`). Invariants: without a key every
//! byte passes as it is; a flight is remembered at a side only if it crossed in its opened form, so
//! that both sides remember the same.

use tandem_delta::{Delta, Encoding};
use tandem_record_key::Direction;
use tandem_store::{Site, Store};
use tandem_wire::{Instant, UnixTime};

use super::consent::{Consent, DECISION};
use super::{Connection, Moment, Streams};
use crate::engine::Engine;
use crate::event::Event;
use crate::objects::Sender;
use crate::rewrite::Miss;
use crate::sealed::{
    Behind, Crossed, MAX_WAIT, Opened, Opening, Place, Progress, Randoms, Retry, SealedMessage,
    Sought, Unsealed, Wait,
};
use crate::transcript::{Pass, Stage, learn_flight};

/// How far a server's flight is that its key may open.
#[derive(Debug)]
pub(super) enum Sealed {
    /// Nothing was opened.
    Unread,
    /// The server has asked for another hello.
    AskedAgain(Retry),
    /// Server side: the flight has begun, and its key may come.
    Awaiting(Box<Opening>, Wait),
    /// Server side: the flight has begun at this time, and the client's key may be worth asking
    /// for.
    Offered(Box<Opening>, Instant),
    /// Server side: the client's key was asked for.
    Asked(Box<Opening>),
    /// Server side: a key is there, and the flight has begun.
    Opening(Box<Opening>),
    /// Server side: the flight is whole, and may cross.
    Opened(Box<Unsealed>),
    /// It has crossed.
    Crossed(Box<Crossed>),
    /// It passes as it is.
    Passes,
}

impl Sealed {
    /// How far the handshake is, where this says so.
    pub(super) fn stage(&self) -> Option<Stage> {
        match self {
            Self::AskedAgain(_)
            | Self::Awaiting(..)
            | Self::Offered(..)
            | Self::Asked(_)
            | Self::Opening(_)
            | Self::Opened(_) => Some(Stage::Going),
            Self::Crossed(crossed) if crossed.is_finished() => Some(Stage::Finished),
            Self::Crossed(crossed) if crossed.is_open() => Some(Stage::Going),
            Self::Crossed(_) | Self::Unread | Self::Passes => None,
        }
    }

    /// The flight, in its opened form.
    pub(super) fn opened(&self) -> Option<&Opened> {
        match self {
            Self::Opened(unsealed) => Some(unsealed.opened()),
            Self::Crossed(crossed) => Some(crossed.opened()),
            Self::Unread
            | Self::AskedAgain(_)
            | Self::Awaiting(..)
            | Self::Offered(..)
            | Self::Asked(_)
            | Self::Opening(_)
            | Self::Passes => None,
        }
    }

    /// Reads what the client has sent.
    pub(super) fn client_sent(&mut self, stream: &[u8]) {
        match self {
            Self::AskedAgain(retry) => {
                if !retry.client_sent(stream) {
                    *self = Self::Passes;
                }
            }
            Self::Crossed(crossed) => crossed.client_sent(stream),
            Self::Unread
            | Self::Awaiting(..)
            | Self::Offered(..)
            | Self::Asked(_)
            | Self::Opening(_)
            | Self::Opened(_)
            | Self::Passes => {}
        }
    }

    /// Bytes of memory in use, about.
    pub(super) fn footprint(&self) -> usize {
        match self {
            Self::Awaiting(opening, _)
            | Self::Offered(opening, _)
            | Self::Asked(opening)
            | Self::Opening(opening) => size_of::<Opening>() + opening.len(),
            Self::Opened(unsealed) => unsealed.opened().bytes().len(),
            Self::Crossed(crossed) => crossed.footprint(),
            Self::Unread | Self::AskedAgain(_) | Self::Passes => 0,
        }
    }
}

/// A flight that was opened, as its sender sent it.
#[derive(Debug, Clone, Copy)]
pub struct SealedFlight<'a> {
    sender: Sender,
    unsealed: &'a Unsealed,
    stream: &'a [u8],
}

impl<'a> SealedFlight<'a> {
    /// A client's, in this stream of the client's.
    pub(super) fn of_client(unsealed: &'a Unsealed, stream: &'a [u8]) -> Self {
        Self {
            sender: Sender::Client,
            unsealed,
            stream,
        }
    }

    /// Its opened form.
    pub(super) fn opened(&self) -> &'a Opened {
        self.unsealed.opened()
    }

    /// Where in its sender's stream it ends: what is behind it is under other keys.
    pub fn end(&self) -> usize {
        self.unsealed.range().end
    }

    /// Its bytes as they were sent, but for what has crossed.
    pub fn sealed(&self) -> Option<&'a [u8]> {
        self.stream.get(self.unsealed.left())
    }

    /// Whether its message is worth it although it is not shorter than the flight, because those
    /// after it are: of a server's whose chain is compressed (RFC 8879), as nothing can be
    /// compressed again, and of a client's, whose chain may have little that can be.
    pub fn is_for_later(&self) -> bool {
        match self.sender {
            Sender::Server => self.opened().flight().is_compressed(),
            Sender::Client => true,
        }
    }

    /// How much of its opened form has crossed.
    pub(super) fn crossed(&self) -> usize {
        self.unsealed.crossed()
    }

    /// What crosses in its place, with the delta of its opened form. There is a key in it.
    pub fn message(&self, delta: &[u8]) -> Option<Vec<u8>> {
        self.unsealed.message(self.stream, delta)
    }
}

impl Connection {
    /// Opens what has come of the server's flight, where it is sealed and its key was released. To
    /// be called at the server side with each of the server's bytes, after they were read, and when
    /// [`Connection::key_due`] says. While it goes on, and once it is done, the handshake goes on.
    pub fn unseal<S: Store>(
        &mut self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        moment: Moment,
    ) {
        self.sealed = match std::mem::replace(&mut self.sealed, Sealed::Passes) {
            Sealed::Unread if self.handshake.stage() == Stage::Pass(Pass::Tls13) => {
                match self.retry(streams) {
                    Some(retry) => Sealed::AskedAgain(retry),
                    None => {
                        let answer = self.handshake.answer_start(streams.client);
                        let place = answer.map(|answer| Place { start: 0, answer });
                        self.begin(streams, place, engine, moment)
                    }
                }
            }
            Sealed::AskedAgain(retry) => match retry.behind(streams.server) {
                Behind::Nothing => Sealed::AskedAgain(retry),
                Behind::Answer(start) => {
                    let answer = retry.answer_start();
                    let place = answer.map(|answer| Place { start, answer });
                    self.begin(streams, place, engine, moment)
                }
                Behind::Strange => Sealed::Passes,
            },
            Sealed::Awaiting(opening, wait) => {
                self.look_for_key((opening, wait), streams.server, engine, moment)
            }
            Sealed::Offered(opening, since) => {
                self.weigh_offer((opening, since), streams.server, engine, moment)
            }
            other @ (Sealed::Unread
            | Sealed::Asked(_)
            | Sealed::Opening(_)
            | Sealed::Opened(_)
            | Sealed::Crossed(_)
            | Sealed::Passes) => other,
        };
        self.advance(streams.server, engine);
    }

    /// Opens what has come, where a key is there.
    pub(super) fn advance<S: Store>(&mut self, server: &[u8], engine: &mut Engine<S>) {
        self.sealed = match std::mem::replace(&mut self.sealed, Sealed::Passes) {
            Sealed::Opening(opening) => {
                let was_proved = opening.is_proved();
                let progress = opening.advance(server, &mut engine.keys);
                if !was_proved && progress.is_proved() {
                    engine.tell(Event::KeyUsed);
                }
                match progress {
                    Progress::Open(opening) => Sealed::Opening(opening),
                    Progress::Whole(unsealed) => {
                        engine.tell(Event::FlightOpened);
                        Sealed::Opened(unsealed)
                    }
                    Progress::Failed(why) => {
                        engine.tell(Event::FlightNotOpened(why));
                        Sealed::Passes
                    }
                }
            }
            other @ (Sealed::Unread
            | Sealed::AskedAgain(_)
            | Sealed::Awaiting(..)
            | Sealed::Offered(..)
            | Sealed::Asked(_)
            | Sealed::Opened(_)
            | Sealed::Crossed(_)
            | Sealed::Passes) => other,
        };
    }

    /// Whether a key has opened a flight, or its beginning, and it has not set out.
    pub fn holds_opened_flight(&self) -> bool {
        match &self.sealed {
            Sealed::Opening(opening) => opening.is_proved(),
            Sealed::Opened(_) => true,
            Sealed::Crossed(_) => self.holds_client_flight(),
            Sealed::Unread
            | Sealed::AskedAgain(_)
            | Sealed::Awaiting(..)
            | Sealed::Offered(..)
            | Sealed::Asked(_)
            | Sealed::Passes => false,
        }
    }

    /// What becomes of a flight at this place: it passes unless a key may fit, or may come. It
    /// passes, too, where the hello offers early data: the far side reads nothing along any more
    /// once that has begun.
    fn begin<S: Store>(
        &self,
        streams: Streams<'_>,
        place: Option<Place>,
        engine: &mut Engine<S>,
        moment: Moment,
    ) -> Sealed {
        engine.expire_keys(moment.now);
        let random = self.handshake.client_random(streams.client);
        let opening = random.zip(place);
        let opening =
            opening.and_then(|(random, place)| Opening::begin(&random, streams.server, place));
        let Some(opening) = opening else {
            return Sealed::Passes;
        };
        if opening.has_key(&engine.keys) {
            return Sealed::Opening(opening);
        }
        if engine.late.are_of(moment.server) {
            return Sealed::Awaiting(opening, Wait::begin(moment.now, MAX_WAIT));
        }
        let awaited = opening.awaited(moment.server);
        engine.late.flight_passes(awaited, moment.now);
        self.without_server_key(opening, streams.server, engine, moment)
    }

    /// What becomes of a flight whose server has released no key.
    fn without_server_key<S: Store>(
        &self,
        opening: Box<Opening>,
        server: &[u8],
        engine: &mut Engine<S>,
        moment: Moment,
    ) -> Sealed {
        match self.consent.offer() {
            Some(offer) if !opening.resumes() => match offer.may_be_worth() {
                true => self.weigh_offer((opening, moment.now), server, engine, moment),
                false => {
                    engine.tell(Event::KeyNotWorth);
                    Sealed::Passes
                }
            },
            Some(_) | None => Sealed::Passes,
        }
    }

    /// What becomes of a flight whose client's key may be worth asking for, since its beginning
    /// came at this time. A server's key that comes now is taken: it costs no round trip. Nothing
    /// is held on where all of the flight seems to be there, and is too short.
    fn weigh_offer<S: Store>(
        &self,
        (opening, since): (Box<Opening>, Instant),
        server: &[u8],
        engine: &mut Engine<S>,
        moment: Moment,
    ) -> Sealed {
        if opening.has_key(&engine.keys) {
            return Sealed::Opening(opening);
        }
        let sealed = opening.looks_whole(server);
        let is_worth = |sealed| {
            let offer = self.consent.offer();
            offer.is_some_and(|offer| offer.is_worth(sealed))
        };
        if moment.now < since + DECISION && sealed.is_none_or(is_worth) {
            return Sealed::Offered(opening, since);
        }
        engine.tell(Event::KeyNotWorth);
        Sealed::Passes
    }

    /// What becomes of a flight that waits for its server's key.
    fn look_for_key<S: Store>(
        &self,
        (opening, wait): (Box<Opening>, Wait),
        server: &[u8],
        engine: &mut Engine<S>,
        moment: Moment,
    ) -> Sealed {
        if opening.has_key(&engine.keys) {
            engine.late.was_of_use(moment.server);
            return Sealed::Opening(opening);
        }
        match wait.rest(moment.now) {
            Some(rest) => Sealed::Awaiting(opening, rest),
            None => {
                let awaited = opening.awaited(moment.server);
                engine.late.waited_in_vain(awaited, moment.now);
                self.without_server_key(opening, server, engine, moment)
            }
        }
    }

    /// When [`Connection::unseal`] is to be called although nothing has come: a key may have. At
    /// the client side, [`Connection::hand_key_over`].
    pub fn key_due(&self) -> Option<Instant> {
        match &self.sealed {
            Sealed::Awaiting(_, wait) => Some(wait.next()),
            Sealed::Offered(_, since) => Some(*since + DECISION),
            Sealed::AskedAgain(_) | Sealed::Unread | Sealed::Passes => self.consent.key_due(),
            Sealed::Asked(_) | Sealed::Opening(_) | Sealed::Opened(_) | Sealed::Crossed(_) => None,
        }
    }

    /// What is waited for, where the server has asked for another hello. As without that, nothing
    /// where the hello offers early data.
    fn retry(&self, streams: Streams<'_>) -> Option<Retry> {
        let answer = self.handshake.answer_start(streams.client)?;
        let mut retry = Retry::of(streams.server, answer)?;
        retry.client_sent(streams.client).then_some(retry)
    }

    /// Follows a handshake whose server asks for another hello to the flight behind that. To be
    /// called at the client side with each of the server's bytes, after they were read.
    pub fn follow_retry(&mut self, streams: Streams<'_>) {
        let passes_on = match &self.sealed {
            Sealed::Unread if self.handshake.stage() == Stage::Pass(Pass::Tls13) => {
                self.retry(streams).map(Sealed::AskedAgain)
            }
            // A flight that crosses opened does not come by here.
            Sealed::AskedAgain(retry) => match retry.behind(streams.server) {
                Behind::Nothing => None,
                // What is in clear of it does, where a client's key may be asked for.
                Behind::Answer(_) if self.consent.is_open() => None,
                Behind::Answer(_) | Behind::Strange => Some(Sealed::Passes),
            },
            Sealed::Unread
            | Sealed::Awaiting(..)
            | Sealed::Offered(..)
            | Sealed::Asked(_)
            | Sealed::Opening(_)
            | Sealed::Opened(_)
            | Sealed::Crossed(_)
            | Sealed::Passes => None,
        };
        if let Some(sealed) = passes_on {
            self.sealed = sealed;
        }
    }

    /// Whether the server has asked for another hello, and its flight has not begun.
    pub fn is_asked_again(&self) -> bool {
        match self.sealed {
            Sealed::AskedAgain(_) => true,
            Sealed::Unread
            | Sealed::Awaiting(..)
            | Sealed::Offered(..)
            | Sealed::Asked(_)
            | Sealed::Opening(_)
            | Sealed::Opened(_)
            | Sealed::Crossed(_)
            | Sealed::Passes => false,
        }
    }

    /// Behind a request for another hello: where in the server's stream its flight begins, once
    /// that is known.
    pub fn flight_after_retry(&self, server: &[u8]) -> Option<usize> {
        match &self.sealed {
            Sealed::AskedAgain(retry) => retry.flight_start(server),
            Sealed::Awaiting(opening, _)
            | Sealed::Offered(opening, _)
            | Sealed::Asked(opening)
            | Sealed::Opening(opening) => Some(opening.start()),
            Sealed::Opened(unsealed) => Some(unsealed.range().start),
            Sealed::Unread | Sealed::Crossed(_) | Sealed::Passes => None,
        }
    }

    /// What this end has sent, its stream from the byte after `before` on, where that begins with a
    /// flight that was opened and has not crossed. [`Connection::outgoing`] is its opened form
    /// then, whose delta may not cross but in [`SealedFlight::message`].
    pub fn sealed_flight<'a>(
        &'a self,
        sender: Sender,
        stream: &'a [u8],
        before: usize,
    ) -> Option<SealedFlight<'a>> {
        match (sender, &self.sealed) {
            (Sender::Server, Sealed::Opened(unsealed)) if before == unsealed.left().start => {
                Some(SealedFlight {
                    sender,
                    unsealed,
                    stream,
                })
            }
            (Sender::Client, Sealed::Crossed(_)) => self.opened_client(stream, before),
            (
                Sender::Server | Sender::Client,
                Sealed::Unread
                | Sealed::AskedAgain(_)
                | Sealed::Awaiting(..)
                | Sealed::Offered(..)
                | Sealed::Asked(_)
                | Sealed::Opening(_)
                | Sealed::Opened(_)
                | Sealed::Crossed(_)
                | Sealed::Passes,
            ) => None,
        }
    }

    /// The server's opened flight has set out in its message.
    pub fn sealed_flight_written(&mut self) {
        self.sealed = match std::mem::replace(&mut self.sealed, Sealed::Passes) {
            Sealed::Opened(unsealed) => Sealed::Crossed(Box::new(Crossed::of_unsealed(*unsealed))),
            other @ (Sealed::Unread
            | Sealed::AskedAgain(_)
            | Sealed::Awaiting(..)
            | Sealed::Offered(..)
            | Sealed::Asked(_)
            | Sealed::Opening(_)
            | Sealed::Crossed(_)
            | Sealed::Passes) => other,
        };
    }

    /// The server's flight passes as it is, or did after all: the far side has not seen what was
    /// opened of it, and nothing of it is opened from here on.
    pub fn server_flight_passes(&mut self) {
        self.sealed = Sealed::Passes;
    }

    /// At the client side: the server's flight as the server sent it, or what of it has not
    /// crossed, out of the message that came in its place; at most `limit` bytes.
    ///
    /// # Errors
    /// It could not be rebuilt: nothing of it may leave.
    pub fn reseal<S: Store>(
        &mut self,
        message: &[u8],
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        (limit, now): (usize, Instant),
    ) -> Result<Vec<u8>, Miss> {
        let random = self.handshake.client_random(streams.client);
        let message = random.and_then(|random| {
            let parsed = SealedMessage::parse(Sender::Server, message, &random);
            parsed.map(|message| (message, random))
        });
        let (message, random) = message.ok_or(Miss::Malformed)?;
        let given = self.consent.given();
        let (key, crossed) = match (&message.key, given) {
            (Some(key), None) => (key, &[][..]),
            (None, Some(given)) => (given.key(), &given.clear()[..]),
            // Nor may the clear part come again, where it has crossed.
            (None, None) | (Some(_), Some(_)) => return Err(Miss::Malformed),
        };
        let delta = Delta::parse(Encoding::Three, message.delta, limit)?;
        let opened = delta.apply(&mut self.source(engine))?;
        let mut resealed = message.seal(key, opened, limit)?;
        // The client has that already, and no other.
        if !crossed.is_empty() && resealed.clear() != crossed {
            return Err(Miss::Malformed);
        }
        resealed.bytes.drain(..crossed.len());
        engine.tell(Event::FlightSealed);
        if let (None, Some(given)) = (&message.key, given) {
            engine.tell(Event::KeyUsed);
            engine.clients.was_of_use(given.client);
        } else {
            // A client's key that comes now is not unknown.
            let server_random = resealed.opened.server_random();
            self.key_may_come(streams, server_random, engine, now);
        }
        let answer = match &self.sealed {
            Sealed::AskedAgain(retry) => retry.answer_start(),
            Sealed::Unread
            | Sealed::Awaiting(..)
            | Sealed::Offered(..)
            | Sealed::Asked(_)
            | Sealed::Opening(_)
            | Sealed::Opened(_)
            | Sealed::Crossed(_)
            | Sealed::Passes => self.handshake.answer_start(streams.client),
        };
        self.consent = Consent::None;
        if let Some(server) = resealed.opened.server_random()
            && !resealed.opened.asks_for_certificate()
        {
            engine.drop_keys(&Sought {
                direction: Direction::FromClient,
                randoms: Randoms {
                    client: random,
                    server,
                },
                suite: resealed.suite,
            });
        }
        if let Some(from) = answer {
            let crossed = Crossed::new(resealed.opened, resealed.suite, from);
            self.sealed = Sealed::Crossed(Box::new(crossed));
        }
        Ok(resealed.bytes)
    }
}

/// Remembers what an opened flight has shown; says whether its chain is held then.
pub(super) fn learn(opened: &Opened, store: &mut impl Store, site: &Site, now: UnixTime) -> bool {
    let Some(chain) = opened.flight().certificates(opened.bytes()) else {
        return false;
    };
    let chain: Vec<&[u8]> = chain.iter().map(|der| &**der).collect();
    let extras = opened.flight().extras(opened.bytes());
    learn_flight(&chain, extras.as_deref(), store, site, now)
}

#[cfg(test)]
mod tests;
