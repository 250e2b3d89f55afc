//! SHA-1's compression of several streams of blocks with the processor's SHA instructions.
//!
//! An instruction of a stream waits for the one before, six cycles for four rounds, and the
//! processor has nothing else to do meanwhile. With the instructions of other streams in between,
//! it has.
//!
//! Is not: a choice. The caller gives streams, and hears whether the processor could do it.
//!
//! Invariant: no such instruction runs on a processor without it.
//!
//! Specification: FIPS 180-4, section 6.1.2.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_extract_epi32, _mm_loadu_si128, _mm_set_epi32, _mm_set_epi64x,
    _mm_setzero_si128, _mm_sha1msg1_epu32, _mm_sha1msg2_epu32, _mm_sha1nexte_epu32,
    _mm_sha1rnds4_epu32, _mm_shuffle_epi8, _mm_xor_si128,
};

use super::{Block, State};

/// Whether the processor has them. Asked once; later calls read a flag.
pub(super) fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("sha")
        && std::arch::is_x86_feature_detected!("ssse3")
        && std::arch::is_x86_feature_detected!("sse4.1")
}

/// Takes the blocks into the states, each stream into its own. All streams have the length of the
/// shortest. Says whether it was done; otherwise nothing has changed.
pub(super) fn compress<const N: usize>(states: &mut [State; N], streams: &[&[Block]; N]) -> bool {
    if !is_there() {
        return false;
    }
    // SAFETY: the processor has the instructions that the function asks for.
    unsafe { compress_all(states, streams) };
    true
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
#[allow(
    clippy::needless_range_loop,
    reason = "a lane's number leads to several arrays, a block's to several streams"
)]
fn compress_all<const N: usize>(states: &mut [State; N], streams: &[&[Block]; N]) {
    let count = streams.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    let zero = _mm_setzero_si128();
    // The instructions want the first word in the highest place.
    let (mut abcd, mut e) = ([zero; N], [zero; N]);
    for lane in 0..N {
        let [a, b, c, d, last] = states[lane].map(u32::cast_signed);
        abcd[lane] = _mm_set_epi32(a, b, c, d);
        e[lane] = _mm_set_epi32(last, 0, 0, 0);
    }
    for at in 0..count {
        let (mut x, mut y) = (abcd, e);
        // Four words each; the last five are kept.
        let mut words = [[zero; 5]; N];
        for lane in 0..N {
            words[lane][..4].copy_from_slice(&words_of(&streams[lane][at]));
            y[lane] = _mm_add_epi32(e[lane], words[lane][0]);
            y[lane] = _mm_sha1rnds4_epu32::<0>(x[lane], y[lane]);
        }
        // Four rounds of every stream, one group after the other.
        macro_rules! groups {
            ($function:literal: $($from:ident $to:ident $group:literal),*) => {$(
                for lane in 0..N {
                    let words = &mut words[lane];
                    if $group >= 4 {
                        let [one, two] = [words[($group + 1) % 5], words[($group + 2) % 5]];
                        let mixed = _mm_xor_si128(
                            _mm_sha1msg1_epu32(one, two),
                            words[($group + 3) % 5],
                        );
                        words[$group % 5] = _mm_sha1msg2_epu32(mixed, words[($group + 4) % 5]);
                    }
                    let with_words = _mm_sha1nexte_epu32($to[lane], words[$group % 5]);
                    $to[lane] = _mm_sha1rnds4_epu32::<$function>($from[lane], with_words);
                }
            )*};
        }
        groups!(0: y x 1, x y 2, y x 3, x y 4);
        groups!(1: y x 5, x y 6, y x 7, x y 8, y x 9);
        groups!(2: x y 10, y x 11, x y 12, y x 13, x y 14);
        groups!(3: y x 15, x y 16, y x 17, x y 18, y x 19);
        for lane in 0..N {
            abcd[lane] = _mm_add_epi32(abcd[lane], x[lane]);
            e[lane] = _mm_sha1nexte_epu32(y[lane], e[lane]);
        }
    }
    for lane in 0..N {
        let first = abcd[lane];
        states[lane] = [
            _mm_extract_epi32::<3>(first),
            _mm_extract_epi32::<2>(first),
            _mm_extract_epi32::<1>(first),
            _mm_extract_epi32::<0>(first),
            _mm_extract_epi32::<3>(e[lane]),
        ]
        .map(i32::cast_unsigned);
    }
}

/// The sixteen words of a block, big-endian, the first in the highest place.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
fn words_of(block: &Block) -> [__m128i; 4] {
    let turned = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let (quarters, _) = block.as_chunks::<16>();
    let mut words = [_mm_setzero_si128(); 4];
    for (words, quarter) in words.iter_mut().zip(quarters) {
        // SAFETY: there are the 16 bytes that are read, and the load needs no alignment.
        let loaded = unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) };
        *words = _mm_shuffle_epi8(loaded, turned);
    }
    words
}
