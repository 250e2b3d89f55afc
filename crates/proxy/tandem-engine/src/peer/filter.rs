//! A filter: a set of references in few bits, which says of each reference "perhaps held" or
//! "certainly not".
//!
//! Is: a Golomb-coded set (Golomb, Run-length encodings, 1966, with Rice's parameter; as a filter:
//! Putze, Sanders and Singler, Cache-, Hash- and Space-Efficient Bloom Filters, 2007). Each of n
//! references is hashed into 0..n·N; the gaps between the sorted hashes go with their low bits as
//! they are and the rest in unary. Where one in N of the references that are not held may pass for
//! held, that is about log2(N) + 1.5 bits each, where a Bloom filter takes 1.44·log2(N). Is not:
//! what is done with what it says, nor how it crosses the link (`tandem-link`).
//!
//! ```text
//! bits = (unary(gap >> p) low(gap, p)){n} 0{0..7}      most significant bit first; unary(q) = q ones and a zero
//! p    = the largest for which 2^p is at most N·ln 2
//! ```
//!
//! Invariants: what was put in is found; each set of hashes has one encoding; reading is linear in
//! the bytes, and bounded.

use tandem_store::ObjectId;

use tandem_delta::Reference;

/// Most references in one filter. A client's chain that is not spared costs more than a kilobyte;
/// of filters for more than these, five kilobytes, nobody has a use on a link where that counts.
pub const MAX_REFERENCES: usize = 4_096;

/// How many references pass for held though they are not: one in so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(u32);

impl Rate {
    /// One in 256. A wrong guess costs a round trip of the link and about a hundred bytes, a tenth
    /// of a chain; at 9.6 bits for each chain a thousand of them go into one segment. One in 16
    /// saves four bits of those, and every sixteenth new client pays.
    pub const DEFAULT: Rate = Rate(256);

    /// The least and the most that the number may be. Below two a filter says nothing; at 65,536
    /// and with [`MAX_REFERENCES`] references a hash has 28 bits.
    pub const BOUNDS: std::ops::RangeInclusive<u32> = 2..=65_536;

    /// One in `number`; `None` beyond [`Self::BOUNDS`].
    pub fn one_in(number: u32) -> Option<Self> {
        Self::BOUNDS.contains(&number).then_some(Self(number))
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Bits of a gap that are not in unary: Rice's parameter for gaps of N on the mean.
    fn low_bits(self) -> u32 {
        // 71/102 is ln 2 but for a hundredth.
        (u64::from(self.0) * 71 / 102).max(1).ilog2()
    }
}

/// The fingerprint of a set of chains. That two sets have the same by chance, once in 2^32, costs
/// misses until one of them changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Fingerprint(pub u32);

impl Fingerprint {
    /// Of a set of these chains.
    pub fn of<'a>(chains: impl IntoIterator<Item = &'a ObjectId>) -> Self {
        let mut all = Self::default();
        chains.into_iter().for_each(|chain| all.toggle(chain));
        all
    }

    /// A chain comes in that was not there, or goes that was.
    pub fn toggle(&mut self, chain: &ObjectId) {
        let [.., a, b, c, d] = *chain.as_bytes();
        self.0 ^= u32::from_be_bytes([a, b, c, d]);
    }
}

/// A set of references, which can be asked and written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    salt: u32,
    rate: Rate,
    /// Sorted; two references may have the same.
    hashes: Vec<u32>,
}

impl Filter {
    /// The filter over these references, at most [`MAX_REFERENCES`]. With another salt, other
    /// references pass for held.
    pub fn of(references: impl IntoIterator<Item = Reference>, salt: u32, rate: Rate) -> Self {
        let references: Vec<Reference> = references.into_iter().take(MAX_REFERENCES).collect();
        let mut filter = Self {
            salt,
            rate,
            hashes: vec![0; references.len()],
        };
        filter.hashes = references.iter().map(|one| filter.hash(one)).collect();
        filter.hashes.sort_unstable();
        filter
    }

    /// The filter over the first of `references` that go into `limit` bytes.
    pub fn within(limit: usize, references: &[Reference], salt: u32, rate: Rate) -> Self {
        let mut count = references.len().min(MAX_REFERENCES);
        loop {
            let filter = Self::of(references[..count].iter().copied(), salt, rate);
            let length = filter.to_bytes().len();
            if length <= limit || count == 0 {
                return filter;
            }
            // The size is nearly proportional to the count: a few rounds at most.
            count = (count * limit / length).min(count - 1);
        }
    }

