//! The limits of clients put to work: counts shared between the tasks, and kept in a file of the
//! store's directory.
//!
//! Is not: the counting rules ([`Usage`]).
//!
//! Invariant: the file is written at intervals and at the end, never by the byte. Only its owner
//! can read it, since it says who was here.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_tunnel::{Limits, Standing, Usage};
use tokio::task::spawn_blocking;

use crate::clock::wall;
use crate::kept::Kept;

/// The file's name.
const FILE: &str = "client-bytes";

/// Between two writes of the file. A crash forgets what was used since the last.
const KEEP_INTERVAL: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(crate) struct ClientLimits {
    usage: Mutex<Usage>,
    kept: Kept,
}

impl ClientLimits {
    /// Goes on from what the file in the directory of the store says; `None` if nobody is limited.
    pub(crate) fn open(limits: Limits, store: &Path) -> Option<Arc<Self>> {
        if limits.is_empty() {
            return None;
        }
        let kept = Kept::new(store, FILE, "what each client has used today");
        let usage = kept.read(|text| Usage::read(limits.clone(), text));
        Some(Arc::new(Self {
            usage: Mutex::new(usage.unwrap_or_else(|| Usage::new(limits))),
            kept,
        }))
    }

    /// Whether a client may make another connection.
    pub(crate) fn standing(&self, client: IpAddr) -> Standing {
        self.usage().standing(client, wall())
    }

    /// Counts for this client.
    pub(crate) fn meter(self: &Arc<Self>, client: IpAddr) -> Meter {
        Meter {
            limits: Arc::clone(self),
            client,
        }
    }

    /// Writes the file from time to time, for ever.
    pub(crate) async fn keep_on(self: Arc<Self>) {
        loop {
            tokio::time::sleep(KEEP_INTERVAL).await;
            let limits = Arc::clone(&self);
            // It does not panic, and if it did, the next may not.
            let _ = spawn_blocking(move || limits.keep()).await;
        }
    }

    /// Writes the file.
    pub(crate) fn keep(&self) {
        self.kept.write(|| self.usage().write());
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        // Each call leaves it whole.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts for one client.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Arc<ClientLimits>,
    client: IpAddr,
}

impl Meter {
    /// Whose bytes it counts.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }

    /// So many bytes of the link more: where the client stands now.
    pub(crate) fn charge(&self, bytes: usize) -> Standing {
        let mut usage = self.limits.usage();
        usage.charge(self.client, bytes as u64, wall())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn open(bytes: u64, store: &Path) -> Arc<ClientLimits> {
        let limits = Limits::new(Some(bytes), Vec::new());
        ClientLimits::open(limits, store).expect("there is a limit")
    }

    #[test]
    fn counts_are_kept_for_the_next_start() {
        let store = tempfile::tempdir().expect("a directory");
        let limits = open(100, store.path());
        assert_eq!(limits.meter(CLIENT).charge(100), Standing::Reached);
        limits.keep();
        assert_eq!(open(100, store.path()).standing(CLIENT), Standing::AtLimit);
        assert_eq!(open(101, store.path()).standing(CLIENT), Standing::Within);
    }

    #[test]
    fn a_file_that_is_damaged_counts_as_none() {
        let store = tempfile::tempdir().expect("a directory");
        fs::write(store.path().join(FILE), "nonsense").expect("ours");
        let limits = open(100, store.path());
        assert_eq!(limits.meter(CLIENT).charge(60), Standing::Within);
        limits.keep();
        let limits = open(100, store.path());
        assert_eq!(limits.meter(CLIENT).charge(40), Standing::Reached);
    }

    #[test]
    fn without_limits_nothing_is_counted() {
        let store = tempfile::tempdir().expect("a directory");
        assert!(ClientLimits::open(Limits::default(), store.path()).is_none());
    }
}
