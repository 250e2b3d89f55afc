//! DNS through the tunnel: what of a client's message crosses, what is asked on the far side, which
//! answers are kept, and what the client is told (sans-IO).
//!
//! Messages are read and written by hickory-proto. Records are never taken apart: a resolver's
//! records reach the client byte for byte, so that a type that nobody here knows, and a signature,
//! arrives as it was. Only times to live are changed, which count down.
//!
//! Is: one query, one answer, and the cache. Is not: sockets, what waits for an answer
//! (`tandem-tunnel-io`), the bytes on a stream (`tandem-link`), or a resolver: nothing is looked up
//! here, no signature is checked.
//!
//! | file | is |
//! |---|---|
//! | `request` | a client's message, and the replies to it |
//! | `question` | what is asked, for both sides |
//! | `answer` | a resolver's answer: where its records lie and how long they live |
//! | `cache` | answers that are kept |
//! | `clients` | who may ask |
//!
//! Invariants: any bytes are safe; nothing is said to what is itself an answer; a reply over UDP is
//! no longer than its client takes.

mod answer;
mod cache;
mod clients;
#[doc(hidden)]
pub mod fuzzing;
mod question;
mod request;

pub use answer::{Answer, Heard, failure, hear, refusal};
pub use cache::{Cache, Found};
pub use clients::Clients;
pub use question::{Key, Question};
pub use request::{Age, Asked, Request, Transport, read};

#[cfg(test)]
mod tests;
