//! Whom to look at next: networks take turns, and in each of them who has waited the longest.
//!
//! Is not: the looking, nor how often there is a turn.
//!
//! Invariants: so many in one turn and no more, whoever has joined; each network has one look of a
//! turn before any has two, so that a flood from one leaves the others theirs; where there are more
//! networks than looks, those come first whose members have waited the longest; members that are
//! healthy have looks of their own; who is out ([`super::evidence`]) has none.

use std::collections::BTreeMap;

use super::{Entry, Roster, Seat};
use crate::member::Member;
use crate::shares::{LOOKS_UNPROVEN, LOOKS_WELL};
use tandem_wire::Network;

/// Those that are looked at apart from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Who is healthy.
    Well,
    /// Who is not, or not yet.
    Unproven,
}

impl Roster {
    /// Members of a group to look at now. They count as looked at.
    pub fn looks(&mut self, group: Group) -> Vec<Member> {
        let (is_healthy, most) = match group {
            Group::Well => (true, LOOKS_WELL),
            Group::Unproven => (false, LOOKS_UNPROVEN),
        };
        let mut queue: Vec<&Entry> = self
            .members
            .values()
            .filter(|entry| entry.health.is_healthy() == is_healthy)
            .filter(|entry| !self.is_barred(&entry.member))
            .collect();
        queue.sort_by_key(|entry| entry.waits);
        let queue = in_turns(queue, |entry| Network::narrow(entry.member.address));
        let queue = in_turns(queue, |entry| Network::wide(entry.member.address));
        let chosen: Vec<Member> = queue.iter().take(most).map(|entry| entry.member).collect();
        for member in &chosen {
            let moment = self.next_moment();
            if let Some(entry) = self.members.get_mut(&Seat::of(member)) {
                entry.waits = moment;
            }
        }
        chosen
    }
}

/// The first of each network, then the second of each, and so on; equals by how long they wait.
fn in_turns(queue: Vec<&Entry>, network: impl Fn(&Entry) -> Network) -> Vec<&Entry> {
    let mut places: BTreeMap<Network, usize> = BTreeMap::new();
    let mut placed: Vec<(usize, &Entry)> = Vec::with_capacity(queue.len());
    for entry in queue {
        let place = places.entry(network(entry)).or_default();
        placed.push((*place, entry));
        *place += 1;
    }
    placed.sort_by_key(|(place, entry)| (*place, entry.waits));
    placed.into_iter().map(|(_, entry)| entry).collect()
}
