//! The two clocks as the cores want them.
//!
//! Is not: a timer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tandem_wire::{Instant, UnixTime};

/// Counts from the start of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    start: std::time::Instant,
}

impl Clocks {
    pub(crate) fn new() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }

    /// Time since the start.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// When that is by the runtime's clock.
    pub(crate) fn moment(&self, at: Instant) -> tokio::time::Instant {
        // A moment later, so that what is due is not found to be due a little later still.
        let since = at.saturating_since(Instant::ZERO) + Duration::from_micros(1);
        // A time that the runtime cannot express is as good as never.
        let at = self.start.checked_add(since);
        at.unwrap_or_else(|| self.start + Duration::from_secs(365 * 24 * 3600))
            .into()
    }
}

/// Wall-clock time; 0 before 1970.
pub(crate) fn wall() -> UnixTime {
    UnixTime(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    )
}
