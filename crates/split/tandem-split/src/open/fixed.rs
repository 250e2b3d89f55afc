//! HMAC over a message whose length is secret, in a number of compressions that is not.
//!
//! ```text
//!  blocks:   | header and bytes that belong to every possible message | 0x80, zeros and length: in one of these blocks |
//!            |<------------------ as they stand -------------------->|<------ built by masks, all compressed ------->|
//! ```
//!
//! The blocks that may hold the message's end are built with masks for every byte, all of them are
//! compressed, and the state behind the right one is picked with a mask. Is: the inner hash so, the
//! outer as usual (its input has a fixed length). Is not: a hash function: the compressions are
//! those of `sha1` and `sha2`.
//!
//! Invariant: which compressions run, and over which addresses, depends on lengths that everybody
//! sees.
//!
//! Specifications: RFC 2104; FIPS 180-4, section 5.1; RFC 5246, section 6.2.3.2 (the implementation
//! note on timing).

use subtle::{ConditionallySelectable, ConstantTimeEq, ConstantTimeLess};
use zeroize::Zeroize;

use crate::seal::{MAX_MAC_LEN, Mac};

/// Most padding with its length byte: the message may be this much shorter than the longest.
const MAX_PADDING: usize = 256;

/// The longest block of any hash here, in bytes.
const MAX_BLOCK_LEN: usize = 128;

/// A hash function by its compressions.
pub(super) trait Blocks {
    /// The chaining value.
    type State: Clone + Zeroize;
    /// Length of a block in bytes, a power of two.
    const BLOCK_LEN: usize;
    /// Length of a digest in bytes.
    const DIGEST_LEN: usize;
    /// Length of the length field in bytes.
    const LENGTH_LEN: usize;
    /// The chaining value before the first block.
    const START: Self::State;

    /// Compresses blocks, whole ones.
    fn compress(state: &mut Self::State, blocks: &[u8]);

    /// The digest after the last block.
    fn digest(state: &Self::State) -> [u8; MAX_MAC_LEN];
}

/// A key, as the states behind its two blocks.
pub(super) struct FixedHmac<B: Blocks> {
    inner: B::State,
    outer: B::State,
}

impl<B: Blocks> FixedHmac<B> {
    /// `key` is no longer than a block; those of TLS are as long as a digest.
    pub(super) fn new(key: &[u8]) -> Self {
        let behind = |mask: u8| {
            let mut block = [mask; MAX_BLOCK_LEN];
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
            let mut state = B::START;
            B::compress(&mut state, &block[..B::BLOCK_LEN]);
            block.zeroize();
            state
        };
        Self {
            inner: behind(0x36),
            outer: behind(0x5c),
        }
    }

    /// The HMAC of the header and the first `len` bytes, which are at most [`MAX_PADDING`] fewer
    /// than all. `len` is secret.
    pub(super) fn mac(&self, header: &[u8; 13], bytes: &[u8], len: usize) -> Mac {
        let (digest, _) = self.inner(header, bytes, len);
        let mut block = [0; MAX_BLOCK_LEN];
        block[..B::DIGEST_LEN].copy_from_slice(&digest[..B::DIGEST_LEN]);
        block[B::DIGEST_LEN] = 0x80;
        let bits = ((B::BLOCK_LEN + B::DIGEST_LEN) as u64 * 8).to_be_bytes();
        block[B::BLOCK_LEN - 8..B::BLOCK_LEN].copy_from_slice(&bits);
        let mut state = self.outer.clone();
        B::compress(&mut state, &block[..B::BLOCK_LEN]);
        Mac::new(&B::digest(&state)[..B::DIGEST_LEN])
    }

