//! tandem-keyserver: what a key server and its clients say to each other, what a policy allows, how
//! often, whose turn it is, and which key server a client asks.
//!
//! Is not: sockets, signatures, key files or a clock; see `tandem-keyserver-io` and
//! `tandem-keyclient`.
//!
//! Invariants: a request has no field for bytes to be signed: the key server builds the message of
//! a TLS handshake from a request's parts and signs nothing else. What a policy does not allow is
//! refused. No peer makes a queue or a buffer grow beyond its bound, nor takes another's turn.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod choice;
mod content;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod policy;
mod rate;
mod refusal;
mod scheme;
mod turns;

pub use choice::Servers;
pub use content::{Content, Params, TlsVersion};
pub use frame::{
    Answer, FrameError, Frames, GREETING, MAX_ANSWER_LEN, MAX_REQUEST_LEN, Outcome, Request,
    RequestId,
};
pub use key::{KeyId, KeyKind};
pub use policy::{Policy, Rule};
pub use rate::Bucket;
pub use refusal::Refusal;
pub use scheme::Scheme;
pub use turns::{Full, Turns};

/// What both ends call this protocol (ALPN, RFC 7301). Another version has another name.
pub const PROTOCOL: &[u8] = b"tandem-keys/1";
