//! The clocks of a broker or a volunteer.
//!
//! Invariant: leases are counted on a clock that only goes forward: who sets the wall clock forgets
//! no volunteer by it.

use std::time::{Duration, Instant as SystemInstant, SystemTime, UNIX_EPOCH};

use tandem_wire::{Instant, UnixTime};

/// Time since the start, and the wall's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: SystemInstant,
    wall_at_start: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            start: SystemInstant::now(),
            wall_at_start: wall().0,
        }
    }

    /// Since the start.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// Seconds that are about those of the wall clock, and only grow.
    pub(crate) fn steady(&self) -> UnixTime {
        UnixTime(self.wall_at_start + self.start.elapsed().as_secs())
    }
}

/// What the wall clock says.
pub(crate) fn wall() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since.unwrap_or(Duration::ZERO).as_secs())
}
