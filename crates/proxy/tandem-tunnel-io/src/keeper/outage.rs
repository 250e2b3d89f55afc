//! What the log says of tries that fail: a line at the first, and one now and then.
//!
//! Is not: what the status says, which has the last reason.
//!
//! Invariant: however many tries there are, two lines are [`INTERVAL`] apart, unless a tunnel gave
//! answers in between.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// From one line to the next.
pub(super) const INTERVAL: Duration = Duration::from_secs(15 * 60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outage(
    /// When it was last told of, while it lasts.
    Mutex<Option<Instant>>,
);

impl Outage {
    /// A try has failed.
    pub(super) fn goes_on(&self, how: fmt::Arguments<'_>) {
        let mut told = self.told();
        if told.is_some_and(|at| at.elapsed() < INTERVAL) {
            tracing::debug!("{how}");
        } else {
            *told = Some(Instant::now());
            tracing::warn!("{how}");
        }
    }

    /// A tunnel gives answers. Whether that is news.
    pub(super) fn is_over(&self) -> bool {
        self.told().take().is_some()
    }

    fn told(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
