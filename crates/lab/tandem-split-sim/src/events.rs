//! What is to happen, in the order of time. What is due at the same moment happens in the order in
//! which it was put down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;
use crate::volunteer::{Asked, Attempt, Session};

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A client wants the page.
    Come(u32),
    /// A client's patience is over.
    GiveUp(u32),
    /// A client connects.
    Open(Attempt),
    /// Round trips and work are over; what is left is bytes.
    Begin(Attempt),
    /// A quantum has left the origin.
    OriginLine,
    /// A quantum has left a volunteer.
    VolunteerLine(Session),
    /// The origin hears what a volunteer lacks.
    AskOrigin {
        by: Session,
        piece: u32,
    },
    /// Another volunteer does.
    AskPeer {
        by: Session,
        owner: u32,
        piece: u32,
    },
    /// The patience with that one is over, unless it shows progress.
    PeerLate(Asked),
    /// A volunteer goes, and comes back.
    Leave(u32),
    Return(u32),
    /// The broker notices either.
    List(Session),
    Unlist(Session),
    Forget(Session),
    /// Take a look.
    Sample,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    due: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
}

impl Events {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.due.push(Reverse((at, self.count, event)));
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        let Reverse((at, _, event)) = self.due.pop()?;
        Some((at, event))
    }
}
