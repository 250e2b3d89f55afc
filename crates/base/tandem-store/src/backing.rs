//! What a store is made of, for a crate that puts a disk or a server behind one: [`Contents`] is
//! all of [`MemoryStore`](crate::MemoryStore), and tells what has changed.
//!
//! Not for those who only ask a store. Invariant: whoever drains [`Changes`] and writes them down
//! can put back the same catalogue.

pub use crate::bodies::Bodies;
pub use crate::catalogue::{Catalogue, ObjectEntry, PartEntry};
pub use crate::changes::Changes;
pub use crate::contents::Contents;
pub use crate::expectations::Expectation;
pub use crate::key::Key;
pub use crate::site::Pattern;
pub use crate::x509::LeafFacts;
