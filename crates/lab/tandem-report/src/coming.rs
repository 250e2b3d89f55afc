//! Of many clients that come one after the other: which visit of a client's a trial is.

use serde::{Deserialize, Serialize};

/// Which visit of a client's a trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coming {
    /// Its first: the proxies know the server and have not seen this client.
    First,
    /// A later one.
    Again,
    /// A later one, when the client-side proxy has been replaced by one that holds nothing. The
    /// first of these brings the server's chain, too.
    AfterReset,
}

impl Coming {
    /// As tables say it.
    pub fn name(self) -> &'static str {
        match self {
            Coming::First => "first",
            Coming::Again => "again",
            Coming::AfterReset => "after a reset of the client side",
        }
    }
}
