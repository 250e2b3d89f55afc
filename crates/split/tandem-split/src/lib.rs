//! SSL splitting: the server says who vouches for a record, the volunteer says what is in it, and
//! the client checks both.
//!
//! Is: the messages between origin and volunteer ([`message`]), the names of payloads and objects
//! ([`name`], [`payload`], [`object`]) and where bodies are cut into them ([`cut`]), the origin's
//! record writer ([`seal`], [`stub`], [`clear`]) and its reader of the client's records ([`open`]),
//! how far either may run ahead ([`credit`]), the volunteer's splicer ([`splice`]), and a client's
//! records ([`whole`]). Is not: a TLS handshake, HTTP, a cache, sockets, or the decision which
//! record is worth a reference.
//!
//! ```text
//!            stubs: reference + MAC                      records: IV, E(payload | MAC | padding)
//!   origin ------------------------->  volunteer ------------------------------------------> client
//!   holds the MAC key                  holds the payloads and the encryption key             holds both keys
//! ```
//!
//! Invariants of the whole crate:
//! - the volunteer never sees a MAC key, and nothing that it is sent lets it make a MAC;
//! - a record's sequence number is used once: it is spent when the MAC is made, whatever becomes of
//!   the stub;
//! - a payload enters a record only after its digest has been checked ([`payload::Payload`] is the
//!   proof);
//! - any input is safe: no panic, work linear in the input, memory bounded by the constants and
//!   [`splice::Limits`].
//!
//! Specifications: Lesniewski-Laas 2003 ("the thesis"), chapters 2 and 3; RFC 5246, section 6; RFC
//! 8446, section 5; RFC 9150.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod aes_cbc;
pub mod clear;
pub mod credit;
pub mod cut;
mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod keys;
pub mod message;
pub mod name;
pub mod object;
pub mod open;
pub mod payload;
mod protect;
mod read;
pub mod seal;
pub mod splice;
pub mod stub;
pub mod suite;
mod want;
pub mod whole;

pub use error::{Breach, Error, Malformed, Misuse};
pub use message::{Decoder, Message};
pub use name::{ObjectName, PayloadName};
pub use object::{List, Lister};
pub use payload::Payload;
pub use seal::{Mac, Sealer};
pub use splice::Splicer;
pub use suite::{RecordType, Suite};
pub use want::Want;
