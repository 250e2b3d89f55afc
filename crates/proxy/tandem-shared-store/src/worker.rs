//! The thread that talks to the server, so that nobody else waits for it.
//!
//! Is not: what is said (`server.rs`). Invariants: what waits is bounded, and so is how long it may
//! wait; a server that fails is tried again after half a second, and then twice as long each time up
//! to half a minute; what is to be written meanwhile is dropped and counted.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tandem_engine::PeerId;
use tandem_tunnel::{Recalled, SharedStore};

use crate::address::{Address, Login};
use crate::sealed::Secret;
use crate::server::{Server, Trouble};

/// Most jobs that wait.
const MAX_WAITING: usize = 1_024;

/// Most notes that are written at once.
const MAX_BATCH: usize = 64;

/// Who asked for notes does not wait for them longer than this.
const MAX_AGE: Duration = Duration::from_secs(1);

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
    /// With the server at this address, for the server-side proxies that have this key. Nothing
    /// happens before [`SharedStore::start`].
    #[must_use]
    pub fn new(address: Address, login: Option<Login>, key: &[u8; 32]) -> Self {
        let (jobs, waiting) = sync_channel(MAX_WAITING);
        let counts = Arc::new(Counts::default());
        counts.say("not tried yet".to_owned());
        let worker = Worker {
            address,
            login,
            secret: Secret::new(key),
            waiting,
            counts: Arc::clone(&counts),
            server: None,
            pause: MIN_PAUSE,
            next: Instant::now(),
        };
        Self {
            jobs,
            counts,
            beginning: Mutex::new(Some(worker)),
        }
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
        if self.jobs.try_send(Job::Note(peer, note)).is_err() {
            add(&self.counts.dropped, 1);
        }
    }

    fn recall(&self, peer: PeerId, then: Recalled) {
        add(&self.counts.recalls, 1);
        if self
            .jobs
            .try_send(Job::Recall(peer, then, Instant::now()))
            .is_err()
        {
            add(&self.counts.recalls_failed, 1);
        }
    }

    fn flush(&self, within: Duration) {
        let until = Instant::now() + within;
        let (done, is_done) = sync_channel(1);
        let mut job = Job::Flush(done);
        // The queue may be full for as long as the server is slow.
        while let Err(TrySendError::Full(again)) = self.jobs.try_send(job) {
            if Instant::now() >= until {
                return;
            }
            thread::sleep(Duration::from_millis(10));
            job = again;
        }
        let _ = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
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
    address: Address,
    login: Option<Login>,
    secret: Secret,
    waiting: Receiver<Job>,
    counts: Arc<Counts>,
    server: Option<Server>,
    pause: Duration,
    /// When the server may be tried again.
    next: Instant,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
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
                    if self.server.is_some() {
                        self.with_server(|server, _| server.ping());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// One job, and the notes that wait behind it.
    fn work(&mut self, job: Job) {
        let (mut notes, mut next) = (Vec::new(), Some(job));
        while let Some(job) = next {
            match job {
                Job::Note(peer, note) => {
                    notes.push((peer, note));
                    next = match notes.len() {
                        MAX_BATCH.. => None,
                        _ => self.waiting.try_recv().ok(),
                    };
                }
                // What was noted before is there when it is read.
                Job::Recall(peer, then, since) => {
                    self.write(&std::mem::take(&mut notes));
                    self.recall(peer, then, since);
                    next = None;
                }
                Job::Flush(done) => {
                    self.write(&std::mem::take(&mut notes));
                    let _ = done.try_send(());
                    next = None;
                }
            }
        }
        self.write(&notes);
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

    fn recall(&mut self, peer: PeerId, then: Recalled, since: Instant) {
        let is_wanted = since.elapsed() < MAX_AGE;
        let read = is_wanted.then(|| self.with_server(|server, secret| server.read(secret, peer)));
        match read.flatten() {
            Some((notes, foreign)) => {
                add(&self.counts.recalled, notes.len());
                add(&self.counts.foreign, foreign);
                then(notes);
            }
            None => add(&self.counts.recalls_failed, 1),
        }
    }

    /// What the server answers. A connection that turns out to be dead, as after a restart of the
    /// server, is made anew once.
    fn with_server<T>(
        &mut self,
        ask: impl Fn(&mut Server, &Secret) -> Result<T, Trouble>,
    ) -> Option<T> {
        for _ in 0..2 {
            self.connect();
            let server = self.server.as_mut()?;
            match ask(server, &self.secret) {
                Ok(answer) => {
                    self.pause = MIN_PAUSE;
                    return Some(answer);
                }
                Err(Trouble::Refused(why)) => {
                    self.counts.say(format!("refuses: {why}"));
                    return None;
                }
                Err(Trouble::Broken(error)) => {
                    self.server = None;
                    self.counts.is_connected.store(0, Ordering::Relaxed);
                    let is_dead = matches!(
                        error.kind(),
                        io::ErrorKind::BrokenPipe
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::UnexpectedEof
                    );
                    if !is_dead {
                        self.failed(&Trouble::Broken(error));
                        return None;
                    }
                }
            }
        }
        None
    }

    /// Connects, unless it is connected, or it is too early.
    fn connect(&mut self) {
        if self.server.is_some() || Instant::now() < self.next {
            return;
        }
        match Server::connect(&self.address, self.login.as_ref()) {
            Ok(server) => {
                tracing::info!("shared store: connected to {}", self.address);
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
            Trouble::Refused(why) => why.clone(),
        };
        add(&self.counts.failures, 1);
        if self.pause == MIN_PAUSE {
            tracing::warn!(
                "shared store: {} cannot be used: {why}; client-side proxies that move here are cold \
                 until it can",
                self.address
            );
        }
        self.counts.say(format!("down: {why}"));
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
    }
}
