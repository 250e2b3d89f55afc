//! A client's chain, and what the server-side proxy is believed to hold of it.
//!
//! Is: the names in a chain, and four reasons for belief. Is not: what is written in its place
//! (`rewrite`), nor the choice among the reasons (`connection`). What a client shows cannot be told
//! from its hello (McVeety 2009, section 2.4.1), so a belief is formed once the chain is there, and
//! never before.
//!
//! Invariant: a wrong belief costs a miss, never a byte.

use std::collections::BTreeSet;

use tandem_delta::Reference;
use tandem_store::{Digest, Kind, ObjectId, Store};

use super::Possession;
use crate::objects::Flight;

/// The names in a chain that a client shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientChain {
    id: ObjectId,
    certificates: Vec<Digest>,
    length: usize,
}

/// What of a client's chain is believed to be held at the other side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Believed {
    /// The chain as such: one reference for all of it.
    whole: Option<Reference>,
    certificates: BTreeSet<Reference>,
}

impl ClientChain {
    /// The chain of `flight` in the client's `stream`.
    pub(crate) fn of(flight: &Flight, stream: &[u8]) -> Option<Self> {
        let certificates = flight.certificates(stream)?;
        let list = flight.list(stream);
        Some(Self {
            id: ObjectId::of_list_contents(&list),
            length: list.len(),
            certificates: certificates.iter().map(|der| Digest::of(der)).collect(),
        })
    }

    /// The chain's name.
    pub(crate) fn id(&self) -> ObjectId {
        self.id
    }

    /// Bytes of the chain, as they cross.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// All of it, by its own name.
    pub(crate) fn whole(&self) -> Believed {
        Believed {
            whole: Some(Reference(self.id.prefix16())),
            certificates: BTreeSet::new(),
        }
    }

    /// What the other side learned when this side did (section 2.4.1.2): `store` is this side's
    /// own.
    pub(crate) fn remembered(&self, store: &mut impl Store) -> Believed {
        let whole = store.holds(Kind::Chain, &self.id);
        let held = |digest: &&Digest| whole || store.part(digest).is_some();
        Believed {
            whole: whole.then(|| Reference(self.id.prefix16())),
            certificates: references(self.certificates.iter().filter(held)),
        }
    }

    /// What the other side holds by its own word.
    pub(crate) fn among(&self, holds: impl Fn(&Reference) -> bool) -> Believed {
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
    pub(crate) fn is_nothing(&self) -> bool {
        self.whole.is_none() && self.certificates.is_empty()
    }

    /// All of the chain, as one reference.
    pub(crate) fn chain(&self) -> Option<Reference> {
        self.whole
    }

    /// Whether this certificate is believed to be held.
    pub(crate) fn has(&self, certificate: &Reference) -> bool {
        self.certificates.contains(certificate)
    }

    /// The same for the thesis's messages, which name certificates.
    pub(crate) fn possession(&self) -> Possession {
        let references: Vec<Reference> = self.certificates.iter().copied().collect();
        Possession::from_references(&references)
    }
}
