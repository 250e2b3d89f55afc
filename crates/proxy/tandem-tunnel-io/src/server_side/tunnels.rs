//! The tunnels that are up at the server side: how many there may be, and their farewell.
//!
//! Is not: what is carried in them.
//!
//! Invariants: of too many, of one peer or of all, the most silent is closed. That shows when
//! another comes up, by what each has received since the last one did; nothing is sent to find out.
//! No peer takes the place of another's tunnel while it has as many as it may.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_engine::PeerId;
use tokio::time::timeout;

use crate::transport::{Over, Tunnel};

/// Tunnels of one peer at a time. Each restart of a client side leaves one behind, which would end
/// by itself after a day.
const MAX_OF_PEER: usize = 16;

/// Tunnels at a time. One at rest takes memory: docs/scale.md.
const MAX: usize = 4_096;

/// How long the end of the process waits until the client sides have been told over TCP.
const FAREWELL: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(super) struct Tunnels<T>(Mutex<Up<T>>);

#[derive(Debug)]
struct Up<T> {
    /// The number of the next one.
    next: u64,
    /// Oldest first.
    tunnels: Vec<One<T>>,
}

#[derive(Debug)]
struct One<T> {
    number: u64,
    peer: PeerId,
    tunnel: T,
    /// Datagrams received when the newest one came up.
    received: u64,
    /// The number of the last one before whose coming something was heard in this.
    heard: u64,
}

/// A tunnel's place among them, until it is dropped.
pub(super) struct Held<'a, T: Tunnel> {
    tunnels: &'a Tunnels<T>,
    number: u64,
}

impl<T: Tunnel> Tunnels<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Up {
            next: 0,
            tunnels: Vec::new(),
        }))
    }

    /// This one, of this peer, is up.
    pub(super) fn hold(&self, tunnel: &T, peer: PeerId) -> Held<'_, T> {
        let mut up = self.lock();
        let number = up.next;
        up.next += 1;
        for one in &mut up.tunnels {
            let received = one.tunnel.counts().received_datagrams;
            if received != one.received {
                (one.received, one.heard) = (received, number);
            }
        }
        let of_peer = up.tunnels.iter().filter(|one| one.peer == peer);
        if of_peer.count() >= MAX_OF_PEER {
            up.close_most_silent((MAX_OF_PEER, "of one client side"), |one| one.peer == peer);
        } else if up.tunnels.len() >= MAX {
            up.close_most_silent((MAX, "of all client sides"), |_| true);
        }
        up.tunnels.push(One {
            number,
            peer,
            tunnel: tunnel.clone(),
            received: tunnel.counts().received_datagrams,
            heard: number,
        });
        Held {
            tunnels: self,
            number,
        }
    }

    /// Ends those over TCP and tells the other sides, as far as that is possible at once.
    pub(super) async fn farewell(&self) {
        let mut tunnels: Vec<T> = Vec::new();
        for one in &self.lock().tunnels {
            match one.tunnel.over() {
                Over::Tcp => tunnels.push(one.tunnel.clone()),
                Over::Udp => {}
            }
        }
        tunnels.iter().for_each(T::close);
        let ended = async {
            for tunnel in &tunnels {
                tunnel.closed().await;
            }
        };
        let _ = timeout(FAREWELL, ended).await;
    }

    fn lock(&self) -> MutexGuard<'_, Up<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Tunnel> Up<T> {
    /// Of those that have been silent for as long, the oldest.
    fn close_most_silent(&mut self, (max, whose): (usize, &str), of: impl Fn(&One<T>) -> bool) {
        let indices = (0..self.tunnels.len()).filter(|index| of(&self.tunnels[*index]));
        if let Some(index) = indices.min_by_key(|index| self.tunnels[*index].heard) {
            tracing::warn!(
                "there are more than {max} tunnels {whose}; the most silent one is closed"
            );
            self.tunnels.remove(index).tunnel.close();
        }
    }
}

impl<T: Tunnel> Drop for Held<'_, T> {
    fn drop(&mut self) {
        let mut up = self.tunnels.lock();
        up.tunnels.retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::tests::{Empty, Line};
    use crate::transport::Connect as _;

    async fn tunnel() -> Empty {
        Line::failing(0).connect().await.expect("up")
    }

    const PEER: PeerId = PeerId([1; 32]);
    const OTHER: PeerId = PeerId([2; 32]);

    #[tokio::test]
    async fn of_too_many_the_most_silent_is_closed() {
        let tunnels = Tunnels::new();
        let neighbour = tunnel().await;
        let mut held = vec![tunnels.hold(&neighbour, OTHER)];
        let mut all = Vec::new();
        for number in 0..MAX_OF_PEER + 2 {
            let new = tunnel().await;
            held.push(tunnels.hold(&new, PEER));
            all.push(new);
            // The oldest is in use, and the third was until not long ago.
            all[0].carries(1, 1);
            if (2..MAX_OF_PEER - 2).contains(&number) {
                all[2].carries(1, 1);
            }
        }
        let closed: Vec<usize> = (0..all.len()).filter(|one| !all[*one].is_up()).collect();
        assert_eq!(closed, [1, 3]);
        assert!(neighbour.is_up(), "it is another's");
    }

    #[tokio::test]
    async fn a_thousand_peers_have_one_each_and_all_together_have_a_bound() {
        let tunnels = Tunnels::new();
        let peer = |number: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            PeerId(bytes)
        };
        let mut held = Vec::new();
        let mut all = Vec::new();
        for number in 0..=MAX {
            let new = tunnel().await;
            held.push(tunnels.hold(&new, peer(number)));
            all.push(new);
        }
        let closed: Vec<usize> = (0..all.len()).filter(|one| !all[*one].is_up()).collect();
        assert_eq!(closed, [0]);
    }

    #[tokio::test]
    async fn one_that_has_ended_leaves_its_place() {
        let tunnels = Tunnels::new();
        let first = tunnel().await;
        let _held = tunnels.hold(&first, PEER);
        for _ in 0..MAX_OF_PEER * 2 {
            let other = tunnel().await;
            drop(tunnels.hold(&other, PEER));
        }
        assert!(first.is_up());
        let up = tunnels.lock();
        let numbers: Vec<u64> = up.tunnels.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [0], "and no other's");
    }
}
