//! What all threads of the generator see: when the measurement begins and ends, and how many
//! connections and requests are done so far.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tandem_measure::{ServerFacts, Slot};

/// Not known yet.
const NEVER: u64 = u64::MAX;

/// One for a run.
#[derive(Debug)]
pub(crate) struct Board {
    /// From where moments are counted.
    pub(crate) base: Instant,
    start: AtomicU64,
    end: AtomicU64,
    done: AtomicU64,
    micros: AtomicU64,
    squares: AtomicU64,
    failed: AtomicU64,
    /// What the first handshake showed of the server.
    pub(crate) facts: OnceLock<ServerFacts>,
}

/// Numbers since the beginning.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Requests that were answered.
    pub(crate) done: u64,
    /// Microseconds that they took, added up.
    pub(crate) micros: u64,
    /// The squares of these.
    pub(crate) squares: u64,
    /// Connections and requests that failed.
    pub(crate) failed: u64,
}

impl Progress {
    /// What came since an earlier moment.
    pub(crate) fn since(&self, before: &Self) -> Slot {
        Slot {
            done: self.done - before.done,
            sum: (self.micros - before.micros) as f64 / 1e6,
            squares: self.squares.wrapping_sub(before.squares) as f64 / 1e12,
        }
    }
}

impl Board {
    /// Before the first connection.
    pub(crate) fn new() -> Self {
        Self {
            base: Instant::now(),
            start: AtomicU64::new(NEVER),
            end: AtomicU64::new(NEVER),
            done: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            squares: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            facts: OnceLock::new(),
        }
    }

    /// What is to start from now on is measured, until this time is over.
    pub(crate) fn measure(&self, duration: Duration) {
        let now = self.at(Instant::now());
        // The end first: whoever sees the start sees the end.
        let length = u64::try_from(duration.as_nanos()).unwrap_or(NEVER);
        self.end
            .store(now.saturating_add(length), Ordering::Release);
        self.start.store(now, Ordering::Release);
    }

    /// Nothing more is to start.
    pub(crate) fn stop(&self) {
        self.end.store(0, Ordering::Release);
    }

    /// Whether what is to start at this moment is to start no more.
    pub(crate) fn is_over(&self, moment: Instant) -> bool {
        self.at(moment) >= self.end.load(Ordering::Acquire)
    }

    /// Whether what was to start at this moment counts.
    pub(crate) fn is_measured(&self, moment: Instant) -> bool {
        self.at(moment) >= self.start.load(Ordering::Acquire) && !self.is_over(moment)
    }

    /// A request was answered after this time.
    pub(crate) fn answered(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.done.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        // Wraps where differences do, too.
        self.squares
            .fetch_add(micros.wrapping_mul(micros), Ordering::Relaxed);
    }

    /// A connection or request failed.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers so far.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            done: self.done.load(Ordering::Relaxed),
            micros: self.micros.load(Ordering::Relaxed),
            squares: self.squares.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    fn at(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.base);
        u64::try_from(since.as_nanos()).unwrap_or(NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_to_start_in_between_counts() {
        let board = Board::new();
        let early = board.base;
        assert!(!board.is_measured(early) && !board.is_over(early));
        board.measure(Duration::from_secs(5));
        let now = Instant::now();
        assert!(board.is_measured(now) && !board.is_measured(early));
        let late = now + Duration::from_secs(6);
        assert!(board.is_over(late) && !board.is_measured(late));
        board.stop();
        assert!(board.is_over(now));
    }

    #[test]
    fn a_slot_is_what_came_in_between() {
        let board = Board::new();
        board.answered(Duration::from_millis(1));
        let before = board.progress();
        board.answered(Duration::from_millis(2));
        board.answered(Duration::from_millis(4));
        let slot = board.progress().since(&before);
        assert_eq!(slot.done, 2);
        assert!((slot.sum - 0.006).abs() < 1e-9, "{slot:?}");
        assert!((slot.squares - 20e-6).abs() < 1e-12, "{slot:?}");
    }
}
