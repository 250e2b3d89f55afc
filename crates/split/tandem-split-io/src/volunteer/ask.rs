//! Asking somebody for what the cache lacks, the origin or another volunteer: one question for each
//! thing, however many wait for it.
//!
//! Is not: the choice whom to ask (`fetch`), nor a judge of what comes: a digest decides, and what
//! has the wrong one is not there.
//!
//! Invariants: one channel at a time, opened when there is a question; whoever waits is told in the
//! end, with the thing or why it is lacking; what was asked for once is not asked for again as long
//! as it is waited for.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_split::message::{Channel, Encodings, Greeting, Message, Miss, Progress, Side};
use tandem_split::{Decoder, List, ObjectName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::cache::{Cache, Thing, list_key, payload_key};
use super::disk::Key;
use super::link::Link;
use super::patience::Heard;
use super::sharing::Directory;
use tandem_channel::CountedChannel;
use tandem_daemon::metrics::Number;

/// How long a thing may take while nothing at all comes. Then its clients' connections fail,
/// and those who ask next start anew.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a channel without a question stays open.
const IDLE: Duration = Duration::from_secs(60);

/// Why somebody did not give what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// He has not got it.
    Absent,
    /// There is no channel to him, or there is none any more.
    Unreachable,
    /// What he says breaks the protocol, or has another digest.
    Wrong,
}

/// What came of a question.
pub(super) type Answer = Result<Thing, Lack>;

/// Where things go that have come: the cache, and whoever tells others that they are here.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    pub(super) cache: Arc<Cache>,
    pub(super) directory: Arc<dyn Directory>,
}

/// See above. Dropping it closes the channel.
#[derive(Debug)]
pub(super) struct Asker {
    waiting: Arc<Waiting>,
    questions: mpsc::UnboundedSender<Miss>,
    asked: Number,
}

#[derive(Debug)]
struct Waiting {
    arrivals: Arrivals,
    things: Mutex<HashMap<Key, Awaited>>,
    /// Chunks that were asked for together with their list, which says what they are.
    ahead: Mutex<HashMap<ObjectName, (u32, u32)>>,
    answered: AtomicU64,
    heard: Mutex<Heard>,
    /// Bytes that have come.
    came: Arc<AtomicU64>,
    /// How long an answer takes, smoothed.
    usual: Mutex<Duration>,
    received: Number,
}

#[derive(Debug)]
struct Awaited {
    since: Instant,
    /// `None` until it is known.
    outcome: watch::Sender<Option<Answer>>,
}

