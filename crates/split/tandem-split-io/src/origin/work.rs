//! Turns: before the origin hashes or reads for a volunteer, the volunteer's turn has to come.
//!
//! Is: the waiting, as many at once as there are processors. Is not: whose turn it is, nor how much
//! anybody may cause (`tandem_barnraising::work`).
//!
//! Invariants: whoever has a turn does not wait for anything while it has it; a turn ends when it
//! is dropped, and so does the wait for one; who leaves before its turn has caused nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use tandem_barnraising::PublicKey;
use tandem_barnraising::work::{Asker, Budget, Limits, Queue, Request, Reservation, Ticket};
use tandem_channel::KeyName;
use tandem_daemon::metrics::Number;
use tandem_wire::Instant;
use tokio::sync::oneshot;
use tokio::time::{Instant as SystemInstant, sleep};

/// What is counted.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// Bytes for which there was a turn.
    pub(super) hashed: Number,
    /// Turns that are waited for.
    pub(super) waiting: Number,
    /// Turns that were put off because a limit was reached.
    pub(super) delayed: Number,
}

/// See above.
#[derive(Clone, Debug)]
pub(super) struct Work(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: SystemInstant,
    at_once: usize,
    state: Mutex<State>,
    numbers: Numbers,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    budget: Budget,
    /// Turns that somebody has.
    running: usize,
    /// How those who wait hear that they have one.
    waiting: BTreeMap<Ticket, oneshot::Sender<()>>,
}

/// The work that one channel causes.
#[derive(Clone, Debug)]
pub(super) struct Account {
    work: Work,
    volunteer: Option<KeyName>,
    asker: Asker,
}

/// Work that has to wait for its limits, and then for its turn. Dropped before, it causes nothing.
#[derive(Debug)]
#[must_use]
pub(super) struct Reserved {
    account: Account,
    bytes: u64,
    delay: Duration,
    /// Until the turn has come.
    reservation: Option<Reservation>,
}

/// The right to work now.
#[derive(Debug)]
#[must_use]
pub(super) struct Turn {
    work: Work,
    ticket: Ticket,
}

impl Work {
    /// As many turns at once as there are processors.
    pub(super) fn new(numbers: Numbers) -> Self {
        Self::with_turns(available_parallelism().map_or(1, usize::from), numbers)
    }

    fn with_turns(at_once: usize, numbers: Numbers) -> Self {
        Self(Arc::new(Shared {
            start: SystemInstant::now(),
            at_once,
            state: Mutex::new(State {
                queue: Queue::default(),
                budget: Budget::default(),
                running: 0,
                waiting: BTreeMap::new(),
            }),
            numbers,
        }))
    }

    /// Has these limits from now on; what was caused before does not count.
    pub(super) fn limit(&self, limits: Limits) {
        self.lock().budget = Budget::new(limits);
    }

    /// What this volunteer causes that comes from there.
    pub(super) fn account(&self, volunteer: Option<KeyName>, from: IpAddr) -> Account {
        // Those that show no key are one.
        let key = PublicKey(volunteer.map_or([0; PublicKey::LEN], KeyName::bytes));
        Account {
            work: self.clone(),
            volunteer,
            asker: Asker { key, from },
        }
    }

    fn enter(&self, request: Request) -> (Turn, oneshot::Receiver<()>) {
        let (tells, told) = oneshot::channel();
        let mut state = self.lock();
        let ticket = state.queue.push(request);
        state.waiting.insert(ticket, tells);
        state.grant(self.0.at_once);
        let work = self.clone();
        (Turn { work, ticket }, told)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.0.start.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives the turns that are free.
    fn grant(&mut self, at_once: usize) {
        while self.running < at_once
            && let Some(ticket) = self.queue.pop()
        {
            if let Some(tells) = self.waiting.remove(&ticket) {
                self.running += 1;
                // Whoever does not wait any more drops the turn.
                let _ = tells.send(());
            }
        }
    }
}

impl Account {
    /// Who causes it.
    pub(super) fn asker(&self) -> Asker {
        self.asker
    }

