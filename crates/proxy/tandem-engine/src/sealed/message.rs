//! What crosses in place of a sealed flight, and how the flight is rebuilt from it.
//!
//! ```text
//! suite 1 | iv 12 | key 16 or 32 | check 16 | length(varint) layout{length} | delta
//! 0                              | check 16 | length(varint) layout{length} | delta
//! ```
//!
//! The suite is the low byte of TLS's number. The second form is of a server's flight, whose key
//! the reader has handed over, and what is in clear has crossed: the delta names it. A key is
//! handed over as the first form begins. A client's flight has the first form. The delta rebuilds
//! the opened form; the layout says how that is cut into records; the check is over the sealed
//! flight, from the first byte of it that its sender sent to its last.
//!
//! Is not: a frame. Invariants: a message is bounded by its frame, what it rebuilds by the caller's
//! limit; each has one encoding of everything in front of the delta.

use std::fmt;

use tandem_delta::varint;
use tandem_record_key::{CLIENT_RANDOM_LEN, Direction, IV_LEN, RecordKey, Suite};
use tandem_seal::{Layout, Sealer};
use tandem_store::Digest;

use super::opened::Opened;
use crate::objects::Sender;
use crate::rewrite::Miss;

/// Bytes of the check. It decides what leaves under a key that others have used, so that it is no
/// check against accidents only: 2^128 tries to find another flight that passes for this one.
const CHECK_LEN: usize = 16;

/// What all numbers of suites begin with.
const SUITES: u8 = 0x13;

/// In place of a suite: the reader has the key. No suite has this number (RFC 8446, appendix B.4).
const READERS_KEY: u8 = 0;

/// A message that was read.
pub(crate) struct SealedMessage<'a> {
    /// Whose flight it is.
    sender: Sender,
    /// The key, where it is in the message.
    pub(crate) key: Option<RecordKey>,
    check: [u8; CHECK_LEN],
    layout: &'a [u8],
    /// What rebuilds the opened form.
    pub(crate) delta: &'a [u8],
}

impl fmt::Debug for SealedMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedMessage")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The key as it crosses.
pub(crate) fn write_key(key: &RecordKey) -> Vec<u8> {
    let [_, suite] = key.suite().number().to_be_bytes();
    let mut out = vec![suite];
    out.extend_from_slice(key.iv());
    out.extend_from_slice(key.key());
    out
}

/// Takes the key of one direction of a connection off the front of what follows its suite; `None`
/// for what is none.
fn take_key(
    bytes: &mut &[u8],
    suite: Suite,
    (direction, client_random): (Direction, &[u8; CLIENT_RANDOM_LEN]),
) -> Option<RecordKey> {
    let (iv, rest) = bytes.split_first_chunk::<IV_LEN>()?;
    let (key, rest) = rest.split_at_checked(suite.key_len())?;
    let key = RecordKey::new(direction, suite, *client_random, iv, key).ok()?;
    *bytes = rest;
    Some(key)
}

fn suite_of(byte: u8) -> Option<Suite> {
    Suite::from_number(u16::from_be_bytes([SUITES, byte]))
}

/// The key that was handed over.
pub(crate) fn read_key(bytes: &[u8], client_random: &[u8; CLIENT_RANDOM_LEN]) -> Option<RecordKey> {
    let (&suite, mut rest) = bytes.split_first()?;
    let of = (Direction::FromServer, client_random);
    let key = take_key(&mut rest, suite_of(suite)?, of)?;
    rest.is_empty().then_some(key)
}

/// The message of the flight that was sent as `sealed`; without a key, where the reader has it.
pub(super) fn write(
    key: Option<&RecordKey>,
    layout: &[u8],
    sealed: &[u8],
    delta: &[u8],
) -> Vec<u8> {
    let mut out = key.map_or_else(|| vec![READERS_KEY], write_key);
    out.extend(Digest::of(sealed).prefix16());
    // A layout has a few bytes for each of its records at most.
    varint::write(&mut out, u32::try_from(layout.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(layout);
    out.extend_from_slice(delta);
    out
}

impl<'a> SealedMessage<'a> {
    /// Reads a message of a flight of this sender's, in the connection with this client random;
    /// `None` for what is none.
    pub(crate) fn parse(
        sender: Sender,
        bytes: &'a [u8],
        client_random: &[u8; CLIENT_RANDOM_LEN],
    ) -> Option<Self> {
        let (&first, mut rest) = bytes.split_first()?;
        let key = match first {
            READERS_KEY => None,
            suite => {
                let of = (sender.direction(), client_random);
                Some(take_key(&mut rest, suite_of(suite)?, of)?)
            }
        };
        let (check, mut rest) = rest.split_first_chunk()?;
        let length = usize::try_from(varint::read(&mut rest)?).ok()?;
        let (layout, delta) = rest.split_at_checked(length)?;
        Some(Self {
            sender,
            key,
            check: *check,
            layout,
            delta,
        })
    }

    /// The sealed flight of the opened form with these bytes, by this key, and that form.
    ///
    /// # Errors
    /// [`Miss::Malformed`] for what is no such form, or more than `limit` bytes when it is sealed;
    /// [`Miss::WrongKey`] where the check fails.
    pub(crate) fn seal(
        &self,
        key: &RecordKey,
        opened: Vec<u8>,
        limit: usize,
    ) -> Result<Resealed, Miss> {
        let opened = Opened::of(self.sender, opened).ok_or(Miss::Malformed)?;
        let plaintext = opened.plaintext();
        let mut layout = self.layout;
        let sealed = Layout::decode(&mut layout, plaintext)
            .filter(|it| layout.is_empty() && opened.clear + it.sealed_len() <= limit)
            .and_then(|it| it.seal(plaintext, &mut Sealer::new(key)))
            .ok_or(Miss::Malformed)?;
        let bytes = [&opened.bytes[..opened.clear], &sealed].concat();
        if Digest::of(&bytes).prefix16() != self.check {
            return Err(Miss::WrongKey);
        }
        Ok(Resealed {
            bytes,
            suite: key.suite(),
            opened,
        })
    }
}

/// A flight as its sender sent it, rebuilt.
#[derive(Debug)]
pub(crate) struct Resealed {
    /// The bytes that were sent.
    pub(crate) bytes: Vec<u8>,
    /// The suite of the connection.
    pub(crate) suite: Suite,
    /// The opened form.
    pub(crate) opened: Opened,
}

impl Resealed {
    /// The clear part.
    pub(crate) fn clear(&self) -> &[u8] {
        &self.opened.bytes[..self.opened.clear]
    }
}
