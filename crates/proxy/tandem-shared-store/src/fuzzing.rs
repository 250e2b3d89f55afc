//! What must hold for any bytes that a server sends: called by the fuzz targets in `fuzz/` and by
//! the replay of their corpora.
//!
//! Not part of the public interface.

use tandem_engine::PeerId;

use crate::resp::{self, MAX_LIST, MAX_STRING, Reply};
use crate::sealed::Secret;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("shared_store_reply", shared_store_reply)];

/// Replies, one after another: each is within its bounds, and no string in them is a note.
pub fn shared_store_reply(data: &[u8]) {
    let secret = Secret::new(&[7; 32]);
    let mut left = data;
    while let Ok(reply) = resp::read(&mut left) {
        match reply {
            Reply::List(strings) => {
                assert!(strings.len() <= MAX_LIST);
                for string in strings {
                    assert!(string.len() <= MAX_STRING);
                    assert_eq!(secret.open(PeerId([1; 32]), &string), None);
                }
            }
            Reply::Refused(why) => assert!(why.len() <= 4 * 120),
            Reply::Done => {}
        }
    }
}
