//! What must hold for any input of this crate: one function for each way in whose clients say where
//! they want to go, called by the fuzz targets in `fuzz/` and by the replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

pub use crate::intake::fuzzing::{tunnel_connect, tunnel_socks};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 2] = [
    ("tunnel_socks", tunnel_socks),
    ("tunnel_connect", tunnel_connect),
];
