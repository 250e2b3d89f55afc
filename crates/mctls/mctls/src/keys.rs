//! The keys of one direction: as many as a party's rights give it, renewed by sequence number.
//!
//! Nonce: the static IV XOR (author (1) | part (3) | seq (8)). A party seals under its own author
//! number alone, each sequence number once, each part once, so no nonce comes twice under a key.
//!
//! Keys change every [`EPOCH_RECORDS`] sequence numbers, without a message: both sides count. An
//! endpoint and each writer seal under the same key, the endpoint one record for a number, a writer
//! up to eight: with 16 writers that stays below the 2^24.5 records of RFC 8446, section 5.5.
//!
//! Is not: the order of records ([`crate::record`]).

use std::collections::BTreeMap;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use crate::config::{Configuration, Context};
use crate::error::{Check, Error, Misuse};
use crate::party::{Author, ContextId, Direction, MAX_MIDDLEBOXES};
use crate::record::{Group, Header, MAX_PARTS, Part};
use crate::schedule::{ContextSecrets, EndKey};
use crate::secret::{Digest, Secret, TAG_LEN, Tag, same, tag};
use crate::suite::Suite;

/// Sequence numbers under one key.
pub(crate) const EPOCH_RECORDS: u64 = 1 << 17;

/// The first sequence number that no direction has: epochs have 32 bits.
pub(crate) const SEQ_LIMIT: u64 = EPOCH_RECORDS << 32;

/// 2^24.5 (RFC 8446, section 5.5), rounded down.
const MAX_SEALED: u64 = 23_726_566;

const _: () = assert!(
    EPOCH_RECORDS * (1 + MAX_PARTS as u64 * MAX_MIDDLEBOXES as u64) <= MAX_SEALED,
    "everyone who may write seals under the same key"
);

/// Length of every suite's nonces in bytes.
pub(crate) const NONCE_LEN: usize = 12;

/// Whose keys these are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder<'a> {
    /// An endpoint's, with the key that only endpoints have.
    Endpoint(&'a EndKey),
    /// A middlebox's.
    Middlebox,
}

/// The secrets of one context, and the keys of the epoch that is in use.
struct ContextKeys {
    read: Secret,
    write: Option<Secret>,
    end: Option<Secret>,
    epoch: Option<Epoch>,
}

/// The keys of one context in one epoch.
struct Epoch {
    number: u32,
    data: AeadKey,
    writer: Option<WriterKey>,
    endpoint: Option<hmac::Key>,
}

/// An AEAD's key with its static IV.
struct AeadKey {
    key: LessSafeKey,
    iv: Zeroizing<[u8; NONCE_LEN]>,
}

/// The key of writers' tags.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each context and direction"
)]
enum WriterKey {
    /// Over the digest.
    Digest(hmac::Key),
    /// Over the ciphertext, where only the endpoint makes groups, of one record, so that no nonce
    /// comes twice.
    Whole(AeadKey),
}

/// All keys of one party in one direction.
pub(crate) struct DirectionKeys {
    suite: Suite,
    direction: Direction,
    th: Digest,
    contexts: BTreeMap<ContextId, ContextKeys>,
    tags: BTreeMap<ContextId, Context>,
}

impl std::fmt::Debug for DirectionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectionKeys")
            .field("direction", &self.direction)
            .field("contexts", &self.contexts.keys())
            .finish_non_exhaustive()
    }
}

impl DirectionKeys {
    pub(crate) fn new(
        configuration: &Configuration,
        direction: Direction,
        th: Digest,
        secrets: &[(ContextId, ContextSecrets)],
        holder: Holder<'_>,
    ) -> Self {
        let end = match holder {
            Holder::Endpoint(end) => Some(end.secret()),
            Holder::Middlebox => None,
        };
        let mut contexts = BTreeMap::new();
        if let Some(end) = end {
            let keys = ContextKeys {
                read: end.clone(),
                write: None,
                end: None,
                epoch: None,
            };
            contexts.insert(ContextId::END_TO_END, keys);
        }
        for (id, secrets) in secrets {
            let keys = ContextKeys {
                read: secrets.read.clone(),
                write: secrets.write.clone(),
                end: end.cloned(),
                epoch: None,
            };
            contexts.insert(*id, keys);
        }
        let tags = configuration.terms.contexts().iter();
        Self {
            suite: configuration.suite,
            direction,
            th,
            contexts,
            tags: tags.map(|context| (context.id, context.clone())).collect(),
        }
    }

    pub(crate) const fn direction(&self) -> Direction {
        self.direction
    }

    pub(crate) const fn th(&self) -> &Digest {
        &self.th
    }

    /// `K[k,read]`; `None`: it was not granted.
    pub(crate) fn read_secret(&self, id: ContextId) -> Option<&Secret> {
        self.contexts.get(&id).map(|keys| &keys.read)
    }

    /// What the terms say of this context. `None`: context 0, or none.
    pub(crate) fn context(&self, id: ContextId) -> Option<&Context> {
        self.tags.get(&id)
    }

