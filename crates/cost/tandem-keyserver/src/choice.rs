//! Which of its key servers a client asks: those that can be reached, the fast ones first, in the
//! order of the settings; and when one that cannot be reached is tried again.
//!
//! Is not: connections.
//!
//! Invariants: with no key server within reach there is none to ask, and whoever wants a signature
//! is told so at once. One that failed is tried again by the client itself, never by a handshake.

use std::time::Duration;

/// After a first failure. It doubles with each further one, up to [`MAX_REST`].
const MIN_REST: Duration = Duration::from_millis(250);
/// An attempt every two seconds costs nothing, and a key server that is back is soon used.
const MAX_REST: Duration = Duration::from_secs(2);
/// How long one that was slow stands behind the others.
const SLOW_FOR: Duration = Duration::from_secs(10);

/// What is known of one.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// Failures since it could last be reached.
    failures: u32,
    /// Since the start of the client.
    slow_until: Duration,
}

/// All key servers of a client, by their place in its settings.
#[derive(Clone, Debug)]
pub struct Servers {
    standings: Vec<Standing>,
}

impl Servers {
    /// So many, of which nothing is known yet: all may be asked.
    #[must_use]
    pub fn new(number: usize) -> Self {
        Self {
            standings: vec![Standing::default(); number],
        }
    }

    /// Those to ask, the best first. `now` counts from the start of the client.
    #[must_use]
    pub fn to_ask(&self, now: Duration) -> Vec<usize> {
        let mut usable: Vec<usize> = (0..self.standings.len())
            .filter(|&server| self.is_reachable(server))
            .collect();
        usable.sort_by_key(|&server| self.standings[server].slow_until > now);
        usable
    }

    /// Whether it could be reached when it was last tried, or was not tried yet.
    #[must_use]
    pub fn is_reachable(&self, server: usize) -> bool {
        self.standings
            .get(server)
            .is_some_and(|standing| standing.failures == 0)
    }

    /// It has been reached. `true` where it had failed before.
    pub fn reached(&mut self, server: usize) -> bool {
        match self.standings.get_mut(server) {
            Some(standing) => std::mem::take(&mut standing.failures) > 0,
            None => false,
        }
    }

    /// It was asked and has not answered as soon as it should.
    pub fn was_slow(&mut self, server: usize, now: Duration) {
        if let Some(standing) = self.standings.get_mut(server) {
            standing.slow_until = now + SLOW_FOR;
        }
    }

    /// It could not be reached, or answers nothing. `true` where it had been well before.
    pub fn failed(&mut self, server: usize) -> bool {
        let Some(standing) = self.standings.get_mut(server) else {
            return false;
        };
        standing.failures = standing.failures.saturating_add(1);
        standing.failures == 1
    }

    /// How long to wait before it is tried again.
    #[must_use]
    pub fn rest(&self, server: usize) -> Duration {
        let failures = self.standings.get(server).map_or(0, |each| each.failures);
        let doublings = failures.saturating_sub(1).min(16);
        MIN_REST.saturating_mul(1 << doublings).min(MAX_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn one_that_failed_is_not_asked_until_it_is_reached_again() {
        let mut servers = Servers::new(2);
        assert_eq!(servers.to_ask(NOW), [0, 1]);
        assert!(servers.failed(0));
        assert!(!servers.failed(0), "told once");
        assert_eq!(servers.to_ask(NOW), [1]);
        assert!(servers.failed(1));
        assert!(servers.to_ask(NOW).is_empty());
        assert!(servers.reached(0));
        assert!(!servers.reached(0), "told once");
        assert_eq!(servers.to_ask(NOW), [0]);
    }

    #[test]
    fn a_slow_one_stands_behind_the_others_for_a_while() {
        let mut servers = Servers::new(2);
        servers.was_slow(0, NOW);
        assert_eq!(servers.to_ask(NOW), [1, 0]);
        servers.was_slow(1, NOW);
        assert_eq!(servers.to_ask(NOW), [0, 1]);
        assert_eq!(servers.to_ask(NOW + SLOW_FOR), [0, 1]);
    }

    #[test]
    fn rests_grow_to_a_bound() {
        let mut servers = Servers::new(1);
        let rests: Vec<_> = std::iter::repeat_with(|| {
            servers.failed(0);
            servers.rest(0).as_millis()
        })
        .take(100)
        .collect();
        assert_eq!(rests[..5], [250, 500, 1_000, 2_000, 2_000]);
        assert_eq!(rests[99], 2_000);
    }
}
