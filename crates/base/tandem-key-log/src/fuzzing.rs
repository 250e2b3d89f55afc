//! What must hold for any line, called by the fuzz target in `fuzz/` and by the replay of its
//! corpus.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use crate::secret::HandshakeSecret;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("key_log", key_log)];

/// What is read as a handshake's secret gives a key for each suite that has secrets of its length,
/// and for no other.
///
/// # Panics
/// That does not hold.
pub fn key_log(line: &[u8]) {
    let Some(secret) = HandshakeSecret::of_line(line) else {
        return;
    };
    assert!(line.len() < 200 && secret.suites().next().is_some());
    for suite in tandem_record_key::Suite::ALL {
        let key = secret.record_key(suite);
        assert_eq!(key.is_some(), secret.suites().any(|it| it == suite));
        if let Some(key) = key {
            assert_eq!((key.direction(), key.suite()), (secret.direction(), suite));
        }
    }
}
