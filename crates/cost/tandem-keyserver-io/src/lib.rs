//! tandem-keyserver-io: the key server with its sockets, files, threads and clock: it holds private
//! keys of web servers and signs their handshakes, over channels between pinned keys.
//!
//! Is not: what may be signed, how often and in which order, which `tandem-keyserver` decides; nor
//! a client, which is `tandem-keyclient`.
//!
//! Invariants: no private key leaves the process. Where an audit log is set, no signature leaves
//! before its line is written. What a client sends is bounded before it is kept.

#![forbid(unsafe_code)]

mod audit;
mod connection;
mod desk;
mod error;
mod keys;
mod numbers;
mod server;
mod settings;
mod signers;

pub use error::KeyServerError;
pub use server::{Options, run};
pub use settings::Loaded;

/// What channels to a key server are for. The content is not public: a key exchange that a quantum
/// computer does not break.
const PROTOCOL: tandem_channel::Protocol = tandem_channel::Protocol {
    name: tandem_keyserver::PROTOCOL,
    key_exchange: tandem_channel::KeyExchange::Hybrid,
};
