//! Answers that are kept, bounded in number and bytes.
//!
//! Is: how long each is good, how long one may be used after that while nothing better can be had
//! (RFC 8767), and which one goes when there are too many. Is not: a decision to ask; the time is
//! an argument.
//!
//! Invariants: no answer is found for longer than each of its records lives; one with a record that
//! lives for no time is not kept; the one that was used least recently goes first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tandem_wire::Instant;

use super::answer::Answer;
use super::question::Key;
use super::request::Age;

/// Answers at most. A household asks for some hundreds of names a day, an office for thousands.
const MAX_ENTRIES: usize = 8192;
/// Bytes at most: half a kilobyte for each of these.
const MAX_BYTES: usize = 4 << 20;

/// How long an answer is kept past its time (RFC 8767, section 5: one to three days).
const MAX_STALE: Duration = Duration::from_secs(86_400);
/// After a try that failed, how long a stale answer is given without another one (RFC 8767, section
/// 5).
const RETRY: Duration = Duration::from_secs(30);

/// The answers.
#[derive(Debug, Default)]
pub struct Cache {
    entries: BTreeMap<Key, Entry>,
    /// Keys by when they were last used.
    used: BTreeMap<u64, Key>,
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    answer: Arc<Answer>,
    since: Instant,
    /// While it is stale: until when it is given without another try.
    retry: Instant,
    used: u64,
    bytes: usize,
}

/// What is kept for a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An answer to give.
    Answer(Arc<Answer>, Age),
    /// Nothing that may be given before the question was asked; where that fails, this.
    Stale(Arc<Answer>),
    /// Nothing.
    Nothing,
}

impl Cache {
    /// What is kept for these questions.
    pub fn find(&mut self, key: &Key, now: Instant) -> Found {
        let Some(entry) = self.entries.get_mut(key) else {
            return Found::Nothing;
        };
        let age = now.saturating_since(entry.since);
        let lifetime = Duration::from_secs(entry.answer.lifetime().into());
        if age >= lifetime + entry.max_stale() {
            self.remove(key);
            return Found::Nothing;
        }
        self.used.remove(&entry.used);
        self.clock += 1;
        entry.used = self.clock;
        self.used.insert(self.clock, key.clone());
        let answer = Arc::clone(&entry.answer);
        if age < lifetime {
            Found::Answer(answer, Age::Kept(age))
        } else if now < entry.retry {
            Found::Answer(answer, Age::Stale)
        } else {
            Found::Stale(answer)
        }
    }

    /// Keeps an answer that has just come, if it may be kept. A failure takes the place of no
    /// answer that can still be used.
    pub fn keep(&mut self, key: Key, answer: Arc<Answer>, now: Instant) {
        if answer.is_failure() && self.failed(&key, now) {
            return;
        }
        self.remove(&key);
        if answer.lifetime() == 0 {
            return;
        }
        let bytes = size_of::<Entry>() + 2 * key.footprint() + answer.footprint();
        self.clock += 1;
        let entry = Entry {
            answer,
            since: now,
            retry: now,
            used: self.clock,
            bytes,
        };
        self.bytes += bytes;
        self.used.insert(self.clock, key.clone());
        self.entries.insert(key, entry);
        while self.entries.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.used.pop_first() else {
                return;
            };
            self.remove(&oldest);
        }
    }

    /// A try to get an answer has failed. Whether there is an old one, which is now given for a
    /// while without another try.
    pub fn failed(&mut self, key: &Key, now: Instant) -> bool {
        match self.entries.get_mut(key) {
            Some(entry) if !entry.answer.is_failure() => {
                entry.retry = now + RETRY;
                true
            }
            Some(_) | None => false,
        }
    }

    /// How many answers are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.used.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

impl Entry {
    fn max_stale(&self) -> Duration {
        match self.answer.is_failure() {
            true => Duration::ZERO,
            false => MAX_STALE,
        }
    }
}
