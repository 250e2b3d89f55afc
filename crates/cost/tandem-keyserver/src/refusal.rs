//! Why a key server does not sign.
//!
//! Is not: more than a client may know. That a key is not there and that it is not for this client
//! are one answer.

use std::fmt;

/// Why there is no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// No rule of the policy allows it.
    Policy,
    /// This client has had its signatures for now.
    Rate,
    /// Too much of this client's is waiting already.
    Busy,
    /// The key server could not: its log says why.
    Failed,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Policy, Self::Rate, Self::Busy, Self::Failed];

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Policy => 1,
            Self::Rate => 2,
            Self::Busy => 3,
            Self::Failed => 4,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    /// In one word, for metrics and the audit log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Rate => "rate",
            Self::Busy => "busy",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "its policy does not allow it",
            Self::Rate => "this client's rate is used up",
            Self::Busy => "too many requests of this client are waiting",
            Self::Failed => "it could not sign; see its log",
        })
    }
}
