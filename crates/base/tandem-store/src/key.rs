//! What one object is known by: its name and its kind.
//!
//! Not here: where it is. Invariant: keys are ordered by name first, so that everything whose name
//! has one prefix is one range.

use core::ops::RangeInclusive;

use crate::digest::{Digest, ObjectId};
use crate::kind::Kind;

/// What one object is known by. The same list may be one site's chain and the issuers of others; it
/// is then two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its name. First, for the order.
    pub id: ObjectId,
    /// What it is.
    pub kind: Kind,
}

impl Key {
    /// Every key, of any kind, whose name starts with `prefix`.
    pub(crate) fn range_of(prefix: &[u8]) -> RangeInclusive<Self> {
        let (least, greatest) = Digest::range_of(prefix);
        let key = |digest, kind| Self {
            id: ObjectId::from_digest(digest),
            kind,
        };
        key(least, Kind::RANGE.0)..=key(greatest, Kind::RANGE.1)
    }
}
