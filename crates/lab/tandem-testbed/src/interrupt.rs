//! Whether the user wants the lab to end: SIGINT, SIGTERM and SIGHUP set a flag that every wait
//! looks at.
//!
//! Nothing is torn down in the handler: the flag makes the running function return an error, and
//! the guards on the way out take everything down. A second SIGINT ends the process at once, as it
//! does without a handler; `lab down` then cleans up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::LabError;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// How often a wait looks at the flag. Short enough that Ctrl-C feels immediate.
const LOOK: Duration = Duration::from_millis(50);

/// Catches the signals from now on. Calling it again changes nothing.
///
/// # Errors
/// `Io` where the handlers cannot be set.
pub fn watch() -> Result<(), LabError> {
    if FLAG.get().is_some() {
        return Ok(());
    }
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Registered first, so that it sees the flag as the previous signal left it.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))
            .map_err(LabError::io("catch signals"))?;
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(LabError::io("catch signals"))?;
    }
    // Another thread that was faster set its own flag, and both handlers run: either is as good.
    let _ = FLAG.set(flag);
    Ok(())
}

/// Whether a signal has come.
pub fn requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// `Err(Interrupted)` once a signal has come.
///
/// # Errors
/// `Interrupted`.
pub fn check() -> Result<(), LabError> {
    if requested() {
        Err(LabError::Interrupted)
    } else {
        Ok(())
    }
}

/// Asks `done` every `every` until it says yes (`true`) or `limit` has passed (`false`).
///
/// # Errors
/// `Interrupted`.
pub fn wait_until(
    limit: Duration,
    every: Duration,
    mut done: impl FnMut() -> bool,
) -> Result<bool, LabError> {
    let end = Instant::now() + limit;
    loop {
        check()?;
        if done() {
            return Ok(true);
        }
        let now = Instant::now();
        if now >= end {
            return Ok(false);
        }
        std::thread::sleep(every.min(LOOK).min(end - now));
    }
}
