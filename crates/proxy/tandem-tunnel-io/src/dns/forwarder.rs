//! The client side's forwarder: from a client's message to the reply.
//!
//! Is not: the sockets (`ports.rs`).
//!
//! Invariants: the lock is held for looking and keeping, never while anything is waited for; a
//! question that has begun to cross is followed to its end, whether or not a client still waits, so
//! that the client's next try finds the answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_daemon::places::{Place, Places, Share};
use tandem_link::tunnel::{DnsAnswer, Ending, MAX_ANSWER};
use tandem_tunnel::dns::{
    self, Age, Answer, Asked, Cache, Found, Key, Question, Request, Transport,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::board::Tally;
use crate::keeper::{Keeper, Leased};
use crate::shared::Shared;
use crate::transport::{Receiving as _, Tunnel};
use crate::whole::{read_whole, write_whole};

/// Questions that wait for the far side, in all and of one client, which may be the forwarder of a
/// whole network. Each may have a stream, of which the tunnel has more for TCP connections.
const MAX_OPEN: usize = 512;
const MAX_OPEN_EACH: usize = 256;

/// How long a client waits before it is told that there is no answer: within the ten seconds that
/// a client gives a name server in all (resolv.conf(5): 5 s, twice).
const PATIENCE: Duration = Duration::from_secs(9);
/// The same where an old answer can be given: before the client asks again.
const STALE_PATIENCE: Duration = Duration::from_secs(4);
/// How long the far side may take. Longer than any client waits: on a thin line a connection to the
/// other side takes half a minute to make, and then the next try finds the answer.
const CROSSING: Duration = Duration::from_secs(30);

/// See the module.
pub(crate) struct Forwarder<T> {
    keeper: Arc<Keeper<T>>,
    shared: Arc<Shared>,
    places: Arc<Places<IpAddr>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cache: Cache,
    /// Those who wait for the answer to a question that is crossing.
    crossing: BTreeMap<Key, Vec<oneshot::Sender<Option<Arc<Answer>>>>>,
}

/// What a message leads to.
pub(super) enum Step<T: Tunnel> {
    /// This reply, or silence.
    Done(Option<Vec<u8>>),
    /// An answer that is on its way.
    Wait(Box<Waiting<T>>),
}

/// A client that waits.
pub(super) struct Waiting<T: Tunnel> {
    request: Request,
    answer: oneshot::Receiver<Option<Arc<Answer>>>,
    stale: Option<Arc<Answer>>,
    forwarder: Arc<Forwarder<T>>,
    _place: Arc<Place<IpAddr>>,
}

impl<T: Tunnel> Forwarder<T> {
    pub(crate) fn new(keeper: Arc<Keeper<T>>, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            keeper,
            shared,
            places: Places::new(MAX_OPEN, Share::AtMost(MAX_OPEN_EACH)),
            state: Mutex::default(),
        })
    }

    /// Takes a client's message. Within a runtime.
    pub(super) fn take(
        self: &Arc<Self>,
        message: &[u8],
        from: IpAddr,
        transport: Transport,
    ) -> Step<T> {
        let request = match dns::read(message, transport) {
            Asked::Nothing => return Step::Done(None),
            Asked::Refused(reply) => {
                self.count(Tally::DnsRefused);
                return Step::Done(Some(reply));
            }
            Asked::Question(request) => request,
        };
        self.count(Tally::DnsQueries);
        let key = request.question().key();
        let mut state = self.state();
        let stale = match state.cache.find(&key, self.shared.clocks.now()) {
            Found::Answer(answer, age) => {
                drop(state);
                self.count(match age {
                    Age::New | Age::Kept(_) => Tally::DnsFromCache,
                    Age::Stale => Tally::DnsStale,
                });
                return Step::Done(request.reply(&answer, age));
            }
            Found::Stale(answer) => Some(answer),
            Found::Nothing => None,
        };
        let Some(place) = self.places.take(from).map(Arc::new) else {
            drop(state);
            self.count(Tally::DnsOverloaded);
            return Step::Done(match stale {
                Some(stale) => request.reply(&stale, Age::Stale),
                None => request.failure(),
            });
        };
        let (tell, answer) = oneshot::channel();
        let waiters = state.crossing.entry(key).or_default();
        if waiters.is_empty() {
            let question = request.question().clone();
            tokio::spawn(Arc::clone(self).cross(question, Arc::clone(&place)));
        }
        waiters.push(tell);
        drop(state);
        Step::Wait(Box::new(Waiting {
            request,
            answer,
            stale,
            forwarder: Arc::clone(self),
            _place: place,
        }))
    }

    /// Asks the far side and tells those who wait. The place is that of the client who asked first,
    /// for as long as the question crosses.
    async fn cross(self: Arc<Self>, question: Question, _place: Arc<Place<IpAddr>>) {
        self.count(Tally::DnsCrossed);
        let crossed = timeout(CROSSING, self.crossed(&question)).await;
        let answer = crossed.ok().flatten().map(Arc::new);
        let (key, now) = (question.key(), self.shared.clocks.now());
        let mut state = self.state();
        match &answer {
            Some(answer) => state.cache.keep(key.clone(), Arc::clone(answer), now),
            None => {
                state.cache.failed(&key, now);
            }
        }
        let waiters = state.crossing.remove(&key).unwrap_or_default();
        self.shared.board.numbers([
            ("dns_cache_answers", state.cache.len() as u64),
            ("dns_cache_bytes", state.cache.bytes() as u64),
        ]);
        drop(state);
        for waiter in waiters {
            // Who has gone is not told.
            let _ = waiter.send(answer.clone());
        }
    }

    async fn crossed(&self, question: &Question) -> Option<Answer> {
        let Leased {
            mut stream,
            lease: _lease,
        } = self.keeper.stream().await?;
        let mut query = Vec::new();
        question.to_link().write(&mut query);
        write_whole(&mut stream.sending, &query).await.ok()?;
        let answer = read_whole(&mut stream.receiving, &[], MAX_ANSWER).await;
        let crossed = query.len() + answer.as_ref().map_or(0, Vec::len);
        self.shared.board.count(Tally::DnsLinkBytes, crossed);
        let answer = answer.and_then(|bytes| {
            let answer = DnsAnswer::parse(&bytes).ok()?;
            Answer::of_link(question, answer).ok()
        });
        if answer.is_none() {
            stream.receiving.stop(Ending::Malformed.code());
        }
        answer
    }

    /// Somebody has asked who may not.
    pub(super) fn not_allowed(&self) {
        self.count(Tally::DnsNotAllowed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What panicked while it looked has left the maps whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, tally: Tally) {
        self.shared.board.count(tally, 1);
    }
}

impl<T: Tunnel> Waiting<T> {
    /// The reply, in bounded time.
    pub(super) async fn reply(self) -> Option<Vec<u8>> {
        let Self {
            request,
            answer,
            stale,
            forwarder,
            _place,
        } = self;
        let patience = match stale {
            Some(_) => STALE_PATIENCE,
            None => PATIENCE,
        };
        let answer = timeout(patience, answer).await;
        if answer.is_err() {
            let now = forwarder.shared.clocks.now();
            let key = request.question().key();
            forwarder.state().cache.failed(&key, now);
        }
        let answer = answer.ok().and_then(Result::ok).flatten();
        match (answer, stale) {
            (Some(answer), None) => request.reply(&answer, Age::New),
            (Some(answer), Some(_)) if !answer.is_failure() => request.reply(&answer, Age::New),
            (_, Some(stale)) => {
                forwarder.count(Tally::DnsStale);
                request.reply(&stale, Age::Stale)
            }
            (None, None) => {
                forwarder.count(Tally::DnsFailed);
                request.failure()
            }
        }
    }
}
