//! Lines: what goes on them, and what happens when it has left.

use super::fetching::Giver;
use super::{Job, Party, Simulation};
use crate::events::Event;
use crate::line::Sent;
use crate::volunteer::{Gift, Receiver, Session};

impl Simulation<'_> {
    pub(super) fn send_from_origin(&mut self, party: Party, job: Job, bytes: u64) {
        let was_idle = self.origin.poll_timeout().is_none();
        self.origin.handle_input(party, job, bytes, self.now);
        if was_idle && let Some(at) = self.origin.poll_timeout() {
            self.events.push(at, Event::OriginLine);
        }
        let outcome = &mut self.outcome;
        outcome.max_waiting = outcome.max_waiting.max(self.origin.waiting());
        outcome.max_waiting_bytes = outcome.max_waiting_bytes.max(self.origin.waiting_bytes());
    }

    pub(super) fn origin_has_sent(&mut self) {
        let sent = self.origin.handle_timeout(self.now);
        if let Some(at) = self.origin.poll_timeout() {
            self.events.push(at, Event::OriginLine);
        }
        let Some(Sent {
            what,
            bytes,
            is_last,
        }) = sent
        else {
            return;
        };
        let line = &mut self.outcome.line;
        match what {
            Job::Whole(_) => line.https += bytes,
            Job::Proof(_) => line.proofs += bytes,
            Job::Piece { by, .. } => {
                line.misses += bytes;
                self.volunteers[by.volunteer as usize].progressed = self.now;
            }
        }
        if is_last {
            match what {
                Job::Whole(attempt) => self.done(attempt),
                Job::Proof(attempt) => self.look_for_pieces(attempt),
                Job::Piece { by, piece } => self.arrived(by, piece, Giver::Origin),
            }
        }
    }

    pub(super) fn send_from_volunteer(&mut self, from: u32, to: Receiver, gift: Gift, bytes: u64) {
        let now = self.now;
        let session = self.session(from);
        let line = &mut self.volunteer(from).line;
        let was_idle = line.poll_timeout().is_none();
        line.handle_input(to, gift, bytes, now);
        let next = line.poll_timeout();
        if was_idle && let Some(at) = next {
            self.events.push(at, Event::VolunteerLine(session));
        }
    }

    pub(super) fn volunteer_has_sent(&mut self, session: Session) {
        if !self.is_current(session) {
            return;
        }
        let now = self.now;
        let line = &mut self.volunteer(session.volunteer).line;
        let (sent, next) = (line.handle_timeout(now), line.poll_timeout());
        if let Some(at) = next {
            self.events.push(at, Event::VolunteerLine(session));
        }
        let Some(Sent {
            what,
            bytes,
            is_last,
        }) = sent
        else {
            return;
        };
        match what {
            Gift::Body(_) => self.outcome.to_clients += bytes,
            Gift::Piece { .. } => self.outcome.to_peers += bytes,
        }
        if is_last {
            match what {
                Gift::Body(attempt) => self.done(attempt),
                Gift::Piece { to, piece } => {
                    self.arrived(to, piece, Giver::Peer(session.volunteer));
                }
            }
        }
    }
}
