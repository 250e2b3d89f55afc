//! How many keys were passed on, and how many were not: told in the log, each minute in which
//! something has changed.
//!
//! Is not: which keys, or of whom.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Between two lines of the log.
const INTERVAL: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed_on: Count,
    /// Nobody was there to take them, or had room.
    pub(crate) dropped: Count,
    /// What was no key.
    pub(crate) malformed: Count,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: usize) {
        // A count of 64 bits takes any length.
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    fn values(&self) -> [u64; 3] {
        [&self.passed_on, &self.dropped, &self.malformed].map(Count::value)
    }

    /// Writes a line.
    pub(crate) fn tell(&self) {
        let [passed_on, dropped, malformed] = self.values();
        tracing::info!("{passed_on} keys passed on, {dropped} dropped, {malformed} malformed");
    }

    /// Writes a line each minute in which something has changed, for ever.
    pub(crate) async fn keep_telling(&self) {
        let mut told = self.values();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let values = self.values();
            if values != told {
                self.tell();
                told = values;
            }
        }
    }
}
