//! Powers modulo an odd number, which is what finite-field Diffie-Hellman and RSA's public key are
//! made of.
//!
//! Is not: arithmetic, which is `crypto-bigint`'s. Invariant: bounds are checked before anything is
//! computed, so that a hostile modulus costs at most what one of [`MAX_BITS`] costs.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::Zeroizing;

/// Longest modulus, in bits.
pub(crate) const MAX_BITS: usize = 8192;

/// Without leading zeros.
pub(crate) fn trimmed(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// How many bits a number has.
pub(crate) fn bits(number: &[u8]) -> usize {
    let number = trimmed(number);
    let first = number.first().map_or(0, |first| first.leading_zeros());
    (number.len() * 8).saturating_sub(usize::try_from(first).unwrap_or(0))
}

/// Whether one number is smaller than another.
pub(crate) fn is_below(left: &[u8], right: &[u8]) -> bool {
    let (left, right) = (trimmed(left), trimmed(right));
    (left.len(), left) < (right.len(), right)
}

/// `base^exponent mod modulus`, as long as the modulus. `None`: an even modulus, one that is too
/// long, or a base or exponent that is not below it.
pub(crate) fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let modulus = trimmed(modulus);
    let is_bounded = bits(modulus) <= MAX_BITS && modulus.last().is_some_and(|last| last % 2 == 1);
    if !is_bounded || !is_below(base, modulus) || !is_below(exponent, modulus) {
        return None;
    }
    let precision = u32::try_from(modulus.len() * 8).ok()?;
    let number = |bytes: &[u8]| BoxedUint::from_be_slice(trimmed(bytes), precision).ok();
    let odd: Option<Odd<BoxedUint>> = Odd::new(number(modulus)?).into_option();
    let params = BoxedMontyParams::new(odd?);
    let exponent = Zeroizing::new(number(exponent)?);
    let result = BoxedMontyForm::new(number(base)?, &params).pow(&exponent);
    let result = Zeroizing::new(result.retrieve().to_be_bytes());
    let mut out = Zeroizing::new(vec![0; modulus.len()]);
    let short = trimmed(&result);
    let at = out.len().checked_sub(short.len())?;
    out[at..].copy_from_slice(short);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_right_and_what_is_out_of_bounds_is_refused() {
        // 3^5 mod 1009 = 243; 1008^2 mod 1009 = 1.
        let modulus = 1009_u16.to_be_bytes();
        assert_eq!(power(&[3], &[5], &modulus).as_deref(), Some(&vec![0, 243]));
        let last = 1008_u16.to_be_bytes();
        assert_eq!(power(&last, &[2], &modulus).as_deref(), Some(&vec![0, 1]));
        assert_eq!(power(&modulus, &[2], &modulus), None);
        assert_eq!(power(&[3], &[5], &last), None);
        assert_eq!(power(&[3], &[5], &[]), None);
        assert_eq!(power(&[3], &[5], &[0xff; MAX_BITS / 8 + 1]), None);
    }

    #[test]
    fn numbers_are_compared_without_their_leading_zeros() {
        assert!(is_below(&[0, 0, 3], &[4]) && !is_below(&[1, 0], &[0, 255]));
        assert_eq!([bits(&[0, 1]), bits(&[128, 0]), bits(&[])], [1, 16, 0]);
    }
}
