//! What must hold for any input of this crate's parsers, called by the fuzz target in `fuzz/` and
//! by the replay of its corpus.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use crate::key_file::{KeyFile, MAX_WRAPPED, Step, unwrapped, wrapped};
use crate::public_key::{Numbers, PublicKey};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("provider_key_file", provider_key_file)];

/// A key's numbers are parts of its bytes, whether they come bare or in a file.
pub fn provider_key_file(data: &[u8]) {
    if let Some(key) = PublicKey::read(data) {
        let is_part = |part: &[u8]| data.windows(part.len()).any(|window| window == part);
        match &key.numbers {
            Numbers::Rsa { modulus, exponent } => assert!(is_part(modulus) && is_part(exponent)),
            Numbers::Point(point) => assert!(is_part(point)),
        }
        assert!(key.max_signature() * 8 >= key.bits());
    }
    let mut file = KeyFile::default();
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        match file.push(line) {
            Step::More => {}
            Step::Key(key, der) => {
                let marked = wrapped(&der).expect("a file is shorter than that");
                assert!(marked.len() < MAX_WRAPPED);
                assert_eq!(unwrapped(&marked), Some(key));
                return;
            }
            Step::Foreign | Step::Wrong(_) => return,
        }
    }
    assert!(!matches!(file.end(), Step::More | Step::Key(..)));
}