    /// What [`Self::to_bytes`] wrote for `count` references; `None` for anything else.
    pub fn parse(bytes: &[u8], count: usize, salt: u32, rate: Rate) -> Option<Self> {
        // Each takes a bit at the least.
        if count > MAX_REFERENCES || count > bytes.len().saturating_mul(8) {
            return None;
        }
        let range = range(count, rate);
        let mut input = BitReader { bytes, at: 0 };
        let mut hashes = Vec::with_capacity(count);
        let mut last = 0u64;
        for _ in 0..count {
            let high = input.unary()?;
            let low = input.bits(rate.low_bits())?;
            last = last.checked_add(high << rate.low_bits() | low)?;
            if last >= range {
                return None;
            }
            hashes.push(u32::try_from(last).ok()?);
        }
        input.is_at_end().then_some(Self { salt, rate, hashes })
    }

    /// Its encoding.
    pub fn to_bytes(&self) -> Vec<u8> {
        let low_bits = self.rate.low_bits();
        let mut out = BitWriter::default();
        let mut last = 0;
        for hash in &self.hashes {
            let gap = hash - last;
            last = *hash;
            (0..gap >> low_bits).for_each(|_| out.bit(1));
            out.bit(0);
            (0..low_bits).rev().for_each(|bit| out.bit(gap >> bit & 1));
        }
        out.bytes
    }

    /// Whether this reference was put in; also true for one in N of all others.
    pub fn contains(&self, reference: &Reference) -> bool {
        !self.hashes.is_empty() && self.hashes.binary_search(&self.hash(reference)).is_ok()
    }

    /// How many references it is over.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// With what the references are hashed.
    pub fn salt(&self) -> u32 {
        self.salt
    }

    /// Its rate of wrong answers.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Bytes of memory in use, about.
    pub fn footprint(&self) -> usize {
        self.hashes.len() * size_of::<u32>()
    }

    /// The place of a reference in the range. References are digests: their first eight bytes are
    /// random, and the finaliser of SplitMix64 (Steele, Lea and Flood, Fast Splittable
    /// Pseudorandom Number Generators, 2014) makes the salt count in every bit. Whoever
    /// looks for a chain that passes for held finds one, and pays for it with a round trip of its
    /// own.
    fn hash(&self, reference: &Reference) -> u32 {
        let front = reference.0.first_chunk().copied().unwrap_or_default();
        let mut mixed = u64::from_be_bytes(front) ^ u64::from(self.salt) << 32;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let range = range(self.hashes.len(), self.rate);
        let place = (u128::from(mixed) * u128::from(range)) >> 64;
        u32::try_from(place).unwrap_or(u32::MAX)
    }
}

/// One past the largest hash: below 2^29, by [`MAX_REFERENCES`] and [`Rate::BOUNDS`].
fn range(count: usize, rate: Rate) -> u64 {
    count as u64 * u64::from(rate.0)
}

#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// Bits of the last byte that are taken.
    taken: u32,
}

impl BitWriter {
    fn bit(&mut self, bit: u32) {
        if self.taken == 0 {
            self.bytes.push(0);
        }
        if let (1, Some(last)) = (bit, self.bytes.last_mut()) {
            *last |= 0x80 >> self.taken;
        }
        self.taken = (self.taken + 1) % 8;
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    fn bit(&mut self) -> Option<u64> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(u64::from(bit))
    }

    fn unary(&mut self) -> Option<u64> {
        let mut ones = 0;
        while self.bit()? == 1 {
            ones += 1;
        }
        Some(ones)
    }

    fn bits(&mut self, count: u32) -> Option<u64> {
        (0..count).try_fold(0, |value, _| Some(value << 1 | self.bit()?))
    }

