//! A lock that a forked child cannot inherit held.
//!
//! Is not: fair, or for work that takes long. Why not the standard library's: a program with
//! threads may fork at any moment, and a mutex that another thread holds at that moment stays
//! locked in the child for ever. Here the holder is named by its process, and a holder of another
//! process is none.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Tries before a thread sleeps: the work under the lock takes less than a microsecond.
const TRIES: u32 = 100;

/// How long a thread sleeps then. A sleep, and not a yield, lets a holder of lower priority run.
const NAP: Duration = Duration::from_micros(50);

/// One at a time within a process.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The process that holds it; 0 when nobody does.
    holder: AtomicU32,
}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self {
            holder: AtomicU32::new(0),
        }
    }

    /// Does the work once nobody else in the process with this identifier is at it.
    pub(crate) fn hold<T>(&self, process: u32, work: impl FnOnce() -> T) -> T {
        let mut tries = 0;
        let mut free = 0;
        while let Err(holder) =
            self.holder
                .compare_exchange(free, process, Ordering::Acquire, Ordering::Relaxed)
        {
            // Another process's is what a fork left behind; this process's, and what has just
            // become free, is waited for.
            free = if holder == process { 0 } else { holder };
            tries += 1;
            if tries > TRIES {
                std::thread::sleep(NAP);
            }
        }
        let _held = Held(&self.holder);
        work()
    }
}

struct Held<'a>(&'a AtomicU32);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn one_thread_at_a_time() {
        let lock = Lock::new();
        let inside = AtomicUsize::new(0);
        let rounds = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        lock.hold(7, || {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            rounds.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(rounds.into_inner(), 8_000);
    }

    #[test]
    fn a_child_takes_over_what_a_fork_left_locked() {
        let lock = Lock::new();
        lock.hold(7, || {
            // As a child that was forked now sees it: held by a process that is not this one.
            assert_eq!(lock.hold(8, || "done"), "done");
        });
    }

    #[test]
    fn a_panic_leaves_it_free() {
        let lock = Lock::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.hold(7, || panic!("on purpose"))
        }));
        assert!(panicked.is_err());
        assert_eq!(lock.hold(7, || 1), 1);
    }
}
