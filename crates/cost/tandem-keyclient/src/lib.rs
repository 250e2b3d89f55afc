//! tandem-keyclient: a web server's private key that lies at a key server: a `SigningKey` for
//! rustls over [`Client`], which asks key servers for signatures.
//!
//! rustls wants a signature at once, so whoever asks waits ([`Client::sign`]): half a millisecond
//! where all is well. On a thread of a tokio runtime with several threads, the runtime is told, and
//! its other tasks go on elsewhere; so any server that takes a `ServerConfig` can be used as it is,
//! and a hello that is retried is covered, whose signature is not made within `Acceptor`. A runtime
//! of one thread stands still meanwhile. No more than so many wait at a time, and nobody waits
//! while no key server can be reached: sessions are resumed then, full handshakes fail at once.
//!
//! Is not: the key server; see `tandem-keyserver-io`.
//!
//! Invariants: what is not the message of a TLS handshake is not asked for. Each wait ends. A
//! process that was forked has connections of its own.

#![forbid(unsafe_code)]

mod board;
mod client;
mod error;
mod fetch;
mod link;
mod per_process;
mod settings;
mod signing_key;
mod wanted;

pub use client::Client;
pub use error::{ClientError, SignError};
pub use settings::{KeyServer, Options};
