//! Where requests are judged and wait for their turn, and where answers are given.
//!
//! Is not: the rules, rates and turns themselves, which `tandem-keyserver` has.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tandem_keyserver::{Answer, Bucket, Outcome, Refusal, Request, Turns};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

use crate::audit::{Asked, Audit};
use crate::error::KeyServerError;
use crate::numbers::Numbers;
use crate::settings::{Loaded, PeerId};

/// Requests of one client that wait for their turn.
const MAX_WAITING: usize = 256;

/// Between two lines of the log about the same trouble.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// An answer on its way to its connection, and the place that the request had in its pipeline.
pub(crate) struct Reply {
    pub(crate) frame: Vec<u8>,
    pub(crate) place: OwnedSemaphorePermit,
}

/// A request that is allowed and waits.
pub(crate) struct Job {
    pub(crate) peer: PeerId,
    pub(crate) request: Request,
    /// The settings by which it was allowed.
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) came_at: Instant,
    pub(crate) place: OwnedSemaphorePermit,
    pub(crate) to: UnboundedSender<Reply>,
}

impl Job {
    /// Gives the answer to the connection, if it is still there.
    pub(crate) fn answer(self, outcome: Outcome) {
        let id = self.request.id;
        let frame = Answer { id, outcome }.to_frame();
        let place = self.place;
        // A connection that has ended wants no answer.
        let _ = self.to.send(Reply { frame, place });
    }
}

/// What became of a request that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedIn {
    /// It waits, or is answered.
    Taken,
    /// It was refused for coming too early: its connection should rest.
    TooEarly,
    /// This client is no longer in the settings: its connection should end.
    Stranger,
}

/// What all connections and signing threads share.
pub(crate) struct Desk {
    pub(crate) numbers: Numbers,
    loaded: RwLock<Arc<Loaded>>,
    buckets: Mutex<BTreeMap<PeerId, Bucket>>,
    turns: Mutex<Turns<PeerId, Job>>,
    came: Condvar,
    audit: Mutex<Option<Audit>>,
    audit_failure_told_at: Mutex<Option<Instant>>,
    crowd_told_at: Mutex<Option<Instant>>,
    started: Instant,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_audit(loaded: &Loaded) -> Result<Option<Audit>, KeyServerError> {
    loaded.audit.as_deref().map(Audit::open).transpose()
}

fn full_buckets(loaded: &Loaded, now: Duration) -> BTreeMap<PeerId, Bucket> {
    let bucket = |(id, peer): (&PeerId, &crate::settings::Peer)| {
        (*id, Bucket::new(peer.rate, peer.burst, now))
    };
    loaded.peers.iter().map(bucket).collect()
}

impl Desk {
    pub(crate) fn new(loaded: Loaded) -> Result<Self, KeyServerError> {
        Ok(Self {
            numbers: Numbers::new(),
            audit: Mutex::new(open_audit(&loaded)?),
            audit_failure_told_at: Mutex::new(None),
            crowd_told_at: Mutex::new(None),
            buckets: Mutex::new(full_buckets(&loaded, Duration::ZERO)),
            loaded: RwLock::new(Arc::new(loaded)),
            turns: Mutex::new(Turns::new(MAX_WAITING)),
            came: Condvar::new(),
            started: Instant::now(),
        })
    }

    /// Takes new settings, and opens the audit log anew.
    pub(crate) fn reload(&self, loaded: Loaded) -> Result<(), KeyServerError> {
        let audit = open_audit(&loaded)?;
        let buckets = full_buckets(&loaded, self.started.elapsed());
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
        *locked(&self.buckets) = buckets;
        *locked(&self.audit) = audit;
        self.numbers.reloads.add(1);
        Ok(())
    }

