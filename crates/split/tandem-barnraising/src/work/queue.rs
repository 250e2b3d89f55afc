//! Whose work is done next: networks take turns, in each of them its addresses, there its keys;
//! one key's requests are served in the order in which they come.
//!
//! ```text
//!  everybody -- /16, /48 -- address, /64 -- key -- requests: first come, first served
//!               each level: who has had the least comes first   (start-time fair queueing)
//! ```
//!
//! Why networks before keys: a key costs nothing.
//!
//! Is not: a limit over time ([`super::Budget`]), nor how many are served at once.
//!
//! Invariants: at each level, two that both wait have had the same amount of work, but for one
//! request of each; who was idle has saved nothing up; memory is bounded by the requests that wait
//! and [`MAX_GROUPS`]. A step takes time logarithmic in what waits.
//!
//! Specification: Goyal, Vin and Cheng 1996, start-time fair queueing, at each level.

use std::collections::{BTreeMap, BTreeSet};

use super::Asker;
use crate::member::PublicKey;
use tandem_wire::Network;

/// Groups that are remembered, if fewer wait: a group that does not wait is remembered only for
/// what it had lately.
const MAX_GROUPS: usize = 16_384;

/// Some work that is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// For whom.
    pub asker: Asker,
    /// How much it is, in bytes.
    pub cost: u64,
}

/// A request that waits. None is given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// See above.
#[derive(Debug, Default)]
pub struct Queue {
    next: u64,
    waiting: BTreeMap<Ticket, Request>,
    nodes: BTreeMap<Group, Node>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Everybody,
    Wide(Network),
    Narrow(Network),
    Key(Network, PublicKey),
}

#[derive(Debug, Default)]
struct Node {
    /// Work that it has had, as its parent's clock counts.
    had: u64,
    /// What the one of its children had that was served last.
    clock: u64,
    /// Those of its children that wait, by what they have had.
    groups: BTreeSet<(u64, Group)>,
    /// Of a key: its requests, as they came.
    requests: BTreeSet<Ticket>,
}

impl Node {
    fn is_waiting(&self) -> bool {
        !self.groups.is_empty() || !self.requests.is_empty()
    }
}

impl Asker {
    /// Each is a part of the next.
    fn groups(&self) -> [Group; 4] {
        let narrow = Network::narrow(self.from);
        [
            Group::Key(narrow, self.key),
            Group::Narrow(narrow),
            Group::Wide(Network::wide(self.from)),
            Group::Everybody,
        ]
    }
}

