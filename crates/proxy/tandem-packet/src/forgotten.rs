//! SYNs that carried an option, had no answer yet, and whose flows had to go for want of room.
//!
//! A repeat of such a SYN would be taken for a first one and get an option again, and it was
//! perhaps for its option that it got no answer. Is not: the flows themselves. Invariant: bounded;
//! the oldest are forgotten for good, and then their repeats get an option once more.

use std::collections::{BTreeSet, VecDeque};

use tandem_wire::Seq;

use crate::table::FlowKey;

/// A bounded memory of such SYNs.
#[derive(Debug)]
pub(crate) struct ForgottenSyns {
    known: BTreeSet<(FlowKey, u32)>,
    by_age: VecDeque<(FlowKey, u32)>,
    limit: usize,
}

impl ForgottenSyns {
    /// Remembers at most `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            known: BTreeSet::new(),
            by_age: VecDeque::new(),
            limit: limit.max(1),
        }
    }

    /// The flow that began with this SYN is no longer kept.
    pub(crate) fn add(&mut self, key: FlowKey, syn: Seq) {
        if !self.known.insert((key, syn.0)) {
            return;
        }
        self.by_age.push_back((key, syn.0));
        while self.by_age.len() > self.limit {
            if let Some(oldest) = self.by_age.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Whether this SYN was sent before.
    pub(crate) fn contains(&self, key: FlowKey, syn: Seq) -> bool {
        self.known.contains(&(key, syn.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn key(port: u16) -> FlowKey {
        FlowKey {
            client: SocketAddr::from(([10, 0, 0, 1], port)),
            server: SocketAddr::from(([10, 0, 0, 2], 443)),
        }
    }

    #[test]
    fn the_newest_are_remembered_by_key_and_sequence_number() {
        let mut forgotten = ForgottenSyns::new(2);
        for port in [1, 2, 2, 3] {
            forgotten.add(key(port), Seq(7));
        }
        assert!(!forgotten.contains(key(1), Seq(7)));
        assert!(forgotten.contains(key(2), Seq(7)) && forgotten.contains(key(3), Seq(7)));
        assert!(!forgotten.contains(key(3), Seq(8)));
        assert_eq!(forgotten.known.len(), forgotten.by_age.len());
    }
}