    /// The settings as they are now.
    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Judges a request of this client: refuses it, or lets it wait for its turn.
    pub(crate) fn hand_in(
        &self,
        peer: PeerId,
        request: Request,
        place: OwnedSemaphorePermit,
        to: &UnboundedSender<Reply>,
    ) -> HandedIn {
        let job = Job {
            peer,
            request,
            loaded: self.loaded(),
            came_at: Instant::now(),
            place,
            to: to.clone(),
        };
        if !job.loaded.peers.contains_key(&peer) {
            return HandedIn::Stranger;
        }
        // The rate counts before the policy, so that refusals are rare, too.
        let now = self.started.elapsed();
        let has_rate = locked(&self.buckets)
            .get_mut(&peer)
            .is_some_and(|bucket| bucket.take(now));
        if !has_rate {
            self.refuse(job, Refusal::Rate);
            return HandedIn::TooEarly;
        }
        if !job.loaded.policy.allows(&peer, &job.request) {
            self.refuse(job, Refusal::Policy);
            return HandedIn::Taken;
        }
        let mut turns = locked(&self.turns);
        if turns.waiting_of(&peer) >= MAX_WAITING {
            drop(turns);
            self.refuse(job, Refusal::Busy);
        } else if turns.push(&peer, job).is_ok() {
            self.numbers.waiting.set(turns.len() as u64);
            self.came.notify_one();
        }
        HandedIn::Taken
    }

    /// The next request, for which a thread waits.
    pub(crate) fn next(&self) -> Job {
        let mut turns = locked(&self.turns);
        loop {
            if let Some(job) = turns.pop() {
                self.numbers.waiting.set(turns.len() as u64);
                return job;
            }
            turns = self
                .came
                .wait(turns)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Answers that there is no signature, and notes it.
    pub(crate) fn refuse(&self, job: Job, refusal: Refusal) {
        self.numbers.refused(refusal);
        let now = self.started.elapsed();
        let noted = match locked(&self.audit).as_mut() {
            Some(audit) => audit
                .refused(&asked(&job), refusal, now)
                .map_err(|error| (audit.path().to_owned(), error)),
            None => Ok(()),
        };
        if let Err((path, error)) = noted {
            self.audit_failed(&path, &error);
        }
        job.answer(Outcome::Refused(refusal));
    }

    /// Notes a signature, and only then gives it.
    pub(crate) fn give(&self, job: Job, signature: Vec<u8>) {
        let noted = match locked(&self.audit).as_mut() {
            Some(audit) => audit
                .signed(&asked(&job))
                .map_err(|error| (audit.path().to_owned(), error)),
            None => Ok(()),
        };
        match noted {
            Ok(()) => {
                if let Some(peer) = job.loaded.peers.get(&job.peer) {
                    self.numbers.signed(&peer.name);
                }
                job.answer(Outcome::Signed(signature));
            }
            Err((path, error)) => {
                self.audit_failed(&path, &error);
                self.numbers.refused(Refusal::Failed);
                job.answer(Outcome::Refused(Refusal::Failed));
            }
        }
    }

    /// Refuses a connection of a client that has as many as it may.
    pub(crate) fn refuse_connection(&self, peer: PeerId) {
        self.numbers.refused_connections.add(1);
        if let Some(peer) = self.loaded().peers.get(&peer)
            && is_due(&self.crowd_told_at)
        {
            tracing::warn!(client = peer.name, "it has too many connections");
        }
    }

    fn audit_failed(&self, path: &std::path::Path, error: &std::io::Error) {
        self.numbers.audit_failures.add(1);
        if !is_due(&self.audit_failure_told_at) {
            return;
        }
        tracing::error!(
            path = %path.display(), %error,
            "the audit log cannot be written: without its line no signature is given; make room, or send SIGHUP after the file has been moved"
        );
    }
}

/// Whether it was not told lately, and is now.
fn is_due(told_at: &Mutex<Option<Instant>>) -> bool {
    let mut told_at = locked(told_at);
    let is_due = told_at.is_none_or(|at| at.elapsed() >= TOLD_EVERY);
    if is_due {
        *told_at = Some(Instant::now());
    }
    is_due
}

fn asked(job: &Job) -> Asked<'_> {
    let peer = job.loaded.peers.get(&job.peer);
    let key = job.loaded.keys.get(&job.request.key);
    Asked {
        peer: peer.map_or("", |peer| &peer.name),
        peer_id: job.peer,
        key: key.map(|key| key.name.as_str()),
        request: &job.request,
    }
}
