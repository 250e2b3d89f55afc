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
                let mut looks = Looks::default();
                while !seen.comes_within(INTERVAL) {
                    looks.after(rules.restore_missing(), &restored);
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

/// What was told of the looks so far.
#[derive(Debug, Default)]
struct Looks {
    /// Why the last one failed, if it did.
    failure: Option<String>,
}

/// What an operator is told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Restored,
    Fails,
    WorksAgain,
}

impl Looks {
    /// Tells what a look came to, and counts rules that were set again.
    fn after(&mut self, outcome: Result<u64, FirewallError>, restored: &impl Fn(u64)) -> Told {
        if let Ok(count @ 1..) = outcome {
            restored(count);
        }
        let told = self.tell(outcome);
        match told {
            Told::Nothing => {}
            Told::Restored => tracing::warn!(
                "another program took Tandem's rules out of the firewall; they are set again (to be without them, stop the daemon)"
            ),
            Told::Fails => {
                let why = self.failure.as_deref().unwrap_or_default();
                tracing::warn!("the firewall's rules could not be looked after: {why}");
            }
            Told::WorksAgain => tracing::info!("the firewall's rules are looked after again"),
        }
        told
    }

    /// Somebody else may have the firewall for hours; the same failure is told once.
    fn tell(&mut self, outcome: Result<u64, FirewallError>) -> Told {
        let failure = outcome.as_ref().err().map(ToString::to_string);
        let before = std::mem::replace(&mut self.failure, failure);
        match (outcome, before) {
            (Ok(0), None) => Told::Nothing,
            (Ok(0), Some(_)) => Told::WorksAgain,
            (Ok(_), _) => Told::Restored,
            (Err(_), before) if before == self.failure => Told::Nothing,
            (Err(_), _) => Told::Fails,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_failure_is_told_once_until_a_look_succeeds() {
        let fails = |reason: &str| {
            Err(FirewallError::Firewall {
                program: "iptables".to_owned(),
                reason: reason.to_owned(),
            })
        };
        let restored = Cell::new(0);
        let mut looks = Looks::default();
        let steps = [
            (Ok(0), Told::Nothing),
            (fails("locked"), Told::Fails),
            (fails("locked"), Told::Nothing),
            (fails("not permitted"), Told::Fails),
            (fails("not permitted"), Told::Nothing),
            (Ok(0), Told::WorksAgain),
            (Ok(0), Told::Nothing),
            (fails("locked"), Told::Fails),
            (Ok(3), Told::Restored),
            (Ok(2), Told::Restored),
            (fails("locked"), Told::Fails),
        ];
        for (step, (outcome, expected)) in steps.into_iter().enumerate() {
            let count = |count| restored.set(restored.get() + count);
            assert_eq!(looks.after(outcome, &count), expected, "step {step}");
        }
        assert_eq!(restored.get(), 5);
    }
}
