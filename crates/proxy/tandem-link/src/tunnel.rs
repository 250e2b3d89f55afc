//! What travels on a stream of the tunnel: tunnel mode, version 6 (ALPN `tandem-tunnel/6`).
//!
//! A stream carries one TCP connection. The client-side proxy opens it with [`Open`]; after that
//! each direction is a sequence of frames ([`Frame`]), until one says that the sender's bytes
//! follow as they are. A stream that is reset carries an [`Ending`].
//!
//! A DNS query has a stream of its own kind, and so have a flow of UDP and a question after a
//! renewed chain, told by their first byte ([`DnsQuery`], [`FlowOpen`], [`RenewalQuery`]).
//!
//! Is: the bytes of these messages, written and read in any pieces. Is not: when each is sent
//! (`tandem-tunnel`), the transport, or a check against forgery: the transport authenticates.
//!
//! ```text
//! client to server:  open frame* (rest byte*)?
//! server to client:       frame* (rest byte*)?
//! ```
//!
//! Invariant: a declared length is checked before anything of that length is kept.

mod datagram;
mod dns;
mod ending;
mod frame;
#[cfg(test)]
mod golden;
mod open;
mod phrase;
mod renewal;
mod target;

pub use datagram::{
    FlowOpen, FlowOpenDecoder, MAX_PAYLOAD, MessageDecoder, parse_datagram, write_datagram,
    write_message,
};
pub use dns::{DnsAnswer, DnsCounts, DnsQuery, DnsState, DnsWishes, MAX_ANSWER, MAX_QUERY};
pub use ending::Ending;
pub use frame::{CHECK_LEN, Decoder, Frame, MAX_HINTS, MAX_LEN, Miss, Offer, Piece, check};
pub use open::{Open, OpenDecoder};
pub use phrase::Phrase;
pub use renewal::{MAX_RENEWAL_ANSWER, MAX_RENEWAL_QUERY, RenewalAnswer, RenewalQuery};
pub use target::{DEFAULT_PORT, Target, TargetError};

/// The peer sent what this version does not define: its fault, and the stream's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent a malformed frame")]
pub struct Malformed;
