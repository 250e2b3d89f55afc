//! A client that releases the key of its server's flight: offered, asked for, handed over.
//!
//! The client has the key only once ServerHello has come to it. So the server side sends that
//! first, holds the rest, and asks for the key: one more round trip.
//!
//! Is not: what is held, or for how long at the server side; nor the opening (`sealed`).
//! Invariants: nothing is offered but for a client that has handed in a key before; no key is
//! handed over that was not asked for, or that does not name the randoms of both hellos; a client
//! side waits [`MAX_CLIENT_WAIT`] at most for one.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tandem_record_key::{Direction, SERVER_RANDOM_LEN, Suite};
use tandem_store::Store;
use tandem_wire::Instant;
use tandem_wire::tls::ServerHello;

use super::answered::Answering;
use super::consent::{Consent, Given, HandOver, Wanted};
use super::sealed::Sealed;
use super::{Connection, Streams};
use crate::engine::Engine;
use crate::event::{Event, NotOpened};
use crate::rewrite::Miss;
use crate::sealed::{
    Awaited, KeyClient, KeyOffer, MAX_CLIENT_WAIT, Randoms, ServerHelloRecord, Sought, Wait,
    clear_len, read_key, write_key,
};
use crate::transcript::{Pass, Stage};

/// The client side.
impl Connection {
    /// What is said beside the hello of a client at this address to this server, on a side that
    /// takes clients' keys: an offer, where this client has handed in a key before and the hello
    /// offers no early data; so many spared bytes are worth a round trip. To be asked once for each
    /// hello, after [`Connection::say`].
    pub fn offer_key<S: Store>(
        &mut self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        server: SocketAddr,
        (address, least): (IpAddr, usize),
    ) -> Option<KeyOffer> {
        self.handshake.answer_start(streams.client)?;
        let profile = self.handshake.hello(streams.client)?.client;
        let client = KeyClient { address, profile };
        let site = self.site(server);
        let answer = engine.worth_of_answer(client, &site);
        self.answering = Some(Answering { client, site });
        self.consent = Consent::From(client);
        if !engine.clients.are_of(client) {
            return None;
        }
        self.consent = Consent::Made(client);
        engine.tell(Event::KeyOffered);
        let held = self.held_of_site(engine);
        Some(KeyOffer {
            held,
            answer,
            least,
            answer_least: least,
        })
    }

    /// Bytes that are held of what the site has shown.
    fn held_of_site<S: Store>(&self, engine: &mut Engine<S>) -> usize {
        let flight = self.held.flight.as_ref().map_or(0, |flight| flight.len());
        let hinted = match self.held.is_of_site {
            true => &self.held.hinted[..],
            false => &[],
        };
        let store = &mut engine.store;
        let objects = hinted.iter().filter_map(|id| {
            let object = store.object_by_prefix(&id.prefix16())?;
            Some(store.contents(&object)?.len())
        });
        flight + objects.sum::<usize>()
    }

    /// The far side holds the server's flight for the key; what is in clear of the flight has come.
    /// `false`: it was offered none.
    pub fn key_wanted(&mut self, streams: Streams<'_>, now: Instant) -> bool {
        let Consent::Made(client) = self.consent else {
            return false;
        };
        self.consent = match self.wanted(client, streams, now) {
            Some(wanted) => Consent::Wanted(wanted),
            None => Consent::From(client),
        };
        true
    }

    fn wanted(&self, client: KeyClient, streams: Streams<'_>, now: Instant) -> Option<Wanted> {
        let start = match &self.sealed {
            Sealed::AskedAgain(retry) => retry.flight_start(streams.server)?,
            Sealed::Unread
            | Sealed::Awaiting(..)
            | Sealed::Offered(..)
            | Sealed::Asked(_)
            | Sealed::Opening(_)
            | Sealed::Opened(_)
            | Sealed::Crossed(_)
            | Sealed::Passes => 0,
        };
        let clear = streams.server.get(start..)?;
        let hello = ServerHelloRecord::first_in(clear)?;
        let hello = ServerHello::parse(hello.body).ok()?;
        let is_all = clear_len(clear)? == clear.len() && !hello.is_hello_retry_request();
        is_all.then_some(())?;
        Some(Wanted {
            client,
            randoms: Randoms {
                client: self.handshake.client_random(streams.client)?,
                server: *hello.random(),
            },
            suite: Suite::from_number(hello.cipher_suite())?,
            clear: clear.into(),
            wait: Wait::begin(now, MAX_CLIENT_WAIT),
        })
    }

    /// What the far side is told now of the key that it waits for.
    pub fn hand_key_over<S: Store>(&mut self, engine: &mut Engine<S>, now: Instant) -> HandOver {
        let wanted = match std::mem::replace(&mut self.consent, Consent::None) {
            Consent::Wanted(wanted) => wanted,
            other @ (Consent::None
            | Consent::Offered(_)
            | Consent::From(_)
            | Consent::Made(_)
            | Consent::Given(_)) => {
                self.consent = other;
                return HandOver::Missing;
            }
        };
        engine.expire_keys(now);
        let sought = Sought {
            direction: Direction::FromServer,
            randoms: wanted.randoms,
            suite: wanted.suite,
        };
        // Nothing was opened with it here, and the far side is to get no other connection's.
        if let Some(key) = engine.keys.take_bound(&sought) {
            engine.tell(Event::KeyHandedOver);
            let bytes = write_key(&key);
            let Wanted { client, clear, .. } = wanted;
            self.consent = Consent::Given(Given { client, key, clear });
            return HandOver::Key(bytes);
        }
        match wanted.wait.rest(now) {
            Some(wait) => {
                self.consent = Consent::Wanted(Wanted { wait, ..wanted });
                HandOver::Later
            }
            None => {
                engine.tell(Event::KeyMissing);
                let awaited = Awaited {
                    client_random: wanted.randoms.client,
                    server_random: Some(wanted.randoms.server),
                    endpoint: wanted.client,
                };
                engine.clients.waited_in_vain(awaited, now);
                self.key_is_over();
                HandOver::Missing
            }
        }
    }

