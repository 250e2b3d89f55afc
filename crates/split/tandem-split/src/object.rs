//! Objects: bodies cut into chunks, named by the hash of the list of their chunks' digests.
//!
//! ```text
//!  list:  "TSL" 1 | chunk length (u32) | length of the object (u64) | SHA-256 of chunk 0 | of chunk 1 | ...
//!  name:  SHA-256 of the list
//! ```
//!
//! Is: the list, its name, and the check of one chunk without the others. Is not: how a run refers
//! to an object ([`crate::message::Run`]), nor where chunks are kept: a chunk is a payload like any
//! other, under the same name.
//!
//! Invariant: a [`List`] has the name that it says, as many digests as its length asks for, and at
//! most [`MAX_CHUNKS`].

use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::{Breach, Error, Malformed, Misuse};
use crate::name::{ObjectName, PayloadName};
use crate::payload::MAX_PAYLOAD_LEN;
use crate::read::Reader;

/// Length of a chunk in bytes, but for the last: the plaintext of one full record, so that record
/// and chunk share a name.
pub const CHUNK_LEN: usize = MAX_PAYLOAD_LEN;

/// Most chunks of an object. Its list then has 2 MiB; a longer body is several objects.
pub const MAX_CHUNKS: usize = 1 << 16;

/// Longest object: 1 GiB.
pub const MAX_OBJECT_LEN: u64 = (MAX_CHUNKS * CHUNK_LEN) as u64;

/// Longest list in bytes.
pub const MAX_LIST_LEN: usize = HEAD_LEN + MAX_CHUNKS * DIGEST_LEN;

const MAGIC: [u8; 4] = *b"TSL\x01";
const HEAD_LEN: usize = 4 + 4 + 8;
const DIGEST_LEN: usize = 32;

/// The digests of an object's chunks.
#[derive(Clone, PartialEq, Eq)]
pub struct List {
    name: ObjectName,
    len: u64,
    /// As it crosses: head and digests.
    bytes: Vec<u8>,
}

impl List {
    /// The list of these bytes.
    ///
    /// # Errors
    /// [`Misuse::ObjectTooLong`] over [`MAX_OBJECT_LEN`].
    pub fn of(object: &[u8]) -> Result<Self, Error> {
        let mut lister = Lister::default();
        lister.push(object)?;
        Ok(lister.finish())
    }

    /// Takes somebody else's bytes for the list of `name`, if they are.
    ///
    /// # Errors
    /// [`Breach::Digest`] if they are not; [`Malformed::List`] if what `name` names is no list.
    pub fn check(name: ObjectName, bytes: Vec<u8>) -> Result<Self, Error> {
        if bytes.len() > MAX_LIST_LEN {
            return Err(Malformed::List.into());
        }
        if <[u8; 32]>::from(Sha256::digest(&bytes)) != name.0 {
            return Err(Breach::Digest.into());
        }
        let len = object_len(&bytes)?;
        if bytes.len() != list_len(len) {
            return Err(Malformed::List.into());
        }
        Ok(Self { name, len, bytes })
    }

    /// The object's name.
    #[must_use]
    pub const fn name(&self) -> ObjectName {
        self.name
    }

    /// Length of the object in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether the object has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The list as it crosses.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The name of the chunk with this number, from 0.
    #[must_use]
    pub fn chunk(&self, number: usize) -> Option<PayloadName> {
        let start = number.checked_mul(DIGEST_LEN)?.checked_add(HEAD_LEN)?;
        let digest = self.bytes.get(start..)?.first_chunk()?;
        Some(PayloadName::Sha256(*digest))
    }

    /// The names of all chunks, in order.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = PayloadName> + '_ {
        let (digests, _) = self.bytes[HEAD_LEN..].as_chunks();
        digests.iter().map(|digest| PayloadName::Sha256(*digest))
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({}, {} bytes)", self.name, self.len)
    }
}

/// What the head of a list says of its object's length.
fn object_len(list: &[u8]) -> Result<u64, Malformed> {
    let mut reader = Reader::new(list);
    let head = (reader.array(), reader.u32(), reader.u64());
    match head {
        (Ok(MAGIC), Ok(chunk), Ok(len)) if chunk as usize == CHUNK_LEN && len <= MAX_OBJECT_LEN => {
            Ok(len)
        }
        _ => Err(Malformed::List),
    }
}

/// Length of the list of an object with `len` bytes, which are at most [`MAX_OBJECT_LEN`].
fn list_len(len: u64) -> usize {
    let chunks = usize::try_from(len.div_ceil(CHUNK_LEN as u64)).expect("at most MAX_CHUNKS");
    HEAD_LEN + chunks * DIGEST_LEN
}

/// Makes the list of an object whose bytes come piece by piece.
#[derive(Clone, Default)]
pub struct Lister {
    len: u64,
    digests: Vec<u8>,
    open: Sha256,
}

