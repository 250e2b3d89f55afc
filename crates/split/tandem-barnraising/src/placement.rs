//! Where a payload belongs: rendezvous hashing over the members of a list.
//!
//! Is: a rule that all volunteers with the same list apply alike, so that nobody has to tell
//! anybody what he keeps (the thesis's distributed hash table would have to be told of each payload
//! by each volunteer). Is not: the payloads, nor how they are fetched.
//!
//! Invariants: who joins takes over from each other about the same share and nothing else moves;
//! who leaves gives only his own share away.
//!
//! Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.

use sha2::{Digest as _, Sha256};

use crate::member::{Peer, PublicKey};

/// How many members keep a payload, unless the list has fewer.
pub const OWNERS: usize = 2;

/// The members to whom a payload belongs, who has the first claim first; its name is the digest by
/// which stubs refer to it.
///
/// Takes one hash a member.
#[must_use]
pub fn owners<'a>(members: &'a [Peer], payload: &[u8], count: usize) -> Vec<&'a Peer> {
    let mut best: Vec<(u64, &Peer)> = Vec::with_capacity(count.min(members.len()) + 1);
    for member in members {
        let claim = claim(&member.key, payload);
        // Two with the same claim cannot be made at will; the key decides between them, not the
        // order in the list.
        let at = best.partition_point(|(other, kept)| (*other, kept.key) > (claim, member.key));
        if at < count {
            best.insert(at, (claim, member));
            best.truncate(count);
        }
    }
    best.into_iter().map(|(_, member)| member).collect()
}

/// How strongly a member claims a payload.
fn claim(key: &PublicKey, payload: &[u8]) -> u64 {
    let digest: [u8; 32] = Sha256::new()
        .chain_update(b"tandem placement 1")
        .chain_update(key.0)
        .chain_update(payload)
        .finalize()
        .into();
    digest
        .iter()
        .take(8)
        .fold(0, |claim, byte| claim << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn members(count: u8) -> Vec<Peer> {
        (0..count)
            .map(|number| {
                let address = SocketAddr::from(([192, 0, 2, number], 1));
                Peer::at(PublicKey([number; 32]), address)
            })
            .collect()
    }

    fn payloads() -> impl Iterator<Item = [u8; 4]> {
        (0..4_000_u32).map(u32::to_be_bytes)
    }

    #[test]
    fn all_agree_whatever_the_order_of_their_list() {
        let members = members(9);
        let mut other = members.clone();
        other.reverse();
        for payload in payloads().take(200) {
            let own = owners(&members, &payload, 3);
            assert_eq!(own, owners(&other, &payload, 3));
            assert_eq!(own[..2], owners(&members, &payload, 2));
        }
        assert_eq!(owners(&members, b"payload", 20).len(), 9);
        assert!(owners(&[], b"payload", 2).is_empty());
        assert!(owners(&members, b"payload", 0).is_empty());
    }

    /// Volunteers of different versions have to agree, so the rule may not change unnoticed. The
    /// claims were worked out apart from this code.
    #[test]
    fn who_owns_these_payloads_stays_as_it_is() {
        let members = members(5);
        let owned = [&b"one"[..], b"two", b"three"].map(|payload| {
            let owners = owners(&members, payload, 3);
            owners
                .iter()
                .map(|owner| owner.key.0[0])
                .collect::<Vec<_>>()
        });
        assert_eq!(owned, [[2, 0, 4], [4, 1, 0], [2, 4, 3]]);
    }

    #[test]
    fn each_has_about_the_same_share() {
        let members = members(10);
        let mut shares = [0_usize; 10];
        for payload in payloads() {
            for owner in owners(&members, &payload, OWNERS) {
                shares[usize::from(owner.key.0[0])] += 1;
            }
        }
        // 800 each on the mean; the deviation of so many draws is about 27.
        assert!(
            shares.iter().all(|share| (650..950).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn who_joins_takes_his_share_and_nothing_else_moves() {
        let all = members(11);
        let (newcomer, before) = all.split_last().expect("eleven");
        let mut taken = 0;
        for payload in payloads() {
            let old = owners(before, &payload, OWNERS);
            let new = owners(&all, &payload, OWNERS);
            if new.contains(&newcomer) {
                taken += 1;
                assert_eq!(
                    new.iter().filter(|owner| old.contains(*owner)).count(),
                    OWNERS - 1
                );
            } else {
                assert_eq!(old, new);
            }
        }
        // 2 of 11 of 4,000: 727, give or take 24.
        assert!((600..860).contains(&taken), "{taken}");
    }
}
