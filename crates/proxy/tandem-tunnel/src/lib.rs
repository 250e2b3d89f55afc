//! Tunnel mode: one TCP connection at one side, bytes in, bytes out (sans-IO); DNS and UDP beside
//! it.
//!
//! Each proxy ends TCP on its own side (RFC 3135, section 2.3); between the two, each connection is
//! one bidirectional stream of an authenticated transport. A [`Relay`] is one connection at one
//! side. It reads the TLS handshake along and writes what repeats in it as a delta; everything else
//! passes as it is.
//!
//! Is: which frames are sent when, what is held and how long, what is rebuilt, how each kind of end
//! crosses, which addresses may be reached ([`Allowed`]), and as whom ([`WayOut`]). Is not: the
//! transport, sockets, names (`tandem-tunnel-io`), the bytes of frames (`tandem-link`), or what is
//! made of a flight (`tandem-engine`).
//!
//! | file | is |
//! |---|---|
//! | `relay`, with `opening`, `joined`, `passing` | a connection and its states |
//! | `prefer` | when a client's key is worth a round trip |
//! | `writer` | frames that leave, and what waits for an answer |
//! | `reader` | frames that arrive, in which order they may |
//! | `following` | both directions, as the engine reads them along |
//! | `output` | what goes in, what comes out |
//! | `event` | what is counted |
//! | `allowed` | the allow list of the server side |
//! | `byte_count` | numbers of bytes as people write them |
//! | `day` | where a day ends, by a clock that may be wrong |
//! | `limits` | how much of the link each client may use |
//! | `tariff` | what the link costs, and what has been spent |
//! | `rules` | the client side's rules: what goes through the tunnel, and what else becomes of it |
//! | `mux` | streams over one ordered connection, where the transport has none |
//! | `way_out` | as whom the server side comes to servers |
//! | `renewal` | questions after sites' next chains, and answers |
//! | `flow` | UDP: what one client sends to one target, and the answers |
//! | `dns` | queries and answers, and the cache of the near side |
//!
//! Invariants: an endpoint gets the bytes that the other one sent, in order, each once, and a reset
//! where that ends; what is kept is bounded, whatever the peer sends; after the handshake nothing
//! is kept.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod allowed;
mod byte_count;
mod day;
pub mod dns;
mod event;
mod flow;
mod following;
#[doc(hidden)]
pub mod fuzzing;
mod joined;
mod limits;
pub mod mux;
mod opening;
mod output;
mod passing;
mod prefer;
mod reader;
mod relay;
pub mod renewal;
mod rules;
mod shared_store;
mod tariff;
mod way_out;
mod writer;

pub use allowed::{Allowed, Rule, RuleError};
pub use byte_count::{ByteCount, scaled};
pub use event::{Dropped, Event};
pub use flow::{Crossing, Flow, FlowSide, NEAR_IDLE};
pub use limits::{Exception, Limits, MAX_CLIENTS, Standing, Usage};
pub use output::{Clock, Input, Output, Wakeup};
pub use prefer::{Least, Prefer};
pub use relay::{CLIENT_HOLD, KEY_HOLD, Relay, SERVER_HOLD, SILENCE};
pub use rules::{
    Action, ClientRule, ClientRuleError, Decision, FirstFlight, Hello, Parts, Rules, ServerName,
};
pub use shared_store::{Recalled, SharedStore};
pub use tariff::{
    Bill, ByteUnit, LongSession, Money, MoneyError, Spent, Tariff, TariffError, plain_bytes,
};
pub use way_out::{ClientNetworks, Origin, WayOut};
pub use writer::Handshakes;
