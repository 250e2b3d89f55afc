//! A client that releases the key of its server's flight: how far that is in a connection.
//!
//! ```text
//! client side   None -> From | Made -> Wanted -> Given -> None      Made: the far side was told
//! server side   None -> Offered                                     what follows: `sealed`
//! ```
//!
//! Is not: what is done (`client_key`). Invariant: a key that was handed over is kept for its
//! connection alone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tandem_record_key::{RecordKey, Suite};
use tandem_wire::Instant;

use crate::sealed::{KeyClient, KeyOffer, Randoms, Wait};

/// How long a flight may take to come, from its ServerHello on, until it is known whether a key is
/// worth asking for: a server writes all of it at once.
pub(super) const DECISION: Duration = Duration::from_millis(20);

/// How far it is.
#[derive(Debug)]
pub(super) enum Consent {
    /// Nothing is known of any.
    None,
    /// Server side: the client side has offered the key.
    Offered(KeyOffer),
    /// Client side: this client may hand in a key, and nothing was said of it.
    From(KeyClient),
    /// Client side: the key was offered.
    Made(KeyClient),
    /// Client side: the far side waits for it.
    Wanted(Wanted),
    /// Client side: it was handed over.
    Given(Given),
}

/// A key that is looked for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) client: KeyClient,
    pub(super) randoms: Randoms,
    pub(super) suite: Suite,
    pub(super) clear: Arc<[u8]>,
    pub(super) wait: Wait,
}

/// A key that the far side has.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) client: KeyClient,
    pub(super) key: RecordKey,
    pub(super) clear: Arc<[u8]>,
}

impl Given {
    pub(super) fn key(&self) -> &RecordKey {
        &self.key
    }

    /// What has crossed in clear of the flight.
    pub(super) fn clear(&self) -> &Arc<[u8]> {
        &self.clear
    }
}

/// What the far side is told of a key that it waits for.
#[derive(PartialEq, Eq)]
pub enum HandOver {
    /// Nothing yet.
    Later,
    /// It is this one.
    Key(Vec<u8>),
    /// It has not come.
    Missing,
}

impl fmt::Debug for HandOver {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Later => "Later",
            Self::Key(_) => "Key(..)",
            Self::Missing => "Missing",
        })
    }
}

impl Consent {
    /// At the client side: whether the flight that follows ServerHello may cross in another form.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Made(_) | Self::Wanted(_) | Self::Given(_) => true,
            Self::None | Self::Offered(_) | Self::From(_) => false,
        }
    }

    /// At the server side: the offer of a key.
    pub(super) fn offer(&self) -> Option<KeyOffer> {
        match self {
            Self::Offered(offer) => Some(*offer),
            Self::None | Self::From(_) | Self::Made(_) | Self::Wanted(_) | Self::Given(_) => None,
        }
    }

    pub(super) fn key_due(&self) -> Option<Instant> {
        match self {
            Self::Wanted(wanted) => Some(wanted.wait.next()),
            Self::None | Self::Offered(_) | Self::From(_) | Self::Made(_) | Self::Given(_) => None,
        }
    }

    pub(super) fn given(&self) -> Option<&Given> {
        match self {
            Self::Given(given) => Some(given),
            Self::None | Self::Offered(_) | Self::From(_) | Self::Made(_) | Self::Wanted(_) => None,
        }
    }

    pub(super) fn client(&self) -> Option<KeyClient> {
        match self {
            Self::From(client) | Self::Made(client) => Some(*client),
            Self::Wanted(wanted) => Some(wanted.client),
            Self::None | Self::Offered(_) | Self::Given(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", HandOver::Key(vec![42; 28])), "Key(..)");
    }
}