impl Asker {
    /// One that asks over `link`; questions and bytes of answers are added to the numbers.
    pub(super) fn start(link: Link, arrivals: Arrivals, asked: Number, received: Number) -> Self {
        let (questions, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(Waiting {
            arrivals,
            things: Mutex::default(),
            ahead: Mutex::default(),
            answered: AtomicU64::new(0),
            heard: Mutex::default(),
            came: Arc::default(),
            usual: Mutex::default(),
            received,
        });
        tokio::spawn(ask_all(Arc::clone(&waiting), link, receiver));
        Self {
            waiting,
            questions,
            asked,
        }
    }

    /// Asks, or waits for what somebody else has asked.
    pub(super) async fn get(&self, key: Key, miss: Miss) -> Answer {
        let mut outcome = {
            let mut things = self.waiting.lock();
            // It may have come meanwhile.
            if let Some(thing) = self.waiting.arrivals.cache.at_hand(key) {
                return Ok(thing);
            }
            match things.get(&key) {
                Some(awaited) => awaited.outcome.subscribe(),
                None => {
                    let (awaited, outcome) = Awaited::new();
                    things.insert(key, awaited);
                    self.waiting.note_ahead(miss);
                    self.asked.add(1);
                    // The other end is only gone with the process.
                    let _ = self.questions.send(miss);
                    outcome
                }
            }
        };
        loop {
            let before = self.came();
            match timeout(PATIENCE, outcome.wait_for(Option::is_some)).await {
                Ok(Ok(outcome)) => return outcome.clone().unwrap_or(Err(Lack::Unreachable)),
                // Nobody told.
                Ok(Err(_)) => return Err(Lack::Unreachable),
                // It stands behind others on a thin line: what was given up would cross in vain,
                // and be asked for again.
                Err(_) if self.came() != before => {}
                Err(_) => {
                    self.waiting.tell(key, Err(Lack::Unreachable));
                    return Err(Lack::Unreachable);
                }
            }
        }
    }

    /// Whether it has been asked for, or comes with a list that was.
    pub(super) fn awaits(&self, key: Key) -> bool {
        self.waiting.lock().contains_key(&key)
    }

    /// How many questions have been answered, one way or the other: whether somebody says anything
    /// at all. What nobody has asked does not count.
    pub(super) fn answered(&self) -> u64 {
        self.waiting.answered.load(Ordering::Relaxed)
    }

    /// Whoever waits is told that nothing will come: somebody else can be asked.
    pub(super) fn give_up(&self) {
        self.waiting.tell_all(Lack::Unreachable);
    }

    /// How many bytes have come, also of what is not whole yet: progress.
    pub(super) fn came(&self) -> u64 {
        self.waiting.came.load(Ordering::Relaxed)
    }

    /// What has been heard that is a reason to wait on.
    pub(super) fn heard(&self) -> Heard {
        *self.waiting.heard()
    }

    /// How long an answer takes of late.
    pub(super) fn usual(&self) -> Duration {
        *self
            .waiting
            .usual
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Awaited {
    fn new() -> (Self, watch::Receiver<Option<Answer>>) {
        let (outcome, receiver) = watch::channel(None);
        let since = Instant::now();
        (Self { since, outcome }, receiver)
    }
}

impl Waiting {
    /// Tells all that wait for it.
    fn tell(&self, key: Key, answer: Answer) {
        if let Ok(thing) = &answer {
            self.arrivals.cache.keep(thing);
            self.arrivals.directory.holds(&key.digest);
        }
        if let Some(awaited) = self.lock().remove(&key) {
            if !matches!(answer, Err(Lack::Unreachable)) {
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
            if answer.is_ok() {
                self.heard().given = Some(Instant::now());
                let mut usual = self.usual.lock().unwrap_or_else(PoisonError::into_inner);
                let took = awaited.since.elapsed();
                // Jacobson's gain: an eighth of what is new.
                *usual = if usual.is_zero() {
                    took
                } else {
                    (*usual * 7 + took) / 8
                };
            }
            awaited.outcome.send_replace(Some(answer));
        }
    }

    /// Whatever was asked for will not come by this channel.
    fn tell_all(&self, why: Lack) {
        let waiting: Vec<Awaited> = self.lock().drain().map(|(_, awaited)| awaited).collect();
        self.ahead
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        for awaited in waiting {
            awaited.outcome.send_replace(Some(Err(why)));
        }
    }

    fn is_idle(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether somebody has waited for so long.
    fn has_waited(&self, long: Duration) -> bool {
        let things = self.lock();
        things
            .values()
            .any(|awaited| awaited.since.elapsed() >= long)
    }

    fn note_ahead(&self, miss: Miss) {
        if let Miss::Object {
            object,
            first,
            count: count @ 1..,
        } = miss
        {
            let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
            ahead.insert(object, (first, count));
        }
    }

    /// The list is here: the chunks that were asked for with it are on their way, and are not asked
    /// for again.
    fn await_ahead(&self, list: &List) {
        let ahead = self
            .ahead
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&list.name());
        let Some((first, count)) = ahead else {
            return;
        };
        let mut things = self.lock();
        for name in list.chunks().skip(first as usize).take(count as usize) {
            if let Some(key) = payload_key(name) {
                things.entry(key).or_insert_with(|| Awaited::new().0);
            }
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Awaited>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks over one channel after the other, until nobody is left who could ask.
async fn ask_all(waiting: Arc<Waiting>, link: Link, mut questions: mpsc::UnboundedReceiver<Miss>) {
    while let Some(first) = questions.recv().await {
        if let Err(why) = ask_over_one(&waiting, &link, &mut questions, first).await {
            tracing::debug!(?why, "a channel of misses ended early");
            // Those that were asked meanwhile wait as well.
            while questions.try_recv().is_ok() {}
            waiting.tell_all(why);
        }
    }
}

async fn ask_over_one(
    waiting: &Waiting,
    link: &Link,
    questions: &mut mpsc::UnboundedReceiver<Miss>,
    first: Miss,
) -> Result<(), Lack> {
    let channel = link.open_counted(Arc::clone(&waiting.came)).await;
    let channel = channel.map_err(|error| {
        tracing::debug!(%error, "no channel of misses");
        Lack::Unreachable
    })?;
    let (from, to) = tokio::io::split(channel);
    let asked = Greeting::new(Channel::Misses, Encodings::DEFAULT);
    // Both at once: somebody who answers before he reads on is heard.
    tokio::select! {
        written = write_questions(to, asked, first, questions) => written.map_err(|_| Lack::Unreachable),
        read = read_answers(waiting, from, asked) => read,
    }
}

async fn write_questions(
    mut to: WriteHalf<CountedChannel>,
    asked: Greeting,
    first: Miss,
    questions: &mut mpsc::UnboundedReceiver<Miss>,
) -> io::Result<()> {
    let mut out = Vec::new();
    Message::Greeting(asked).write(&mut out);
    Message::Miss(first).write(&mut out);
    loop {
        while let Ok(miss) = questions.try_recv() {
            Message::Miss(miss).write(&mut out);
        }
        to.write_all(&out).await?;
        to.flush().await?;
        out.clear();
        match questions.recv().await {
            Some(miss) => Message::Miss(miss).write(&mut out),
            None => return Ok(()),
        }
    }
}

async fn read_answers(
    waiting: &Waiting,
    mut from: ReadHalf<CountedChannel>,
    asked: Greeting,
) -> Result<(), Lack> {
    let mut answers = Answers {
        asked,
        decoder: Decoder::new(Side::Origin),
        lists: HashMap::new(),
    };
    let mut buffer = vec![0; 64 << 10];
    loop {
        let came = waiting.came.load(Ordering::Relaxed);
        match timeout(IDLE, from.read(&mut buffer)).await {
            Ok(Ok(len @ 1..)) => {
                waiting.received.add(len as u64);
                answers.take_in(waiting, &buffer[..len]).map_err(|error| {
                    tracing::debug!(%error, "a wrong answer to a miss");
                    Lack::Wrong
                })?;
            }
            Ok(Ok(0) | Err(_)) => return Err(Lack::Unreachable),
            Err(_) if waiting.is_idle() => return Ok(()),
            // Whoever asked has asked since the last byte came.
            Err(_) if !waiting.has_waited(IDLE) => {}
            // A record is not whole yet.
            Err(_) if waiting.came.load(Ordering::Relaxed) != came => {}
            Err(_) => return Err(Lack::Unreachable),
        }
    }
}

/// What is answered, put together.
struct Answers {
    asked: Greeting,
    decoder: Decoder,
    /// What has come of lists that are not whole yet.
    lists: HashMap<ObjectName, Vec<u8>>,
}

impl Answers {
    fn take_in(&mut self, waiting: &Waiting, mut bytes: &[u8]) -> Result<(), tandem_split::Error> {
        loop {
            let taken = self.decoder.push(bytes);
            bytes = &bytes[taken..];
            while let Some(message) = self.decoder.next_message()? {
                match message {
                    Message::Greeting(answer) => self.asked.accept(&answer)?,
                    Message::Found(found) => {
                        // What nobody waits for is not taken: a volunteer's cache is not filled by
                        // others.
                        let key = payload_key(found.name());
                        if let Some(key) = key.filter(|key| waiting.lock().contains_key(key)) {
                            // One with a wrong digest ends the channel.
                            waiting.tell(key, Ok(Thing::Payload(found.check()?)));
                        }
                    }
                    Message::ListPart(part) => {
                        let (object, key) = (part.object(), list_key(part.object()));
                        if !waiting.lock().contains_key(&key) {
                            continue;
                        }
                        let so_far = self.lists.entry(object).or_default();
                        if let Some(list) = part.join(so_far)? {
                            self.lists.remove(&object);
                            waiting.await_ahead(&list);
                            waiting.tell(key, Ok(Thing::List(Arc::new(list))));
                        }
                    }
                    Message::Absent(absent) => match absent.0 {
                        Miss::Payload(name) => {
                            if let Some(key) = payload_key(name) {
                                waiting.tell(key, Err(Lack::Absent));
                            }
                        }
                        Miss::Object { object, .. } => {
                            self.lists.remove(&object);
                            waiting.tell(list_key(object), Err(Lack::Absent));
                        }
                    },
                    Message::Progress(Progress::Coming) => {
                        waiting.heard().coming = Some(Instant::now());
                    }
                    // The decoder lets none of these through on this channel.
                    Message::Verbatim(_)
                    | Message::Stub(_)
                    | Message::KeyExpose(_)
                    | Message::Miss(_)
                    | Message::Progress(Progress::Taken(_) | Progress::End | Progress::Over) => {}
                }
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tandem_split::PayloadName;
    use tandem_split::message::Absent;

    use super::super::cache;
    use super::super::sharing::Nobody;
    use super::*;

    #[test]
    fn an_answer_that_nobody_waits_for_does_not_count() {
        let number = || Number::counter("n", "");
        let numbers = cache::Numbers {
            from_memory: number(),
            from_disk: number(),
            damaged: number(),
            not_kept: number(),
            disk_bytes: number(),
        };
        let waiting = Waiting {
            arrivals: Arrivals {
                cache: Arc::new(Cache::new(1 << 20, None, numbers)),
                directory: Arc::new(Nobody),
            },
            things: Mutex::default(),
            ahead: Mutex::default(),
            answered: AtomicU64::new(0),
            heard: Mutex::default(),
            came: Arc::default(),
            usual: Mutex::default(),
            received: number(),
        };
        let asked = Greeting::new(Channel::Misses, Encodings::DEFAULT);
        let mut answers = Answers {
            asked,
            decoder: Decoder::new(Side::Origin),
            lists: HashMap::new(),
        };
        let name = PayloadName::sha256(b"lacking");
        let key = payload_key(name).expect("SHA-256");
        let mut absent = Vec::new();
        Message::Absent(Absent(Miss::Payload(name))).write(&mut absent);
        let mut said = Vec::new();
        asked.answer(Encodings::DEFAULT).write(&mut said);
        said.extend_from_slice(&absent);
        answers.take_in(&waiting, &said).expect("well-formed");
        assert_eq!(waiting.answered.load(Ordering::Relaxed), 0);
        waiting.lock().insert(key, Awaited::new().0);
        answers.take_in(&waiting, &absent).expect("well-formed");
        assert_eq!(waiting.answered.load(Ordering::Relaxed), 1);
    }
}
