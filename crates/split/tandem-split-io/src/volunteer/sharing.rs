//! Which of the other volunteers to ask for something before the origin is asked.
//!
//! Is: one question, and two answers to it: a rule that everybody applies alike ([`Placement`]), or
//! a table that all keep together, such as a distributed hash table, from outside this crate. Is
//! not: the asking (`peers`).
//!
//! Invariant: whatever is answered here costs at most time: what comes is checked by its digest.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tandem_barnraising::Peer;
use tandem_barnraising::placement::{OWNERS, owners};
use tandem_channel::KeyName;
use tokio::sync::watch;

/// The volunteers of a site, as they are at present: whoever follows a broker's list sends each new
/// one.
pub type Members = watch::Receiver<Arc<[Peer]>>;

/// Members that stay the same. One that is named twice, with an address of each family, is one with
/// both.
#[must_use]
pub fn constant_members(named: Vec<Peer>) -> Members {
    let mut members: Vec<Peer> = Vec::new();
    for peer in named {
        match members.iter_mut().find(|member| member.key == peer.key) {
            Some(member) => *member = peer.addresses().fold(*member, Peer::and),
            None => members.push(peer),
        }
    }
    watch::channel(members.into()).1
}

/// Whether the holder of this key is one of these members.
pub(super) fn has(members: &Members, key: KeyName) -> bool {
    let key = key.bytes();
    members.borrow().iter().any(|member| member.key.0 == key)
}

/// Members who are to be asked, once they are known.
pub type Holders<'a> = Pin<Box<dyn Future<Output = Vec<Peer>> + Send + 'a>>;

/// Knows whom to ask. What is asked for, a payload or a list, goes by its SHA-256.
pub trait Directory: fmt::Debug + Send + Sync {
    /// Who has it, or is to have it, whom to ask first first. Whoever finds himself in there asks
    /// those before him.
    fn holders<'a>(&'a self, digest: &'a [u8; 32]) -> Holders<'a>;

    /// This volunteer has it now.
    fn holds(&self, digest: &[u8; 32]);
}

/// By rendezvous hashing over the members: nobody tells anybody what he has.
#[derive(Clone, Debug)]
pub struct Placement {
    members: Members,
}

impl Placement {
    /// Among these, and those who come after them.
    #[must_use]
    pub fn over(members: Members) -> Self {
        Self { members }
    }
}

impl Directory for Placement {
    fn holders<'a>(&'a self, digest: &'a [u8; 32]) -> Holders<'a> {
        let members = Arc::clone(&self.members.borrow());
        let found = if members.iter().all(Peer::answers) {
            owners(&members, digest, OWNERS)
                .into_iter()
                .copied()
                .collect()
        } else {
            let answering: Vec<Peer> = members.iter().copied().filter(Peer::answers).collect();
            owners(&answering, digest, OWNERS)
                .into_iter()
                .copied()
                .collect()
        };
        Box::pin(std::future::ready(found))
    }

    fn holds(&self, _digest: &[u8; 32]) {}
}

/// Nobody is asked but the origin.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Directory for Nobody {
    fn holders<'a>(&'a self, _digest: &'a [u8; 32]) -> Holders<'a> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn holds(&self, _digest: &[u8; 32]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_with_two_addresses_is_one_member() {
        let peer = |address: &str| -> Peer {
            let text = format!("{}@{address}", "ab".repeat(32));
            text.parse().expect("whole")
        };
        let (four, six) = (peer("192.0.2.1:7444"), peer("[2001:db8::1]:7444"));
        let members = constant_members(vec![six, four, four]);
        let both = four.and("[2001:db8::1]:7444".parse().expect("an address"));
        assert_eq!(members.borrow()[..], [both]);
    }

    #[tokio::test]
    async fn nothing_belongs_to_a_member_that_answers_nobody() {
        let member = |number: u8, port: u16| -> Peer {
            let key = format!("{number:02x}").repeat(32);
            let text = format!("{key}@192.0.2.{number}:{port}");
            text.parse().expect("whole")
        };
        let members = (1..=9).map(|number| member(number, u16::from(number) % 3));
        let placement = Placement::over(constant_members(members.collect()));
        for digest in 0..=255 {
            let holders = placement.holders(&[digest; 32]).await;
            assert_eq!(holders.len(), OWNERS);
            assert!(holders.iter().all(Peer::answers));
        }
    }
}
