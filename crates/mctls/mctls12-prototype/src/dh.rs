//! Finite-field Diffie-Hellman (RFC 5246, section 8.1.2), as suite 0x0067 has it.
//!
//! Invariants: a peer's group and value are used within bounds only: 1024 to 4096 bits, an odd
//! modulus, and nothing that is 0, 1 or -1. That the modulus is prime nobody checks, as in TLS.

use zeroize::Zeroizing;

use crate::entropy::{Entropy, Use};
use crate::error::Malformed;
use crate::modular::{bits, is_below, power, trimmed};
use crate::read::{Reader, put_vec};

/// Group 14 of RFC 3526, section 3: 2048 bits. Its generator is 2.
#[rustfmt::skip]
const PRIME: [u8; 256] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc9, 0x0f, 0xda, 0xa2, 0x21, 0x68, 0xc2, 0x34,
    0xc4, 0xc6, 0x62, 0x8b, 0x80, 0xdc, 0x1c, 0xd1, 0x29, 0x02, 0x4e, 0x08, 0x8a, 0x67, 0xcc, 0x74,
    0x02, 0x0b, 0xbe, 0xa6, 0x3b, 0x13, 0x9b, 0x22, 0x51, 0x4a, 0x08, 0x79, 0x8e, 0x34, 0x04, 0xdd,
    0xef, 0x95, 0x19, 0xb3, 0xcd, 0x3a, 0x43, 0x1b, 0x30, 0x2b, 0x0a, 0x6d, 0xf2, 0x5f, 0x14, 0x37,
    0x4f, 0xe1, 0x35, 0x6d, 0x6d, 0x51, 0xc2, 0x45, 0xe4, 0x85, 0xb5, 0x76, 0x62, 0x5e, 0x7e, 0xc6,
    0xf4, 0x4c, 0x42, 0xe9, 0xa6, 0x37, 0xed, 0x6b, 0x0b, 0xff, 0x5c, 0xb6, 0xf4, 0x06, 0xb7, 0xed,
    0xee, 0x38, 0x6b, 0xfb, 0x5a, 0x89, 0x9f, 0xa5, 0xae, 0x9f, 0x24, 0x11, 0x7c, 0x4b, 0x1f, 0xe6,
    0x49, 0x28, 0x66, 0x51, 0xec, 0xe4, 0x5b, 0x3d, 0xc2, 0x00, 0x7c, 0xb8, 0xa1, 0x63, 0xbf, 0x05,
    0x98, 0xda, 0x48, 0x36, 0x1c, 0x55, 0xd3, 0x9a, 0x69, 0x16, 0x3f, 0xa8, 0xfd, 0x24, 0xcf, 0x5f,
    0x83, 0x65, 0x5d, 0x23, 0xdc, 0xa3, 0xad, 0x96, 0x1c, 0x62, 0xf3, 0x56, 0x20, 0x85, 0x52, 0xbb,
    0x9e, 0xd5, 0x29, 0x07, 0x70, 0x96, 0x96, 0x6d, 0x67, 0x0c, 0x35, 0x4e, 0x4a, 0xbc, 0x98, 0x04,
    0xf1, 0x74, 0x6c, 0x08, 0xca, 0x18, 0x21, 0x7c, 0x32, 0x90, 0x5e, 0x46, 0x2e, 0x36, 0xce, 0x3b,
    0xe3, 0x9e, 0x77, 0x2c, 0x18, 0x0e, 0x86, 0x03, 0x9b, 0x27, 0x83, 0xa2, 0xec, 0x07, 0xa2, 0x8f,
    0xb5, 0xc5, 0x5d, 0xf0, 0x6f, 0x4c, 0x52, 0xc9, 0xde, 0x2b, 0xcb, 0xf6, 0x95, 0x58, 0x17, 0x18,
    0x39, 0x95, 0x49, 0x7c, 0xea, 0x95, 0x6a, 0xe5, 0x15, 0xd2, 0x26, 0x18, 0x98, 0xfa, 0x05, 0x10,
    0x15, 0x72, 0x8e, 0x5a, 0x8a, 0xac, 0xaa, 0x68, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
];

const GENERATOR: [u8; 1] = [2];

/// Bits of a peer's modulus.
const BITS: std::ops::RangeInclusive<usize> = 1024..=4096;

/// Length of an exponent in bytes: RFC 7919, section 5.2, wants 225 bits for this group.
const EXPONENT_LEN: usize = 32;

