//! What the client-side proxy keeps of the server-side one from connection to connection.
//!
//! Is: chains that turned out not to be held over there. Is not: what is held here; that is the store's. Invariant: bounded, the
//! oldest forgotten first, which costs a miss.

use std::collections::VecDeque;

use tandem_store::ChainId;

/// How many chains are remembered as not held: one for each client of a site whose far side has lost its store.
const MOST_LACKING: usize = 4_096;

/// The other proxy, as this one knows it.
#[derive(Debug, Default)]
pub(crate) struct FarSide {
    lacking: VecDeque<ChainId>,
}

impl FarSide {
    /// A flight with this chain was not rebuilt.
    pub(crate) fn lacks(&mut self, chain: ChainId) {
        if self.is_lacking(&chain) {
            return;
        }
        if self.lacking.len() >= MOST_LACKING {
            self.lacking.pop_front();
        }
        self.lacking.push_back(chain);
    }

    /// A handshake with this chain has finished: both have learned it.
    pub(crate) fn learned(&mut self, chain: &ChainId) {
        self.lacking.retain(|lacking| lacking != chain);
    }

    /// Whether references to this chain would miss.
    pub(crate) fn is_lacking(&self, chain: &ChainId) -> bool {
        self.lacking.contains(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(number: u32) -> ChainId {
        ChainId::of(&[&number.to_be_bytes()])
    }

    #[test]
    fn what_missed_is_lacking_until_both_have_learned_it() {
        let mut far = FarSide::default();
        far.lacks(chain(1));
        far.lacks(chain(1));
        assert!(far.is_lacking(&chain(1)) && !far.is_lacking(&chain(2)));
        far.learned(&chain(1));
        assert!(!far.is_lacking(&chain(1)));
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut far = FarSide::default();
        (0..=MOST_LACKING as u32).for_each(|number| far.lacks(chain(number)));
        assert!(!far.is_lacking(&chain(0)) && far.is_lacking(&chain(1)));
    }
}
