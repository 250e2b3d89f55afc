//! The peers that are known, each in its epoch.
//!
//! Is: which of them there are, and how much is kept of all together. Is not: what is known of one
//! ([`Peer`]).
//!
//! Invariants: what was known of a peer in another epoch is forgotten; peers and the bytes of all
//! that is known of them are bounded, the peer least recently used forgotten first.

use std::collections::BTreeMap;

use super::{Peer, Role};

/// Who a peer is, for whoever can tell peers apart: the digest of its key, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId(pub [u8; 32]);

impl PeerId {
    /// Whoever is at the other end, where no proxy says which it is.
    pub const OTHER_END: Self = Self([0; 32]);
}

/// From when on a peer has held what it holds: random, and another whenever its store was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(pub [u8; 16]);

impl Epoch {
    /// Where none is announced: what was lost shows as misses.
    pub const UNANNOUNCED: Self = Self([0; 16]);
}

/// Most peers that are known at a time.
const MAX_PEERS: usize = 4_096;

/// Most bytes for all peers together, about: what one may take by itself, and as much for others.
const fn max_bytes(role: Role) -> usize {
    match role {
        Role::ClientSide => 8 << 20,
        Role::ServerSide => 256 << 20,
    }
}

/// All peers of a proxy.
#[derive(Debug)]
pub struct Peers {
    role: Role,
    /// The one used last, which grows: it is measured when another's turn comes.
    current: Option<Entry>,
    others: BTreeMap<PeerId, Entry>,
    /// Bytes of the others.
    bytes: usize,
    turn: u64,
}

#[derive(Debug)]
struct Entry {
    id: PeerId,
    epoch: Epoch,
    peer: Peer,
    /// Its size, and when it was used, as of when another's turn came.
    bytes: usize,
    turn: u64,
}

