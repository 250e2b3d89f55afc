//! A client's flight of TLS 1.3 that shows a certificate: opened at the client side with the key of
//! the client's direction, sealed at the server side.
//!
//! ```text
//! client side   Asked -> Opening -> Opened -> Crossed      any but Crossed -> Passes
//! server side   Asked ----------------------> Crossed
//! ```
//!
//! The key is the client's own, and comes from it. Is not: how far it is, which the server's flight
//! keeps (`sealed::crossed`), nor when it is held. Invariants: nothing is opened but behind a
//! server's flight that has crossed opened and asks for a certificate; no key is waited for; a
//! chain is remembered at a side only if the flight has crossed in its opened form. Whether the
//! server has accepted it is not known then.

use tandem_delta::{Delta, Encoding};
use tandem_store::{ObjectId, Store};
use tandem_wire::{Instant, UnixTime};

use super::sealed::{Sealed, SealedFlight};
use super::{Connection, Outlook, Streams};
use crate::engine::{ClientCertificates, Engine};
use crate::event::Event;
use crate::objects::{Flight, Sender};
use crate::peer::ClientChain;
use crate::rewrite::{Ground, Miss};
use crate::sealed::{ClientStep, Crossed, SealedMessage};
use crate::transcript::learn_client_chain;

/// A client's flight, and the bytes that it lies in.
pub(super) struct Shown<'a> {
    pub(super) flight: &'a Flight,
    pub(super) bytes: &'a [u8],
}

impl Connection {
    fn crossed(&self) -> Option<&Crossed> {
        let Sealed::Crossed(crossed) = &self.sealed else {
            return None;
        };
        Some(crossed)
    }

    fn crossed_mut(&mut self) -> Option<&mut Crossed> {
        let Sealed::Crossed(crossed) = &mut self.sealed else {
            return None;
        };
        Some(crossed)
    }

    /// The client's flight that was opened: whole at the client side, or crossed.
    pub(super) fn opened_client_flight(&self) -> Option<&Flight> {
        Some(self.crossed()?.client_opened()?.flight())
    }

    /// The same once it has crossed: what both sides have seen.
    pub(super) fn crossed_client_flight(&self) -> Option<Shown<'_>> {
        let opened = self.crossed()?.client_crossed()?;
        Some(Shown {
            flight: opened.flight(),
            bytes: opened.bytes(),
        })
    }

    /// Puts the client's chain into the store, if both sides have seen it, and names it.
    pub(super) fn learn_client<S: Store>(
        &self,
        streams: Streams<'_>,
        store: &mut S,
        now: UnixTime,
    ) -> Option<ObjectId> {
        match self.crossed_client_flight() {
            Some(shown) => learn_client_chain(shown.flight, shown.bytes, store, now),
            None => self.handshake.learn_client(streams.client, store, now),
        }
    }
}

/// The client side.
impl Connection {
    /// Before the client sends more: whether that is opened, because the server's flight has
    /// crossed opened and asks for a certificate, and the key of the client's direction is there.
    pub fn sealed_client_flight_to_come<S: Store>(
        &mut self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        now: Instant,
    ) -> Option<Ground> {
        match engine.client_certificates {
            ClientCertificates::Persistent => {}
            ClientCertificates::None => return None,
            // These are packet mode's.
            ClientCertificates::Cii { .. } | ClientCertificates::Filter { .. } => return None,
        }
        let random = self.handshake.client_random(streams.client)?;
        let crossed = self.crossed_mut()?;
        engine.expire_keys(now);
        let begins = crossed.begin_client_flight(&random, streams.client.len(), &engine.keys)?;
        if !begins {
            engine.tell(Event::KeyMissing);
        }
        begins.then(Ground::client_flight_to_come)
    }

