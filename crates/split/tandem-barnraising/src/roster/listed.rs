//! Which healthy members the signed list has: all of them, but of a crowded network no more than
//! its share. Those of one key are one there, with an address of each family.
//!
//! Is not: the list's form, nor its signature ([`crate::list`]).
//!
//! Invariants: while others are healthy, a network has no more members in the list than all others
//! together, or [`LIST_WIDE`] and [`LIST_NARROW`] where that is more; in a crowded network those
//! are listed that have been healthy the longest, so that who joins pushes nobody out.

use std::collections::BTreeMap;

use super::{Entry, Roster};
use crate::member::{Member, Peer};
use crate::shares::{LIST_NARROW, LIST_WIDE};
use tandem_wire::Network;

impl Roster {
    /// In the order of their keys.
    pub(super) fn listed(&self) -> Vec<Peer> {
        let mut healthy: Vec<&Entry> = self
            .members
            .values()
            .filter(|entry| entry.health.is_healthy())
            .collect();
        healthy.sort_by_key(|entry| entry.since);
        let mut counts: BTreeMap<Network, usize> = BTreeMap::new();
        for (network, _) in healthy.iter().flat_map(|entry| shares(&entry.member)) {
            *counts.entry(network).or_default() += 1;
        }
        let share = |network: Network, always: usize| {
            let own = counts.get(&network).copied().unwrap_or(0);
            match healthy.len() - own {
                0 => own,
                others => others.max(always),
            }
        };
        let mut listed: BTreeMap<Network, usize> = BTreeMap::new();
        let mut members: Vec<Member> = Vec::new();
        for entry in &healthy {
            let shares = shares(&entry.member);
            let has_room = self.settings.policy.vouches()
                || shares.iter().all(|(network, always)| {
                    listed.get(network).copied().unwrap_or(0) < share(*network, *always)
                });
            if has_room {
                for (network, _) in shares {
                    *listed.entry(network).or_default() += 1;
                }
                members.push(entry.member);
            }
        }
        members.sort_by_key(|member| member.key);
        let mut peers: Vec<Peer> = Vec::with_capacity(members.len());
        for member in members {
            match peers.last_mut() {
                Some(peer) if peer.key == member.key => *peer = peer.and(member.peers),
                _ => peers.push(Peer::at(member.key, member.peers)),
            }
        }
        peers
    }
}

/// The networks that a member counts for, and what each always has.
fn shares(member: &Member) -> [(Network, usize); 2] {
    [
        (Network::wide(member.address), LIST_WIDE),
        (Network::narrow(member.address), LIST_NARROW),
    ]
}
