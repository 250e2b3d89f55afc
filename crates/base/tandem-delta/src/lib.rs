//! A delta: instructions that rebuild bytes from what the reader holds.
//!
//! Is: the encoding ([`Encoding`]) with its writer and its reader ([`Delta`]), the plan of what is
//! copied from where ([`Planner`]), numbers of variable length ([`varint`]), and bytes that lie in
//! pieces ([`pieces`]). Is not: TLS, packets or the store; a writer is told what the far side
//! holds, a reader asks its [`Source`].
//!
//! Invariants: no input makes the reader allocate more than the caller's limit; nothing nests.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod delta;
mod dictionary;
mod encoding;
#[doc(hidden)]
pub mod fuzzing;
mod inflate;
mod likeness;
mod name;
pub mod pieces;
mod plan;
#[cfg(test)]
mod samples;
pub mod varint;
mod writer;

pub use delta::{
    Delta, DeltaError, Instruction, MAX_INFLATED, MAX_INFLATED_LEN, MAX_REFERENCES, Source,
};
pub use encoding::Encoding;
pub use name::{Name, Reference};
pub use plan::Planner;
pub use writer::DeltaWriter;