    /// The volunteer's key.
    pub(super) fn volunteer(&self) -> Option<KeyName> {
        self.volunteer
    }

    /// How long it has to wait for its limits before it may cause more.
    pub(super) fn delay(&self) -> Duration {
        let now = self.work.now();
        self.work.lock().budget.delay(self.asker, now)
    }

    /// Announces work on so many bytes.
    pub(super) fn reserve(&self, bytes: u64) -> Reserved {
        let now = self.work.now();
        let reservation = self.work.lock().budget.reserve(self.asker, bytes, now);
        let delay = reservation.delay();
        if !delay.is_zero() {
            self.work.0.numbers.delayed.add(1);
        }
        Reserved {
            account: self.clone(),
            bytes,
            delay,
            reservation: Some(reservation),
        }
    }

    /// Waits for the limits, and for the turn to work on so many bytes. The wait may be dropped at
    /// any time.
    pub(super) async fn turn(&self, bytes: u64) -> Turn {
        let reserved = self.reserve(bytes);
        if !reserved.delay.is_zero() {
            sleep(reserved.delay).await;
        }
        reserved.turn().await
    }

    /// Counts bytes that are written to the channel. What is caused next waits for them.
    pub(super) fn note_sent(&self, bytes: u64) {
        let now = self.work.now();
        let mut state = self.work.lock();
        state.budget.note_sent(self.asker, bytes, now);
    }
}

impl Reserved {
    /// How long it has to wait for the limits, from when it was announced.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// Waits for the turn, when the limits allow it. The wait may be dropped at any time.
    pub(super) async fn turn(mut self) -> Turn {
        let work = self.account.work.clone();
        let (turn, told) = work.enter(Request {
            asker: self.account.asker,
            cost: self.bytes,
        });
        let _waits = work.0.numbers.waiting.hold();
        // Whoever would say otherwise is dropped with the turn.
        let _ = told.await;
        if let Some(reservation) = self.reservation.take() {
            work.lock().budget.note_hashed(reservation, work.now());
        }
        work.0.numbers.hashed.add(self.bytes);
        turn
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let work = &self.account.work;
            work.lock().budget.give_back(reservation, work.now());
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.work.lock();
        match state.waiting.remove(&self.ticket) {
            Some(_) => state.queue.give_up(self.ticket),
            None => state.running -= 1,
        }
        state.grant(self.work.0.at_once);
        if state.running == 0 {
            state.queue.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::{JoinSet, yield_now};

    use super::*;

    const PIECE: u64 = 1 << 20;

    fn work(at_once: usize) -> Work {
        let numbers = Numbers {
            hashed: Number::counter("hashed", "bytes"),
            waiting: Number::gauge("waiting", "turns"),
            delayed: Number::counter("delayed", "turns"),
        };
        Work::with_turns(at_once, numbers)
    }

    fn account(work: &Work, key: u8) -> Account {
        let key = KeyName::from_bytes([key; 32]);
        work.account(Some(key), IpAddr::from([192, 0, 2, 1]))
    }

    #[tokio::test]
    async fn three_hundred_of_one_key_delay_another_by_one_turn() {
        let work = work(1);
        let done = Arc::new(AtomicUsize::new(0));
        let mut crowd = JoinSet::new();
        for _ in 0..300 {
            let (account, done) = (account(&work, 1), Arc::clone(&done));
            crowd.spawn(async move {
                for _ in 0..2 {
                    let turn = account.turn(PIECE).await;
                    done.fetch_add(1, Ordering::Relaxed);
                    drop(turn);
                    yield_now().await;
                }
            });
        }
        let first = account(&work, 1).turn(PIECE).await;
        while work.0.numbers.waiting.value() < 300 {
            yield_now().await;
        }
        let before = done.load(Ordering::Relaxed);
        let account = account(&work, 2);
        let honest = account.turn(PIECE);
        let mut honest = std::pin::pin!(honest);
        tokio::select! {
            biased;
            _ = &mut honest => panic!("there is one turn, and somebody has it"),
            () = yield_now() => {}
        }
        drop(first);
        drop(honest.await);
        let others = done.load(Ordering::Relaxed) - before;
        assert!(others <= 1, "{others}");
        while crowd.join_next().await.is_some() {}
        assert_eq!(done.load(Ordering::Relaxed), 600);
        assert_eq!(work.lock().running, 0);
        assert_eq!(work.0.numbers.hashed.value(), 602 * PIECE);
    }

    #[tokio::test]
    async fn a_wait_that_is_dropped_takes_no_turn_along() {
        let work = work(1);
        let first = account(&work, 1).turn(PIECE).await;
        let (second, third) = (account(&work, 1), account(&work, 2));
        let mut waits = JoinSet::new();
        let dropped = waits.spawn(async move { drop(second.turn(PIECE).await) });
        while work.0.numbers.waiting.value() < 1 {
            yield_now().await;
        }
        dropped.abort();
        assert!(waits.join_next().await.is_some());
        assert_eq!(work.0.numbers.waiting.value(), 0);
        drop(first);
        drop(third.turn(PIECE).await);
        assert!(work.lock().queue.is_empty());
        assert_eq!(work.lock().running, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_over_its_limit_waits_and_others_do_not() {
        let work = work(1);
        work.limit(Limits {
            hashed: NonZeroU64::new(PIECE),
            sent: NonZeroU64::new(1_000),
        });
        let one = account(&work, 1);
        let key = KeyName::from_bytes([2; 32]);
        let other = work.account(Some(key), IpAddr::from([198, 51, 100, 1]));
        let start = tokio::time::Instant::now();
        for _ in 0..9 {
            drop(one.turn(PIECE).await);
        }
        assert_eq!(
            start.elapsed(),
            Duration::ZERO,
            "a burst is eight seconds' worth"
        );
        let waits = one.turn(PIECE);
        let mut waits = std::pin::pin!(waits);
        tokio::select! {
            biased;
            _ = &mut waits => panic!("it is over its limit"),
            _ = other.turn(PIECE) => {}
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "others do not wait");
        drop(waits.await);
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        assert_eq!(work.0.numbers.delayed.value(), 1);
        other.note_sent(10_000);
        drop(other.turn(PIECE).await);
        assert_eq!(
            work.0.numbers.delayed.value(),
            2,
            "what was sent counts, too"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_while_the_limit_holds_it_up_delays_nobody() {
        let work = work(1);
        work.limit(Limits {
            hashed: NonZeroU64::new(PIECE),
            sent: None,
        });
        let one = account(&work, 1);
        for _ in 0..9 {
            drop(one.turn(PIECE).await);
        }
        let mut crowd = JoinSet::new();
        for _ in 0..20 {
            let one = one.clone();
            crowd.spawn(async move { drop(one.turn(PIECE).await) });
        }
        while work.0.numbers.delayed.value() < 20 {
            yield_now().await;
        }
        assert_eq!(one.delay(), Duration::from_secs(21));
        crowd.abort_all();
        while crowd.join_next().await.is_some() {}
        assert_eq!(one.delay(), Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_turn_that_is_granted_to_one_who_has_left_goes_to_the_next() {
        let work = work(1);
        let first = account(&work, 1).turn(PIECE).await;
        let left = account(&work, 1);
        {
            let waits = left.turn(PIECE);
            let mut waits = std::pin::pin!(waits);
            tokio::select! {
                biased;
                _ = &mut waits => panic!("there is one turn, and somebody has it"),
                () = yield_now() => {}
            }
            drop(first);
            assert_eq!(work.lock().running, 1, "it is granted, and not told yet");
        }
        assert_eq!(work.lock().running, 0);
        drop(account(&work, 2).turn(PIECE).await);
        assert_eq!(work.0.numbers.hashed.value(), 2 * PIECE);
    }
}
