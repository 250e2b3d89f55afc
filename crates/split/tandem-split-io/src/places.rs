//! Places at a port: who is served, and who has to go for another.
//!
//! Is not: how they are shared out (`tandem_barnraising::places`).
//!
//! Invariants: who has no place is sent away at once; a connection whose place was taken over ends;
//! a place is free again when its holder is dropped.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant as SystemInstant;

use tandem_barnraising::PublicKey;
use tandem_barnraising::places::{Fair, Id, Rank, Rules};
use tandem_channel::KeyName;
use tandem_daemon::listener;
use tandem_daemon::metrics::Number;
use tandem_wire::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What is counted.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    /// Connections that got no place.
    pub(crate) refused: Number,
    /// Those that lost it to another.
    pub(crate) displaced: Number,
}

/// See above.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: SystemInstant,
    state: Mutex<State>,
    numbers: Numbers,
}

#[derive(Debug)]
struct State {
    fair: Fair,
    /// How those that have a place hear that they have lost it.
    lost: BTreeMap<Id, Arc<Notify>>,
}

/// The right to one connection, which ends with it.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    id: Id,
    from: IpAddr,
    lost: Arc<Notify>,
    is_kept: AtomicBool,
}

impl Places {
    pub(crate) fn new(rules: Rules, numbers: Numbers) -> Self {
        Self(Arc::new(Shared {
            start: SystemInstant::now(),
            state: Mutex::new(State {
                fair: Fair::new(rules),
                lost: BTreeMap::new(),
            }),
            numbers,
        }))
    }

    /// Serves each connection that has a place, as long as it has one, for ever. `rank` says what
    /// is known of whoever comes from an address.
    pub(crate) async fn serve<F>(
        self,
        listener: TcpListener,
        rank: impl Fn(IpAddr) -> Rank,
        each: impl Fn(TcpStream, Place) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        listener::serve_admitted(listener, move |stream, from| {
            let place = self.take(from, rank(from))?;
            let lost = Arc::clone(&place.lost);
            let connection = each(stream, place);
            Some(async move {
                tokio::select! {
                    biased;
                    () = lost.notified() => {}
                    () = connection => {}
                }
            })
        })
        .await;
    }

    fn take(&self, from: IpAddr, rank: Rank) -> Option<Place> {
        let mut state = self.lock();
        let Ok(taken) = state.fair.take(from, rank, self.now()) else {
            self.0.numbers.refused.add(1);
            return None;
        };
        let lost = Arc::new(Notify::new());
        state.lost.insert(taken.id, Arc::clone(&lost));
        self.end(&mut state, taken.displaced);
        Some(Place {
            places: self.clone(),
            id: taken.id,
            from,
            lost,
            is_kept: AtomicBool::new(false),
        })
    }

    /// Ends the connection that has lost its place.
    fn end(&self, state: &mut State, displaced: Option<Id>) {
        if let Some(lost) = displaced.and_then(|id| state.lost.remove(&id)) {
            // Also if nobody waits for it yet.
            lost.notify_one();
            self.0.numbers.displaced.add(1);
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.0.start.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Counts it for whoever has this key, and says whether it may stay.
    pub(crate) fn count_for(&self, key: KeyName) -> bool {
        let mut state = self.places.lock();
        match state.fair.show(self.id, PublicKey(key.bytes())) {
            Ok(displaced) => {
                self.places.end(&mut state, displaced);
                true
            }
            Err(_) => {
                self.places.0.numbers.refused.add(1);
                false
            }
        }
    }

    /// Counts it as a member's, although it comes from another address than the member's.
    pub(crate) fn count_as_member(&self) {
        self.places.lock().fair.raise(self.id, self.from);
    }

    /// From where whoever has it comes.
    pub(crate) fn address(&self) -> IpAddr {
        self.from
    }

    /// It was asked for something: nobody takes it over any more.
    pub(crate) fn keep(&self) {
        if !self.is_kept.swap(true, Ordering::Relaxed) {
            self.places.lock().fair.keep(self.id);
        }
    }

    /// Nothing is asked for on it any more, so that it is taken over again.
    pub(crate) fn rest(&self) {
        if self.is_kept.swap(false, Ordering::Relaxed) {
            let now = self.places.now();
            self.places.lock().fair.rest(self.id, self.from, now);
        }
    }

    /// Notes that a client got what it asked for: whoever comes from there is known from now on.
    pub(crate) fn note_served(&self) {
        let now = self.places.now();
        self.places.lock().fair.note(self.from, now);
    }

    /// Whether whoever comes from there is known.
    pub(crate) fn is_known(&self) -> bool {
        let now = self.places.now();
        self.places.lock().fair.is_known(self.from, now)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.fair.leave(self.id);
        state.lost.remove(&self.id);
    }
}
