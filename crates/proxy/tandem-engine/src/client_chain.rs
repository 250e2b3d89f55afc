//! A client's chain, and what the server-side proxy is believed to hold of it.
//!
//! Is: the names in a chain, four grounds for belief, and the delta for the client's answer to the
//! server's flight. Is not: the server's flight (`possession`), nor the choice among the grounds
//! (`tandem-packet`). What a client shows cannot be told from its hello (McVeety 2009, section
//! 2.4.1), so a belief is formed once the chain is there, and never before.
//!
//! Invariant: a wrong belief costs a miss, never a byte.

use std::collections::BTreeSet;

use tandem_store::{ChainId, Digest, Store};

use crate::handshake::Flight;
use crate::possession::Possession;
use tandem_delta::{Planner, Reference};

/// The names in a chain that a client shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientChain {
    id: ChainId,
    certificates: Vec<Digest>,
    length: usize,
}

/// What of a client's chain is believed to be held at the other side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Believed {
    /// The chain as such: one reference for all of it.
    whole: Option<Reference>,
    certificates: BTreeSet<Reference>,
}

impl ClientChain {
    /// The chain of `flight` in the client's `stream`.
    pub fn of(flight: &Flight, stream: &[u8]) -> Option<Self> {
        let certificates = flight.certificates(stream)?;
        let list = flight.list(stream);
        Some(Self {
            id: ChainId::of_list_contents(&list),
            length: list.len(),
            certificates: certificates.iter().map(|der| Digest::of(der)).collect(),
        })
    }

    /// The chain's name.
    pub fn id(&self) -> ChainId {
        self.id
    }

    /// Bytes of the chain, as they cross.
    pub fn length(&self) -> usize {
        self.length
    }

    /// All of it, by its own name.
    pub fn whole(&self) -> Believed {
        Believed {
            whole: Some(Reference(self.id.prefix16())),
            certificates: BTreeSet::new(),
        }
    }

    /// What the other side learned when this side did (section 2.4.1.2): `store` is this side's
    /// own.
    pub fn remembered(&self, store: &mut impl Store) -> Believed {
        let whole = store.chain(&self.id).is_some();
        let held = |digest: &&Digest| whole || store.certificate(digest).is_some();
        Believed {
            whole: whole.then(|| Reference(self.id.prefix16())),
            certificates: references(self.certificates.iter().filter(held)),
        }
    }

    /// What the other side holds by its own word.
    pub fn among(&self, holds: impl Fn(&Reference) -> bool) -> Believed {
        let certificates = references(self.certificates.iter());
        Believed {
            whole: None,
            certificates: certificates.into_iter().filter(holds).collect(),
        }
    }
}

fn references<'a>(digests: impl Iterator<Item = &'a Digest>) -> BTreeSet<Reference> {
    digests.map(|digest| Reference(digest.prefix16())).collect()
}

impl Believed {
    /// Whether there is nothing to refer to.
    pub fn is_nothing(&self) -> bool {
        self.whole.is_none() && self.certificates.is_empty()
    }

    /// The same for the thesis's messages, which name certificates.
    pub fn possession(&self) -> Possession {
        let references: Vec<Reference> = self.certificates.iter().copied().collect();
        Possession::from_references(&references)
    }
}

/// The delta for a client's answer to the server's flight, which begins at offset `from` of its
/// stream; `None` where nothing of its chain is believed to be held.
pub fn write_client_flight(
    stream: &[u8],
    from: usize,
    flight: &Flight,
    believed: &Believed,
) -> Option<Vec<u8>> {
    let mut plan = Planner::starting_at(stream, from);
    if let Some(chain) = believed.whole {
        plan.copy(chain, 0, flight.list_pieces().iter().cloned());
    } else {
        let mut start = 0;
        for der in flight.certificates(stream)? {
            // Behind its length (RFC 5246, section 7.4.2).
            let range = start + 3..start + 3 + der.len();
            start = range.end;
            let reference = Reference(Digest::of(&der).prefix16());
            if believed.certificates.contains(&reference) {
                plan.copy(reference, 0, flight.within_list(range));
            }
        }
    }
    plan.finish()
}

#[cfg(test)]
mod tests;
