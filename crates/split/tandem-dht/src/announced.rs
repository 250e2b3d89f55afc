//! What a node has announced: so many digests, the newest ones.
//!
//! Is not: who is told; nor what others have announced.
//!
//! Invariant: a bounded number is known; the oldest is let go of for the next.

use std::collections::{HashSet, VecDeque};

/// See above.
pub(crate) struct Announced {
    most: usize,
    /// Oldest first.
    order: VecDeque<[u8; 32]>,
    known: HashSet<[u8; 32]>,
}

/// What became of one more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It was there.
    Known,
    /// It is new; the oldest has gone for it where there were too many.
    New { oldest: Option<[u8; 32]> },
}

impl Announced {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            order: VecDeque::new(),
            known: HashSet::new(),
        }
    }

    pub(crate) fn note(&mut self, digest: [u8; 32]) -> Noted {
        if !self.known.insert(digest) {
            return Noted::Known;
        }
        self.order.push_back(digest);
        let is_over = self.order.len() > self.most;
        let oldest = is_over.then(|| self.order.pop_front()).flatten();
        if let Some(oldest) = &oldest {
            self.known.remove(oldest);
        }
        Noted::New { oldest }
    }

    /// Whether it is among them still.
    pub(crate) fn has(&self, digest: &[u8; 32]) -> bool {
        self.known.contains(digest)
    }

    /// The newest one could not be announced.
    pub(crate) fn forget(&mut self, digest: &[u8; 32]) {
        if self.known.remove(digest)
            && let Some(at) = self.order.iter().rposition(|one| one == digest)
        {
            self.order.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_for_the_next() {
        let mut announced = Announced::new(2);
        let digest = |number| [number; 32];
        let none = Noted::New { oldest: None };
        assert_eq!(announced.note(digest(1)), none);
        assert_eq!(announced.note(digest(2)), none);
        assert_eq!(announced.note(digest(1)), Noted::Known);
        let oldest = Some(digest(1));
        assert_eq!(announced.note(digest(3)), Noted::New { oldest });
        assert!(!announced.has(&digest(1)) && announced.has(&digest(3)));
        announced.forget(&digest(3));
        assert_eq!(announced.note(digest(3)), none, "there was room for it");
        assert_eq!(announced.order.len(), announced.known.len());
    }
}
