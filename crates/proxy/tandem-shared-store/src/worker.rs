//! The thread that talks to the server, so that nobody else waits for it.
//!
//! Is not: what is said (`server.rs`). Invariants: what waits is bounded, and so is how long it may
//! wait; a server that fails is tried again after half a second, and then twice as long each time
//! up to half a minute; what is to be written meanwhile is dropped and counted.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tandem_engine::PeerId;
use tandem_tunnel::{Recalled, SharedStore};

use crate::access::Access;
use crate::sealed::Secret;
use crate::server::{Server, Trouble};

/// Most notes that wait.
const MAX_NOTES: usize = 1_024;

/// Most recalls that wait: one for each of the most tunnels that a server side has.
const MAX_WAITING_RECALLS: usize = 4_096;

/// Most peers that are asked for at once.
const MAX_RECALLS: usize = 8;

/// Most notes that are written at once.
const MAX_BATCH: usize = 64;

/// Notes are of use for so long after they were asked for. When a server side starts anew, all its
/// peers come at once.
const MAX_AGE: Duration = Duration::from_secs(30);

/// How long a connection is idle before it is looked whether it is alive.
const IDLE: Duration = Duration::from_secs(5);

const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Notes in a Valkey or Redis server.
#[derive(Debug)]
pub struct Valkey {
    jobs: SyncSender<Job>,
    counts: Arc<Counts>,
    /// What the thread begins with, until it does.
    beginning: Mutex<Option<Worker>>,
}

enum Job {
    Note(PeerId, Vec<u8>),
    Recall(PeerId, Recalled, Instant),
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Counts {
    is_connected: AtomicU64,
    waiting_notes: AtomicUsize,
    waiting_recalls: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    recalls: AtomicU64,
    recalls_failed: AtomicU64,
    recalled: AtomicU64,
    foreign: AtomicU64,
    failures: AtomicU64,
    state: Mutex<String>,
}

impl Counts {
    fn say(&self, state: String) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
}

impl Valkey {
    /// With this server, for the server-side proxies that have this key. Nothing happens before
    /// [`SharedStore::start`].
    #[must_use]
    pub fn new(access: Access, key: &[u8; 32]) -> Self {
        // Notes and recalls leave the last place free, for a flush.
        let (jobs, waiting) = sync_channel(MAX_NOTES + MAX_WAITING_RECALLS + 1);
        let counts = Arc::new(Counts::default());
        counts.say("not tried yet".to_owned());
        let worker = Worker {
            access,
            secret: Secret::new(key),
            waiting,
            counts: Arc::clone(&counts),
            server: None,
            pause: MIN_PAUSE,
            next: Instant::now(),
            said: Said::Nothing,
        };
        Self {
            jobs,
            counts,
            beginning: Mutex::new(Some(worker)),
        }
    }
}

impl Valkey {
    /// Whether a job was taken, of whose kind no more than `most` may wait.
    fn takes(&self, waiting: &AtomicUsize, most: usize, job: Job) -> bool {
        let is_taken =
            waiting.fetch_add(1, Ordering::Relaxed) < most && self.jobs.try_send(job).is_ok();
        if !is_taken {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_taken
    }
}

impl SharedStore for Valkey {
    fn start(&self) -> io::Result<()> {
        let mut beginning = self
            .beginning
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match beginning.take() {
            Some(worker) => thread::Builder::new()
                .name("shared store".to_owned())
                .spawn(move || worker.run())
                .map(drop),
            None => Ok(()),
        }
    }

    fn note(&self, peer: PeerId, note: Vec<u8>) {
        let is_taken = self.takes(&self.counts.waiting_notes, MAX_NOTES, Job::Note(peer, note));
        if !is_taken {
            add(&self.counts.dropped, 1);
        }
    }

    fn recall(&self, peer: PeerId, then: Recalled) {
        add(&self.counts.recalls, 1);
        let is_taken = self.takes(
            &self.counts.waiting_recalls,
            MAX_WAITING_RECALLS,
            Job::Recall(peer, then, Instant::now()),
        );
        if !is_taken {
            add(&self.counts.recalls_failed, 1);
        }
    }

    fn flush(&self, within: Duration) {
        let (done, is_done) = sync_channel(1);
        if self.jobs.try_send(Job::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(within);
        }
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        vec![
            ("shared_store_connected", of(&counts.is_connected)),
            ("shared_store_notes_written", of(&counts.written)),
            ("shared_store_notes_dropped", of(&counts.dropped)),
            ("shared_store_notes_refused", of(&counts.refused)),
            ("shared_store_recalls", of(&counts.recalls)),
            ("shared_store_recalls_failed", of(&counts.recalls_failed)),
            ("shared_store_notes_recalled", of(&counts.recalled)),
            ("shared_store_notes_foreign", of(&counts.foreign)),
            ("shared_store_failures", of(&counts.failures)),
        ]
    }

