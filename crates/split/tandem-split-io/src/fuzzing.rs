//! What must hold for any input of this crate: one function for each kind of head, called by the
//! fuzz targets in `fuzz/` and by the replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

pub use crate::origin::fuzzing::{origin_request, origin_response};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 2] = [
    ("origin_request", origin_request),
    ("origin_response", origin_response),
];
