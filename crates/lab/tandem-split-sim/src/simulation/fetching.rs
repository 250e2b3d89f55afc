//! Pieces that volunteers lack: whom they ask, and what they do with what comes.

use super::Simulation;
use crate::events::Event;
use crate::model::{Delivery, Sharing};
use crate::time::Time;
use crate::volunteer::{Asked, Attempt, Coming, Gift, Holding, Receiver, Session};

impl Simulation<'_> {
    pub(super) fn fetch_for_client(&mut self, by: u32, piece: u32, attempt: Attempt) {
        *self.holding(by, piece) = Holding::Coming(Coming {
            asked_origin: None,
            clients: vec![attempt],
            peers: Vec::new(),
        });
        let session = self.session(by);
        let Some(owner) = self.peer_for(by, piece) else {
            return self.ask_origin(session, piece);
        };
        let rules = &self.scenario.rules;
        let asked = self.now + Time::from_seconds(rules.peer_seconds);
        let late = self.now + self.volunteers[by as usize].patience(rules);
        let (by, at) = (session, self.now);
        self.events.push(asked, Event::AskPeer { by, owner, piece });
        let question = Asked {
            by,
            owner,
            piece,
            at,
        };
        self.events.push(late, Event::PeerLate(question));
    }

    /// Whom a volunteer asks before the origin.
    pub(super) fn peer_for(&self, by: u32, piece: u32) -> Option<u32> {
        let Delivery::Split {
            sharing: Sharing::Peers,
            ..
        } = self.scenario.delivery
        else {
            return None;
        };
        let passed_over = &self.volunteers[by as usize].passed_over;
        let is_passed_over = |owner| {
            passed_over
                .get(&owner)
                .is_some_and(|until| self.now < *until)
        };
        let is_member = |one| self.members.has(one);
        for owner in self.page.owners(piece, is_member) {
            if owner == by {
                // Its own to have: it asks the origin.
                return None;
            }
            if !is_passed_over(owner) {
                return Some(owner);
            }
        }
        None
    }

    pub(super) fn ask_origin(&mut self, by: Session, piece: u32) {
        let now = self.now;
        if let Holding::Coming(coming) = self.holding(by.volunteer, piece) {
            coming.asked_origin = Some(now);
        }
        self.outcome.pieces.from_origin += 1;
        let seconds = self.calibration.cold_seconds - self.calibration.warm_seconds;
        let at = now + Time::from_seconds(seconds);
        self.events.push(at, Event::AskOrigin { by, piece });
    }

    /// A volunteer is asked. One that has gone says nothing.
    pub(super) fn ask_peer(&mut self, by: Session, owner: u32, piece: u32) {
        if !self.volunteers[owner as usize].is_there {
            return;
        }
        match self.holding(owner, piece) {
            Holding::Held => self.give(owner, by, piece),
            Holding::Coming(coming) => coming.peers.push(by),
            lacking @ Holding::Lacking => {
                *lacking = Holding::Coming(Coming {
                    asked_origin: None,
                    clients: Vec::new(),
                    peers: vec![by],
                });
                // Who is asked asks nobody but the origin.
                self.ask_origin(self.session(owner), piece);
            }
        }
    }

    pub(super) fn peer_is_late(&mut self, question: Asked) {
        let Asked {
            by, owner, piece, ..
        } = question;
        if !self.is_current(by) {
            return;
        }
        let Holding::Coming(coming) = self.holding(by.volunteer, piece) else {
            return;
        };
        if coming.asked_origin.is_some() {
            return;
        }
        let rules = &self.scenario.rules;
        let (passed_over, promised) = (rules.passed_over_seconds, rules.promised_seconds);
        let fault = match self.promise(question) {
            Promise::HoldsUntil(later) => {
                return self.events.push(later, Event::PeerLate(question));
            }
            Promise::IsUsedUp => Some(promised),
            Promise::None if !self.volunteers[owner as usize].is_there => Some(passed_over),
            Promise::None => None,
        };
        self.outcome.pieces.peers_late += 1;
        if let Some(seconds) = fault {
            let until = self.now + Time::from_seconds(seconds);
            let passed_over = &mut self.volunteer(by.volunteer).passed_over;
            passed_over.insert(owner, until);
        }
        self.ask_origin(by, piece);
    }

    /// Whether to believe an owner that says that it waits for the origin, and until when.
    fn promise(&mut self, question: Asked) -> Promise {
        let Asked {
            by,
            owner,
            piece,
            at,
        } = question;
        let now = self.now;
        if !self.volunteers[owner as usize].is_there {
            return Promise::None;
        }
        let Holding::Coming(coming) = self.holding(owner, piece) else {
            return Promise::None;
        };
        let Some(asked_origin) = coming.asked_origin else {
            return Promise::None;
        };
        let rules = &self.scenario.rules;
        let after = |time: Time, seconds| time + Time::from_seconds(seconds);
        let progressed = self.volunteers[owner as usize].progressed.max(asked_origin);
        let next_word = after(progressed, rules.next_word_seconds);
        let given = self.volunteers[by.volunteer as usize].given.get(&owner);
        let given = given.copied().unwrap_or(at).max(at);
        let enough =
            after(given, rules.peer_word_seconds).min(after(at, rules.max_peer_wait_seconds));
        if next_word.min(enough) > now {
            Promise::HoldsUntil(next_word.min(enough))
        } else if next_word > now {
            Promise::IsUsedUp
        } else {
            Promise::None
        }
    }

    pub(super) fn give(&mut self, from: u32, to: Session, piece: u32) {
        if self.is_current(to) {
            let bytes = self.page.piece(piece).bytes;
            let receiver = Receiver::Peer(to.volunteer);
            self.send_from_volunteer(from, receiver, Gift::Piece { to, piece }, bytes);
        }
    }

    /// A volunteer has got a piece; whether that is news, it does not know.
    pub(super) fn arrived(&mut self, at: Session, piece: u32, from: Giver) {
        if !self.is_current(at) {
            return;
        }
        let now = self.now;
        let holding = self.holding(at.volunteer, piece);
        if !matches!(holding, Holding::Coming(_)) {
            return;
        }
        let Holding::Coming(coming) = std::mem::replace(holding, Holding::Held) else {
            return;
        };
        match from {
            Giver::Origin => {
                self.useful_bytes += self.page.piece(piece).miss;
                if let Some(asked) = coming.asked_origin {
                    self.volunteer(at.volunteer).learn(now.since(asked));
                }
            }
            Giver::Peer(owner) => {
                self.outcome.pieces.from_peers += 1;
                self.volunteer(at.volunteer).given.insert(owner, now);
            }
        }
        for to in coming.peers {
            self.give(at.volunteer, to, piece);
        }
        for attempt in coming.clients {
            if self.is_last_attempt(attempt) {
                let request = self.request(attempt.request);
                request.lacking -= 1;
                if request.lacking == 0 {
                    self.serve(attempt);
                }
            }
        }
    }
}

/// Where a piece came from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Giver {
    Origin,
    Peer(u32),
}

/// Whether to wait on for an owner that says that something is coming.
#[derive(Debug, Clone, Copy)]
enum Promise {
    /// At least until then.
    HoldsUntil(Time),
    /// It says so, and has been waited for long enough.
    IsUsedUp,
    /// It does not say so, or has not for too long.
    None,
}
