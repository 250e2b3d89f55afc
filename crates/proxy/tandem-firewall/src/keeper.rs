//! Keeps the firewall's rules in force: another program that reloads its own firewall may empty all
//! of it.
//!
//! Is not: the rules (`rules.rs`) or how they are set (`firewall.rs`). It is a thread of its own,
//! since the firewall's programs take milliseconds and on a busy machine seconds, and packets must
//! not wait for them.
//!
//! Invariant: whatever ends the keeper, the rules go.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::FirewallError;
use crate::firewall::InstalledRules;

/// Between two looks. Rules that are gone cost no connection, only what would have been saved until
/// they are back; a look takes two short-lived processes.
const INTERVAL: Duration = Duration::from_secs(10);

/// The thread that looks after the rules.
#[derive(Debug)]
pub struct RulesKeeper {
    end: Arc<End>,
    thread: Option<JoinHandle<InstalledRules>>,
}

/// Whether it is over.
#[derive(Debug, Default)]
struct End {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl RulesKeeper {
    /// Looks after `rules` from now on, and tells `restored` how often they had to be set again.
    ///
    /// # Errors
    /// No thread can be started; the rules are gone then.
    pub fn start(
        rules: InstalledRules,
        restored: impl Fn(u64) + Send + 'static,
    ) -> Result<Self, FirewallError> {
        let end = Arc::new(End::default());
        let seen = Arc::clone(&end);
        let thread = thread::Builder::new()
            .name("tandem-rules".to_owned())
            .spawn(move || {
                while !seen.comes_within(INTERVAL) {
                    look_after(&rules, &restored);
                }
                rules
            })
            .map_err(|error| FirewallError::system("starting a thread", error))?;
        Ok(Self {
            end,
            thread: Some(thread),
        })
    }

    /// Takes the rules away.
    ///
    /// # Errors
    /// As [`InstalledRules::remove`].
    pub fn remove(mut self) -> Result<(), FirewallError> {
        match self.stop() {
            Some(rules) => rules.remove(),
            // It panicked, and the rules went with it.
            None => Ok(()),
        }
    }

    fn stop(&mut self) -> Option<InstalledRules> {
        self.end.come();
        self.thread.take()?.join().ok()
    }
}

impl Drop for RulesKeeper {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

impl End {
    fn come(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn comes_within(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn look_after(rules: &InstalledRules, tell: &impl Fn(u64)) {
    match rules.restore_missing() {
        Ok(0) => {}
        Ok(restored) => {
            tell(restored);
            tracing::warn!(
                "another program took Tandem's rules out of the firewall; they are set again (to be without them, stop the daemon)"
            );
        }
        // Somebody else may have the firewall for a while; the next look tells more.
        Err(error) => tracing::warn!("the firewall's rules could not be looked after: {error}"),
    }
}