impl Peers {
    /// The peers of a proxy at this end: none yet.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            current: None,
            others: BTreeMap::new(),
            bytes: 0,
            turn: 0,
        }
    }

    /// What is known of this peer, which says that it is in this epoch.
    pub fn get(&mut self, id: PeerId, epoch: Epoch) -> &mut Peer {
        let is_current = |entry: &Entry| entry.id == id && entry.epoch == epoch;
        if !self.current.as_ref().is_some_and(is_current) {
            self.change(id, epoch);
        }
        let fresh = || Entry::new(id, epoch, self.role);
        &mut self.current.get_or_insert_with(fresh).peer
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.current.iter().chain(self.others.values()).count() as u64
    }

    /// How many session tickets are remembered, and about how many bytes they take.
    pub fn session_tickets(&self) -> (usize, usize) {
        self.sum(|peer| peer.tickets.size())
    }

    /// The same of hellos.
    pub fn hello_templates(&self) -> (usize, usize) {
        self.sum(|peer| peer.hellos.size())
    }

    fn sum(&self, size: impl Fn(&Peer) -> (usize, usize)) -> (usize, usize) {
        let all = self.current.iter().chain(self.others.values());
        let sizes = all.map(|entry| size(&entry.peer));
        sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// Puts the current one among the others, and takes this one out if it is known.
    fn change(&mut self, id: PeerId, epoch: Epoch) {
        if let Some(mut entry) = self.current.take() {
            self.turn += 1;
            (entry.bytes, entry.turn) = (entry.peer.footprint(), self.turn);
            self.bytes += entry.bytes;
            self.others.insert(entry.id, entry);
        }
        self.current = self.remove(&id).filter(|entry| entry.epoch == epoch);
        while self.bytes > max_bytes(self.role) || self.others.len() >= MAX_PEERS {
            let oldest = self.others.values().min_by_key(|entry| entry.turn);
            let Some(oldest) = oldest.map(|entry| entry.id) else {
                return;
            };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, id: &PeerId) -> Option<Entry> {
        let entry = self.others.remove(id)?;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    #[cfg(test)]
    fn footprint(&self) -> usize {
        let all = self.current.iter().chain(self.others.values());
        all.map(|entry| entry.peer.footprint()).sum()
    }
}

impl Entry {
    fn new(id: PeerId, epoch: Epoch, role: Role) -> Self {
        Self {
            id,
            epoch,
            peer: Peer::new(role),
            bytes: 0,
            turn: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_store::{ObjectId, Site};
    use tandem_wire::Instant;

    const EPOCH: Epoch = Epoch([1; 16]);

    fn id(number: u16) -> PeerId {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        PeerId(bytes)
    }

    fn chain() -> ObjectId {
        ObjectId::of(&[b"chain"])
    }

    fn lacks(peers: &mut Peers, number: u16, epoch: Epoch) -> bool {
        peers.get(id(number), epoch).far.is_lacking(&chain())
    }

    #[test]
    fn what_is_known_of_one_peer_is_not_known_of_another() {
        let mut peers = Peers::new(Role::ClientSide);
        peers.get(id(1), EPOCH).far.lacks(chain());
        assert!(!lacks(&mut peers, 2, EPOCH));
        assert!(lacks(&mut peers, 1, EPOCH));
    }

    #[test]
    fn a_new_epoch_forgets_everything_of_its_peer_and_of_no_other() {
        let mut peers = Peers::new(Role::ServerSide);
        for number in [1, 2] {
            let peer = peers.get(id(number), EPOCH);
            peer.far.lacks(chain());
            peer.tickets
                .learn(&Site::Any, &[7; 200], None, Instant::ZERO);
        }
        let peer = peers.get(id(1), Epoch([2; 16]));
        assert!(!peer.far.is_lacking(&chain()));
        assert_eq!(peer.tickets.size(), (0, 0));
        assert!(lacks(&mut peers, 2, EPOCH));
        assert!(!lacks(&mut peers, 1, EPOCH), "the old epoch is gone too");
    }

    #[test]
    fn the_peer_used_last_is_forgotten_in_a_new_epoch_too() {
        let mut peers = Peers::new(Role::ClientSide);
        peers.get(id(1), EPOCH).far.lacks(chain());
        assert!(!lacks(&mut peers, 1, Epoch([2; 16])));
    }

    #[test]
    fn the_tickets_of_all_peers_are_counted() {
        let mut peers = Peers::new(Role::ServerSide);
        let learn = |peers: &mut Peers, number: u16| {
            let tickets = &mut peers.get(id(number), EPOCH).tickets;
            tickets.learn(&Site::Any, &[7; 200], None, Instant::ZERO);
            tickets.size()
        };
        let sizes = [1, 2, 3].map(|number| learn(&mut peers, number));
        assert!(sizes.iter().all(|size| *size == sizes[0] && size.0 == 1));
        assert_eq!(peers.session_tickets(), (3, 3 * sizes[0].1));
    }

    #[test]
    fn the_peer_least_recently_used_is_forgotten_for_one_too_many() {
        let mut peers = Peers::new(Role::ClientSide);
        let most = 4_096;
        (0..most).for_each(|number| peers.get(id(number), EPOCH).far.lacks(chain()));
        assert!(lacks(&mut peers, 0, EPOCH), "used again");
        assert!(!lacks(&mut peers, most, EPOCH), "new");
        assert_eq!(peers.others.len() + 1, usize::from(most));
        assert!(lacks(&mut peers, 0, EPOCH));
        assert!(!lacks(&mut peers, 1, EPOCH));
    }

    #[test]
    fn all_peers_together_take_no_more_bytes_than_they_may() {
        let mut peers = Peers::new(Role::ClientSide);
        let bound = 8 << 20;
        for number in 0..8 {
            let tickets = &mut peers.get(id(number), EPOCH).tickets;
            for ticket in 0..400_u16 {
                let mut bytes = vec![0; 8 << 10];
                bytes[..2].copy_from_slice(&ticket.to_be_bytes());
                tickets.learn(&Site::Any, &bytes, None, Instant::ZERO);
            }
            let one = tickets.size().1;
            assert!(one > bound / 3, "three fill it");
            assert!(peers.footprint() <= bound + one);
            // And no fewer are kept than there is room for.
            assert_eq!(peers.others.len(), usize::from(number.min(2)));
        }
        peers.get(id(9), EPOCH);
        assert!(peers.footprint() <= bound);
    }
}
