//! Where the paper's promises hold, and where they end: each attack of `docs/mctls12.md`, and the
//! check that catches it, or that nothing does.

mod handshake;
mod records;
