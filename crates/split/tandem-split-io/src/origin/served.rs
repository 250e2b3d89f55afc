//! What has been served, for whoever watches within this process: a live view, a server that has
//! the origin as a library.
//!
//! Is not: a log. Nothing is kept, and nothing made while nobody watches.

use tokio::sync::broadcast;

use tandem_channel::KeyName;

/// Responses that one who watches may be behind by, before he misses some.
const BEHIND: usize = 256;

/// One response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Through which volunteer.
    pub volunteer: Option<KeyName>,
    /// The path and query that were asked for.
    pub target: String,
    /// Bytes of the body, as the client gets them.
    pub body_bytes: u64,
    /// Bytes of messages that it took on the channel; what the volunteer had to ask for besides is
    /// not among them.
    pub sent_bytes: u64,
}

/// Tells whoever watches.
#[derive(Clone, Debug)]
pub(super) struct Watched(broadcast::Sender<Served>);

impl Watched {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND))
    }

    pub(super) fn watch(&self) -> broadcast::Receiver<Served> {
        self.0.subscribe()
    }

    pub(super) fn tell(&self, served: impl FnOnce() -> Served) {
        if self.0.receiver_count() > 0 {
            // The last one who watched may just have gone.
            let _ = self.0.send(served());
        }
    }
}
