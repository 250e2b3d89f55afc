//! The keys of a hop between two paired middleboxes, out of the pair's key and the session's.
//!
//! ```text
//!  P             the pair's key, 32 random bytes that its two middleboxes alone have
//!  S[k]          = HKDF-Extract(salt = th, P | K[k,read])
//!  short         = Expand-Label(S[k], "short key" and "short iv", k | direction | epoch | th | hop)
//!  holds         = Expand-Label(P, "holds", direction | hop | th, 32)
//!  volume        = Expand-Label(P, "volume", direction | hop | th, 8)
//! ```
//!
//! Invariants: who has but one of P and K[k,read] has no key of a short record; a nonce comes once
//! under a key: a middlebox sends each record on once, and keys differ by hop and direction.

use std::collections::BTreeMap;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use zeroize::Zeroizing;

use super::history::VolumeId;
use crate::error::{Check, Error, Misuse};
use crate::keys::{DirectionKeys, EPOCH_RECORDS, NONCE_LEN, aead_key, nonce, place};
use crate::party::{ContextId, Direction};
use crate::record::Header;
use crate::secret::{Digest, Secret};
use crate::suite::Suite;

/// The keys of one context in one epoch.
struct Epoch {
    number: u32,
    aead: LessSafeKey,
    iv: Zeroizing<[u8; NONCE_LEN]>,
}

/// What seals and opens short records of one direction.
pub(super) struct Sealing {
    suite: Suite,
    direction: Direction,
    hop: u8,
    th: Digest,
    pair: Secret,
    epochs: BTreeMap<ContextId, Epoch>,
}

impl Sealing {
    pub(super) const fn new(
        suite: Suite,
        direction: Direction,
        hop: u8,
        th: Digest,
        pair: Secret,
    ) -> Self {
        Self {
            suite,
            direction,
            hop,
            th,
            pair,
            epochs: BTreeMap::new(),
        }
    }

    pub(super) const fn suite(&self) -> Suite {
        self.suite
    }

    fn epoch(&mut self, keys: &DirectionKeys, header: Header) -> Result<&Epoch, Error> {
        let number = header.seq / EPOCH_RECORDS;
        let number = u32::try_from(number).map_err(|_| Misuse::SequenceSpent)?;
        let id = header.context;
        let read = keys.read_secret(id).ok_or(Check::Pair)?;
        let current = self.epochs.remove(&id);
        let epoch = match current.filter(|epoch| epoch.number == number) {
            Some(epoch) => epoch,
            None => {
                let secret = Secret::extract(&self.th, &self.pair, read);
                let mut place = place(id, self.direction, number, &self.th);
                place.push(self.hop);
                Epoch {
                    number,
                    aead: aead_key(self.suite, &secret, "short key", &place),
                    iv: secret.expand("short iv", &place),
                }
            }
        };
        Ok(self.epochs.entry(id).or_insert(epoch))
    }

    /// Seals what stands in place of a record's ciphertext, behind `front`.
    pub(super) fn seal(
        &mut self,
        keys: &DirectionKeys,
        header: Header,
        front: &[u8],
        mut body: Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        let epoch = self.epoch(keys, header)?;
        let nonce = nonce(&epoch.iv, header);
        let sealed = epoch
            .aead
            .seal_in_place_append_tag(nonce, Aad::from(front), &mut body);
        sealed.map_err(|_| Check::Pair)?;
        Ok(body)
    }

    /// Opens it.
    pub(super) fn open(
        &mut self,
        keys: &DirectionKeys,
        header: Header,
        front: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let epoch = self.epoch(keys, header)?;
        let nonce = nonce(&epoch.iv, header);
        open(&epoch.aead, nonce, Aad::from(front), sealed)
    }
}

fn open(
    aead: &LessSafeKey,
    nonce: Nonce,
    aad: Aad<&[u8]>,
    sealed: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut text = sealed.to_vec();
    let opened = aead.open_in_place(nonce, aad, &mut text);
    let length = opened.map_err(|_| Check::Pair)?.len();
    text.truncate(length);
    Ok(text)
}

/// Where something of a hop belongs: from which end, on which hop, in which session.
fn spot(direction: Direction, hop: u8, th: &Digest) -> Vec<u8> {
    [&[direction.code(), hop], &th[..]].concat()
}

/// The name of what crosses new in this direction of this session.
pub(super) fn volume_id(pair: &Secret, direction: Direction, hop: u8, th: &Digest) -> VolumeId {
    *pair.expand("volume", &spot(direction, hop, th))
}

/// The key that seals one message: what one end holds, in one session.
fn holds_key(
    suite: Suite,
    pair: &Secret,
    direction: Direction,
    hop: u8,
    th: &Digest,
) -> LessSafeKey {
    let secret = pair.derive("holds", &spot(direction, hop, th));
    aead_key(suite, &secret, "key", b"")
}

/// Under a key of its own, so that the nonce may be zero.
const ONCE: [u8; NONCE_LEN] = [0; NONCE_LEN];

pub(super) fn seal_holds(
    suite: Suite,
    pair: &Secret,
    direction: Direction,
    hop: u8,
    th: &Digest,
    mut text: Vec<u8>,
) -> Vec<u8> {
    let key = holds_key(suite, pair, direction, hop, th);
    let nonce = Nonce::assume_unique_for_key(ONCE);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut text)
        .expect("the message is short");
    text
}

pub(super) fn open_holds(
    suite: Suite,
    pair: &Secret,
    direction: Direction,
    hop: u8,
    th: &Digest,
    sealed: &[u8],
) -> Result<Vec<u8>, Error> {
    let key = holds_key(suite, pair, direction, hop, th);
    let nonce = Nonce::assume_unique_for_key(ONCE);
    open(&key, nonce, Aad::from(&[][..]), sealed)
}
