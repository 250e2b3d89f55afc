//! Getting what the cache lacks: one question to the origin for each thing, however many clients wait for it.
//!
//! Is not: a judge of what comes: a digest decides, and what has the wrong one is not there.
//!
//! Invariants: one channel of misses at a time, opened when there is a question; whoever waits is told in the end, with the thing or without; what was
//! asked for once is not asked for again as long as it is waited for.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tandem_split::message::{Channel, Encodings, Greeting, Message, Miss, Side};
use tandem_split::{Decoder, ObjectName, Want};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::Link;
use super::cache::{Cache, Thing, list_key, payload_key};
use super::disk::Key;
use crate::metrics::Number;

/// How long a thing may take. Then its clients' connections fail, and those who ask next start anew.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a channel without a question stays open.
const IDLE: Duration = Duration::from_secs(60);
/// `None` until it is known; then the thing, or that there is none.
type Outcome = Option<Option<Thing>>;

/// See above.
#[derive(Debug)]
pub(super) struct Fetcher {
    cache: Arc<Cache>,
    waited_for: Mutex<HashMap<Key, watch::Sender<Outcome>>>,
    questions: mpsc::UnboundedSender<Miss>,
    asked: Number,
}

impl Fetcher {
    /// One that asks over `link`.
    pub(super) fn start(cache: Arc<Cache>, link: Link, asked: Number) -> Arc<Self> {
        let (questions, receiver) = mpsc::unbounded_channel();
        let fetcher = Arc::new(Self {
            cache,
            waited_for: Mutex::default(),
            questions,
            asked,
        });
        tokio::spawn(ask_all(Arc::clone(&fetcher), link, receiver));
        fetcher
    }

    /// What is wanted, from wherever it is; `None` if nobody has it.
    pub(super) async fn get(&self, want: Want) -> Option<Thing> {
        let key = match want {
            Want::Payload(name) => payload_key(name)?,
            Want::List { object, .. } => list_key(object),
        };
        if let Some(thing) = self.cache.thing(key).await {
            return Some(thing);
        }
        let mut outcome = {
            let mut waited_for = self.lock();
            // It may have come meanwhile.
            if let Some(thing) = self.cache.at_hand(key) {
                return Some(thing);
            }
            match waited_for.get(&key) {
                Some(sender) => sender.subscribe(),
                None => {
                    let (sender, outcome) = watch::channel(None);
                    waited_for.insert(key, sender);
                    self.asked.add(1);
                    // The other end is only gone with the process.
                    let _ = self.questions.send(question(want));
                    outcome
                }
            }
        };
        match timeout(PATIENCE, outcome.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone().flatten(),
            // Nobody told.
            Ok(Err(_)) => None,
            Err(_) => {
                self.tell(key, None);
                None
            }
        }
    }

    /// Tells all that wait for it.
    fn tell(&self, key: Key, thing: Option<Thing>) {
        if let Some(thing) = &thing {
            self.cache.keep(thing);
        }
        if let Some(sender) = self.lock().remove(&key) {
            sender.send_replace(Some(thing));
        }
    }