    fn state(&self) -> String {
        let state = self.counts.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The thread's side.
#[derive(Debug)]
struct Worker {
    access: Access,
    secret: Secret,
    waiting: Receiver<Job>,
    counts: Arc<Counts>,
    server: Option<Server>,
    pause: Duration,
    /// When the server may be tried again.
    next: Instant,
    said: Said,
}

/// What the log says last of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Works,
    Fails,
}

impl Worker {
    /// Until nobody can ask any more.
    fn run(mut self) {
        loop {
            self.connect();
            // While it is down it is tried again although nobody asks: the status says how it is.
            let until_next = self.next.saturating_duration_since(Instant::now());
            let job = match self.server {
                Some(_) => self.waiting.recv_timeout(IDLE),
                None => self.waiting.recv_timeout(until_next),
            };
            match job {
                Ok(job) => self.work(job),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(server) = &mut self.server
                        && server.ping().is_err()
                    {
                        // The next turn finds out what is wrong.
                        self.leave();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// One job, and what waits behind it.
    fn work(&mut self, job: Job) {
        let (mut notes, mut recalls, mut flushed) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = Some(job);
        while let Some(job) = next {
            match job {
                Job::Note(peer, note) => {
                    self.counts.waiting_notes.fetch_sub(1, Ordering::Relaxed);
                    notes.push((peer, note));
                }
                Job::Recall(peer, then, since) => {
                    self.counts.waiting_recalls.fetch_sub(1, Ordering::Relaxed);
                    recalls.push((peer, then, since));
                }
                Job::Flush(done) => flushed.push(done),
            }
            let is_full = notes.len() >= MAX_BATCH || recalls.len() >= MAX_RECALLS;
            let may_go_on = !is_full && flushed.is_empty();
            next = may_go_on.then(|| self.waiting.try_recv().ok()).flatten();
        }
        // What was noted before is there when it is read.
        self.write(&notes);
        self.recall(recalls);
        for done in flushed {
            let _ = done.try_send(());
        }
    }

    fn write(&mut self, notes: &[(PeerId, Vec<u8>)]) {
        if notes.is_empty() {
            return;
        }
        match self.with_server(|server, secret| server.write(secret, notes)) {
            Some((taken, refused)) => {
                add(&self.counts.written, taken);
                if let Some(why) = refused {
                    add(&self.counts.refused, notes.len() - taken);
                    self.counts.say(format!("refuses notes: {why}"));
                } else {
                    self.counts.say("connected".to_owned());
                }
            }
            None => add(&self.counts.dropped, notes.len()),
        }
    }

    fn recall(&mut self, mut recalls: Vec<(PeerId, Recalled, Instant)>) {
        let all = recalls.len();
        recalls.retain(|(_, _, since)| since.elapsed() < MAX_AGE);
        add(&self.counts.recalls_failed, all - recalls.len());
        if recalls.is_empty() {
            return;
        }
        let peers: Vec<PeerId> = recalls.iter().map(|(peer, ..)| *peer).collect();
        let Some(found) = self.with_server(|server, secret| server.read(secret, &peers)) else {
            return add(&self.counts.recalls_failed, recalls.len());
        };
        for ((_, then, _), found) in recalls.into_iter().zip(found) {
            add(&self.counts.foreign, found.foreign);
            match found.notes {
                Some(notes) => {
                    add(&self.counts.recalled, notes.len());
                    then(notes);
                }
                None => add(&self.counts.recalls_failed, 1),
            }
        }
    }

    /// What the server answers. A connection that turns out to be dead, as after a restart of the
    /// server, is made anew once.
    fn with_server<T>(
        &mut self,
        ask: impl Fn(&mut Server, &Secret) -> Result<T, Trouble>,
    ) -> Option<T> {
        let mut is_second = false;
        loop {
            self.connect();
            let server = self.server.as_mut()?;
            let trouble = match ask(server, &self.secret) {
                Ok(answer) => {
                    self.works();
                    return Some(answer);
                }
                Err(trouble) => trouble,
            };
            self.leave();
            if is_second || !trouble.is_dead() {
                self.failed(&trouble);
                return None;
            }
            is_second = true;
        }
    }

    /// It has done what it was asked to.
    fn works(&mut self) {
        self.pause = MIN_PAUSE;
        if self.said != Said::Works {
            tracing::info!("shared store: {} is in use", self.access.address);
            self.said = Said::Works;
        }
    }

    fn leave(&mut self) {
        self.server = None;
        self.counts.is_connected.store(0, Ordering::Relaxed);
    }

    /// Connects, unless it is connected, or it is too early.
    fn connect(&mut self) {
        if self.server.is_some() || Instant::now() < self.next {
            return;
        }
        match Server::connect(&self.access) {
            Ok(server) => {
                self.server = Some(server);
                self.counts.is_connected.store(1, Ordering::Relaxed);
                self.counts.say("connected".to_owned());
            }
            Err(trouble) => self.failed(&trouble),
        }
    }

    /// It is tried again later.
    fn failed(&mut self, trouble: &Trouble) {
        let why = match trouble {
            Trouble::Broken(error) => error.to_string(),
            Trouble::Unfit(why) => why.clone(),
        };
        add(&self.counts.failures, 1);
        if self.said != Said::Fails {
            self.said = Said::Fails;
            tracing::warn!(
                "shared store: {} cannot be used: {why}; client-side proxies that move here are cold \
                 until it can",
                self.access.address
            );
        }
        self.counts.say(format!("down: {why}"));
        self.next = Instant::now() + self.pause;
        self.pause = longer(self.pause);
    }
}

fn longer(pause: Duration) -> Duration {
    (pause * 2).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests;
