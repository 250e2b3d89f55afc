//! Whose request is signed next: each client in turn, whatever the others have waiting.
//!
//! Is not: who may ask at all; that is the policy's.
//!
//! Invariants: a client's requests keep their order. Between two turns of a client, each other one
//! that waits has one. No client has more than so many waiting.

use std::collections::{BTreeMap, VecDeque};

/// So much of this client's is waiting that no more is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What waits, by client.
#[derive(Debug)]
pub struct Turns<P, T> {
    waiting: BTreeMap<P, VecDeque<T>>,
    /// Clients with something waiting, the next one first.
    order: VecDeque<P>,
    max: usize,
    len: usize,
}

impl<P: Ord + Clone, T> Turns<P, T> {
    /// Nothing waits; of each client, so many will.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            max,
            len: 0,
        }
    }

    /// Puts a request behind this client's others.
    ///
    /// # Errors
    /// It has too many.
    pub fn push(&mut self, client: &P, request: T) -> Result<(), Full> {
        let queue = match self.waiting.get_mut(client) {
            Some(queue) => queue,
            None => {
                self.order.push_back(client.clone());
                self.waiting.entry(client.clone()).or_default()
            }
        };
        if queue.len() >= self.max {
            return Err(Full);
        }
        queue.push_back(request);
        self.len += 1;
        Ok(())
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<T> {
        let client = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&client)?;
        let request = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.order.push_back(client);
        }
        if request.is_some() {
            self.len -= 1;
        }
        request
    }

    /// How many of this client wait.
    #[must_use]
    pub fn waiting_of(&self, client: &P) -> usize {
        self.waiting.get(client).map_or(0, VecDeque::len)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_delays_another_by_one_turn() {
        let mut turns = Turns::new(1_000);
        for number in 0..1_000 {
            turns.push(&"flood", ("flood", number)).expect("room");
        }
        turns.push(&"quiet", ("quiet", 0)).expect("room");
        turns.push(&"quiet", ("quiet", 1)).expect("room");
        let first: Vec<_> = std::iter::from_fn(|| turns.pop()).take(5).collect();
        let expected = [
            ("flood", 0),
            ("quiet", 0),
            ("flood", 1),
            ("quiet", 1),
            ("flood", 2),
        ];
        assert_eq!(first, expected);
        assert_eq!(turns.len(), 997);
    }

    #[test]
    fn who_has_too_many_waiting_gets_no_more_and_leaves_nothing_behind() {
        let mut turns = Turns::new(2);
        assert_eq!(turns.push(&1, 'a'), Ok(()));
        assert_eq!(turns.push(&1, 'b'), Ok(()));
        assert_eq!(turns.push(&1, 'c'), Err(Full));
        assert_eq!(turns.push(&2, 'd'), Ok(()));
        let all: String = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(all, "adb");
        assert!(turns.is_empty() && turns.waiting.is_empty() && turns.order.is_empty());
    }
}
