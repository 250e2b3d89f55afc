//! Until when a client's next request has to have come.
//!
//! Is not: a timer. Invariant: what a client sends in between puts nothing off, neither records of
//! its handshake, nor parts of a head, nor empty lines before one.

use std::time::Duration;

use tokio::time::Instant;

/// How long a request may take that has begun. A handshake and the first request together may take
/// twice as long.
pub(super) const REQUEST: Duration = Duration::from_secs(30);
/// How long a connection is kept for another request. It does not count for the first.
const IDLE: Duration = Duration::from_secs(75);

/// See the module.
pub(super) enum Silence {
    /// Before the end of the first head.
    First(Instant),
    /// After a request, of which nothing more has come.
    Idle(Option<Instant>),
    /// A head has begun.
    Begun(Instant),
}

impl Silence {
    /// Of a client that connects now.
    pub(super) fn from(now: Instant) -> Self {
        Self::First(now + 2 * REQUEST)
    }

    /// A request has come.
    pub(super) fn ends(&mut self) {
        *self = Self::Idle(None);
    }

    /// When it is over, if no request comes. `is_idle`: nothing of it is there.
    pub(super) fn until(&mut self, is_idle: bool, now: Instant) -> Instant {
        match self {
            Self::First(deadline) | Self::Begun(deadline) => *deadline,
            Self::Idle(deadline) if is_idle => *deadline.get_or_insert(now + IDLE),
            Self::Idle(_) => {
                *self = Self::Begun(now + REQUEST);
                now + REQUEST
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_puts_off_the_end_of_a_request_that_has_begun() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut silence = Silence::from(start);
        for second in 0..5 {
            let is_idle = second % 2 == 0;
            assert_eq!(silence.until(is_idle, at(second)), start + 2 * REQUEST);
        }
        silence.ends();
        assert_eq!(silence.until(true, at(5)), at(5) + IDLE);
        assert_eq!(silence.until(true, at(6)), at(5) + IDLE);
        // A carriage return, its line feed, and so on: empty lines are taken out.
        for second in 7..12 {
            let is_idle = second % 2 == 0;
            assert_eq!(silence.until(is_idle, at(second)), at(7) + REQUEST);
        }
        silence.ends();
        assert_eq!(silence.until(true, at(12)), at(12) + IDLE);
    }
}
