//! The three hash functions of the suites, at the level of single blocks.
//!
//! Is not: a way to hash a message. The record opener needs to compute HMAC over a message whose length is secret, block by block,
//! which no ordinary interface offers.
//!
//! FIPS 180-4; RFC 2104.

/// The most bytes a digest of ours has: SHA-384.
pub(super) const MAX_DIGEST: usize = 48;
/// The most bytes a block of ours has: SHA-384.
pub(super) const MAX_BLOCK: usize = 128;

/// A suite's hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digest {
    Sha1,
    Sha256,
    Sha384,
}

/// The chaining value between two blocks. SHA-1 and SHA-256 use the lower half of each word, SHA-1 the first five words.
#[derive(Clone, Copy)]
pub(super) struct Chain(pub(super) [u64; 8]);

impl Digest {
    /// Bytes of its output.
    pub(super) const fn output_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }

    /// A block has 1 << this many bytes.
    pub(super) const fn block_shift(self) -> u32 {
        match self {
            Self::Sha1 | Self::Sha256 => 6,
            Self::Sha384 => 7,
        }
    }

    /// Bytes of a block.
    pub(super) const fn block_len(self) -> usize {
        1 << self.block_shift()
    }

    /// Bytes of the length at the end of the last block.
    pub(super) const fn length_len(self) -> usize {
        match self {
            Self::Sha1 | Self::Sha256 => 8,
            Self::Sha384 => 16,
        }
    }

    /// The initial value (FIPS 180-4, 5.3).
    pub(super) const fn initial(self) -> Chain {
        Chain(match self {
            Self::Sha1 => [
                0x6745_2301,
                0xefcd_ab89,
                0x98ba_dcfe,
                0x1032_5476,
                0xc3d2_e1f0,
                0,
                0,
                0,
            ],
            Self::Sha256 => [
                0x6a09_e667,
                0xbb67_ae85,
                0x3c6e_f372,
                0xa54f_f53a,
                0x510e_527f,
                0x9b05_688c,
                0x1f83_d9ab,
                0x5be0_cd19,
            ],
            Self::Sha384 => [
                0xcbbb_9d5d_c105_9ed8,
                0x629a_292a_367c_d507,
                0x9159_015a_3070_dd17,
                0x152f_ecd8_f70e_5939,
                0x6733_2667_ffc0_0b31,
                0x8eb4_4a87_6858_1511,
                0xdb0c_2e0d_64f9_8fa7,
                0x47b5_481d_befa_4fa4,
            ],
        })
    }

    /// Takes in one block, which has [`Digest::block_len`] bytes; what is beyond is not read.
    pub(super) fn compress(self, chain: &mut Chain, block: &[u8; MAX_BLOCK]) {
        #[cfg(test)]
        COMPRESSED.with(|count| count.set(count.get() + 1));
        match self {
            Self::Sha1 => {
                let mut words: [u32; 5] = std::array::from_fn(|word| low(chain.0[word]));
                sha1::block_api::compress(&mut words, &[half(block)]);
                for (to, from) in chain.0.iter_mut().zip(words) {
                    *to = u64::from(from);
                }
            }
            Self::Sha256 => {
                let mut words: [u32; 8] = std::array::from_fn(|word| low(chain.0[word]));
                sha2::block_api::compress256(&mut words, &[half(block)]);
                chain.0 = words.map(u64::from);
            }
            Self::Sha384 => sha2::block_api::compress512(&mut chain.0, &[*block]),
        }
    }

    /// The digest that a chaining value stands for, in the first [`Digest::output_len`] bytes.
    pub(super) fn output(self, chain: &Chain) -> [u8; MAX_DIGEST] {
        let mut out = [0; MAX_DIGEST];
        match self {
            Self::Sha1 | Self::Sha256 => {
                for (to, from) in out.chunks_exact_mut(4).zip(chain.0) {
                    to.copy_from_slice(&low(from).to_be_bytes());
                }
            }
            Self::Sha384 => {
                for (to, from) in out.chunks_exact_mut(8).zip(chain.0) {
                    to.copy_from_slice(&from.to_be_bytes());
                }
            }
        }
        out
    }
}

#[cfg(test)]
thread_local! {
    /// Blocks that this thread has compressed: work, as a test can see it.
    pub(super) static COMPRESSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The lower half: all of a word of the 32-bit functions.
fn low(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

fn half(block: &[u8; MAX_BLOCK]) -> [u8; 64] {
    std::array::from_fn(|index| block[index])
}
