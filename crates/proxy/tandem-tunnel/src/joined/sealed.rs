//! What a sealed flight asks for beside one in clear: it may come behind a HelloRetryRequest (RFC
//! 8446, section 4.1.4), its key may come while it is held, and its message is sealed. It is the
//! server's, or the client's after it.
//!
//! Is not: how far the handshake is, which the engine knows. Invariant: the request passes at once,
//! and what is held behind it begins where the server's flight does.

use tandem_delta::{DeltaWriter, Encoding};
use tandem_engine::{Role, Sender};
use tandem_link::tunnel::{Malformed, Miss, Piece};
use tandem_store::Store;
use tandem_wire::Instant;

use super::{Hold, Joined, Phase};
use crate::event::{Dropped, Event};
use crate::output::Context;
use crate::reader::Placed;

/// Bytes that a flight may take more, so that both sides hold its chain the next time: key, IV and
/// check, and what is around them.
pub(super) const SPENT_FOR_LATER: usize = 80;

/// A delta of bytes of which the far side holds nothing.
pub(super) fn literal(bytes: &[u8]) -> Vec<u8> {
    let mut delta = DeltaWriter::new(Encoding::Three);
    delta.add(bytes);
    delta.finish()
}

impl Joined {
    /// The flight that a message stands for.
    pub(super) fn resealed<S: Store>(
        &mut self,
        place: Placed,
        message: &Piece,
        cx: &mut Context<'_, S>,
    ) -> Result<Result<Vec<u8>, Miss>, Malformed> {
        // A client's follows its hello.
        if (self.role, place) == (Role::ServerSide, Placed::First) {
            return Err(Malformed);
        }
        let Some(following) = &mut self.following else {
            return Ok(Err(Miss::NotHeld));
        };
        let resealed = following.reseal(self.role, message.bytes(), cx.engine, cx.clock.now);
        Ok(resealed.map_err(|miss| match miss {
            tandem_engine::Miss::NotHeld => Miss::NotHeld,
            tandem_engine::Miss::WrongKey => Miss::Check,
            tandem_engine::Miss::Malformed => Miss::Malformed,
        }))
    }

    /// The flight has set out; if it was opened, in that form.
    pub(super) fn opened_flight_written<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let is_opened = self.holds_opened_flight();
        if let Some(following) = &mut self.following {
            let connection = &mut following.connection;
            match self.role {
                Role::ClientSide => connection.client_flight_written(cx.engine),
                Role::ServerSide => connection.sealed_flight_written(),
            }
        }
        if is_opened {
            self.writer.tell(Event::OpenedWritten);
        }
    }

    /// What a key has opened is not used; why.
    pub(super) fn drop_opened(&mut self, why: Dropped) {
        if self.holds_opened_flight() {
            self.writer.tell(Event::OpenedDropped(why));
        }
    }

    /// Whether a key has opened the endpoint's flight, and it has not set out.
    pub(crate) fn holds_opened_flight(&self) -> bool {
        let following = self.following.as_ref();
        following.is_some_and(|it| it.connection.holds_opened_flight())
    }

    /// What is held has turned out to be a request for another hello.
    pub(super) fn pass_retry(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Plain) {
            Phase::FlightHeld(hold) => Phase::AskedAgain(hold.ground),
            other @ (Phase::Silent { .. }
            | Phase::Hello
            | Phase::HelloHeld { .. }
            | Phase::Flight
            | Phase::AskedAgain(_)
            | Phase::Plain) => other,
        };
        self.pass(0);
    }

    /// What the server sends from `before` on is held from where its flight begins; what it sends
    /// in front of that passes.
    pub(super) fn hold_flight_after_retry(&mut self, before: usize, now: Instant) {
        let Some(following) = &self.following else {
            return;
        };
        let stream = following.stream(Sender::Server);
        let Some(start) = following.connection.flight_after_retry(stream) else {
            return self.pass(before);
        };
        match (
            stream.get(before..start),
            std::mem::replace(&mut self.phase, Phase::Plain),
        ) {
            (Some(in_front), Phase::AskedAgain(ground)) => {
                self.writer.bytes(in_front);
                self.phase = match start < stream.len() {
                    true => Phase::FlightHeld(Hold {
                        since: now,
                        before: start,
                        ground,
                    }),
                    false => Phase::AskedAgain(ground),
                };
            }
            // It has begun to pass.
            (Some(_) | None, _) => self.pass_flight(before, Dropped::NoDelta),
        }
    }

    /// When to look for the key of a flight that is held.
    pub(super) fn key_due(&self) -> Option<Instant> {
        self.following.as_ref()?.connection.key_due()
    }

    /// The key of the flight that is held may have come, or is not waited for any more.
    pub(super) fn look_for_key<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let moment = self.moment(cx);
        match (self.role, &mut self.following) {
            (Role::ClientSide, _) => return self.hand_key_over(cx),
            (Role::ServerSide, Some(following)) => {
                following.unseal(Sender::Server, cx.engine, moment);
            }
            (Role::ServerSide, None) => {}
        }
        self.consider_flight(cx);
        self.conclude_if_over(cx);
    }
}