impl Queue {
    /// Lets a request wait.
    pub fn push(&mut self, request: Request) -> Ticket {
        if self.nodes.len() >= MAX_GROUPS {
            self.nodes
                .retain(|group, node| *group == Group::Everybody || node.is_waiting());
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        let groups = request.asker.groups();
        let key = self.nodes.entry(groups[0]).or_default();
        let mut is_entered = key.is_waiting();
        key.requests.insert(ticket);
        for (child, parent) in groups.iter().zip(&groups[1..]) {
            if is_entered {
                break;
            }
            let clock = self.nodes.entry(*parent).or_default().clock;
            let node = self.nodes.entry(*child).or_default();
            node.had = node.had.max(clock);
            let had = node.had;
            let node = self.nodes.entry(*parent).or_default();
            is_entered = node.is_waiting();
            node.groups.insert((had, *child));
        }
        self.waiting.insert(ticket, request);
        ticket
    }

    /// The request whose turn it is. It waits no more, and counts as done.
    pub fn pop(&mut self) -> Option<Ticket> {
        let mut group = Group::Everybody;
        while let Some((_, child)) = self.nodes.get(&group)?.groups.first() {
            group = *child;
        }
        let ticket = *self.nodes.get(&group)?.requests.first()?;
        let cost = self.waiting.get(&ticket)?.cost;
        self.take_out(ticket, cost);
        Some(ticket)
    }

    /// Nobody waits for this one any more.
    pub fn give_up(&mut self, ticket: Ticket) {
        self.take_out(ticket, 0);
    }

    /// Nothing waits, and nothing is being done: what anybody had counts no more.
    pub fn rest(&mut self) {
        if self.waiting.is_empty() {
            self.nodes.clear();
        }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn take_out(&mut self, ticket: Ticket, cost: u64) {
        let Some(request) = self.waiting.remove(&ticket) else {
            return;
        };
        let groups = request.asker.groups();
        if let Some(key) = self.nodes.get_mut(&groups[0]) {
            key.requests.remove(&ticket);
        }
        for (child, parent) in groups.iter().zip(&groups[1..]) {
            let Some(node) = self.nodes.get_mut(child) else {
                break;
            };
            let before = node.had;
            node.had = before.saturating_add(cost);
            let (had, is_waiting) = (node.had, node.is_waiting());
            let Some(node) = self.nodes.get_mut(parent) else {
                break;
            };
            node.groups.remove(&(before, *child));
            if cost > 0 {
                node.clock = node.clock.max(before);
            }
            if is_waiting {
                node.groups.insert((had, *child));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;

    const PIECE: u64 = 1 << 20;

    fn asker(from: [u8; 4], key: u8) -> Asker {
        Asker {
            key: PublicKey([key; 32]),
            from: IpAddr::from(from),
        }
    }

    fn request(asker: Asker) -> Request {
        Request { asker, cost: PIECE }
    }

    /// How many are served before this one.
    fn before(queue: &mut Queue, ticket: Ticket) -> usize {
        let mut count = 0;
        while queue.pop().expect("it waits") != ticket {
            count += 1;
        }
        count
    }

    #[test]
    fn one_that_comes_behind_three_hundred_of_another_key_address_or_network_waits_for_one() {
        for crowd in [[192, 0, 2, 1], [192, 0, 2, 2], [198, 51, 100, 1]] {
            let mut queue = Queue::default();
            for _ in 0..300 {
                queue.push(request(asker(crowd, 1)));
            }
            for _ in 0..10 {
                queue.pop();
            }
            let honest = queue.push(request(asker([192, 0, 2, 1], 2)));
            assert!(before(&mut queue, honest) <= 1, "{crowd:?}");
        }
    }

    #[test]
    fn a_crowd_of_keys_at_one_address_and_of_addresses_in_one_network_has_one_turn_of_each_round() {
        let honest = asker([198, 51, 100, 1], 0);
        let crowds: [fn(u8) -> Asker; 2] = [
            |number| asker([192, 0, 2, 1], number),
            |number| asker([192, 0, 2, number], number),
        ];
        for crowd in crowds {
            let mut queue = Queue::default();
            for number in 1..=200 {
                queue.push(request(crowd(number)));
            }
            let mut waited = 0;
            for _ in 0..20 {
                let ticket = queue.push(request(honest));
                waited += before(&mut queue, ticket);
            }
            assert!(waited <= 20, "{waited}");
        }
    }

    #[test]
    fn what_is_small_does_not_wait_as_if_it_were_large() {
        let mut queue = Queue::default();
        let (large, small) = (asker([192, 0, 2, 1], 1), asker([192, 0, 2, 1], 2));
        for _ in 0..10 {
            queue.push(request(large));
        }
        let few = Request {
            cost: PIECE / 64,
            ..request(small)
        };
        let tickets: Vec<Ticket> = (0..100).map(|_| queue.push(few)).collect();
        let mut served = 0;
        // Two pieces are as much as 128 of these.
        for _ in 0..102 {
            let ticket = queue.pop().expect("they wait");
            served += usize::from(tickets.contains(&ticket));
        }
        assert_eq!(served, 100);
    }

    #[test]
    fn one_keys_requests_are_served_in_the_order_in_which_they_come() {
        let mut queue = Queue::default();
        let key = asker([192, 0, 2, 1], 1);
        let tickets: Vec<Ticket> = (0..10).map(|_| queue.push(request(key))).collect();
        let served: Vec<Ticket> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(served, tickets);
    }

    #[test]
    fn who_was_idle_has_saved_nothing_up() {
        let mut queue = Queue::default();
        let (busy, idle) = (asker([192, 0, 2, 1], 1), asker([192, 0, 2, 1], 2));
        for _ in 0..50 {
            queue.push(request(busy));
            queue.push(request(busy));
            queue.pop();
        }
        let mut served = 0;
        let tickets: Vec<Ticket> = (0..20).map(|_| queue.push(request(idle))).collect();
        for _ in 0..20 {
            let ticket = queue.pop().expect("they wait");
            served += usize::from(tickets.contains(&ticket));
        }
        assert!((9..=11).contains(&served), "{served}");
    }

    #[test]
    fn a_flood_of_keys_is_not_remembered() {
        let mut queue = Queue::default();
        for number in 0..100_000_u32 {
            let from = IpAddr::from(number.to_be_bytes());
            let key = PublicKey([7; 32]);
            queue.push(request(Asker { key, from }));
            queue.pop();
        }
        assert!(queue.nodes.len() <= MAX_GROUPS + 4);
        queue.rest();
        assert!(queue.nodes.is_empty());
    }

    proptest! {
        #[test]
        fn each_request_is_served_or_given_up_once_and_nothing_stays(
            steps in proptest::collection::vec((0..4_u8, 0..4_u8, 0..6_u8), 0..200),
        ) {
            let mut queue = Queue::default();
            let mut waiting = BTreeSet::new();
            for (step, host, key) in steps {
                match step {
                    0 | 1 => {
                        let asker = asker([192, host % 2, 2, host], key);
                        let ticket = queue.push(request(asker));
                        prop_assert!(waiting.insert(ticket));
                    }
                    2 => {
                        let ticket = queue.pop();
                        prop_assert_eq!(ticket.is_none(), waiting.is_empty());
                        if let Some(ticket) = ticket {
                            prop_assert!(waiting.remove(&ticket));
                        }
                    }
                    _ => {
                        if let Some(ticket) = waiting.pop_last() {
                            queue.give_up(ticket);
                            queue.give_up(ticket);
                        }
                    }
                }
                prop_assert_eq!(queue.len(), waiting.len());
            }
            while let Some(ticket) = queue.pop() {
                prop_assert!(waiting.remove(&ticket));
            }
            prop_assert!(waiting.is_empty() && queue.is_empty());
            prop_assert!(queue.nodes.values().all(|node| !node.is_waiting()));
        }
    }
}