    /// The keys of this context for this sequence number; `None`: they were not granted.
    fn epoch(&mut self, id: ContextId, seq: u64) -> Result<Option<&Epoch>, Error> {
        let number = u32::try_from(seq / EPOCH_RECORDS).map_err(|_| Misuse::SequenceSpent)?;
        let Some(keys) = self.contexts.get_mut(&id) else {
            return Ok(None);
        };
        let is_current = |epoch: &Epoch| epoch.number == number;
        if !keys.epoch.as_ref().is_some_and(is_current) {
            let place = place(id, self.direction, number, &self.th);
            let context = self.tags.get(&id);
            keys.epoch = Some(keys.derive(self.suite, context, number, &place));
        }
        Ok(keys.epoch.as_ref())
    }

    /// Seals one record. Callers count, so that a header comes once.
    pub(crate) fn seal(&mut self, header: Header, payload: &[u8]) -> Result<Option<Part>, Error> {
        let mut sealed = Vec::with_capacity(payload.len() + TAG_LEN);
        sealed.extend_from_slice(payload);
        let done = self.seal_from(header, 0, &mut sealed)?;
        Ok(done.map(|()| Part { header, sealed }))
    }

    /// Seals the payload that stands at `start` where it is, and appends the AEAD's tag. `None`:
    /// this context's keys were not granted. Callers count, so that a header comes once.
    pub(crate) fn seal_from(
        &mut self,
        header: Header,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<()>, Error> {
        let Some(epoch) = self.epoch(header.context, header.seq)? else {
            return Ok(None);
        };
        let tag = epoch
            .data
            .seal(header, &header.to_bytes(), &mut out[start..])?;
        out.extend_from_slice(&tag);
        Ok(Some(()))
    }

    /// Opens a whole group; `None`: this context's keys were not granted.
    pub(crate) fn open(&mut self, group: &Group) -> Result<Option<Vec<u8>>, Error> {
        let Some(epoch) = self.epoch(group.context, group.seq)? else {
            return Ok(None);
        };
        let length = group.parts.iter().map(|part| part.sealed.len()).sum();
        let mut text = Vec::with_capacity(length);
        for part in &group.parts {
            let start = text.len();
            text.extend_from_slice(&part.sealed);
            epoch.data.open_from(part.header, start, &mut text)?;
        }
        Ok(Some(text))
    }

    /// The same for who needs nothing else of the group: a single record is opened where it is.
    pub(crate) fn open_whole(&mut self, mut group: Group) -> Result<Option<Vec<u8>>, Error> {
        match group.parts.as_mut_slice() {
            [Part { header, sealed }] => {
                let Some(epoch) = self.epoch(group.context, group.seq)? else {
                    return Ok(None);
                };
                let mut text = std::mem::take(sealed);
                epoch.data.open_from(*header, 0, &mut text)?;
                Ok(Some(text))
            }
            _ => self.open(&group),
        }
    }

    /// The writer's tag of a group in a context with digests ([`Context::has_digest`]); `None`: the
    /// right to write was not granted.
    pub(crate) fn writer_tag(&mut self, claim: &Claim) -> Result<Option<Tag>, Error> {
        let epoch = self.epoch(claim.context, claim.seq)?;
        Ok(match epoch.and_then(|epoch| epoch.writer.as_ref()) {
            Some(WriterKey::Digest(key)) => Some(tag(key, &claim.with(&claim.digest))),
            Some(WriterKey::Whole(_)) | None => None,
        })
    }

    /// The writer's tag of a record in a context without digests, over its ciphertext. What stands
    /// in the header, nonce and key say. `None`: the right to write was not granted.
    pub(crate) fn whole_tag(
        &mut self,
        header: Header,
        sealed: &[u8],
    ) -> Result<Option<Tag>, Error> {
        let epoch = self.epoch(header.context, header.seq)?;
        match epoch.and_then(|epoch| epoch.writer.as_ref()) {
            Some(WriterKey::Whole(key)) => key.seal(header, sealed, &mut []).map(Some),
            Some(WriterKey::Digest(_)) | None => Ok(None),
        }
    }

    /// Whether this party can tell a true writer's tag of this context.
    pub(crate) fn may_write(&self, id: ContextId) -> bool {
        let keys = self.contexts.get(&id);
        keys.is_some_and(|keys| keys.write.is_some())
    }

    /// Whether the writer's tag is true, where one is due and this party can tell.
    pub(crate) fn check_writer(&mut self, claim: &Claim, found: Option<Tag>) -> Result<(), Error> {
        let Some(found) = found else {
            return Ok(());
        };
        match self.writer_tag(claim)? {
            Some(due) if !same(&due, &found) => Err(Check::WriterTag(claim.context).into()),
            Some(_) | None => Ok(()),
        }
    }

    /// The endpoint's tag: it vouches for the place and for the group as it was sent.
    pub(crate) fn endpoint_tag(&mut self, claim: &Claim) -> Result<Option<Tag>, Error> {
        let epoch = self.epoch(claim.context, claim.seq)?;
        let key = epoch.and_then(|epoch| epoch.endpoint.as_ref());
        Ok(key.map(|key| tag(key, &claim.with(&[]))))
    }
}

impl ContextKeys {
    fn derive(&self, suite: Suite, context: Option<&Context>, number: u32, place: &[u8]) -> Epoch {
        let aead = |secret: &Secret, key, iv| AeadKey {
            key: aead_key(suite, secret, key, place),
            iv: secret.expand(iv, place),
        };
        let mac = |secret: &Secret, label| secret.derive(label, place).key();
        let writer = |secret| match context.is_some_and(Context::has_digest) {
            true => WriterKey::Digest(mac(secret, "writer")),
            false => WriterKey::Whole(aead(secret, "writer key", "writer iv")),
        };
        Epoch {
            number,
            data: aead(&self.read, "key", "iv"),
            writer: self.write.as_ref().map(writer),
            endpoint: self.end.as_ref().map(|secret| mac(secret, "endpoint")),
        }
    }
}

impl AeadKey {
    /// Seals a record's payload in place, and gives the tag. A header comes once.
    fn seal(&self, header: Header, aad: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        let (aad, nonce) = (Aad::from(aad), nonce(&self.iv, header));
        let sealed = self.key.seal_in_place_separate_tag(nonce, aad, payload);
        let sealed = sealed.map_err(|_| Check::Aead(header.context))?;
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(sealed.as_ref());
        Ok(tag)
    }

