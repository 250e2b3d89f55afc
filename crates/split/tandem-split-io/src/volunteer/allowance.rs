//! How much a volunteer gives away each second, to all clients together.
//!
//! Is not: fair between clients to the byte: who asks first is served first.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// See above. Without a rate nobody waits.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Bytes each second.
    rate: Option<u64>,
    /// When what was given away so far is paid for.
    paid: Mutex<Instant>,
}

impl Allowance {
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self {
            rate: rate.filter(|rate| *rate > 0),
            paid: Mutex::new(Instant::now()),
        }
    }

    /// Waits until `len` more bytes may go.
    pub(super) async fn take(&self, len: usize) {
        let Some(rate) = self.rate else {
            return;
        };
        let due = {
            let mut paid = self.paid.lock().await;
            let due = (*paid).max(Instant::now());
            *paid = due + Duration::from_secs_f64(len as f64 / rate as f64);
            due
        };
        sleep_until(due).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept_over_all_who_take() {
        let allowance = Allowance::new(Some(1000));
        let start = Instant::now();
        for _ in 0..5 {
            allowance.take(1000).await;
        }
        // The first goes at once, each other waits for the one before.
        assert_eq!(start.elapsed().as_secs(), 4);
        Allowance::new(None).take(1 << 30).await;
        assert_eq!(start.elapsed().as_secs(), 4);
    }
}
