//! Bytes for the tests of this crate.
//!
//! Is not: part of the crate that others see.

/// Bytes that look random and are the same each time.
pub(crate) fn noise(length: usize, seed: u8) -> Vec<u8> {
    let mut state = u32::from(seed) | 0x9e37_7900;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}
