//! The handshake rewriter: flights in, deltas out, and back. It has six rooms:
//!
//! - `transcript`: a handshake read along in both directions ([`Handshake`]);
//! - `objects`: where in a flight lies what repeats, by kind ([`Object`], [`Flight`], [`ticket`]);
//! - `peer`: what the other proxy holds, by its own word or by what both have seen
//!   ([`Possession`]; by peer and epoch, [`Peers`]);
//! - `sealed`: a server's flight of TLS 1.3, opened with a key that the server released, and sealed
//!   again at the far side;
//! - `rewrite`: a flight as a [`tandem_delta::Delta`] against that, and back; the thesis's own
//!   messages ([`thesis`]);
//! - `renewal`: a site's next chain, asked after ahead of the next visit ([`Wanted`], [`Look`]).
//!
//! A data plane keeps one [`Engine`] and a [`Connection`] for each of its own, and is told what is
//! to be made of what the endpoints send ([`Outlook`], [`Ground`]) and what has happened
//! ([`Event`]). It names no kind of object: beliefs, tickets and publications are not to be had
//! outside.
//!
//! Is not: packets, sockets, a clock.
//!
//! Invariants: bytes that are not understood are literals; a delta that is not smaller than its
//! bytes is not sent (its frame sees to that); nothing is learned that Finished did not vouch for,
//! but for chains that were asked after.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod connection;
mod engine;
mod event;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod golden;
mod objects;
mod peer;
mod renewal;
mod rewrite;
#[cfg(test)]
mod samples;
mod sealed;
mod transcript;

pub use connection::{
    AnswerWatch, Connection, HandOver, Moment, Outlook, Said, SealedFlight, Streams,
};
pub use engine::{ClientCertificates, Engine};
pub use event::{Event, NotOpened, UnusedKey};
pub use objects::{Flight, Object, Sender, ticket};
pub use peer::{
    Asked, Authorities, Crossed, Epoch, Hints, Peer, PeerId, Peers, Possession, Role,
    expected_chains, filter, intention,
};
pub use renewal::{Found, Look, Seen, Wanted};
pub use rewrite::{Ground, Miss, Outgoing, StoreSource, plan_flight, thesis};
pub use sealed::KeyOffer;
pub use transcript::{ClientCertificate, Handshake, Pass, Stage, learn_flight};
