//! The origin's end of the client's TLS: a stock TLS library with cipher suites that leave the
//! records unbuilt; and a client of our own, to look at a site as browsers do ([`client`]).
//!
//! Is not: the splitting itself. What leaves here are records in their parts ([`parts`]); who stubs
//! them, and how, is the session's concern.
//!
//! Invariants: TLS 1.2 alone, ECDHE_RSA with AES in CBC and HMAC, extended master secret,
//! `http/1.1`; the server never runs AES on what it sends, and its keys are handed out once; what a
//! client sends is opened in a time that its length alone decides.

pub mod client;
pub mod identity;
pub mod parts;
pub mod server;

mod client_suites;
mod suites;
mod tickets;