    /// Opens what has come of the client's flight, where that is opened. To be called at the client
    /// side with each of the client's bytes, after they were read.
    pub fn unseal_client<S: Store>(&mut self, streams: Streams<'_>, engine: &mut Engine<S>) {
        let Some(crossed) = self.crossed_mut() else {
            return;
        };
        let progress = crossed.advance_client_flight(streams.client, &mut engine.keys);
        let Some(progress) = progress else {
            return;
        };
        if progress.is_key_used {
            engine.tell(Event::KeyUsed);
        }
        match progress.step {
            ClientStep::Open => {}
            ClientStep::Whole => engine.tell(Event::FlightOpened),
            ClientStep::Failed(why) => engine.tell(Event::FlightNotOpened(why)),
        }
    }

    /// What is to be made of the client's flight, where the server's has crossed opened. A chain
    /// that is not believed to be held crosses, too: otherwise neither side would ever hold it.
    pub(super) fn sealed_client_flight_outlook<S: Store>(
        &self,
        engine: &mut Engine<S>,
    ) -> Option<Outlook> {
        let crossed = self.crossed()?;
        if crossed.awaits_client_flight() {
            return Some(Outlook::Open);
        }
        let Some(unsealed) = crossed.unsealed_client_flight() else {
            return Some(Outlook::Nothing);
        };
        let opened = unsealed.opened();
        let chain = ClientChain::of(opened.flight(), opened.bytes());
        let chain = chain.filter(|chain| !engine.peer().far.is_lacking(&chain.id()));
        let believed = chain.map(|chain| chain.remembered(&mut engine.store));
        let believed = believed.unwrap_or_default();
        Some(Outlook::Ground(Ground::client_flight(believed)))
    }

    /// What the client has sent, from the byte after `before` on, where that begins with a flight
    /// that was opened and has not crossed.
    pub(super) fn opened_client<'a>(
        &'a self,
        stream: &'a [u8],
        before: usize,
    ) -> Option<SealedFlight<'a>> {
        let unsealed = self.crossed()?.unsealed_client_flight()?;
        let begins = unsealed.left().start == before;
        begins.then(|| SealedFlight::of_client(unsealed, stream))
    }

    /// Whether a key has opened the client's flight, or its beginning, and it has not set out.
    pub(super) fn holds_client_flight(&self) -> bool {
        self.crossed().is_some_and(Crossed::holds_client_flight)
    }

    /// The client's opened flight, if it was, has set out in its message, with its key.
    pub fn client_flight_written<S: Store>(&mut self, engine: &mut Engine<S>) {
        if let Some(crossed) = self.crossed_mut()
            && crossed.unsealed_client_flight().is_some()
        {
            crossed.client_flight_written();
            engine.tell(Event::KeyHandedOver);
        }
    }

    /// The client's flight passes as it is.
    pub fn client_flight_passes(&mut self, streams: Streams<'_>) {
        if let Some(crossed) = self.crossed_mut() {
            crossed.client_flight_passes(streams.client);
        }
    }

    /// The name of the chain that the client has shown.
    pub fn client_chain_id(&self, streams: Streams<'_>) -> Option<ObjectId> {
        self.client_chain(streams).map(|chain| chain.id())
    }
}

/// The server side.
impl Connection {
    /// The client's flight as the client sent it, out of the message that came in its place; at
    /// most `limit` bytes.
    ///
    /// # Errors
    /// It could not be rebuilt: nothing of it may leave.
    pub fn reseal_client<S: Store>(
        &mut self,
        message: &[u8],
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        (limit, now): (usize, Instant),
    ) -> Result<Vec<u8>, Miss> {
        let random = self.handshake.client_random(streams.client);
        let crossed = self.crossed_mut().ok_or(Miss::NotHeld)?;
        if !crossed.is_client_flight_to_come() {
            return Err(Miss::NotHeld);
        }
        let message = random.and_then(|it| SealedMessage::parse(Sender::Client, message, &it));
        let message = message.ok_or(Miss::Malformed)?;
        let delta = Delta::parse(Encoding::Three, message.delta, limit)?;
        let opened = delta.apply(&mut engine.source(now))?;
        let key = message.key.as_ref().ok_or(Miss::Malformed)?;
        let resealed = message.seal(key, opened, limit)?;
        engine.tell(Event::FlightSealed);
        crossed.client_flight_came(resealed.opened);
        Ok(resealed.bytes)
    }
}

#[cfg(test)]
mod tests;
