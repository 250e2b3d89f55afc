//! A key of the client's: offered with the hello, asked for with what is in clear of the server's
//! flight, handed over.
//!
//! ```text
//! client side   hello, offer ->                           -> key, or no key
//! server side                   -> ServerHello, "waits"                     -> sealed, or the bytes
//!                                  the rest is held ......................
//! ```
//!
//! Is not: whether it is worth it, or what the key opens, which the engine knows. Invariants: a
//! stream has each of these once, and none that was not asked for; a question is answered before
//! the direction has no frames any more; what is held meanwhile is what is read along, for
//! [`super::KEY_HOLD`] at most.

use std::net::IpAddr;

use tandem_engine::{HandOver, KeyOffer, Role, Sender};
use tandem_link::tunnel::{Malformed, Offer, Piece};
use tandem_store::Store;

use super::{Joined, Phase};
use crate::output::Context;
use crate::prefer::{Least, agreed};

/// How far it is on this stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// Nothing was said.
    No,
    /// A key was offered.
    Offered,
    /// It was asked for.
    Waiting,
    /// It was answered.
    Over,
}

/// What a side does about clients' keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientKeys {
    /// Client side: nothing is offered. Server side: keys are asked for at what they are offered
    /// at.
    AsTold,
    /// Client side: those of this client are offered at this.
    Offered(IpAddr, Least),
    /// Server side: they are asked for at this.
    AskedAt(Least),
}

/// The client side.
impl Joined {
    /// Offers the key of the flight to come, if this client hands in keys.
    pub(super) fn offer_key<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let (ClientKeys::Offered(client, least), Some(following)) =
            (self.client_keys, &mut self.following)
        else {
            return;
        };
        let offer = following.offer_key(cx.engine, self.server, (client, least.bytes()));
        if let Some(KeyOffer { held, answer, .. }) = offer {
            let bytes = |count| u16::try_from(count).unwrap_or(u16::MAX);
            self.asking = Asking::Offered;
            self.writer.offer(Offer {
                held: bytes(held),
                answer: bytes(answer),
                least: least.0,
            });
        }
    }

    /// The server side holds the flight for the key.
    pub(super) fn key_is_wanted<S: Store>(
        &mut self,
        cx: &mut Context<'_, S>,
    ) -> Result<(), Malformed> {
        match (self.role, self.asking) {
            (Role::ClientSide, Asking::Offered) => self.asking = Asking::Waiting,
            (Role::ClientSide, Asking::No | Asking::Waiting | Asking::Over)
            | (Role::ServerSide, _) => return Err(Malformed),
        }
        match &mut self.following {
            Some(following) => {
                following.key_wanted(cx.clock.now);
                self.hand_key_over(cx);
            }
            None => self.say_no_key(cx),
        }
        Ok(())
    }

    /// The client's key may have come, or is not waited for any more.
    pub(super) fn hand_key_over<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let (Asking::Waiting, Some(following)) = (self.asking, &mut self.following) else {
            return;
        };
        match following.connection.hand_key_over(cx.engine, cx.clock.now) {
            HandOver::Later => {}
            HandOver::Key(key) => {
                if let Some(key) = Piece::new(key) {
                    self.asking = Asking::Over;
                    self.writer.key(key);
                }
            }
            HandOver::Missing => self.say_no_key(cx),
        }
        self.conclude_if_over(cx);
    }

    /// Says that there is no key, if one was asked for. None is looked for any more, either: a look
    /// that nobody acts on would be due for ever.
    pub(super) fn say_no_key<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        if (self.role, self.asking) == (Role::ClientSide, Asking::Waiting) {
            self.asking = Asking::Over;
            if let Some(following) = &mut self.following {
                following.connection.offer_lapses(cx.engine, cx.clock.now);
            }
            self.writer.no_key();
        }
    }

    /// The message of the flight was not rebuilt: the original follows.
    pub(super) fn key_was_of_no_use<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        if let (Role::ClientSide, Some(following)) = (self.role, &mut self.following) {
            following.connection.offer_lapses(cx.engine, cx.clock.now);
        }
    }

    /// No message of a flight comes any more.
    pub(super) fn offer_lapses<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let (Role::ClientSide, Some(following)) = (self.role, &mut self.following) else {
            return;
        };
        following.connection.offer_lapses(cx.engine, cx.clock.now);
        self.say_no_key(cx);
        self.conclude_if_over(cx);
    }
}

/// The server side.
impl Joined {
    /// The client side offers the key of the flight to come.
    pub(super) fn key_is_offered(&mut self, offer: Offer) -> Result<(), Malformed> {
        match (self.role, self.asking) {
            (Role::ServerSide, Asking::No) => self.asking = Asking::Offered,
            (Role::ServerSide, Asking::Offered | Asking::Waiting | Asking::Over)
            | (Role::ClientSide, _) => return Err(Malformed),
        }
        let own = match self.client_keys {
            ClientKeys::AskedAt(least) => Some(least),
            ClientKeys::AsTold | ClientKeys::Offered(..) => None,
        };
        if let Some(following) = &mut self.following {
            following.connection.key_offered(KeyOffer {
                held: usize::from(offer.held),
                answer: usize::from(offer.answer),
                least: agreed(own, Least(offer.least)).bytes(),
                answer_least: Least(offer.least).bytes(),
            });
        }
        Ok(())
    }

    /// Asks for the key of the flight that is held, where that is worth it: what is in clear of the
    /// flight crosses now.
    pub(super) fn ask_for_key<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let (Phase::FlightHeld(hold), Asking::Offered, Some(following)) =
            (&mut self.phase, self.asking, &mut self.following)
        else {
            return;
        };
        if !self.writer.may_write_delta() {
            return;
        }
        let stream = following.stream(Sender::Server);
        let Some(end) = following.connection.asks_for_key(stream) else {
            return;
        };
        let Some(clear) = stream.get(hold.before..end) else {
            return;
        };
        self.writer.bytes(clear);
        self.writer.waits();
        self.asking = Asking::Waiting;
        (hold.before, hold.since) = (end, cx.clock.now);
        following.connection.key_asked(end, cx.engine);
    }

    /// The client side has answered.
    pub(super) fn key_comes<S: Store>(
        &mut self,
        key: Option<&Piece>,
        cx: &mut Context<'_, S>,
    ) -> Result<(), Malformed> {
        match (self.role, self.asking) {
            (Role::ServerSide, Asking::Waiting) => self.asking = Asking::Over,
            (Role::ServerSide, Asking::No | Asking::Offered | Asking::Over)
            | (Role::ClientSide, _) => return Err(Malformed),
        }
        if let Phase::FlightHeld(hold) = &mut self.phase {
            hold.since = cx.clock.now;
        }
        if let Some(following) = &mut self.following {
            let key = key.map(Piece::bytes);
            following.key_given(key, cx.engine).map_err(|_| Malformed)?;
        }
        self.consider_flight(cx);
        self.conclude_if_over(cx);
        Ok(())
    }
}
