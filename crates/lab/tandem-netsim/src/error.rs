//! What can be wrong with what a caller asks of the simulator.
//!
//! Packets never cause an error: a packet that an element cannot read passes
//! unread or is a counted drop.

use thiserror::Error;

/// A configuration that makes no sense; always the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetsimError {
    /// A probability that is not between 0 and 1.
    #[error("a probability is a number between 0 and 1 (or 0% and 100%)")]
    ProbabilityOutOfRange,
    /// No preset has that name.
    #[error("no link preset is called {0:?}")]
    UnknownPreset(String),
    /// A repeating outage whose period is not longer than the outage itself.
    #[error("a repeating outage must be shorter than its period")]
    OutageNeverEnds,
}
