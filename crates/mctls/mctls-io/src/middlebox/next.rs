//! Where a session goes from a middlebox.
//!
//! Is not: what the client names, nor whether that is permitted.
//!
//! Invariants: a backend that does not take a connection within [`Backends::patience`] is passed
//! over for [`Backends::rest`], unless no other is left; by the client's address, the failure of a
//! backend moves its own clients and no others (rendezvous hashing).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::error::{Error, Part};

/// Where a session goes.
#[derive(Clone, Debug)]
pub enum NextHop {
    /// Where the client says, as far as that is permitted.
    Named,
    /// Here, as host and port, whatever the client says.
    Fixed(String),
    /// To one of several, whatever the client says.
    OneOf(Arc<Backends>),
}

/// By what one of several is chosen. Nothing of the session's content: a connection to the server
/// is there before the first request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One after the other.
    RoundRobin,
    /// By the address from which the client, or the middlebox before, comes: always the same one.
    ClientAddress,
}

/// Several next hops, each as good as the others.
#[derive(Debug)]
pub struct Backends {
    addresses: Vec<String>,
    choice: Choice,
    patience: Duration,
    rest: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    turn: usize,
    /// Until when each is passed over.
    down: Vec<Option<Instant>>,
}

impl Backends {
    /// Those at these addresses (host and port). One that takes no connection within `patience` is
    /// tried last for as long as `rest`.
    #[must_use]
    pub fn new(addresses: Vec<String>, choice: Choice, patience: Duration, rest: Duration) -> Self {
        let down = vec![None; addresses.len()];
        Self {
            addresses,
            choice,
            patience,
            rest,
            state: Mutex::new(State { turn: 0, down }),
        }
    }

    /// How long one may take to accept a connection.
    #[must_use]
    pub const fn patience(&self) -> Duration {
        self.patience
    }

    /// How long one that did not is passed over.
    #[must_use]
    pub const fn rest(&self) -> Duration {
        self.rest
    }

    /// A connection to the first that takes one.
    pub(super) async fn connect(&self, client: IpAddr) -> Result<TcpStream, Error> {
        let mut last = Error::TimedOut(Part::NextHop, self.patience);
        for index in self.order(client, Instant::now()) {
            let Some(address) = self.addresses.get(index) else {
                continue;
            };
            let tried = timeout(self.patience, TcpStream::connect(address)).await;
            last = match tried {
                Ok(Ok(stream)) => {
                    self.note(index, None);
                    return Ok(stream);
                }
                Ok(Err(error)) => error.into(),
                Err(_) => Error::TimedOut(Part::NextHop, self.patience),
            };
            tracing::info!("backend {} takes no connection: {last}", index + 1);
            self.note(index, Some(Instant::now() + self.rest));
        }
        Err(last)
    }

    /// All of them, in the order in which they are tried.
    fn order(&self, client: IpAddr, now: Instant) -> Vec<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.addresses.len();
        let mut order: Vec<usize> = (0..count).collect();
        match self.choice {
            Choice::RoundRobin => {
                order.rotate_left(state.turn.checked_rem(count).unwrap_or(0));
                state.turn = state.turn.wrapping_add(1);
            }
            Choice::ClientAddress => order.sort_by_cached_key(|index| {
                let text = format!("{client} {}", self.addresses[*index]);
                digest(&SHA256, text.as_bytes()).as_ref().to_vec()
            }),
        }
        // In their order, but behind those that are well.
        order.sort_by_key(|index| state.down[*index].is_some_and(|until| until > now));
        order
    }

    fn note(&self, index: usize, down: Option<Instant>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = state.down.get_mut(index) {
            *entry = down;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(choice: Choice) -> Backends {
        let addresses = ["a:1", "b:1", "c:1"].map(str::to_owned).to_vec();
        let second = Duration::from_secs(1);
        Backends::new(addresses, choice, second, 10 * second)
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn one_after_the_other_and_one_that_is_down_last_until_its_rest_is_over() {
        let three = three(Choice::RoundRobin);
        let now = Instant::now();
        let firsts = || three.order(address(1), now)[0];
        assert_eq!([firsts(), firsts(), firsts(), firsts()], [0, 1, 2, 0]);
        three.note(1, Some(now + three.rest()));
        assert_eq!(three.order(address(1), now), [2, 0, 1]);
        let later = now + three.rest();
        three.order(address(1), later);
        three.order(address(1), later);
        assert_eq!(three.order(address(1), later), [1, 2, 0]);
    }

    #[test]
    fn a_failure_moves_its_own_clients_and_no_others() {
        let three = three(Choice::ClientAddress);
        let now = Instant::now();
        let firsts = || -> Vec<usize> {
            let clients = (0..=255).map(address);
            clients.map(|client| three.order(client, now)[0]).collect()
        };
        let before = firsts();
        assert_eq!(before, firsts(), "always the same one");
        for index in 0..3 {
            let share = before.iter().filter(|first| **first == index).count();
            assert!(share > 50, "{index}: {share} of 256");
        }
        three.note(0, Some(now + three.rest()));
        for (before, after) in before.into_iter().zip(firsts()) {
            assert_ne!(after, 0);
            assert!(before == 0 || before == after);
        }
    }
}