impl Lister {
    /// Takes the next bytes, cut as they come.
    ///
    /// # Errors
    /// [`Misuse::ObjectTooLong`] over [`MAX_OBJECT_LEN`]; nothing of `bytes` is taken then.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() as u64 > MAX_OBJECT_LEN - self.len {
            return Err(Misuse::ObjectTooLong.into());
        }
        while !bytes.is_empty() {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "less than CHUNK_LEN, which is a usize"
            )]
            let filled = (self.len % CHUNK_LEN as u64) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK_LEN - filled));
            self.open.update(now);
            self.len += now.len() as u64;
            if filled + now.len() == CHUNK_LEN {
                self.digests.extend_from_slice(&self.open.finalize_reset());
            }
            bytes = rest;
        }
        Ok(())
    }

    /// The list of all that was pushed.
    #[must_use]
    pub fn finish(mut self) -> List {
        if !self.len.is_multiple_of(CHUNK_LEN as u64) {
            self.digests.extend_from_slice(&self.open.finalize());
        }
        let mut bytes = Vec::with_capacity(HEAD_LEN + self.digests.len());
        bytes.extend_from_slice(&MAGIC);
        let [.., a, b, c, d] = (CHUNK_LEN as u64).to_be_bytes();
        bytes.extend_from_slice(&[a, b, c, d]);
        bytes.extend_from_slice(&self.len.to_be_bytes());
        bytes.extend_from_slice(&self.digests);
        List {
            name: ObjectName(Sha256::digest(&bytes).into()),
            len: self.len,
            bytes,
        }
    }
}

impl fmt::Debug for Lister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lister({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_are_named_like_the_records_that_hold_them() {
        let object = vec![7; 2 * CHUNK_LEN + 1];
        let list = List::of(&object).expect("short");
        assert_eq!(list.len(), object.len() as u64);
        assert_eq!(
            list.chunks().collect::<Vec<_>>(),
            object
                .chunks(CHUNK_LEN)
                .map(PayloadName::sha256)
                .collect::<Vec<_>>()
        );
        assert_eq!(list.chunk(2), Some(PayloadName::sha256(&[7])));
        assert_eq!(list.chunk(3), None);
        assert_eq!(list.chunk(usize::MAX), None);
    }

    #[test]
    fn a_list_is_believed_by_its_name_alone() {
        let list = List::of(b"an object").expect("short");
        let bytes = list.as_bytes().to_vec();
        assert_eq!(List::check(list.name(), bytes.clone()), Ok(list.clone()));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(
                List::check(list.name(), other.clone()),
                Err(Breach::Digest.into())
            );
            // Under its own name, too, only what is a list of the right length is one.
            let name = ObjectName(Sha256::digest(&other).into());
            assert_eq!(
                List::check(name, other).is_ok(),
                (14..HEAD_LEN + 32).contains(&at),
                "{at}"
            );
        }
    }

    #[test]
    fn the_longest_list_is_one_and_a_longer_is_none() {
        let mut bytes = List::of(&[]).expect("short").as_bytes().to_vec();
        bytes[HEAD_LEN - 8..].copy_from_slice(&MAX_OBJECT_LEN.to_be_bytes());
        bytes.resize(MAX_LIST_LEN, 7);
        let name = |bytes: &[u8]| ObjectName(Sha256::digest(bytes).into());
        let list = List::check(name(&bytes), bytes.clone()).expect("a list");
        assert_eq!((list.len(), list.is_empty()), (MAX_OBJECT_LEN, false));
        assert!(format!("{list:?}").contains(&list.name().to_string()));
        bytes.push(7);
        let refused = List::check(name(&bytes), bytes);
        assert_eq!(refused, Err(Malformed::List.into()));
    }

    #[test]
    fn an_empty_object_has_a_list_without_chunks() {
        let list = List::of(&[]).expect("short");
        assert!(list.is_empty());
        assert_eq!(list.chunks().len(), 0);
        assert_eq!(List::check(list.name(), list.as_bytes().to_vec()), Ok(list));
    }

    #[test]
    fn an_object_over_the_limit_is_refused_before_it_is_hashed() {
        let mut lister = Lister {
            len: MAX_OBJECT_LEN - 1,
            ..Lister::default()
        };
        assert_eq!(lister.push(&[0; 2]), Err(Misuse::ObjectTooLong.into()));
        assert_eq!(lister.push(&[0]), Ok(()));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_an_object_comes(
            object in proptest::collection::vec(any::<u8>(), 0..3 * CHUNK_LEN),
            cut in 1..2 * CHUNK_LEN,
        ) {
            let mut lister = Lister::default();
            for piece in object.chunks(cut) {
                lister.push(piece).expect("short");
            }
            prop_assert_eq!(Ok(lister.finish()), List::of(&object));
        }
    }
}