    /// Whether nothing is left but the zeros that fill the last byte.
    fn is_at_end(&mut self) -> bool {
        let left = self.bytes.len() * 8 - self.at;
        left < 8 && (0..left).all(|_| self.bit() == Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_store::Digest;

    fn reference(number: u64) -> Reference {
        Reference(Digest::of(&number.to_be_bytes()).prefix16())
    }

    fn references(count: u64) -> Vec<Reference> {
        (0..count).map(reference).collect()
    }

    #[test]
    fn no_more_pass_for_held_than_were_stated_and_each_takes_the_bits_that_theory_says() {
        let held = references(1_000);
        // Several salts: one filter alone says little of rare events.
        let (filters, asked) = (4, 20_000);
        let others: Vec<_> = (1_000..1_000 + asked).map(reference).collect();
        for number in [2, 7, 16, 256, 1_000, 65_536] {
            let rate = Rate::one_in(number).expect("within the bounds");
            let mut wrong = 0u64;
            let mut bits = 0;
            for salt in 0..filters {
                let filter = Filter::of(held.iter().copied(), salt, rate);
                bits += filter.to_bytes().len() as u64 * 8;
                wrong += others.iter().filter(|other| filter.contains(other)).count() as u64;
            }
            let expected = u64::from(filters) * asked / u64::from(number);
            // Five standard deviations.
            let most = expected + 5 * (expected as f64).sqrt() as u64 + 5;
            assert!(wrong <= most, "1 in {number}: {wrong}, not {expected}");
            let each = bits as f64 / (f64::from(filters) * 1_000.0);
            // Less where whole bits are a coarse measure of a gap.
            let spare = if number < 16 { 2.0 } else { 1.7 };
            let theory = f64::from(number).log2() + spare;
            assert!(each <= theory, "1 in {number}: {each} bits, not {theory}");
        }
    }

    #[test]
    fn a_thousand_chains_go_into_one_segment() {
        let filter = Filter::of(references(1_000), 1, Rate::DEFAULT);
        assert!(filter.to_bytes().len() < 1_250);
    }

    #[test]
    fn the_first_that_go_into_a_limit_are_kept() {
        let all = references(5_000);
        for limit in [0, 1, 2, 50, 500, 1_400, 100_000] {
            let filter = Filter::within(limit, &all, 9, Rate::DEFAULT);
            assert!(filter.to_bytes().len() <= limit);
            assert!(filter.count() >= (limit * 8 / 11).min(MAX_REFERENCES));
            assert!(
                all[..filter.count()]
                    .iter()
                    .all(|held| filter.contains(held))
            );
        }
    }

    #[test]
    fn one_that_is_over_nothing_holds_nothing() {
        let empty = Filter::of([], 0, Rate::DEFAULT);
        assert!(empty.to_bytes().is_empty());
        assert!(!empty.contains(&reference(1)));
        assert_eq!(Filter::parse(&[], 0, 0, Rate::DEFAULT), Some(empty));
        assert_eq!(Filter::parse(&[0], 0, 0, Rate::DEFAULT), None);
    }

    #[test]
    fn what_is_cut_longer_or_beyond_the_range_is_refused() {
        let filter = Filter::of(references(20), 3, Rate::DEFAULT);
        let bytes = filter.to_bytes();
        let parse = |bytes: &[u8], count| Filter::parse(bytes, count, 3, Rate::DEFAULT);
        assert_eq!(parse(&bytes, 20), Some(filter));
        assert_eq!(parse(&bytes[..bytes.len() - 1], 20), None);
        assert_eq!(parse(&[&bytes[..], &[0]].concat(), 20), None);
        assert_eq!(parse(&bytes, MAX_REFERENCES + 1), None);
        assert_eq!(parse(&[0xff; 100], 2), None);
        // A gap of 512, where two hashes end at 511.
        assert_eq!(parse(&[0b1111_0000, 0b0000_0000, 0, 0], 2), None);
    }

    #[test]
    fn whatever_the_order_the_same_set_has_the_same_name() {
        let all: Vec<_> = (0..9u8).map(|number| ObjectId::of(&[&[number]])).collect();
        let mut one_by_one = Fingerprint::default();
        all.iter().rev().for_each(|chain| one_by_one.toggle(chain));
        assert_eq!(one_by_one, Fingerprint::of(&all));
        one_by_one.toggle(&all[3]);
        assert_ne!(one_by_one, Fingerprint::of(&all));
        assert_eq!(Fingerprint::of(&[]), Fingerprint(0));
    }

    #[test]
    fn a_rate_is_within_its_bounds() {
        for (number, valid) in [
            (0, false),
            (1, false),
            (2, true),
            (65_536, true),
            (65_537, false),
        ] {
            assert_eq!(Rate::one_in(number).is_some(), valid, "{number}");
        }
        assert_eq!(Rate::one_in(256), Some(Rate::DEFAULT));
    }

    proptest! {
        #[test]
        fn what_was_put_in_is_found_and_comes_back(
            numbers in proptest::collection::vec(any::<u64>(), 0..300),
            salt in any::<u32>(),
            number in Rate::BOUNDS,
        ) {
            let rate = Rate::one_in(number).expect("within the bounds");
            let references: Vec<_> = numbers.into_iter().map(reference).collect();
            let filter = Filter::of(references.iter().copied(), salt, rate);
            prop_assert!(references.iter().all(|held| filter.contains(held)));
            let bytes = filter.to_bytes();
            prop_assert_eq!(Filter::parse(&bytes, references.len(), salt, rate), Some(filter));
        }

        #[test]
        fn any_bytes_are_refused_or_the_only_encoding_of_what_they_say(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            count in 0usize..80,
            number in Rate::BOUNDS,
        ) {
            let rate = Rate::one_in(number).expect("within the bounds");
            if let Some(filter) = Filter::parse(&bytes, count, 1, rate) {
                prop_assert_eq!(filter.count(), count);
                prop_assert_eq!(filter.to_bytes(), bytes);
            }
        }
    }
}
