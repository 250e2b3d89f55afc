//! Keeps the client side's one connection to the server side: makes it at the start, and again when
//! it is gone and somebody needs it. One that gets no answer any more is taken for gone.
//!
//! Is not: a transport; the connections come from a [`Connect`].
//!
//! Invariants: nothing is sent while nobody needs the connection, but at the start; tries follow
//! each other at growing intervals, or when somebody new needs it; who waits for the connection
//! waits in bounded time, and a whole try at least; and so who waits for a stream in it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::board::{Board, Tally};
use crate::transport::{Connect, Lost, Stream, Tunnel};

/// Between the first try and the second, and at least between any two.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Between tries at most, for the same who wait: a line that comes back is used within a minute.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Between two looks at what a connection has carried. They cost the line nothing.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// A connection that asks for so long and gets no answer is given up. quinn's pause before a probe
/// is as long as all pauses before it together: after an outage of five minutes, which connections
/// are to survive, the next probe may leave ten minutes after the first. A minute for its answer.
const MAX_SILENCE: Duration = Duration::from_secs(11 * 60);

/// The relays' side.
#[derive(Debug)]
pub(crate) struct Keeper<T> {
    current: watch::Receiver<Option<T>>,
    waiting: Arc<watch::Sender<Waiting>>,
    patience: Duration,
}

impl<T: Tunnel> Keeper<T> {
    /// A keeper, and the task that makes the connections; the task ends with nothing but its
    /// runtime.
    pub(crate) fn new<C: Connect<Tunnel = T>>(
        connect: C,
        board: Arc<Board>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (current, seen) = watch::channel(None);
        let waiting = Arc::new(watch::Sender::new(Waiting::default()));
        let keeper = Self {
            current: seen,
            waiting: Arc::clone(&waiting),
            // One whole try, and the pause before it.
            patience: connect.patience() + MIN_PAUSE * 2,
        };
        let task = keep(connect, board, current, waiting.subscribe());
        (keeper, task)
    }

    /// The connection, once there is one; `None` if that takes too long.
    pub(crate) async fn tunnel(&self) -> Option<T> {
        let mut current = self.current.clone();
        if let Some(tunnel) = current.borrow().clone() {
            return Some(tunnel);
        }
        let _waits = Waits::with(&self.waiting);
        let found = timeout(self.patience, current.wait_for(Option::is_some)).await;
        found.ok()?.ok()?.clone()
    }

    /// A stream in the connection; `None` if either takes too long.
    pub(crate) async fn stream(&self) -> Option<Stream<T::Sending, T::Receiving>> {
        let tunnel = self.tunnel().await?;
        // It waits while there are as many as the other side permits.
        timeout(self.patience, tunnel.open()).await.ok()?.ok()
    }

    /// The connection, if there is one now.
    pub(crate) fn now(&self) -> Option<T> {
        self.current.borrow().clone()
    }
}

/// Those who wait for the connection.
#[derive(Debug, Default)]
struct Waiting {
    /// How many do now.
    now: usize,
    /// How many have come since the start.
    come: u64,
}

/// Somebody waits, until it is dropped.
struct Waits<'a>(&'a watch::Sender<Waiting>);

impl<'a> Waits<'a> {
    fn with(waiting: &'a watch::Sender<Waiting>) -> Self {
        waiting.send_modify(|waiting| {
            waiting.now += 1;
            waiting.come += 1;
        });
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| waiting.now -= 1);
    }
}

async fn keep<C: Connect>(
    connect: C,
    board: Arc<Board>,
    current: watch::Sender<Option<C::Tunnel>>,
    mut waiting: watch::Receiver<Waiting>,
) {
    let mut pause = MIN_PAUSE;
    loop {
        match connect.connect().await {
            Ok(tunnel) => {
                pause = MIN_PAUSE;
                let shown = board.tunnel(&tunnel);
                tracing::info!("the tunnel is up");
                current.send_replace(Some(tunnel.clone()));
                let why = tokio::select! {
                    why = tunnel.closed() => why,
                    () = unanswered(&tunnel) => {
                        tunnel.close();
                        Lost::Silent
                    }
                };
                current.send_replace(None);
                drop(shown);
                tracing::info!("the tunnel is down: {why}");
                if why == Lost::Restarted {
                    board.count(Tally::TunnelsRestarted, 1);
                }
            }
            Err(why) => {
                board.count(Tally::TunnelsFailed, 1);
                tracing::warn!("no tunnel: {why}");
                tokio::select! {
                    () = sleep(jittered(pause)) => {}
                    () = another(waiting.clone()) => {}
                }
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
        if waiting.wait_for(|waiting| waiting.now > 0).await.is_err() {
            return;
        }
    }
}

/// What was sent since something has come.
#[derive(Clone, Copy)]
enum Sent {
    Nothing,
    /// Perhaps no more than an acknowledgement, which gets no answer.
    Something,
    /// More, and since then there is no answer.
    Questions(Instant),
}

/// Is ready once the other side has not answered for [`MAX_SILENCE`]. Sends nothing: at rest
/// nobody knows whether it is there.
async fn unanswered(tunnel: &impl Tunnel) {
    let mut sent = Sent::Nothing;
    let mut seen = tunnel.counts();
    loop {
        sleep(LOOK_INTERVAL).await;
        let counts = tunnel.counts();
        let has_sent = counts.sent_datagrams > seen.sent_datagrams;
        let has_heard = counts.received_datagrams > seen.received_datagrams;
        seen = counts;
        if has_heard {
            sent = Sent::Nothing;
            continue;
        }
        sent = match sent {
            Sent::Nothing if has_sent => Sent::Something,
            Sent::Something if has_sent => Sent::Questions(Instant::now()),
            Sent::Questions(since) if since.elapsed() >= MAX_SILENCE => return,
            Sent::Nothing | Sent::Something | Sent::Questions(_) => sent,
        };
    }
}

/// Is ready once somebody new waits, but not before the shortest pause is over.
async fn another(mut waiting: watch::Receiver<Waiting>) {
    let come = waiting.borrow().come;
    sleep(jittered(MIN_PAUSE)).await;
    // It fails only where the senders are gone; then nobody waits for the end of the pause.
    let _ = waiting.wait_for(|waiting| waiting.come > come).await;
}

/// Three quarters of `pause` to all of it, so that those whom an outage has stopped do not all come
/// back at once.
fn jittered(pause: Duration) -> Duration {
    // Without random bytes there is no jitter, and nothing else is lost.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    let part = pause / 4;
    pause - part.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
