//! The threads that an asynchronous daemon runs on, and the signals that end it.
//!
//! Is not: for daemons with an event loop of their own; see [`crate::signals`].

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::DaemonError;
use crate::process;

/// Runs `work` to its end, on as many threads as there are processors, with as many descriptors as
/// the system permits.
///
/// # Errors
/// The threads cannot be started, or what `work` says.
pub fn run<T, E: From<DaemonError>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    process::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("worker")
        .build()
        .map_err(DaemonError::system("threads"))?;
    let ended = runtime.block_on(work);
    // What is being written to clients ends with the process.
    runtime.shutdown_background();
    ended
}

/// Is ready when SIGTERM or SIGINT comes.
///
/// # Errors
/// Signals cannot be waited for.
pub fn asked_to_end() -> Result<impl Future<Output = ()>, DaemonError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::system("signals"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonError::system("signals"))?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Is ready with the first of the two.
pub async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        () = one => {}
        () = other => {}
    }
}

/// What `work` gives, unless `end` is ready before.
pub async fn unless<T>(end: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        () = end => None,
        done = work => Some(done),
    }
}
