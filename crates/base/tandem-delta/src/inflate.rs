//! Compressed literals: DEFLATE (RFC 1951) against a dictionary that both sides have.
//!
//! Is: raw DEFLATE, whose window is filled with the dictionary beforehand. Is not: the choice of
//! the dictionary. Why DEFLATE: `docs/adr/0013-compressed-literals.md`.
//!
//! Invariants: what is decompressed has exactly the declared length, and is written into a buffer
//! of that length, so a bomb is refused at its first byte too many; all of the input is used; work
//! is linear in dictionary and length, and both are bounded.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// How far DEFLATE looks back. Of a longer dictionary the end counts.
const WINDOW: usize = 1 << 15;

/// The most thorough of the ordinary levels: a flight is short and waits for the slow link anyway.
const LEVEL: u8 = 9;

/// While the dictionary is read. Each of its places can be referred to afterwards at any level; how
/// well it would be compressed itself does not matter, and costs four times as much at [`LEVEL`].
const FEEDING_LEVEL: u8 = 2;

/// Raw: the delta's own check covers the result.
const RAW: i32 = -15;

/// `bytes`, compressed; `None` where that is not shorter.
pub(crate) fn deflate(dictionary: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let mut compressor = CompressorOxide::new(create_comp_flags_from_zip_params(
        FEEDING_LEVEL.into(),
        RAW,
        0,
    ));
    // Compressed to nowhere, up to a byte's boundary: what follows may refer to it.
    let dictionary = tail(dictionary);
    let mut nowhere = vec![0; dictionary.len() + dictionary.len() / 8 + 64];
    let (status, read, _) = compress(&mut compressor, dictionary, &mut nowhere, TDEFLFlush::Sync);
    if status != TDEFLStatus::Okay || read != dictionary.len() {
        return None;
    }
    compressor.set_compression_level_raw(LEVEL);
    let mut out = vec![0; bytes.len()];
    let (status, _, written) = compress(&mut compressor, bytes, &mut out, TDEFLFlush::Finish);
    out.truncate(written);
    (status == TDEFLStatus::Done && written < bytes.len()).then_some(out)
}

/// What [`deflate`] compressed, if it is `length` bytes, and all of `input`.
pub(crate) fn inflate(dictionary: &[u8], input: &[u8], length: usize) -> Option<Vec<u8>> {
    let dictionary = tail(dictionary);
    let mut out = dictionary.to_vec();
    out.resize(dictionary.len() + length, 0);
    let (status, read, written) = decompress(
        &mut DecompressorOxide::new(),
        input,
        &mut out,
        dictionary.len(),
        TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
    );
    let is_all = status == TINFLStatus::Done && read == input.len() && written == length;
    is_all.then(|| out.split_off(dictionary.len()))
}

/// What counts of a dictionary.
pub(crate) fn tail(dictionary: &[u8]) -> &[u8] {
    &dictionary[dictionary.len().saturating_sub(WINDOW)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::noise;
    use proptest::prelude::*;

    #[test]
    fn what_is_like_the_dictionary_becomes_short_and_comes_back() {
        let dictionary = noise(5_000, 1);
        let bytes = [&dictionary[1_000..1_400], b"new", &dictionary[3_000..3_300]].concat();
        let short = deflate(&dictionary, &bytes).expect("shorter");
        assert!(short.len() < 60, "{}", short.len());
        assert_eq!(inflate(&dictionary, &short, bytes.len()), Some(bytes));
    }

    #[test]
    fn of_a_long_dictionary_the_end_counts() {
        let dictionary = noise(3 * WINDOW, 1);
        let bytes = [&dictionary[..500], &dictionary[2 * WINDOW + 9_000..][..500]].concat();
        let short = deflate(&dictionary, &bytes).expect("shorter");
        assert!((500..700).contains(&short.len()), "{}", short.len());
        assert_eq!(inflate(&dictionary, &short, bytes.len()), Some(bytes));
    }

    #[test]
    fn only_the_dictionary_is_read_at_a_low_level() {
        // Each piece is in the dictionary once, and its beginning many times after it: a search
        // that gives up soon finds no more than that.
        let mut dictionary = noise(480, 1);
        let mut pieces: Vec<Vec<u8>> = dictionary.chunks(60).map(<[u8]>::to_vec).collect();
        for piece in &pieces {
            for other in 0..40 {
                dictionary.extend_from_slice(&piece[..6]);
                dictionary.push(other);
            }
        }
        pieces.reverse();
        let bytes = pieces.concat();
        let short = deflate(&dictionary, &bytes).expect("shorter");
        assert!(short.len() < 40, "{}", short.len());
        assert_eq!(inflate(&dictionary, &short, bytes.len()), Some(bytes));
    }

    #[test]
    fn noise_is_not_made_longer() {
        assert_eq!(deflate(&[], &noise(400, 1)), None);
        assert_eq!(deflate(b"dictionary", b""), None);
        // Each length comes out shorter, just as long and longer, by the share of zeros.
        for (noisy, zeros) in (0..40).flat_map(|noisy| (0..12).map(move |zeros| (noisy, zeros))) {
            let bytes = [noise(noisy, 1), vec![0; zeros]].concat();
            let short = deflate(&[], &bytes);
            assert!(
                short.is_none_or(|short| short.len() < bytes.len()),
                "{noisy} {zeros}"
            );
        }
    }

    #[test]
    fn another_length_a_cut_and_a_trailer_are_refused() {
        let bytes = vec![7; 60_000];
        let bomb = deflate(&[], &bytes).expect("shorter");
        assert!(bomb.len() < 200);
        for length in [0, 1, 59_999, 60_001] {
            assert_eq!(inflate(&[], &bomb, length), None, "{length}");
        }
        assert_eq!(inflate(&[], &bomb[..bomb.len() - 1], 60_000), None);
        let longer = [&bomb[..], &[0]].concat();
        assert_eq!(inflate(&[], &longer, 60_000), None);
        assert_eq!(inflate(&[], &bomb, 60_000), Some(bytes));
    }

    #[test]
    fn a_reach_before_the_dictionary_is_refused() {
        let dictionary = noise(300, 1);
        let bytes = [&dictionary[..200], &dictionary[..200]].concat();
        let short = deflate(&dictionary, &bytes).expect("shorter");
        assert_eq!(inflate(&dictionary[100..], &short, bytes.len()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(
            dictionary in proptest::collection::vec(0u8..4, 0..2_000),
            bytes in proptest::collection::vec(0u8..4, 0..2_000),
        ) {
            if let Some(short) = deflate(&dictionary, &bytes) {
                prop_assert!(short.len() < bytes.len());
                prop_assert_eq!(inflate(&dictionary, &short, bytes.len()), Some(bytes));
            }
        }

        #[test]
        fn any_input_is_refused_or_has_its_length(
            input in proptest::collection::vec(any::<u8>(), 0..300),
            length in 0usize..5_000,
        ) {
            if let Some(bytes) = inflate(&[7; 100], &input, length) {
                prop_assert_eq!(bytes.len(), length);
            }
        }
    }
}