    /// The server's flight passes as it is: the far side has not asked for the key, or could not
    /// use it. That was a wait in vain as much as one for a key that did not come.
    pub fn offer_lapses<S: Store>(&mut self, engine: &mut Engine<S>, now: Instant) {
        match std::mem::replace(&mut self.consent, Consent::None) {
            Consent::Given(Given { client, key, .. }) => {
                let awaited = Awaited {
                    client_random: *key.client_random(),
                    server_random: key.server_random().copied(),
                    endpoint: client,
                };
                engine.clients.waited_in_vain(awaited, now);
                self.key_is_over();
            }
            Consent::From(client)
            | Consent::Made(client)
            | Consent::Wanted(Wanted { client, .. }) => {
                self.key_is_over();
                self.consent = Consent::From(client);
            }
            other @ (Consent::None | Consent::Offered(_)) => self.consent = other,
        }
    }

    fn key_is_over(&mut self) {
        self.consent = Consent::None;
        // Behind a request for another hello, ServerHello may have passed.
        if let Sealed::AskedAgain(_) = self.sealed
            && self.handshake.stage() == Stage::Pass(Pass::Tls13)
        {
            self.sealed = Sealed::Passes;
        }
    }

    /// The random of ServerHello, where that is the first thing that the server has sent. Behind a
    /// request for another hello it is not looked for.
    pub(super) fn server_random(server: &[u8]) -> Option<[u8; SERVER_RANDOM_LEN]> {
        let hello = ServerHelloRecord::first_in(server)?;
        let hello = ServerHello::parse(hello.body).ok()?;
        (!hello.is_hello_retry_request()).then_some(*hello.random())
    }

    /// A key that comes now for this connection, with this random of its server's, tells that its
    /// client hands in keys.
    pub(super) fn key_may_come<S: Store>(
        &self,
        streams: Streams<'_>,
        server_random: Option<[u8; SERVER_RANDOM_LEN]>,
        engine: &mut Engine<S>,
        now: Instant,
    ) {
        if let (Some(endpoint), Some(client_random)) = (
            self.consent.client(),
            self.handshake.client_random(streams.client),
        ) {
            let awaited = Awaited {
                client_random,
                server_random,
                endpoint,
            };
            engine.clients.flight_passes(awaited, now);
        }
    }

    /// What of the server's flight has crossed in clear, where its key was handed over.
    pub(super) fn crossed_clear(&self) -> Option<&Arc<[u8]>> {
        self.consent.given().map(Given::clear)
    }
}

/// The server side.
impl Connection {
    /// The client side has offered the key of the server's flight to come.
    pub fn key_offered(&mut self, offer: KeyOffer) {
        self.consent = Consent::Offered(offer);
    }

    /// Whether the key is to be asked for now: where in the server's stream what is in clear of the
    /// flight ends, which is to cross before.
    pub fn asks_for_key(&self, server: &[u8]) -> Option<usize> {
        let (Sealed::Offered(opening, _), Consent::Offered(offer)) = (&self.sealed, &self.consent)
        else {
            return None;
        };
        let (clear_end, sealed) = opening.sealed_from(server)?;
        offer.is_worth(sealed).then_some(clear_end)
    }

    /// The key was asked for, and the flight's clear part, which ends here, sent.
    pub fn key_asked<S: Store>(&mut self, clear_end: usize, engine: &mut Engine<S>) {
        self.sealed = match std::mem::replace(&mut self.sealed, Sealed::Passes) {
            Sealed::Offered(mut opening, _) => {
                engine.tell(Event::KeyAsked);
                opening.clear_crosses(clear_end);
                Sealed::Asked(opening)
            }
            other @ (Sealed::Unread
            | Sealed::AskedAgain(_)
            | Sealed::Awaiting(..)
            | Sealed::Asked(_)
            | Sealed::Opening(_)
            | Sealed::Opened(_)
            | Sealed::Crossed(_)
            | Sealed::Passes) => other,
        };
    }

    /// The client side has handed over this key, or says that there is none. The flight is opened
    /// as far as it has come, or passes.
    ///
    /// # Errors
    /// It is no key.
    pub fn key_given<S: Store>(
        &mut self,
        key: Option<&[u8]>,
        server: &[u8],
        engine: &mut Engine<S>,
    ) -> Result<(), Miss> {
        self.sealed = match (std::mem::replace(&mut self.sealed, Sealed::Passes), key) {
            (Sealed::Asked(mut opening), Some(key)) => {
                let key = read_key(key, opening.client_random()).ok_or(Miss::Malformed)?;
                match opening.give(key) {
                    true => Sealed::Opening(opening),
                    false => {
                        engine.tell(Event::FlightNotOpened(NotOpened::Unproved));
                        Sealed::Passes
                    }
                }
            }
            (Sealed::Asked(_), None) => {
                engine.tell(Event::KeyMissing);
                Sealed::Passes
            }
            (
                other @ (Sealed::Unread
                | Sealed::AskedAgain(_)
                | Sealed::Awaiting(..)
                | Sealed::Offered(..)
                | Sealed::Opening(_)
                | Sealed::Opened(_)
                | Sealed::Crossed(_)
                | Sealed::Passes),
                _,
            ) => other,
        };
        self.advance(server, engine);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
