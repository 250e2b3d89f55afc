//! tandem-measure: what a load generator for TLS decides: when a connection starts, whether it
//! offers an earlier session, what it asks for, when the warm-up is over, what is counted as what.
//!
//! Is not: sockets, TLS, a clock or a random source; see `tandem-measure-io`.
//!
//! Invariants: the same seed makes the same arrivals and requests. Latency begins at the intended
//! start. A refused resumption counts as a full handshake. A failure is counted by its kind, and a
//! time-out enters the latencies with the time that was waited.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod advice;
mod arrivals;
mod counts;
mod event;
mod fault;
mod file;
mod found;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod limit;
mod mix;
mod modern;
mod outcome;
mod phase;
mod reuse;
mod search;
mod tally;
mod times;
mod warm_up;

pub use advice::advice;
pub use arrivals::Arrivals;
pub use counts::{Bytes, Counts};
pub use event::{EarlyData, Exchange, Handshake, Means, OfferOutcome};
pub use fault::Fault;
pub use file::FileSpec;
pub use found::{FoundRate, LimitedBy, Trial, Verdict};
pub use http::{HttpError, MAX_HEAD_LEN, Reading, ResponseReader};
pub use limit::{Effort, Limit, Spare};
pub use mix::{Mix, MixError, Requests};
pub use outcome::{
    Asked, CertificateFacts, GeneratorCost, KindOutcome, Load, Outcome, PhaseOutcome, ServerFacts,
};
pub use phase::{HandshakeForm, Kind, Phase, Step, handshake_round_trips};
pub use reuse::{Offer, Percent, ReuseCounter};
pub use search::RateSearch;
pub use tally::{KindTally, PhaseTally, Tally};
pub use times::{Percentiles, Times};
pub use warm_up::{Slot, WarmUp};
