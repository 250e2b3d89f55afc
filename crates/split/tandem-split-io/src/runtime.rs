//! What an origin and a volunteer run on: threads, and the signals that end them.
//!
//! Is not: anything of theirs. The command line needs no runtime of its own by it.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::SplitIoError;

/// Runs `work` to its end, on as many threads as there are processors.
///
/// # Errors
/// The threads cannot be started, or what `work` says.
pub fn run<E: From<SplitIoError>>(work: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("split")
        .build()
        .map_err(|source| system("threads", source))?;
    let ended = runtime.block_on(work);
    // What is being written to clients ends with the process.
    runtime.shutdown_background();
    ended
}

/// Is ready when SIGTERM or SIGINT comes.
///
/// # Errors
/// Signals cannot be waited for.
pub fn asked_to_end() -> Result<impl Future<Output = ()>, SplitIoError> {
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|source| system("signals", source))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|source| system("signals", source))?;
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

fn system(what: &'static str, source: io::Error) -> SplitIoError {
    SplitIoError::System { what, source }
}
