//! When UDP is tried again while the tunnel runs over TCP.
//!
//! Is not: the try of a tunnel that gives no answer, which is at once (`keeper.rs`).
//!
//! Invariants: nothing is tried unless the tunnel has carried something since the last try; each
//! try costs two datagrams where nobody answers, and the pauses between them double.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::up::Up;
use crate::transport::{Counts, Lost, Tunnel};

/// Before the first try: a packet that was lost is no reason to stay with TCP.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
/// Between any two.
const MIN_PAUSE: Duration = Duration::from_secs(5 * 60);
/// Between tries at most.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// When the next try is due.
#[derive(Debug)]
pub(super) struct Looks {
    pause: Duration,
    at: Instant,
    /// What the tunnel had carried when the last try began.
    seen: Counts,
}

impl Looks {
    /// The first pause begins.
    pub(super) fn new() -> Self {
        Self {
            pause: FIRST_PAUSE,
            at: Instant::now() + FIRST_PAUSE,
            seen: Counts::default(),
        }
    }

    /// The tunnel that was found was not worth it: the next try is due as if none had been found.
    pub(super) fn put_off(&mut self) {
        self.at = Instant::now() + self.pause;
        self.seen = Counts::default();
    }

    /// A tunnel, once one is made. Each try takes two round trips, by what `up` has measured, or by
    /// `doubt`, which is three; the first packets are repeated after three.
    pub(super) async fn find<F, N>(
        &mut self,
        connect: impl Fn() -> F,
        up: &Up<impl Tunnel>,
        doubt: Duration,
    ) -> N
    where
        F: Future<Output = Result<N, Lost>>,
    {
        loop {
            sleep_until(self.at).await;
            up.carries(&self.seen).await;
            // A try counts that is given up before its end.
            self.pause = (self.pause * 2).clamp(MIN_PAUSE, MAX_PAUSE);
            self.at = Instant::now() + self.pause;
            self.seen = up.tunnel().counts();
            let patience = (up.tunnel().counts().round_trip * 2).max(doubt * 2 / 3);
            if let Ok(Ok(tunnel)) = timeout(patience, connect()).await {
                tracing::info!("UDP gets through again");
                return tunnel;
            }
            tracing::debug!(next = ?self.pause, "UDP still gets no answer");
        }
    }
}
