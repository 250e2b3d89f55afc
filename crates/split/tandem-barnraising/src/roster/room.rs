//! Whether there is room for one more member, and who goes for it.
//!
//! Is not: joining itself.
//!
//! Invariants: who is healthy never goes; who was once goes only where nobody is who never was; and
//! nobody goes for a newcomer from a more crowded network. One that no look has found ill yet goes
//! only for one from a network that is less crowded even then. So a flood cannot push out those who
//! have joined from elsewhere, nor those who join from one network each other.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Entry, Refused, Roster, Seat};
use crate::list::MAX_MEMBERS;
use crate::member::Member;
use crate::shares::{ROSTER_NARROW, ROSTER_WIDE};
use tandem_wire::Network;

/// What has to happen before a newcomer is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Nothing.
    Free,
    /// This member goes.
    Of(Seat),
}

impl Roster {
    /// Room for a newcomer, or for a member that moves; whoever has its address goes anyway.
    pub(super) fn room_for(&self, newcomer: &Member) -> Result<Room, Refused> {
        let stays = |entry: &&Entry| {
            Seat::of(&entry.member) != Seat::of(newcomer)
                && entry.member.address != newcomer.address
        };
        let others: Vec<&Entry> = self.members.values().filter(stays).collect();
        let Some(full) = self.full(&others, newcomer.address) else {
            return Ok(Room::Free);
        };
        let crowds = Crowds::of(&others);
        let inside: Vec<&Entry> = others
            .into_iter()
            .filter(|entry| full.has(entry.member.address) && !entry.health.is_healthy())
            .collect();
        let never = |entry: &&Entry| !entry.health.has_been_healthy();
        let some_never = inside.iter().any(never);
        inside
            .into_iter()
            .filter(|entry| never(entry) == some_never)
            .filter(|entry| crowds.may_go(entry, newcomer.address))
            .max_by_key(|entry| {
                let address = entry.member.address;
                (
                    crowds.in_network(Network::wide(address)),
                    crowds.in_network(Network::narrow(address)),
                    entry.health.has_failed(),
                    // Who has had the longest time to become healthy.
                    Reverse(entry.since),
                )
            })
            .map(|entry| Room::Of(Seat::of(&entry.member)))
            .ok_or(Refused::Full)
    }

    /// The smallest network around an address that has no room for one more.
    fn full(&self, others: &[&Entry], address: IpAddr) -> Option<Network> {
        let shares = [
            (Network::narrow(address), ROSTER_NARROW),
            (Network::wide(address), ROSTER_WIDE),
        ];
        let shares: &[(Network, usize)] = match self.settings.policy.vouches() {
            true => &[],
            false => &shares,
        };
        let is_full = |(network, most): &(Network, usize)| {
            let inside = others
                .iter()
                .filter(|entry| network.has(entry.member.address));
            inside.count() >= *most
        };
        let mut shares = shares.iter().copied().chain([(Network::ALL, MAX_MEMBERS)]);
        shares.find(is_full).map(|(network, _)| network)
    }
}

/// Members that are not healthy, by network.
struct Crowds(BTreeMap<Network, usize>);

impl Crowds {
    fn of(entries: &[&Entry]) -> Self {
        let mut crowds: BTreeMap<Network, usize> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !entry.health.is_healthy()) {
            let address = entry.member.address;
            for network in [Network::wide(address), Network::narrow(address)] {
                *crowds.entry(network).or_default() += 1;
            }
        }
        Self(crowds)
    }

    fn in_network(&self, network: Network) -> usize {
        self.0.get(&network).copied().unwrap_or(0)
    }

    /// Whether this one may go for a newcomer at that address.
    fn may_go(&self, entry: &Entry, newcomer: IpAddr) -> bool {
        let address = entry.member.address;
        let kind = match Network::wide(address) == Network::wide(newcomer) {
            true => Network::narrow,
            false => Network::wide,
        };
        let (here, there) = (
            self.in_network(kind(address)),
            self.in_network(kind(newcomer)),
        );
        match entry.health.has_failed() {
            true => here >= there,
            false => here > there + 1,
        }
    }
}