    /// Opens the record that stands at `start`, and leaves its payload there.
    fn open_from(&self, header: Header, start: usize, text: &mut Vec<u8>) -> Result<(), Error> {
        let aad = Aad::from(header.to_bytes());
        let nonce = nonce(&self.iv, header);
        let opened = self.key.open_in_place(nonce, aad, &mut text[start..]);
        let length = opened.map_err(|_| Check::Aead(header.context))?.len();
        text.truncate(start + length);
        Ok(())
    }
}

/// Where a key belongs: `k | direction | epoch | th`.
pub(crate) fn place(id: ContextId, direction: Direction, epoch: u32, th: &Digest) -> Vec<u8> {
    [&[id.0, direction.code()], &epoch.to_be_bytes()[..], &th[..]].concat()
}

/// An AEAD's key out of a secret.
pub(crate) fn aead_key(suite: Suite, secret: &Secret, label: &str, place: &[u8]) -> LessSafeKey {
    let unbound = match suite {
        Suite::Aes128Gcm => {
            let key = secret.expand::<16>(label, place);
            UnboundKey::new(suite.algorithm(), &key[..])
        }
        Suite::ChaCha20Poly1305 => {
            let key = secret.expand::<32>(label, place);
            UnboundKey::new(suite.algorithm(), &key[..])
        }
    };
    LessSafeKey::new(unbound.expect("the key has the length of its suite"))
}

/// The nonce of a record.
pub(crate) fn nonce(iv: &[u8; NONCE_LEN], header: Header) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[0] = header.author.code();
    nonce[3] = header.index;
    nonce[4..].copy_from_slice(&header.seq.to_be_bytes());
    for (byte, iv) in nonce.iter_mut().zip(iv) {
        *byte ^= iv;
    }
    Nonce::assume_unique_for_key(nonce)
}

/// What tags say of a group: its place, its digest as an endpoint sent it, its digest now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) context: ContextId,
    pub(crate) seq: u64,
    pub(crate) origin: Digest,
    pub(crate) digest: Digest,
    place: [u8; 9],
}

impl Claim {
    pub(crate) fn new(context: ContextId, seq: u64, origin: Digest, digest: Digest) -> Self {
        let mut place = [context.0; 9];
        place[1..].copy_from_slice(&seq.to_be_bytes());
        Self {
            context,
            seq,
            origin,
            digest,
            place,
        }
    }

    /// Of a group as it arrived.
    pub(crate) fn of(group: &Group) -> Self {
        let digest = group.digest();
        let origin = match group.author {
            Author::Endpoint => digest,
            Author::Middlebox(_) => group.evidence.origin.unwrap_or(digest),
        };
        Self::new(group.context, group.seq, origin, digest)
    }

    fn with<'a>(&'a self, now: &'a [u8]) -> [&'a [u8]; 3] {
        [&self.place, &self.origin, now]
    }

    /// The tag of a middlebox that has changed a group, to the endpoint that receives it.
    pub(crate) fn author_tag(&self, key: &hmac::Key) -> Tag {
        let [place, origin, now] = self.with(&self.digest);
        tag(key, &[b"a", place, origin, now])
    }

    /// The tag of a middlebox that has seen a group: what it received, whether it has changed that,
    /// and what it sent on.
    pub(crate) fn stamp(
        &self,
        key: &hmac::Key,
        received: &Digest,
        changed: Option<&Digest>,
    ) -> Tag {
        let flag = [u8::from(changed.is_some())];
        let sent = changed.unwrap_or(received);
        tag(key, &[b"p", &self.place, &flag, received, sent])
    }
}
