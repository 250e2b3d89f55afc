//! What the tasks of a client's thread share: its settings, what is known of the key servers, and
//! when the log was told last.
//!
//! Is not: a decision; `tandem-keyserver` makes it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tandem_keyserver::Servers;

use crate::error::SignError;
use crate::settings::Options;

/// Between two lines of the log about signatures that there are not.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What the tasks of the thread share.
pub(crate) struct Board {
    pub(crate) options: Options,
    pub(crate) started: Instant,
    servers: Mutex<Servers>,
    told: Mutex<Option<Instant>>,
}

impl Board {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            servers: Mutex::new(Servers::new(options.servers.len())),
            started: Instant::now(),
            told: Mutex::new(None),
            options,
        }
    }

    pub(crate) fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn address(&self, server: usize) -> &str {
        let server = self.options.servers.get(server);
        server.map_or("", |server| &server.address)
    }

    /// Says why a handshake fails, now and then.
    pub(crate) fn tell(&self, error: &SignError) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
            *told = Some(Instant::now());
            tracing::error!(%error, "full handshakes fail; sessions are resumed still");
        }
    }
}
