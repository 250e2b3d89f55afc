//! AES in CBC mode under one key.
//!
//! Is: whole blocks in place, of several records side by side: within a record each block waits for
//! the one before, and a processor has several under way at a time. Is not: padding, MACs, the
//! choice of an IV.
//!
//! Invariant: constant time: `aes` uses the processor's instructions where it has them, and bit
//! slicing where not.
//!
//! Specifications: FIPS 197; SP 800-38A, section 6.2.

use std::cmp::Reverse;
use std::ops::Range;

use aes::cipher::consts::U16;
use aes::cipher::{
    Array, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockModeDecrypt,
    BlockSizeUser, InnerIvInit, KeyInit,
};
use aes::{Aes128, Aes256};

use crate::error::Misuse;

/// Length of a block of AES, and of an IV, in bytes.
pub(crate) const BLOCK_LEN: usize = 16;

/// Records that are encrypted side by side: as many as a batch of a volunteer's holds, and enough
/// to keep a processor busy.
const LANES: usize = 8;

/// Something to encrypt: whole blocks within some bytes, and the block before the first.
pub(crate) struct Lane {
    pub(crate) iv: [u8; BLOCK_LEN],
    pub(crate) range: Range<usize>,
}

/// A key schedule. Boxed: it is made once a connection and has some hundreds of bytes.
pub(crate) enum CbcKey {
    Aes128(Box<Aes128>),
    Aes256(Box<Aes256>),
}

impl CbcKey {
    /// A schedule for a key of `expected` bytes, 16 or 32.
    pub(crate) fn new(expected: usize, key: &[u8]) -> Result<Self, Misuse> {
        let wrong = Misuse::KeyLength {
            expected,
            found: key.len(),
        };
        if key.len() != expected {
            return Err(wrong);
        }
        if let Ok(key) = <&[u8; 16]>::try_from(key) {
            return Ok(Self::Aes128(Box::new(Aes128::new(key.into()))));
        }
        let key = <&[u8; 32]>::try_from(key).map_err(|_| wrong)?;
        Ok(Self::Aes256(Box::new(Aes256::new(key.into()))))
    }

    /// Encrypts all lanes in place, each by itself. What lies behind a lane's last whole block
    /// stays as it is.
    pub(crate) fn encrypt(&self, bytes: &mut [u8], lanes: &mut [Lane]) {
        for lanes in lanes.chunks_mut(LANES) {
            match self {
                Self::Aes128(key) => encrypt(key.as_ref(), bytes, lanes),
                Self::Aes256(key) => encrypt(key.as_ref(), bytes, lanes),
            }
        }
    }

    /// Decrypts in place. What lies behind the last whole block stays as it is.
    pub(crate) fn decrypt(&self, iv: &[u8; BLOCK_LEN], bytes: &mut [u8]) {
        let blocks = Array::cast_slice_from_core_mut(bytes.as_chunks_mut().0);
        match self {
            Self::Aes128(key) => {
                cbc::Decryptor::inner_iv_init(key.as_ref(), iv.into()).decrypt_blocks(blocks);
            }
            Self::Aes256(key) => {
                cbc::Decryptor::inner_iv_init(key.as_ref(), iv.into()).decrypt_blocks(blocks);
            }
        }
    }
}

/// Encrypts at most [`LANES`] lanes, a block of each at a time.
fn encrypt<C>(key: &C, bytes: &mut [u8], lanes: &mut [Lane])
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    // The longest first, so that those that still have blocks are always the first ones.
    lanes.sort_unstable_by_key(|lane| Reverse(lane.range.len()));
    let mut chains: Vec<Chain> = lanes
        .iter()
        .map(|lane| Chain {
            last: lane.iv.into(),
            next: lane.range.start,
        })
        .collect();
    let mut done = 0;
    for open in (1..=lanes.len()).rev() {
        // All of these have as many blocks as the shortest of them, or more.
        let count = lanes[open - 1].range.len() / BLOCK_LEN - done;
        let mut rest = &mut chains[..open];
        while !rest.is_empty() {
            rest = match rest.len() {
                8.. => abreast::<C, 8>(key, bytes, rest, count),
                4..8 => abreast::<C, 4>(key, bytes, rest, count),
                2..4 => abreast::<C, 2>(key, bytes, rest, count),
                _ => abreast::<C, 1>(key, bytes, rest, count),
            };
        }
        done += count;
    }
}

