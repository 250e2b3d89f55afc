//! One party: a thread in a network namespace with a runtime of its own.
//!
//! Is not: what the party does. Invariant: the thread ends with the [`Party`].

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, gettid};
use tandem_testbed::netns::Namespace;
use tandem_testbed::{LabError, interrupt};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How often a wait looks whether the user has ended it.
const LOOK: Duration = Duration::from_millis(50);

/// The longest that any single job takes.
const LIMIT: Duration = Duration::from_secs(300);

/// A thread with a runtime.
#[derive(Debug)]
pub(crate) struct Party {
    handle: Handle,
    tid: Pid,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Party {
    /// Starts it.
    ///
    /// # Errors
    /// `Kernel`, `Io`.
    pub(crate) fn start(name: &str, host: &Namespace) -> Result<Self, LabError> {
        let host = host.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, started) = channel();
        let work = move || {
            let runtime = host.enter().and_then(|()| {
                let built = Builder::new_current_thread().enable_all().build();
                built.map_err(LabError::io("start a runtime"))
            });
            let told = runtime.map(|runtime| (runtime.handle().clone(), runtime));
            match told {
                Ok((handle, runtime)) => {
                    // Whoever has gone takes the thread with it.
                    let _ = ready.send(Ok((handle, gettid())));
                    let _ = runtime.block_on(stopped);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(LabError::io("start a thread"))?;
        let (handle, tid) = started
            .recv()
            .unwrap_or_else(|_| Err(failed("its thread ended")))?;
        Ok(Self {
            handle,
            tid,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Runs a job there and waits for it.
    ///
    /// # Errors
    /// `Interrupted`; `Command` where it takes too long or panics; what the job says.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl Future<Output = Result<T, LabError>> + Send + 'static,
    ) -> Result<T, LabError> {
        let (sender, result) = channel();
        let task = self.handle.spawn(async move {
            // Whoever waits no longer has seen enough.
            let _ = sender.send(job.await);
        });
        let end = Instant::now() + LIMIT;
        loop {
            let waited = interrupt::check().map(|()| result.recv_timeout(LOOK));
            let late = Instant::now() > end;
            match waited {
                Ok(Ok(result)) => return result,
                Ok(Err(RecvTimeoutError::Timeout)) if !late => {}
                Ok(Err(RecvTimeoutError::Timeout)) => {
                    task.abort();
                    return Err(failed("it takes too long"));
                }
                Ok(Err(RecvTimeoutError::Disconnected)) => return Err(failed("it panicked")),
                Err(error) => {
                    task.abort();
                    return Err(error);
                }
            }
        }
    }

    /// Processor time of the thread so far, user and kernel, microseconds (proc(5), `schedstat`).
    pub(crate) fn micros(&self) -> u64 {
        let path = format!("/proc/self/task/{}/schedstat", self.tid);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let nanos = text.split_ascii_whitespace().next();
        nanos.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) / 1000
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported to whoever waited for it.
            let _ = thread.join();
        }
    }
}

fn failed(why: &str) -> LabError {
    LabError::Command {
        command: "a party of the lab".to_owned(),
        why: why.to_owned(),
    }
}
