//! The threads that sign, one for each processor.
//!
//! Is not: whose turn it is.
//!
//! Invariant: what has waited so long that its client has given up is not signed any more, so that
//! an overload does not outlast its cause.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tandem_keyserver::Refusal;

use crate::desk::{Desk, Job};
use crate::error::KeyServerError;

/// Clients wait two seconds, if they are not told otherwise.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Starts them; they end with the process.
pub(crate) fn start(desk: &Arc<Desk>) -> Result<(), KeyServerError> {
    let number = thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..number {
        let desk = Arc::clone(desk);
        let started = thread::Builder::new()
            .name("signer".to_owned())
            .spawn(move || {
                loop {
                    sign(&desk, desk.next());
                }
            });
        started.map_err(|source| KeyServerError::System {
            what: "threads",
            source,
        })?;
    }
    Ok(())
}

fn sign(desk: &Desk, job: Job) {
    if job.to.is_closed() {
        return;
    }
    let waited = job.came_at.elapsed();
    if waited > MAX_WAIT {
        return desk.refuse(job, Refusal::Busy);
    }
    let begun = Instant::now();
    let message = job.request.content.message();
    let key = job.loaded.keys.get(&job.request.key);
    match key.and_then(|key| key.sign(job.request.scheme, &message)) {
        Some(signature) => {
            let numbers = &desk.numbers;
            numbers
                .signing_micros
                .add(begun.elapsed().as_micros() as u64);
            numbers.waiting_micros.add(waited.as_micros() as u64);
            desk.give(job, signature);
        }
        None => {
            tracing::error!(key = %job.request.key, "a key could not be used");
            desk.refuse(job, Refusal::Failed);
        }
    }
}