    /// Whatever was asked for will not come by this channel.
    fn tell_all_of_nothing(&self) {
        let waiting: Vec<watch::Sender<Outcome>> =
            self.lock().drain().map(|(_, sender)| sender).collect();
        for sender in waiting {
            sender.send_replace(Some(None));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, watch::Sender<Outcome>>> {
        self.waited_for
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn question(want: Want) -> Miss {
    match want {
        Want::Payload(name) => Miss::Payload(name),
        // Its chunks may be here already, in another object: they are asked for by themselves.
        Want::List { object, .. } => Miss::Object {
            object,
            first: 0,
            count: 0,
        },
    }
}

/// Asks over one channel after the other.
async fn ask_all(fetcher: Arc<Fetcher>, link: Link, mut questions: mpsc::UnboundedReceiver<Miss>) {
    while let Some(first) = questions.recv().await {
        match ask_over_one(&fetcher, &link, &mut questions, first).await {
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(%error, "the channel of misses ended early");
                // Those that were asked meanwhile wait as well.
                while questions.try_recv().is_ok() {}
                fetcher.tell_all_of_nothing();
            }
        }
    }
}

async fn ask_over_one(
    fetcher: &Fetcher,
    link: &Link,
    questions: &mut mpsc::UnboundedReceiver<Miss>,
    first: Miss,
) -> io::Result<()> {
    let channel = link.open().await?;
    let (mut from_origin, mut to_origin) = tokio::io::split(channel);
    let mut out = Vec::new();
    let asked = Greeting::new(Channel::Misses, Encodings::DEFAULT);
    Message::Greeting(asked).write(&mut out);
    Message::Miss(first).write(&mut out);
    let mut answers = Answers::new(asked, first);
    let mut buffer = vec![0; 64 << 10];
    loop {
        while let Ok(miss) = questions.try_recv() {
            Message::Miss(miss).write(&mut out);
            answers.expect(miss);
        }
        if !out.is_empty() {
            to_origin.write_all(&out).await?;
            to_origin.flush().await?;
            out.clear();
        }
        tokio::select! {
            question = questions.recv() => match question {
                Some(miss) => {
                    Message::Miss(miss).write(&mut out);
                    answers.expect(miss);
                }
                None => return Ok(()),
            },
            read = timeout(IDLE, from_origin.read(&mut buffer)) => match read {
                Ok(read) => match read? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    len => answers.take_in(fetcher, &buffer[..len]).map_err(io::Error::other)?,
                },
                Err(_) => {
                    fetcher.tell_all_of_nothing();
                    return Ok(());
                }
            },
        }
    }
}

/// What the origin answers, put together.
struct Answers {
    asked: Greeting,
    decoder: Decoder,
    /// Lists that were asked for, and what has come of them.
    lists: HashMap<ObjectName, Vec<u8>>,
}

impl Answers {
    fn new(asked: Greeting, first: Miss) -> Self {
        let mut answers = Self {
            asked,
            decoder: Decoder::new(Side::Origin),
            lists: HashMap::new(),
        };
        answers.expect(first);
        answers
    }

    fn expect(&mut self, miss: Miss) {
        if let Miss::Object { object, .. } = miss {
            self.lists.insert(object, Vec::new());
        }
    }

    fn take_in(&mut self, fetcher: &Fetcher, mut bytes: &[u8]) -> Result<(), tandem_split::Error> {
        loop {
            let taken = self.decoder.push(bytes);
            bytes = &bytes[taken..];
            while let Some(message) = self.decoder.next_message()? {
                match message {
                    Message::Greeting(answer) => self.asked.accept(&answer)?,
                    Message::Found(found) => {
                        if let Some(key) = payload_key(found.name()) {
                            // One with a wrong digest ends the channel.
                            fetcher.tell(key, Some(Thing::Payload(found.check()?)));
                        }
                    }
                    Message::ListPart(part) => {
                        let object = part.object();
                        let Some(so_far) = self.lists.get_mut(&object) else {
                            continue;
                        };
                        if let Some(list) = part.join(so_far)? {
                            self.lists.remove(&object);
                            let thing = Thing::List(Arc::new(list));
                            fetcher.tell(list_key(object), Some(thing));
                        }
                    }
                    Message::Absent(absent) => match absent.0 {
                        Miss::Payload(name) => {
                            if let Some(key) = payload_key(name) {
                                fetcher.tell(key, None);
                            }
                        }
                        Miss::Object { object, .. } => {
                            self.lists.remove(&object);
                            fetcher.tell(list_key(object), None);
                        }
                    },
                    // The decoder lets none of these through on this channel.
                    Message::Verbatim(_)
                    | Message::Stub(_)
                    | Message::KeyExpose(_)
                    | Message::Miss(_) => {}
                }
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }
}
