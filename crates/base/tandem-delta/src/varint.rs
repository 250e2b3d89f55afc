//! Variable-length integers of a delta and its frame (LEB128, at most five bytes, values below
//! 2^32).
//!
//! Is not: a general codec; both sides are ours, so the shortest form is the only form.
//!
//! Invariant: each value has exactly one encoding; a longer one is refused, so that equal deltas
//! are equal bytes.

/// Appends `value`, seven bits a byte, least significant first.
pub fn write(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Takes one value off the front of `input`; `None` where it is cut, too long or not the shortest
/// form.
pub fn read(input: &mut &[u8]) -> Option<u32> {
    let mut value: u64 = 0;
    for (index, byte) in input.iter().copied().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let shortest = index == 0 || byte != 0;
            *input = &input[index + 1..];
            return u32::try_from(value).ok().filter(|_| shortest);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_round_trip_in_the_expected_size() {
        for (value, size) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (u32::MAX, 5),
        ] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out.len(), size, "{value}");
            let mut input = out.as_slice();
            assert_eq!(read(&mut input), Some(value));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn long_forms_overflow_and_cuts_are_refused() {
        for bad in [
            &[0x80, 0x00][..],
            &[0xff; 5],
            &[0xff, 0xff, 0xff, 0xff, 0x1f],
            &[0x80],
            &[],
        ] {
            assert_eq!(read(&mut &bad[..]), None, "{bad:x?}");
        }
    }
}
