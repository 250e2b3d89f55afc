//! The Internet checksum: the one's-complement sum of 16-bit words (RFC 1071).
//!
//! The sum is taken over 32-bit words in the machine's own byte order (RFC 1071, section 2, B and
//! C: order and word size do not matter until the end) in a 64-bit accumulator, which compilers
//! turn into vector code. A packet's 65,535 bytes cannot overflow it.

use std::net::{Ipv4Addr, Ipv6Addr};

/// IP protocol number of TCP (IANA).
pub(crate) const PROTOCOL_TCP: u8 = 6;

/// A running sum. Pieces are added at even offsets only, except that the last may have any length.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// The sum so far and `bytes`; an odd last byte counts as if a zero byte followed.
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        let mut total: u64 = words
            .iter()
            .map(|word| u64::from(u32::from_ne_bytes(*word)))
            .sum();
        let mut last = [0_u8; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        total += u64::from(u32::from_ne_bytes(last));
        Self(self.0 + total)
    }

    /// The sum so far and one 16-bit number.
    pub(crate) fn add_u16(self, number: u16) -> Self {
        Self(self.0 + u64::from(u16::from_ne_bytes(number.to_be_bytes())))
    }

    /// The pseudo-header of RFC 9293, section 3.1 (IPv4).
    pub(crate) fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, tcp_len: u16) -> Self {
        Self::default()
            .add(&source.octets())
            .add(&destination.octets())
            .add_u16(PROTOCOL_TCP.into())
            .add_u16(tcp_len)
    }

    /// The pseudo-header of RFC 8200, section 8.1 (IPv6).
    pub(crate) fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, tcp_len: u16) -> Self {
        Self::default()
            .add(&source.octets())
            .add(&destination.octets())
            .add_u16(PROTOCOL_TCP.into())
            .add_u16(tcp_len)
    }

    /// The number to write into a checksum field that was zero in the sum.
    pub(crate) fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Whether a sum that includes the checksum field proves the bytes intact.
    pub(crate) fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }

    fn folded(self) -> u16 {
        let mut sum = self.0;
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        // Twice 0xffff at most after the first of these, so the second leaves no carry.
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        let [a, b, ..] = sum.to_le_bytes();
        // In the machine's order so far; the field is in network order.
        u16::from_be_bytes(u16::from_le_bytes([a, b]).to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, section 3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
    #[test]
    fn rfc_1071_example() {
        let sum = Sum::default().add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.checksum(), !0xddf2);
    }

    /// RFC 8200, section 8.1: addresses, length in 32 bits, three zeros, next header.
    #[test]
    fn the_pseudo_header_of_ipv6_is_that_of_the_specification() {
        let (source, destination) = ([0x20; 16], [0xab; 16]);
        let plain = [
            &source[..],
            &destination,
            &[0, 0, 0x12, 0x34],
            &[0, 0, 0, 6],
        ]
        .concat();
        let sum = Sum::pseudo_v6(source.into(), destination.into(), 0x1234);
        assert_eq!(sum.checksum(), slow(&plain));
    }

    #[test]
    fn the_largest_sums_fold_without_a_carry_left() {
        for sum in [
            0xffff_ffff,
            0x1_ffff_fffe,
            0xffff_ffff_ffff,
            0xffff_0000_ffff,
        ] {
            // A one's complement sum of anything but zeros is the number modulo 0xffff, never 0.
            let rest = u16::try_from(sum % 0xffff).expect("16 bits");
            let expected = if rest == 0 { 0xffff } else { rest };
            let folded = Sum(sum).folded();
            assert_eq!(folded.to_be(), expected, "{sum:x}");
        }
    }

    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).expect("folded")
    }

    proptest! {
        #[test]
        fn equals_the_plain_definition(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Sum::default().add(&bytes).checksum(), slow(&bytes));
        }

        #[test]
        fn pieces_at_even_offsets_add_up(mut a in proptest::collection::vec(any::<u8>(), 0..64), b in proptest::collection::vec(any::<u8>(), 0..64)) {
            a.truncate(a.len() & !1);
            let apart = Sum::default().add(&a).add(&b).checksum();
            a.extend(&b);
            prop_assert_eq!(apart, slow(&a));
        }
    }

    #[test]
    fn the_largest_packet_of_ones_does_not_overflow() {
        let bytes = vec![0xff; 65_535];
        assert_eq!(Sum::default().add(&bytes).checksum(), slow(&bytes));
    }
}
