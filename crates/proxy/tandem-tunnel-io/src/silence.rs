//! How long the other side has not answered, by what a tunnel has carried.
//!
//! Is not: a decision on what follows from it. Sends nothing: at rest nobody knows whether the
//! other side is there.

use std::time::Duration;

use tokio::time::Instant;

use crate::transport::Counts;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    seen: Counts,
    sent: Sent,
}

/// What was sent since something has come.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Nothing,
    /// Perhaps no more than an acknowledgement, which gets no answer.
    Something,
    /// More, and since then there is no answer.
    Questions(Instant),
}

impl Silence {
    /// From now on, after what was carried so far.
    pub(crate) fn after(seen: Counts) -> Self {
        Self {
            seen,
            sent: Sent::Nothing,
        }
    }

    /// Takes in what was carried by now; for how long questions have had no answer.
    pub(crate) fn look(&mut self, counts: Counts) -> Duration {
        // Fewer are those of another tunnel, which has been heard.
        let has_sent = counts.sent_datagrams != self.seen.sent_datagrams;
        let has_heard = counts.received_datagrams != self.seen.received_datagrams;
        self.seen = counts;
        self.sent = match self.sent {
            _ if has_heard => Sent::Nothing,
            Sent::Nothing if has_sent => Sent::Something,
            Sent::Something if has_sent => Sent::Questions(Instant::now()),
            Sent::Nothing | Sent::Something | Sent::Questions(_) => self.sent,
        };
        match self.sent {
            Sent::Nothing | Sent::Something => Duration::ZERO,
            Sent::Questions(since) => since.elapsed(),
        }
    }
}
