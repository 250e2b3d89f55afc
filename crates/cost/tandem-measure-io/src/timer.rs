//! A clock's alarm of microseconds: the runtime's own timers are of milliseconds, and what a start
//! is late counts in the latency.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// One timer. timerfd_create(2).
#[derive(Debug)]
pub(crate) struct Timer(AsyncFd<Descriptor>);

#[derive(Debug)]
struct Descriptor(TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Timer {
    /// Has to be made within a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        #[expect(
            unsafe_code,
            reason = "the runtime has no safe way to wait for a timer's descriptor"
        )]
        // SAFETY: the descriptor is the timer's own, is never replaced, and lives as long as this.
        let registered = unsafe { AsyncFd::register(Descriptor(timer)) };
        registered.map(Self).map_err(io::Error::from)
    }

    /// Is ready at this moment, at once if it has gone by.
    pub(crate) async fn until(&self, moment: Instant) -> io::Result<()> {
        let left = moment.saturating_duration_since(Instant::now());
        if left < Duration::from_micros(1) {
            return Ok(());
        }
        let timer = &self.0.get_ref().0;
        timer.set(Expiration::OneShot(left.into()), TimerSetTimeFlags::empty())?;
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|timer| timer.get_ref().0.wait().map_err(io::Error::from)) {
                Ok(expired) => return expired,
                Err(_not_yet) => {}
            }
        }
    }
}
