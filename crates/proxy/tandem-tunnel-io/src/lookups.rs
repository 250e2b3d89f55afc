//! Lookups of names by the system's resolver: so many at a time, and so many of one client side.
//!
//! Is not: what is made of the addresses (`dial.rs`).
//!
//! Invariants: a lookup keeps its place until it ends, whether or not anybody still waits for it;
//! whoever waits does so behind its own client side's lookups, and behind a few of each other one.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tandem_daemon::places::Share;
use tandem_engine::PeerId;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Lookups at a time. Each has a thread until the resolver answers, which may be long after nobody
/// waits for it any more.
const MAX: usize = 64;
/// Of these, those of one client side, where there are several.
const MAX_EACH: usize = MAX / 4;

/// See the module.
pub(crate) struct Lookups {
    all: Arc<Semaphore>,
    each: usize,
    /// As many as there are keys of client sides.
    of: Mutex<Vec<(PeerId, Arc<Semaphore>)>>,
}

impl Lookups {
    /// With this share for each client side.
    pub(crate) fn new(share: Share) -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX)),
            each: match share {
                Share::All => MAX,
                Share::AtMost(_) | Share::AsManyAsFree => MAX_EACH,
            },
            of: Mutex::default(),
        }
    }

    /// Runs a lookup for this client side once there is a place for it.
    pub(crate) async fn run(
        &self,
        peer: PeerId,
        ask: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        // In this order: whoever waits for its own has none of all.
        let own = self.of_peer(peer).acquire_owned().await;
        let all = Arc::clone(&self.all).acquire_owned().await;
        let places = (own.map_err(io::Error::other)?, all);
        let answer = spawn_blocking(move || {
            let _places = places;
            ask()
        });
        answer.await.map_err(io::Error::other)?
    }

    fn of_peer(&self, peer: PeerId) -> Arc<Semaphore> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, places)) = of.iter().find(|(one, _)| *one == peer) {
            return Arc::clone(places);
        }
        let places = Arc::new(Semaphore::new(self.each));
        of.push((peer, Arc::clone(&places)));
        places
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    const A: PeerId = PeerId([1; 32]);
    const B: PeerId = PeerId([2; 32]);
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A resolver that is silent as long as this is locked.
    type Resolver = Arc<tokio::sync::Mutex<()>>;

    /// As many lookups as there are places, of A; whether each was given up.
    fn crowd(lookups: &Arc<Lookups>, resolver: &Resolver) -> Vec<JoinHandle<bool>> {
        let lookup = |_| {
            let (lookups, resolver) = (Arc::clone(lookups), Arc::clone(resolver));
            tokio::spawn(async move {
                let ask = move || {
                    drop(resolver.blocking_lock());
                    Ok(Vec::new())
                };
                timeout(PATIENCE, lookups.run(A, ask)).await.is_err()
            })
        };
        (0..MAX).map(lookup).collect()
    }

    async fn until_free(lookups: &Lookups, places: usize) {
        while lookups.all.available_permits() > places {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_nobody_waits_for_any_more_keeps_its_place_until_it_ends() {
        let lookups = Arc::new(Lookups::new(Share::All));
        let resolver = Resolver::default();
        let silent = resolver.lock().await;
        let crowd = crowd(&lookups, &resolver);
        until_free(&lookups, 0).await;
        tokio::time::advance(PATIENCE + Duration::from_millis(1)).await;
        for lookup in crowd {
            assert!(lookup.await.expect("no panic"), "given up");
        }
        assert_eq!(lookups.all.available_permits(), 0);
        drop(silent);
        let next = lookups.run(A, || Ok(Vec::new())).await;
        assert!(next.is_ok(), "{next:?}");
    }

    #[tokio::test]
    async fn the_lookups_of_one_client_side_keep_no_other_waiting() {
        let lookups = Arc::new(Lookups::new(Share::AsManyAsFree));
        let resolver = Resolver::default();
        let silent = resolver.lock().await;
        let crowd = crowd(&lookups, &resolver);
        until_free(&lookups, MAX - MAX_EACH).await;
        let other = timeout(PATIENCE, lookups.run(B, || Ok(Vec::new()))).await;
        assert!(matches!(other, Ok(Ok(_))), "{other:?}");
        drop(silent);
        for lookup in crowd {
            assert!(!lookup.await.expect("no panic"), "answered, in its turn");
        }
    }
}
