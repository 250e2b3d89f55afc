//! What must hold for any datagram, called by the fuzz target in `fuzz/` and by the replay of its
//! corpus.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use crate::record_key::RecordKey;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("record_key", record_key)];

/// What is read as a key is written again as the same bytes.
///
/// # Panics
/// That does not hold.
pub fn record_key(data: &[u8]) {
    if let Ok(key) = RecordKey::from_datagram(data) {
        assert_eq!(*key.to_datagram(), data);
        assert_eq!(key.key().len(), key.suite().key_len());
    }
}