/// Where a lane is: the block before, and the offset of the next one.
struct Chain {
    last: Array<u8, U16>,
    next: usize,
}

/// Takes the first `N` chains on by so many blocks, and returns the others.
fn abreast<'a, C, const N: usize>(
    key: &C,
    bytes: &mut [u8],
    chains: &'a mut [Chain],
    count: usize,
) -> &'a mut [Chain]
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    match chains.split_first_chunk_mut::<N>() {
        Some((chains, rest)) => {
            key.encrypt_with_backend(Abreast {
                bytes,
                chains,
                count,
            });
            rest
        }
        None => &mut [],
    }
}

/// What runs within the cipher, with its round keys at hand. The number of chains is fixed, so that
/// they all are under way at once.
struct Abreast<'a, const N: usize> {
    bytes: &'a mut [u8],
    chains: &'a mut [Chain; N],
    count: usize,
}

impl<const N: usize> BlockSizeUser for Abreast<'_, N> {
    type BlockSize = U16;
}

impl<const N: usize> BlockCipherEncClosure for Abreast<'_, N> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Self {
            bytes,
            chains,
            count,
        } = self;
        for _ in 0..count {
            for chain in chains.iter_mut() {
                let plain = &bytes[chain.next..chain.next + BLOCK_LEN];
                for (own, byte) in chain.last.iter_mut().zip(plain) {
                    *own ^= byte;
                }
            }
            for chain in chains.iter_mut() {
                backend.encrypt_block((&mut chain.last).into());
            }
            for chain in chains.iter_mut() {
                bytes[chain.next..chain.next + BLOCK_LEN].copy_from_slice(&chain.last);
                chain.next += BLOCK_LEN;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP 800-38A, F.2.1: the key, the IV, and the first two blocks with what becomes of them.
    const KEY: [u8; 16] = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
    const IV: [u8; 16] = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f_u128.to_be_bytes();
    const PLAIN: [u128; 2] = [
        0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a,
        0xae2d_8a57_1e03_ac9c_9eb7_6fac_45af_8e51,
    ];
    const CIPHER: [u128; 2] = [
        0x7649_abac_8119_b246_cee9_8e9b_12e9_197d,
        0x5086_cb9b_5072_19ee_95db_113a_9176_78b2,
    ];

    fn bytes(blocks: &[u128]) -> Vec<u8> {
        blocks
            .iter()
            .flat_map(|block| block.to_be_bytes())
            .collect()
    }

    #[test]
    fn the_published_vector_comes_out_of_every_lane_whatever_the_others_hold() {
        let key = CbcKey::new(16, &KEY).expect("its length");
        for count in 0..=2 * LANES + 1 {
            // Lanes of no, one and two blocks, with bytes between that stay.
            let mut all = Vec::new();
            let mut lanes = Vec::new();
            for number in 0..count {
                let start = all.len();
                all.extend(bytes(&PLAIN[..number % 3]));
                let range = start..all.len();
                lanes.push(Lane { iv: IV, range });
                all.push(0xee);
            }
            key.encrypt(&mut all, &mut lanes);
            let expected: Vec<u8> = (0..count)
                .flat_map(|number| {
                    let mut lane = bytes(&CIPHER[..number % 3]);
                    lane.push(0xee);
                    lane
                })
                .collect();
            assert_eq!(all, expected, "{count} lanes");
        }
    }

    #[test]
    fn what_is_encrypted_is_decrypted() {
        let key = CbcKey::new(32, &[7; 32]).expect("its length");
        let mut all: Vec<u8> = (0..=255).cycle().take(16 * 40).collect();
        let plain = all.clone();
        let mut lanes = vec![
            Lane {
                iv: [1; 16],
                range: 0..16 * 3,
            },
            Lane {
                iv: [2; 16],
                range: 16 * 3..16 * 40,
            },
        ];
        key.encrypt(&mut all, &mut lanes);
        key.decrypt(&[1; 16], &mut all[..16 * 3]);
        key.decrypt(&[2; 16], &mut all[16 * 3..]);
        assert_eq!(all, plain);
    }
}