/// A group, and somebody's public value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    prime: Vec<u8>,
    generator: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// A secret exponent.
pub(crate) struct Exponent(Zeroizing<Vec<u8>>);

impl Exponent {
    pub(crate) fn new(entropy: &Entropy) -> Self {
        Self(entropy.bytes(Use::Exponent, EXPONENT_LEN))
    }

    /// Its public value in this crate's own group.
    pub(crate) fn params(&self) -> Params {
        let value = power(&GENERATOR, &self.0, &PRIME).expect("a group that is in bounds");
        Params {
            prime: PRIME.to_vec(),
            generator: GENERATOR.to_vec(),
            value: value.to_vec(),
        }
    }

    /// Its public value in another's group.
    pub(crate) fn value(&self, group: &Params) -> Result<Vec<u8>, Malformed> {
        let value = power(&group.generator, &self.0, &group.prime);
        value.map(|value| value.to_vec()).ok_or(Malformed::Group)
    }

    /// The premaster secret: leading zeros are cut off (RFC 5246, section 8.1.2).
    pub(crate) fn premaster(
        &self,
        group: &Params,
        value: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Malformed> {
        group.check(value)?;
        let shared = power(value, &self.0, &group.prime).ok_or(Malformed::Group)?;
        Ok(Zeroizing::new(trimmed(&shared).to_vec()))
    }
}

impl Params {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for number in [&self.prime, &self.generator, &self.value] {
            put_vec(out, 2, number);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let params = Self {
            prime: reader.vec(2)?.to_vec(),
            generator: reader.vec(2)?.to_vec(),
            value: reader.vec(2)?.to_vec(),
        };
        let is_odd = params.prime.last().is_some_and(|last| last % 2 == 1);
        if !is_odd || !BITS.contains(&bits(&params.prime)) {
            return Err(Malformed::Group);
        }
        params.check(&params.generator)?;
        params.check(&params.value)?;
        Ok(params)
    }

    /// Whether a number is from 2 to the modulus - 2.
    fn check(&self, number: &[u8]) -> Result<(), Malformed> {
        let mut last = trimmed(&self.prime).to_vec();
        // The modulus is odd, so nothing is borrowed.
        last.iter_mut().last().into_iter().for_each(|low| *low -= 1);
        match is_below(&[1], number) && is_below(number, &last) {
            true => Ok(()),
            false => Err(Malformed::Group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponent(seed: u8) -> Exponent {
        Exponent::new(&Entropy::new(&[seed; Entropy::LEN]))
    }

    #[test]
    fn both_sides_agree() {
        let (server, client) = (exponent(1), exponent(2));
        let params = server.params();
        let value = client.value(&params).expect("a good group");
        let here = server.premaster(&params, &value);
        let there = client.premaster(&params, &params.value);
        assert_eq!(here, there);
        assert_ne!(server.params(), client.params());
    }

    #[test]
    fn a_group_or_value_out_of_bounds_is_refused() {
        let good = exponent(1).params();
        let mut last = PRIME;
        last[255] -= 1;
        let mut even = good.clone();
        even.prime[255] -= 1;
        let table = [
            (good.clone(), true),
            (
                Params {
                    value: vec![0],
                    ..good.clone()
                },
                false,
            ),
            (
                Params {
                    value: vec![0, 1],
                    ..good.clone()
                },
                false,
            ),
            (
                Params {
                    value: last.to_vec(),
                    ..good.clone()
                },
                false,
            ),
            (
                Params {
                    value: PRIME.to_vec(),
                    ..good.clone()
                },
                false,
            ),
            (
                Params {
                    generator: vec![1],
                    ..good.clone()
                },
                false,
            ),
            (
                Params {
                    prime: PRIME[..127].to_vec(),
                    ..good.clone()
                },
                false,
            ),
            (
                Params {
                    prime: vec![0xff; 513],
                    ..good.clone()
                },
                false,
            ),
            (even, false),
        ];
        for (params, is_good) in table {
            let mut bytes = Vec::new();
            params.write(&mut bytes);
            let read = Params::read(&mut Reader::new(&bytes));
            assert_eq!(read.is_ok(), is_good, "{params:?}");
        }
        let refused = exponent(1).premaster(&good, &[1]);
        assert_eq!(refused, Err(Malformed::Group));
    }
}
