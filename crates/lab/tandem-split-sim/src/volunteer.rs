//! One volunteer of a simulation, and the lists in which it stands.

use std::collections::{BTreeMap, BTreeSet};

use crate::line::Line;
use crate::model::{Caches, Rules};
use crate::time::Time;

/// A request of a client for a body, in one attempt of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempt {
    /// The request: the client's number times the bodies of the page, and the body's number.
    pub(crate) request: u32,
    /// Counts whenever the request starts anew.
    pub(crate) number: u32,
}

/// A volunteer in one session of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Session {
    pub(crate) volunteer: u32,
    /// Counts whenever it leaves.
    pub(crate) number: u32,
}

/// A question of one volunteer for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) by: Session,
    pub(crate) owner: u32,
    pub(crate) piece: u32,
    pub(crate) at: Time,
}

/// To whom a volunteer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Receiver {
    Client(u32),
    Peer(u32),
}

/// What it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gift {
    Body(Attempt),
    Piece { to: Session, piece: u32 },
}

/// A piece at a volunteer.
#[derive(Debug)]
pub(crate) enum Holding {
    Lacking,
    Coming(Coming),
    Held,
}

/// A piece on its way.
#[derive(Debug)]
pub(crate) struct Coming {
    /// When the origin was asked, if it was.
    pub(crate) asked_origin: Option<Time>,
    pub(crate) clients: Vec<Attempt>,
    pub(crate) peers: Vec<Session>,
}

#[derive(Debug)]
pub(crate) struct Volunteer {
    pub(crate) is_there: bool,
    /// Counts whenever it leaves.
    pub(crate) session: u32,
    pub(crate) line: Line<Receiver, Gift>,
    /// Requests that it serves.
    pub(crate) active: BTreeSet<u32>,
    pub(crate) holdings: Vec<Holding>,
    /// How long the origin takes to give a piece, smoothed.
    pub(crate) usual: Time,
    /// When something last came from the origin that it lacked: what it tells others who wait.
    pub(crate) progressed: Time,
    /// Volunteers that have given something, and when they last did.
    pub(crate) given: BTreeMap<u32, Time>,
    /// Volunteers that were at fault, and until when they are not asked.
    pub(crate) passed_over: BTreeMap<u32, Time>,
    /// Whether it has been given anything for a client.
    pub(crate) is_used: bool,
}

impl Volunteer {
    pub(crate) fn new(bits: u64, rules: &Rules, pieces: usize, caches: Caches) -> Self {
        let holding = || match caches {
            Caches::Cold => Holding::Lacking,
            Caches::Warm => Holding::Held,
        };
        Self {
            is_there: true,
            session: 0,
            line: Line::new(bits, rules.volunteer_quantum),
            active: BTreeSet::new(),
            holdings: (0..pieces).map(|_| holding()).collect(),
            usual: Time::ZERO,
            progressed: Time::ZERO,
            given: BTreeMap::new(),
            passed_over: BTreeMap::new(),
            is_used: false,
        }
    }

    /// It goes: whatever was on its way is lost. What it holds it has when it comes back, or not.
    pub(crate) fn leave(&mut self, bits: u64, rules: &Rules, return_with: Caches) {
        self.is_there = false;
        self.session += 1;
        self.line = Line::new(bits, rules.volunteer_quantum);
        self.active.clear();
        self.usual = Time::ZERO;
        self.given.clear();
        self.passed_over.clear();
        for holding in &mut self.holdings {
            let is_kept = matches!(holding, Holding::Held) && return_with == Caches::Warm;
            if !is_kept {
                *holding = Holding::Lacking;
            }
        }
    }

    /// How long it waits for another volunteer that says nothing.
    pub(crate) fn patience(&self, rules: &Rules) -> Time {
        let twice = self.usual.seconds() * 2.0;
        Time::from_seconds(twice.clamp(rules.min_peer_patience, rules.max_peer_patience))
    }

    /// The origin has taken so long.
    pub(crate) fn learn(&mut self, took: Time) {
        self.usual = if self.usual == Time::ZERO {
            took
        } else {
            Time::from_micros((self.usual.micros() * 7 + took.micros()) / 8)
        };
    }
}

/// Volunteers, of which one can be drawn by chance.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    order: Vec<u32>,
    places: BTreeMap<u32, usize>,
}

impl Listed {
    pub(crate) fn add(&mut self, volunteer: u32) {
        self.places.entry(volunteer).or_insert_with(|| {
            self.order.push(volunteer);
            self.order.len() - 1
        });
    }

    pub(crate) fn remove(&mut self, volunteer: u32) {
        if let Some(place) = self.places.remove(&volunteer) {
            self.order.swap_remove(place);
            if let Some(moved) = self.order.get(place) {
                self.places.insert(*moved, place);
            }
        }
    }

    pub(crate) fn all(&self) -> &[u32] {
        &self.order
    }

    pub(crate) fn has(&self, volunteer: u32) -> bool {
        self.places.contains_key(&volunteer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_everybody_once() {
        let mut listed = Listed::default();
        for volunteer in [5, 6, 7, 6] {
            listed.add(volunteer);
        }
        listed.remove(5);
        listed.remove(5);
        assert_eq!(listed.all(), [7, 6]);
        listed.remove(6);
        listed.remove(7);
        assert!(listed.all().is_empty() && !listed.has(7));
    }

    #[test]
    fn who_leaves_keeps_what_a_disk_would() {
        let rules = Rules::default();
        for (return_with, is_held) in [(Caches::Warm, true), (Caches::Cold, false)] {
            let mut volunteer = Volunteer::new(1_000, &rules, 2, Caches::Warm);
            volunteer.holdings[1] = Holding::Coming(Coming {
                asked_origin: None,
                clients: Vec::new(),
                peers: Vec::new(),
            });
            volunteer.leave(1_000, &rules, return_with);
            assert_eq!(matches!(volunteer.holdings[0], Holding::Held), is_held);
            assert!(matches!(volunteer.holdings[1], Holding::Lacking));
        }
    }
}
