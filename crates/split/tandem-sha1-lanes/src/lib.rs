//! HMAC-SHA-1 of several messages at once, under one key.
//!
//! The records of a TLS connection are authenticated one by one, so that their hashes do not depend
//! on each other. A processor with SHA instructions computes three or four of them in the time of
//! two.
//!
//! ```text
//!   key ----> inner state ---+--> message 0: head | body | padding ---+
//!                            +--> message 1: ...                      +--> side by side --> outer hash
//!                            +--> ...                                 |
//!                            +--> message 3: ...                   ---+
//! ```
//!
//! Is: the one place with processor instructions, and the choice whether to use them. Is not: a
//! statement about SHA-1 (TLS 1.2 asks for it in the suites that browsers offer), or anything that
//! knows records.
//!
//! Invariants: the result is that of one message after the other, on every processor and for all
//! lengths; states that depend on the key are wiped.
//!
//! Specifications: FIPS 180-4, section 6.1; RFC 2104.

#[cfg(target_arch = "x86_64")]
mod sha_ni;

use std::fmt;

use sha1::block_api::compress;
use zeroize::{Zeroize as _, Zeroizing};

/// Length of an HMAC-SHA-1 in bytes.
pub const MAC_LEN: usize = 20;
/// The longest key in bytes: that of a block. A longer one would have to be hashed first.
pub const MAX_KEY_LEN: usize = BLOCK_LEN;
/// The longest head in bytes.
pub const MAX_HEAD_LEN: usize = 32;

const BLOCK_LEN: usize = 64;
/// Messages that are hashed side by side. Of an EPYC of 2021, one lane has 1.5 GB/s, two 2.6, three
/// 3.2, four 3.3; more have no registers left.
const LANES: usize = 4;
/// FIPS 180-4, section 5.3.1.
const START: State = [
    0x6745_2301,
    0xefcd_ab89,
    0x98ba_dcfe,
    0x1032_5476,
    0xc3d2_e1f0,
];

type State = [u32; 5];
type Block = [u8; BLOCK_LEN];

/// A key, as the two states in which the hashes of its HMACs begin. Wiped when it is dropped.
pub struct Key {
    inner: State,
    outer: State,
}

impl Key {
    /// For a key of at most [`MAX_KEY_LEN`] bytes; `None` for a longer one.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        // RFC 2104, section 2.
        let state_behind = |pad: u8| {
            let mut block = Zeroizing::new([pad; BLOCK_LEN]);
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
            let mut state = START;
            compress(&mut state, std::slice::from_ref(&*block));
            state
        };
        (key.len() <= MAX_KEY_LEN).then(|| Self {
            inner: state_behind(0x36),
            outer: state_behind(0x5c),
        })
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// A message in two parts, so that nobody has to copy the long one.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// At most [`MAX_HEAD_LEN`] bytes; what is longer is left out.
    pub head: &'a [u8],
    /// What follows.
    pub body: &'a [u8],
}

/// The HMACs of these messages, in their order.
#[must_use]
pub fn macs(key: &Key, messages: &[Message<'_>]) -> Vec<[u8; MAC_LEN]> {
    let mut macs = Vec::with_capacity(messages.len());
    let (groups, rest) = messages.as_chunks::<LANES>();
    for group in groups {
        macs.extend(macs_of(key, group));
    }
    match rest {
        [] => {}
        [one] => macs.extend(macs_of(key, &[*one])),
        [one, two] => macs.extend(macs_of(key, &[*one, *two])),
        [one, two, three, ..] => macs.extend(macs_of(key, &[*one, *two, *three])),
    }
    macs
}

/// Whether this processor hashes several messages side by side.
#[must_use]
pub fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return sha_ni::is_there();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// A message, cut into blocks and padded. Only its ends are copies.
struct Blocks<'a> {
    first: Option<Block>,
    middle: &'a [Block],
    last: [Block; 2],
    /// Whether both of `last` count, or the second alone.
    has_two: bool,
}

impl<'a> Blocks<'a> {
    fn of(message: &Message<'a>) -> Self {
        let head = &message.head[..message.head.len().min(MAX_HEAD_LEN)];
        let mut end = Vec::with_capacity(2 * BLOCK_LEN);
        let (first, middle) = match message.body.split_at_checked(BLOCK_LEN - head.len()) {
            Some((begin, rest)) => {
                let mut first = [0; BLOCK_LEN];
                first[..head.len()].copy_from_slice(head);
                first[head.len()..].copy_from_slice(begin);
                let (middle, rest) = rest.as_chunks();
                end.extend_from_slice(rest);
                (Some(first), middle)
            }
            None => {
                end.extend_from_slice(head);
                end.extend_from_slice(message.body);
                (None, &[][..])
            }
        };
        // FIPS 180-4, section 5.1.1. The key's block counts.
        let bits = 8 * (BLOCK_LEN + head.len() + message.body.len()) as u64;
        let has_two = end.len() + 1 + 8 > BLOCK_LEN;
        let mut last = [[0; BLOCK_LEN]; 2];
        let padded = match has_two {
            true => last.as_flattened_mut(),
            false => &mut last[1][..],
        };
        padded[..end.len()].copy_from_slice(&end);
        padded[end.len()] = 0x80;
        last[1][BLOCK_LEN - 8..].copy_from_slice(&bits.to_be_bytes());
        Self {
            first,
            middle,
            last,
            has_two,
        }
    }

    fn last(&self) -> &[Block] {
        if self.has_two {
            &self.last
        } else {
            &self.last[1..]
        }
    }
}

