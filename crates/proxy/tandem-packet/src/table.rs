//! The flow table: bounded in number and age, oldest given up first.
//!
//! Is not: what a flow is; the table holds any value. It is an ordered map and not a hash map, so
//! that no attacker's choice of ports makes it slow and no random seed is needed.
//!
//! Invariant: `flows` and `ages` name the same keys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tandem_wire::Instant;

/// The two ends of a connection, as this proxy sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

/// Flows by key and by age.
#[derive(Debug)]
pub(crate) struct FlowTable<F> {
    flows: BTreeMap<FlowKey, (Age, F)>,
    ages: BTreeMap<Age, FlowKey>,
    next: u64,
    limit: usize,
    lifetime: Duration,
}

/// When a flow was opened; the number tells apart flows of the same microsecond.
type Age = (Instant, u64);

impl<F> FlowTable<F> {
    pub(crate) fn new(limit: usize, lifetime: Duration) -> Self {
        Self {
            flows: BTreeMap::new(),
            ages: BTreeMap::new(),
            next: 0,
            limit: limit.max(1),
            lifetime,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(crate) fn get(&mut self, key: &FlowKey) -> Option<&mut F> {
        self.flows.get_mut(key).map(|(_, flow)| flow)
    }

    /// Puts a flow in. Hands back what had to go for it: the one of the same key, or the oldest of
    /// a full table.
    pub(crate) fn insert(&mut self, key: FlowKey, flow: F, now: Instant) -> Option<(FlowKey, F)> {
        let gone = match self.remove(&key) {
            Some(old) => Some((key, old)),
            None if self.flows.len() >= self.limit => self.remove_oldest(),
            None => None,
        };
        let age = (now, self.next);
        self.next += 1;
        self.ages.insert(age, key);
        self.flows.insert(key, (age, flow));
        gone
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &F> {
        self.flows.values().map(|(_, flow)| flow)
    }

    pub(crate) fn remove(&mut self, key: &FlowKey) -> Option<F> {
        let (age, flow) = self.flows.remove(key)?;
        self.ages.remove(&age);
        Some(flow)
    }

    pub(crate) fn remove_oldest(&mut self) -> Option<(FlowKey, F)> {
        let (_, key) = self.ages.pop_first()?;
        self.flows.remove(&key).map(|(_, flow)| (key, flow))
    }

    /// Takes out one flow whose time is up at `now`.
    pub(crate) fn remove_expired(&mut self, now: Instant) -> Option<(FlowKey, F)> {
        if self.next_expiry()? > now {
            None
        } else {
            self.remove_oldest()
        }
    }

    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.ages
            .first_key_value()
            .map(|((opened, _), _)| *opened + self.lifetime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> FlowKey {
        FlowKey {
            client: SocketAddr::from(([10, 0, 0, 1], port)),
            server: SocketAddr::from(([10, 0, 0, 2], 443)),
        }
    }

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn the_oldest_goes_first_when_the_table_is_full() {
        let mut table = FlowTable::new(2, Duration::from_secs(1));
        assert_eq!(table.insert(key(1), 'a', at(0)), None);
        assert_eq!(table.insert(key(2), 'b', at(0)), None);
        assert_eq!(table.insert(key(3), 'c', at(1)), Some((key(1), 'a')));
        assert_eq!(table.len(), 2);
        assert_eq!(table.get(&key(2)), Some(&mut 'b'));
    }

    #[test]
    fn a_key_used_again_replaces_its_flow_and_is_as_young_as_its_last_use() {
        let mut table = FlowTable::new(2, Duration::from_secs(1));
        table.insert(key(1), 'a', at(0));
        table.insert(key(2), 'b', at(1));
        assert_eq!(table.insert(key(1), 'c', at(2)), Some((key(1), 'a')));
        assert_eq!(table.insert(key(3), 'd', at(3)), Some((key(2), 'b')));
    }

    #[test]
    fn flows_expire_by_age() {
        let mut table = FlowTable::new(9, Duration::from_micros(10));
        table.insert(key(1), 'a', at(0));
        table.insert(key(2), 'b', at(5));
        assert_eq!(table.next_expiry(), Some(at(10)));
        assert_eq!(table.remove_expired(at(9)), None);
        assert_eq!(table.remove_expired(at(10)), Some((key(1), 'a')));
        assert_eq!(table.remove_expired(at(10)), None);
        assert_eq!(table.remove(&key(2)), Some('b'));
        assert_eq!(table.next_expiry(), None);
        assert_eq!(table.len(), 0);
    }
}
