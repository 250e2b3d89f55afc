//! What happens by itself in a connection with frames, and when.
//!
//! Is not: what is done then. Invariant: whatever is held has an end.

use std::time::Duration;

use tandem_engine::Role;
use tandem_store::Store;
use tandem_wire::Instant;

use super::consent::Asking;
use super::{CLIENT_HOLD, Joined, Phase, SERVER_HOLD, SILENCE};
use crate::event::{Dropped, Event};
use crate::output::{Context, Wakeup};

/// Longest that a server's flight is held for a key of the client's. A client side says within a
/// round trip and 200 ms whether there is one; ServerHello, with a hybrid key share, takes 4 s at
/// 2,400 bit/s to get there, and others' handshakes are in front of it.
pub const KEY_HOLD: Duration = Duration::from_secs(15);

impl Joined {
    /// What happens by itself, and when.
    pub(crate) fn deadline(&self) -> Option<(Instant, Wakeup)> {
        let held = match &self.phase {
            Phase::Silent { since } => Some((*since + SILENCE, Wakeup::Silence)),
            Phase::HelloHeld { since } => Some((*since + CLIENT_HOLD, Wakeup::Hold)),
            Phase::FlightHeld(hold) => {
                let longest = match (self.role, self.asking) {
                    (Role::ClientSide, _) => CLIENT_HOLD,
                    (Role::ServerSide, Asking::Waiting) => KEY_HOLD,
                    (Role::ServerSide, Asking::No | Asking::Offered | Asking::Over) => SERVER_HOLD,
                };
                Some((hold.since + longest, Wakeup::Hold))
            }
            Phase::Hello | Phase::Flight | Phase::AskedAgain(_) | Phase::Plain => None,
        };
        let key = self.key_due().map(|at| (at, Wakeup::Key));
        key.into_iter().chain(held).min_by_key(|(at, _)| *at)
    }

    /// The time has come, or not.
    pub(crate) fn timeout<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        match self.deadline() {
            Some((at, Wakeup::Silence)) if at <= cx.clock.now => {
                self.writer.open();
                self.phase = match self.following {
                    Some(_) => Phase::Hello,
                    None => Phase::Plain,
                };
            }
            Some((at, Wakeup::Hold)) if at <= cx.clock.now => {
                cx.tell(Event::HoldTimedOut);
                self.release(Dropped::HeldTooLong);
            }
            Some((at, Wakeup::Key)) if at <= cx.clock.now => self.look_for_key(cx),
            Some((_, Wakeup::Opening | Wakeup::Silence | Wakeup::Hold | Wakeup::Key)) | None => {}
        }
    }
}
