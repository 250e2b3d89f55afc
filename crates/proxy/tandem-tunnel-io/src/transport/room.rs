//! Whether the line has room for what may be lost: datagrams of endpoints, which are to hold up
//! nothing that streams have to say.
//!
//! QUIC sends datagrams before streams. So none is handed to it unless it can leave at once: while
//! streams fill the congestion window, datagrams wait outside, where they grow old and are dropped.
//! They are not shut out for good: after each that was handed over, the next may pass once
//! [`SHARE`] times its length have had the time to cross.
//!
//! Is not: the queue of what waits (`tandem_tunnel::Flow`), nor a congestion control.
//!
//! Invariant: what was handed over and has not left counts as if it were in flight.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Under a full window, datagrams have this part of the line.
const SHARE: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Room {
    flight: Mutex<Flight>,
    changed: Notify,
}

/// In bytes, but for the time.
#[derive(Debug)]
struct Flight {
    window: u64,
    in_flight: u64,
    handed: u64,
    handed_at: Instant,
}

impl Room {
    pub(super) fn new(window: u64) -> Self {
        Self {
            flight: Mutex::new(Flight {
                window,
                in_flight: 0,
                handed: 0,
                handed_at: Instant::now(),
            }),
            changed: Notify::new(),
        }
    }

    /// So many bytes have left.
    pub(super) fn sent(&self, bytes: u64) {
        let mut flight = self.flight();
        flight.in_flight = flight.in_flight.saturating_add(bytes);
        flight.handed = flight.handed.saturating_sub(bytes);
        drop(flight);
        self.changed.notify_waiters();
    }

    /// So much is in flight, of so much that may be.
    pub(super) fn set(&self, in_flight: u64, window: u64) {
        let mut flight = self.flight();
        flight.in_flight = in_flight;
        flight.window = window;
        if in_flight == 0 {
            // All that was handed over has left, or never will.
            flight.handed = 0;
        }
        drop(flight);
        self.changed.notify_waiters();
    }

    /// Is ready once there is room for so many bytes, or for their turn beside those who fill the
    /// window. They count as handed over then. They wait since then, on a line of this round trip.
    pub(super) async fn take(&self, bytes: usize, since: Instant, round_trip: Duration) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        loop {
            let changed = self.changed.notified();
            let turn = {
                let mut flight = self.flight();
                let turn = flight
                    .turn(bytes, round_trip)
                    .max(since + flight.share(bytes, round_trip));
                if flight.has(bytes) || Instant::now() >= turn {
                    flight.handed = flight.handed.saturating_add(bytes);
                    flight.handed_at = Instant::now();
                    return;
                }
                turn
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(turn) => {}
            }
        }
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        // Each change leaves it whole.
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    fn has(&self, bytes: u64) -> bool {
        let all = self.in_flight.saturating_add(self.handed);
        // As quinn: less than the window. What is longer than all of it passes an empty line.
        all == 0 || all.saturating_add(bytes) < self.window
    }

    /// The time in which the others have had their share.
    fn share(&self, bytes: u64, round_trip: Duration) -> Duration {
        let part = bytes as f64 / self.window.max(1) as f64;
        (round_trip * SHARE).mul_f64(part)
    }

    /// When the next is due after the one that was handed over last.
    fn turn(&self, bytes: u64, round_trip: Duration) -> Instant {
        self.handed_at + self.share(bytes, round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    /// How long so many bytes have to wait.
    async fn waits(room: &Room, bytes: usize) -> Duration {
        let now = Instant::now();
        room.take(bytes, now, ROUND_TRIP).await;
        now.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_room_until_the_window_is_full_of_what_left_and_what_was_handed_over() {
        let room = Room::new(10_000);
        for _ in 0..9 {
            assert_eq!(waits(&room, 1_000).await, Duration::ZERO);
        }
        // A tenth of the window, eight times: 80 ms.
        let full = waits(&room, 1_000).await;
        assert!((80..85).contains(&full.as_millis()), "{full:?}");
        // Streams have their share before each.
        let full = waits(&room, 1_000).await;
        assert!((80..85).contains(&full.as_millis()), "{full:?}");
        // What has left is no longer waiting to.
        room.sent(11_000);
        room.set(5_000, 10_000);
        assert_eq!(waits(&room, 1_000).await, Duration::ZERO);
        // Nothing is in flight: what never left is forgotten.
        room.set(0, 10_000);
        for _ in 0..9 {
            assert_eq!(waits(&room, 1_000).await, Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_longer_than_the_window_passes_an_empty_line() {
        let room = Room::new(1_000);
        assert_eq!(waits(&room, 9_000).await, Duration::ZERO);
        assert!(waits(&room, 9_000).await > ROUND_TRIP);
    }

    #[tokio::test(start_paused = true)]
    async fn an_acknowledgement_lets_those_pass_who_wait() {
        let room = std::sync::Arc::new(Room::new(10_000));
        room.sent(10_000);
        let waiting = {
            let room = std::sync::Arc::clone(&room);
            tokio::spawn(async move { waits(&room, 1_200).await })
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
        room.set(2_000, 10_000);
        let waited = waiting.await.expect("no panic");
        assert!((10..12).contains(&waited.as_millis()), "{waited:?}");
    }
}
