//! TCP sequence numbers: 32 bits that wrap (RFC 9293, section 3.4).
//!
//! Two numbers compare only within half the space (2^31), so [`Seq`] has no `Ord`.

/// A TCP sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `count` bytes later.
    #[must_use]
    pub const fn wrapping_add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The number `count` bytes earlier.
    #[must_use]
    pub const fn wrapping_sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }

    /// The number behind `len` bytes that begin here.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "sequence numbers are modulo 2^32"
    )]
    pub const fn after(self, len: usize) -> Self {
        self.wrapping_add(len as u32)
    }

    /// The number of the first of `len` bytes that end before this one.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "sequence numbers are modulo 2^32"
    )]
    pub const fn before(self, len: usize) -> Self {
        self.wrapping_sub(len as u32)
    }

    /// `self - earlier` in bytes: negative where `self` is in fact before `earlier`. Right as long
    /// as the two are less than 2^31 apart, which RFC 9293 guarantees for numbers of one
    /// window.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }

    /// Whether `self` comes before `other`.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// Whether `self` comes after `other`.
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_survives_the_wrap() {
        let last = Seq(u32::MAX);
        let first = last.wrapping_add(1);
        assert_eq!(first, Seq(0));
        assert_eq!(first.distance_from(last), 1);
        assert_eq!(last.distance_from(first), -1);
        assert!(first.is_after(last) && last.is_before(first));
        assert!(!first.is_after(first) && !first.is_before(first));
        assert_eq!(first.wrapping_sub(1), last);
        assert_eq!((last.after(2), last.after(2).before(2)), (Seq(1), last));
    }
}
