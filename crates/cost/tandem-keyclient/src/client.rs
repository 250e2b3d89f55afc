//! The end where signatures are asked for: whoever asks waits, and a thread of this crate does the
//! rest.
//!
//! Is not: which key server is asked; that is `fetch`'s. What is said to it is `link`'s.

use std::fmt;
use std::mem;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tandem_keyserver::{Content, KeyId, Scheme};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::error::SignError;
use crate::fetch;
use crate::per_process::PerProcess;
use crate::settings::Options;
use crate::wanted::Wanted;

/// What the thread has beyond the deadline before it is given up itself.
const MARGIN: Duration = Duration::from_secs(1);

/// Asks key servers for signatures. Copies share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    /// A forked process has no threads of its parent: neither the one that asks, nor those that
    /// waited.
    states: PerProcess<State>,
}

/// What a process has that signs.
#[derive(Default)]
struct State {
    waiting: AtomicUsize,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    process: u32,
    /// There until it is dropped.
    to: Option<UnboundedSender<Wanted>>,
}

impl Thread {
    /// The way to it, if it is still there.
    fn way(&self) -> Option<&UnboundedSender<Wanted>> {
        self.to.as_ref().filter(|to| !to.is_closed())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.process != process::id() {
            // A fork has a copy of its parent's runtime: its locks may be held for ever, and its
            // wake-ups reach the parent.
            mem::forget(self.to.take());
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("servers", &self.shared.options.servers)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Nothing is connected before the first signature, or [`Client::connect`].
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            shared: Arc::new(Shared {
                options,
                states: PerProcess::new(process::id()),
            }),
        }
    }

    /// Connects to all key servers, in the background, so that the first handshake need not wait
    /// for it. A process that forks does this afterwards.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn connect(&self) -> Result<(), SignError> {
        self.thread().map(drop)
    }

    /// The signature of a handshake's message, as rustls and OpenSSL want it signed. Whoever calls
    /// waits, up to the deadline.
    ///
    /// # Errors
    /// There is none, or not in time; or the message is not one of a TLS server's handshake.
    pub fn sign(&self, key: KeyId, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let content = Content::of_message(message).ok_or(SignError::NotAHandshake)?;
        let waits = Waits::begin(self.state(), self.shared.options.max_waiting)?;
        let (to, answer) = sync_channel(1);
        let wanted = Wanted {
            key,
            scheme,
            content,
            to,
        };
        self.thread()?
            .send(wanted)
            .map_err(|_| SignError::NoThread)?;
        let answer = aside(|| answer.recv_timeout(self.shared.options.deadline + MARGIN));
        drop(waits);
        match answer {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(SignError::TooLate),
            Err(RecvTimeoutError::Disconnected) => Err(SignError::NoThread),
        }
    }

    /// This process's.
    fn state(&self) -> &State {
        self.shared.states.of(process::id())
    }

    /// The way to this process's thread, which is started if there is none.
    fn thread(&self) -> Result<UnboundedSender<Wanted>, SignError> {
        let thread = self.state().thread.lock();
        let mut thread = thread.unwrap_or_else(PoisonError::into_inner);
        if let Some(to) = thread.as_ref().and_then(Thread::way) {
            return Ok(to.clone());
        }
        let (to, wanted) = unbounded_channel();
        fetch::start(self.shared.options.clone(), wanted).map_err(|error| {
            tracing::error!(%error, "key servers cannot be asked");
            SignError::NoThread
        })?;
        *thread = Some(Thread {
            process: process::id(),
            to: Some(to.clone()),
        });
        Ok(to)
    }
}

/// One of those who wait, until it is dropped.
struct Waits<'a>(&'a State);

impl<'a> Waits<'a> {
    fn begin(state: &'a State, max: usize) -> Result<Self, SignError> {
        let waits = Self(state);
        if state.waiting.fetch_add(1, Ordering::Relaxed) < max {
            Ok(waits)
        } else {
            Err(SignError::TooManyWaiting)
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits; a tokio runtime of several threads is told, so that this thread's other tasks go on.
fn aside<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        // A runtime of one thread, or none.
        _ => wait(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_leaves_the_thread_of_its_parent_alone() {
        let own = process::id();
        for (process, is_ended) in [(own, true), (own + 1, false)] {
            let (to, wanted) = unbounded_channel();
            drop(Thread {
                process,
                to: Some(to),
            });
            assert_eq!(wanted.is_closed(), is_ended);
        }
    }
}
