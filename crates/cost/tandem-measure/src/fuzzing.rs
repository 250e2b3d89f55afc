//! What must hold for any input of this crate's parser, called by the fuzz target in `fuzz/` and by
//! the replay of its corpus.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use crate::http::{HttpError, Reading, ResponseReader};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("http_response", http_response)];

/// An answer ends at the same byte, with the same body, in whatever pieces it comes.
pub fn http_response(data: &[u8]) {
    let whole = read(data, data.len().max(1));
    for piece in [1, 3, 64] {
        assert_eq!(read(data, piece), whole, "in pieces of {piece}");
    }
}

/// How an answer ends: status, body, bytes taken, if it is whole.
#[derive(Debug, PartialEq, Eq)]
struct End {
    status: u16,
    body: u64,
    taken: Option<usize>,
}

fn read(data: &[u8], piece: usize) -> Result<End, HttpError> {
    let mut reader = ResponseReader::new();
    let mut before = 0;
    let mut taken = None;
    for bytes in data.chunks(piece) {
        match reader.read(bytes)? {
            Reading::Open => before += bytes.len(),
            Reading::Whole(of_these) => {
                assert!(of_these <= bytes.len() && reader.may_end_here());
                taken = Some(before + of_these);
                break;
            }
        }
    }
    assert!(reader.body_len() <= data.len() as u64);
    Ok(End {
        status: reader.status(),
        body: reader.body_len(),
        taken,
    })
}