/// The block of the outer hash.
fn outer_block(inner: &State) -> Block {
    let mut block = [0; BLOCK_LEN];
    block[..MAC_LEN].copy_from_slice(&to_bytes(inner));
    block[MAC_LEN] = 0x80;
    let bits = 8 * (BLOCK_LEN + MAC_LEN) as u64;
    block[BLOCK_LEN - 8..].copy_from_slice(&bits.to_be_bytes());
    block
}

fn to_bytes(state: &State) -> [u8; MAC_LEN] {
    let mut bytes = [0; MAC_LEN];
    for (bytes, word) in bytes.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// The HMACs of a few messages, side by side.
fn macs_of<const N: usize>(key: &Key, messages: &[Message<'_>; N]) -> [[u8; MAC_LEN]; N] {
    let blocks = messages.each_ref().map(Blocks::of);
    let mut inner = Zeroizing::new([key.inner; N]);
    together(
        &mut inner,
        blocks.each_ref().map(|blocks| blocks.first.as_slice()),
    );
    together(&mut inner, blocks.each_ref().map(|blocks| blocks.middle));
    together(&mut inner, blocks.each_ref().map(Blocks::last));
    let outer = inner.each_ref().map(outer_block);
    let mut macs = [key.outer; N];
    together(&mut macs, outer.each_ref().map(std::slice::from_ref));
    macs.each_ref().map(to_bytes)
}

/// What all have side by side, and what some have beyond one by one.
fn together<const N: usize>(states: &mut [State; N], streams: [&[Block]; N]) {
    let shared = streams.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    let done = match side_by_side(states, &streams.map(|blocks| &blocks[..shared])) {
        true => shared,
        false => 0,
    };
    for (state, blocks) in states.iter_mut().zip(streams) {
        compress(state, &blocks[done..]);
    }
}

/// Whether the processor could do it; otherwise nothing has changed.
fn side_by_side<const N: usize>(states: &mut [State; N], streams: &[&[Block]; N]) -> bool {
    #[cfg(target_arch = "x86_64")]
    return N > 1 && sha_ni::compress(states, streams);
    #[cfg(not(target_arch = "x86_64"))]
    return {
        let _ = (states, streams);
        false
    };
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use proptest::prelude::*;
    use sha1::Sha1;

    use super::*;

    fn expected(key: &[u8], message: &Message<'_>) -> [u8; MAC_LEN] {
        let mut mac = Hmac::<Sha1>::new_from_slice(key).expect("a key of any length");
        mac.update(message.head);
        mac.update(message.body);
        mac.finalize().into_bytes().into()
    }

    fn assert_same(key: &[u8], messages: &[Message<'_>]) {
        let expected: Vec<_> = messages.iter().map(|it| expected(key, it)).collect();
        let key = Key::new(key).expect("a short key");
        assert_eq!(macs(&key, messages), expected);
        // Also those of a processor that can do nothing side by side.
        let one_by_one = messages.iter().flat_map(|it| macs_of(&key, &[*it]));
        assert_eq!(one_by_one.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_macs_are_those_of_rfc_2202() {
        let cases: [(&[u8], &[u8], [u8; 4]); 3] = [
            (&[0x0b; 20], b"Hi There", [0xb6, 0x17, 0x31, 0x86]),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                [0xef, 0xfc, 0xdf, 0x6a],
            ),
            (&[0xaa; 20], &[0xdd; 50], [0x12, 0x5d, 0x73, 0x42]),
        ];
        for (key, message, begin) in cases {
            let message = Message {
                head: &message[..4],
                body: &message[4..],
            };
            assert_same(key, &[message; 9]);
            let key = Key::new(key).expect("a short key");
            assert_eq!(macs(&key, &[message])[0][..4], begin);
        }
    }

    #[test]
    fn each_length_around_the_ends_of_blocks_is_padded_right() {
        let bytes: Vec<u8> = (0..400_u32).map(|at| (at * 7 % 251) as u8).collect();
        for head in [0, 1, 13, MAX_HEAD_LEN] {
            for len in 0..260 {
                let message = Message {
                    head: &bytes[..head],
                    body: &bytes[head..head + len],
                };
                assert_same(&[7; 20], &[message; LANES]);
            }
        }
    }

    #[test]
    fn full_records_and_a_short_one_are_hashed_together() {
        let bytes: Vec<u8> = (0..(1_u32 << 14) + 20).map(|at| (at / 3) as u8).collect();
        let records: Vec<Message<'_>> = (0..20)
            .map(|at| Message {
                head: &bytes[at..at + 13],
                body: &bytes[at..][..if at == 19 { 99 } else { 1 << 14 }],
            })
            .collect();
        for count in 0..=records.len() {
            assert_same(&[9; 20], &records[..count]);
        }
    }

    #[test]
    fn a_long_key_is_refused_and_none_is_shown() {
        assert!(Key::new(&[0; MAX_KEY_LEN + 1]).is_none());
        let key = Key::new(&[0xab; MAX_KEY_LEN]).expect("a short key");
        assert_eq!(format!("{key:?}"), "Key");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_macs_are_those_of_one_message_after_the_other(
            key in proptest::collection::vec(any::<u8>(), 0..=MAX_KEY_LEN),
            messages in proptest::collection::vec(
                (
                    proptest::collection::vec(any::<u8>(), 0..=MAX_HEAD_LEN),
                    proptest::collection::vec(any::<u8>(), 0..700),
                ),
                0..20,
            ),
        ) {
            let messages: Vec<Message<'_>> = messages
                .iter()
                .map(|(head, body)| Message { head, body })
                .collect();
            assert_same(&key, &messages);
        }
    }
}