    /// The inner digest, and the state behind the last compression.
    fn inner(&self, header: &[u8; 13], bytes: &[u8], len: usize) -> ([u8; MAX_MAC_LEN], B::State) {
        // Everything in this function is computed from these two, `header`'s last bytes and
        // `bytes`; only they are secret.
        let end = narrow(header.len() + len);
        let bits = (u64::from(end) + B::BLOCK_LEN as u64) * 8;
        let last_block = (end + narrow(B::LENGTH_LEN)) >> B::BLOCK_LEN.trailing_zeros();

        let longest = header.len() + bytes.len();
        let shortest = header.len() + bytes.len().saturating_sub(MAX_PADDING);
        let blocks = (longest + B::LENGTH_LEN) / B::BLOCK_LEN + 1;
        let plain_blocks = shortest / B::BLOCK_LEN;

        let mut state = self.inner.clone();
        let plain = if plain_blocks == 0 {
            0
        } else {
            let mut first = [0; MAX_BLOCK_LEN];
            let head = B::BLOCK_LEN - header.len();
            first[..header.len()].copy_from_slice(header);
            first[header.len()..B::BLOCK_LEN].copy_from_slice(&bytes[..head]);
            B::compress(&mut state, &first[..B::BLOCK_LEN]);
            let plain = plain_blocks * B::BLOCK_LEN;
            B::compress(&mut state, &bytes[head..plain - header.len()]);
            plain
        };
        let mut digest = [0; MAX_MAC_LEN];
        let message = header.iter().chain(bytes).chain(std::iter::repeat(&0));
        let mut message = message.skip(plain);
        for number in plain_blocks..blocks {
            let is_last = narrow(number).ct_eq(&last_block);
            let mut block = [0; MAX_BLOCK_LEN];
            let start = number * B::BLOCK_LEN;
            for (at, (built, byte)) in block[..B::BLOCK_LEN]
                .iter_mut()
                .zip(&mut message)
                .enumerate()
            {
                let index = narrow(start + at);
                *built = u8::conditional_select(&0, byte, index.ct_lt(&end));
                *built |= u8::conditional_select(&0, &0x80, index.ct_eq(&end));
            }
            for (built, byte) in block[B::BLOCK_LEN - 8..B::BLOCK_LEN]
                .iter_mut()
                .zip(bits.to_be_bytes())
            {
                *built |= u8::conditional_select(&0, &byte, is_last);
            }
            B::compress(&mut state, &block[..B::BLOCK_LEN]);
            for (picked, byte) in digest.iter_mut().zip(B::digest(&state)) {
                *picked |= u8::conditional_select(&0, &byte, is_last);
            }
        }
        (digest, state)
    }
}

impl<B: Blocks> Drop for FixedHmac<B> {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

/// SHA-1.
pub(super) struct Sha1Blocks;

impl Blocks for Sha1Blocks {
    type State = [u32; 5];
    const BLOCK_LEN: usize = 64;
    const DIGEST_LEN: usize = 20;
    const LENGTH_LEN: usize = 8;
    /// FIPS 180-4, section 5.3.1.
    const START: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];

    fn compress(state: &mut [u32; 5], blocks: &[u8]) {
        sha1::block_api::compress(state, blocks.as_chunks().0);
    }

    fn digest(state: &[u32; 5]) -> [u8; MAX_MAC_LEN] {
        words(state.iter().map(|word| word.to_be_bytes()))
    }
}

/// SHA-256.
pub(super) struct Sha256Blocks;

impl Blocks for Sha256Blocks {
    type State = [u32; 8];
    const BLOCK_LEN: usize = 64;
    const DIGEST_LEN: usize = 32;
    const LENGTH_LEN: usize = 8;
    /// FIPS 180-4, section 5.3.3.
    const START: [u32; 8] = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];

    fn compress(state: &mut [u32; 8], blocks: &[u8]) {
        sha2::block_api::compress256(state, blocks.as_chunks().0);
    }

    fn digest(state: &[u32; 8]) -> [u8; MAX_MAC_LEN] {
        words(state.iter().map(|word| word.to_be_bytes()))
    }
}

/// SHA-384.
pub(super) struct Sha384Blocks;

impl Blocks for Sha384Blocks {
    type State = [u64; 8];
    const BLOCK_LEN: usize = 128;
    const DIGEST_LEN: usize = 48;
    const LENGTH_LEN: usize = 16;
    /// FIPS 180-4, section 5.3.4.
    const START: [u64; 8] = [
        0xcbbb_9d5d_c105_9ed8,
        0x629a_292a_367c_d507,
        0x9159_015a_3070_dd17,
        0x152f_ecd8_f70e_5939,
        0x6733_2667_ffc0_0b31,
        0x8eb4_4a87_6858_1511,
        0xdb0c_2e0d_64f9_8fa7,
        0x47b5_481d_befa_4fa4,
    ];

    fn compress(state: &mut [u64; 8], blocks: &[u8]) {
        sha2::block_api::compress512(state, blocks.as_chunks().0);
    }

    fn digest(state: &[u64; 8]) -> [u8; MAX_MAC_LEN] {
        words(state.iter().map(|word| word.to_be_bytes()))
    }
}

/// A length or a place in a record, which may be secret: the conversion takes no branch.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a record has at most 2^16 bytes, and a check would ask after a secret"
)]
pub(super) const fn narrow(number: usize) -> u32 {
    number as u32
}

/// The words' bytes in order, as many as a MAC has at most.
fn words<const N: usize>(words: impl Iterator<Item = [u8; N]>) -> [u8; MAX_MAC_LEN] {
    let mut bytes = [0; MAX_MAC_LEN];
    for (byte, word) in bytes.iter_mut().zip(words.flatten()) {
        *byte = word;
    }
    bytes
}

#[cfg(test)]
mod tests;
