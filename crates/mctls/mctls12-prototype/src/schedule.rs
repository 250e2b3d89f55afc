//! The key schedule.
//!
//! ```text
//! master     PRF(premaster, "master secret", client random | server random)[48]
//! block      PRF(master, "key expansion", server random | client random)[128]
//!            = MAC key to the server 32 | to the client 32 | AES-128 key 16 | 16 | two IVs, unused
//! half       64 random bytes of each endpoint, for each slice one to read and one to write
//! whole      client's half XOR server's half
//! readers    AES-128 key = read whole[0..16], MAC key = read whole[0..32]     both directions
//! writers    MAC key = write whole[0..32]                                     both directions
//! endpoints  MAC key = the direction's MAC key of the block
//! ```
//!
//! Is not: safe. The AES key is the beginning of the MAC key, and both directions share them.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use mctls::party::Direction;
use zeroize::Zeroizing;

use crate::entropy::{Entropy, Use};
use crate::prf::{Transcript, VERIFY_LEN, prf};
use crate::protect::{Aes, ContextKeys, EndKeys};

/// Length of a half of a key in bytes.
pub(crate) const HALF_LEN: usize = 64;

/// How much of a whole is a key of HMAC-SHA256.
const MAC_KEY_LEN: usize = 32;

/// How much of a whole, or of the block, is a key of AES-128.
const CIPHER_KEY_LEN: usize = 16;

/// The random values of the hellos.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Randoms {
    pub(crate) client: [u8; 32],
    pub(crate) server: [u8; 32],
}

/// A half or a whole of a context's key; what its holder may not do is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) read: Option<Zeroizing<[u8; HALF_LEN]>>,
    pub(crate) write: Option<Zeroizing<[u8; HALF_LEN]>>,
}

/// By slice.
pub(crate) type Parts = BTreeMap<u8, Part>;

/// An endpoint's halves for all its contexts.
pub(crate) fn halves(entropy: &Entropy, slices: impl Iterator<Item = u8>) -> Parts {
    let half = |slice, purpose| Some(Zeroizing::new(entropy.array(Use::Half(slice, purpose))));
    let parts = slices.map(|slice| {
        let (read, write) = (half(slice, 0), half(slice, 1));
        (slice, Part { read, write })
    });
    parts.collect()
}

/// What both endpoints' halves make. Half a key is none.
pub(crate) fn wholes(ours: &Parts, theirs: &Parts) -> Parts {
    type Half = Option<Zeroizing<[u8; HALF_LEN]>>;
    let xor = |left: &Half, right: &Half| {
        let mut whole = left.clone()?;
        for (byte, other) in whole.iter_mut().zip(right.as_ref()?.iter()) {
            *byte ^= other;
        }
        Some(whole)
    };
    let parts = ours.iter().filter_map(|(slice, ours)| {
        let theirs = theirs.get(slice)?;
        let read = xor(&ours.read, &theirs.read);
        let write = xor(&ours.write, &theirs.write);
        Some((*slice, Part { read, write }))
    });
    parts.collect()
}

/// The keys of the contexts that somebody may read.
pub(crate) fn context_keys(wholes: &Parts) -> BTreeMap<u8, ContextKeys> {
    let mac = |whole: &[u8; HALF_LEN]| hmac::Key::new(hmac::HMAC_SHA256, &whole[..MAC_KEY_LEN]);
    let keys = wholes.iter().filter_map(|(slice, whole)| {
        let read = whole.read.as_ref()?;
        let keys = ContextKeys {
            cipher: Aes::new_128(&read[..CIPHER_KEY_LEN]),
            readers: mac(read),
            writers: whole.write.as_ref().map(|write| mac(write)),
        };
        Some((*slice, keys))
    });
    keys.collect()
}

/// The master secret.
pub(crate) struct Master(Zeroizing<Vec<u8>>);

impl Master {
    pub(crate) fn new(premaster: &[u8], randoms: &Randoms) -> Self {
        let seeds: [&[u8]; 2] = [&randoms.client, &randoms.server];
        Self(prf(premaster, "master secret", &seeds, 48))
    }

    pub(crate) fn keys(&self, randoms: &Randoms, direction: Direction) -> EndKeys {
        let seeds: [&[u8]; 2] = [&randoms.server, &randoms.client];
        let len = 2 * (MAC_KEY_LEN + CIPHER_KEY_LEN);
        let block = prf(&self.0, "key expansion", &seeds, len);
        let (macs, ciphers) = block.split_at(2 * MAC_KEY_LEN);
        let number = match direction {
            Direction::ToServer => 0,
            Direction::ToClient => 1,
        };
        let part = |all: &[u8], len: usize| Zeroizing::new(all[number * len..][..len].to_vec());
        EndKeys {
            cipher: Aes::new_128(&part(ciphers, CIPHER_KEY_LEN)),
            mac: hmac::Key::new(hmac::HMAC_SHA256, &part(macs, MAC_KEY_LEN)),
        }
    }

    /// What whoever sends in this direction has in its finished message.
    pub(crate) fn finished(&self, direction: Direction, hashed: &Transcript) -> [u8; VERIFY_LEN] {
        let label = match direction {
            Direction::ToServer => "client finished",
            Direction::ToClient => "server finished",
        };
        hashed.finished(&self.0, label)
    }
}
