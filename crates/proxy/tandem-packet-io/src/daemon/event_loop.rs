//! The event loop: packets to the engine, its outputs to the kernel, in their order.
//!
//! Is not: a decision on a packet, but for one: what cannot be decided goes on as it is.
//!
//! Invariants: each packet out of the queue gets one verdict, at the latest a few seconds after the
//! engine may hold it, or when the loop ends; verdicts and injected packets reach the kernel in the
//! engine's order; nothing here waits but for packets, signals and the time.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tandem_packet::{Direction, Event, Meddling, Output, Verdict, VerdictToken};
use tandem_queue::queue::{
    BATCH, Extent, Hook, KernelVerdict, PacketQueue, QueuedPacket, Received, VerdictError,
    VerdictWriter,
};
use tandem_queue::raw::SendError;
use tandem_wire::{Instant, UnixTime};

use crate::config::Marks;
use crate::engine::Engine;
use crate::error::IoError;
use crate::inject::Injector;
use crate::metrics::{Counting, Tally};

use tandem_daemon::service_manager::ServiceManager;

/// Between two rounds of what is not urgent: what the store asks for.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Between two looks at the gauges while packets come: nobody reads them more often.
const GAUGES_INTERVAL: Duration = Duration::from_millis(200);

/// How much longer than the engine's own bound a packet may wait before it is let go over the
/// engine's head.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// Batches read before signals and time are looked at again.
const BATCHES_A_TURN: usize = 8;

/// The least time between two time-outs that were due at once: an engine that asks for the past
/// costs no more than this.
const MIN_WAIT: Duration = Duration::from_micros(50);

/// Packets that are let go at the end at most: more keep arriving only if the rules could not be
/// removed.
const LAST_BATCHES: usize = 4096;

/// A packet that waits for the engine.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: u32,
    mark: u32,
    since: Instant,
}

/// The state of the loop.
#[derive(Debug)]
pub(super) struct EventLoop<E> {
    engine: E,
    injector: Injector,
    counting: Counting,
    leave_mark: u32,
    overdue: Duration,
    /// By token, which is by age.
    waiting: BTreeMap<VerdictToken, Waiting>,
    next_token: u64,
    start: StdInstant,
    next_upkeep: Instant,
    /// When to show the gauges again; `None` while nothing happens that changes them.
    next_gauges: Option<Instant>,
}

impl<E: Engine> EventLoop<E> {
    /// `hold` is how long the engine may hold a packet.
    pub(super) fn new(
        engine: E,
        injector: Injector,
        counting: Counting,
        marks: Marks,
        hold: Duration,
    ) -> Self {
        Self {
            engine,
            injector,
            counting,
            leave_mark: marks.leave(),
            overdue: hold.saturating_add(OVERDUE_AFTER),
            waiting: BTreeMap::new(),
            next_token: 0,
            start: StdInstant::now(),
            next_upkeep: Instant::ZERO,
            next_gauges: Some(Instant::ZERO),
        }
    }

    /// Runs until there is something to read at `end`, or its other end is closed.
    pub(super) fn run(
        &mut self,
        queue: &mut PacketQueue,
        end: BorrowedFd<'_>,
        manager: &ServiceManager,
    ) -> Result<(), IoError> {
        loop {
            let wait = self.time_to_wait();
            let mut sources = [
                PollFd::new(queue.as_fd(), PollFlags::POLLIN),
                PollFd::new(end, PollFlags::POLLIN),
            ];
            match ppoll(&mut sources, Some(TimeSpec::from(wait)), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(IoError::system("waiting for packets", errno)),
            }
            let [from_queue, is_over] = sources.map(|source| source.any().unwrap_or(true));
            if is_over {
                return Ok(());
            }
            if from_queue {
                for _ in 0..BATCHES_A_TURN {
                    // A batch that is not full has emptied the queue; what comes now wakes the loop
                    // again.
                    if self.turn(queue)?.packets < BATCH {
                        break;
                    }
                }
            }
            self.timeouts(queue.verdicts(), manager)?;
        }
    }

    /// Ends in good order: the engine lets go what it holds, the rest goes as it is, and what was
    /// learned is kept.
    pub(super) fn finish(&mut self, queue: &mut PacketQueue) {
        self.engine.release_all();
        if let Err(error) = self.carry_out(queue.verdicts()) {
            tracing::error!("{error}");
        }
        self.let_all_go(queue);
        self.engine.close();
    }

    /// Lets go what waits here and what is still in the queue, without the engine.
    pub(super) fn let_all_go(&mut self, queue: &mut PacketQueue) {
        let verdicts = queue.verdicts();
        let mut outcome = Ok(());
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            self.counting.tally(Tally::VerdictsOverdue, 1);
            outcome = outcome.and(verdicts.verdict(waiting.id, KernelVerdict::Accept));
        }
        for _ in 0..LAST_BATCHES {
            let received = queue.receive(|packet, verdicts| {
                let _ = verdicts.verdict(packet.id, KernelVerdict::Accept);
            });
            match received {
                Ok(received) if received.packets == 0 && received.overflows == 0 => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!("{error}");
                    break;
                }
            }
        }
        if outcome.is_err() || queue.verdicts().flush().is_err() {
            tracing::error!("packets that waited are lost; their senders repeat them");
        }
    }

    /// Takes one batch.
    fn turn(&mut self, queue: &mut PacketQueue) -> Result<Received, IoError> {
        let wall = wall();
        let mut outcome = Ok(());
        let received = queue.receive(|packet, verdicts| {
            let done = self.packet(packet, verdicts, wall);
            if outcome.is_ok() {
                outcome = done;
            }
        })?;
        outcome?;
        queue.verdicts().flush()?;
        self.counting
            .tally(Tally::QueuePackets, received.packets as u64);
        self.counting
            .tally(Tally::QueueOverflows, received.overflows);
        self.counting.tally(Tally::QueuePassedBy, received.unseen);
        self.counting
            .tally(Tally::QueueVerdictsRefused, received.refused_verdicts);
        Ok(received)
    }

    fn packet(
        &mut self,
        packet: QueuedPacket<'_>,
        verdicts: &mut VerdictWriter,
        wall: UnixTime,
    ) -> Result<(), IoError> {
        let direction = match (packet.hook, packet.extent) {
            (Hook::Postrouting, Extent::Whole) => Direction::ToLink,
            (Hook::Input | Hook::Forward, Extent::Whole) => Direction::FromLink,
            (_, Extent::Cut) | (Hook::Other, Extent::Whole) => {
                self.counting.tally(Tally::QueueCut, 1);
                return give(verdicts, packet.id, KernelVerdict::Accept);
            }
        };
        let now = self.now();
        let token = VerdictToken(self.next_token);
        self.next_token += 1;
        tracing::trace!(
            token = token.0,
            ?direction,
            bytes = packet.bytes.len(),
            "packet"
        );
        self.next_gauges.get_or_insert(now + GAUGES_INTERVAL);
        self.waiting.insert(
            token,
            Waiting {
                id: packet.id,
                mark: packet.mark,
                since: now,
            },
        );
        self.engine
            .handle_packet(token, direction, packet.bytes, now, wall);
        self.carry_out(verdicts)
    }

    /// Does what is due by the time.
    fn timeouts(
        &mut self,
        verdicts: &mut VerdictWriter,
        manager: &ServiceManager,
    ) -> Result<(), IoError> {
        let now = self.now();
        if self.engine.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.engine.handle_timeout(now);
            self.carry_out(verdicts)?;
        }
        if self.next_upkeep <= now {
            self.next_upkeep = now + UPKEEP_INTERVAL;
            manager.alive();
            self.let_overdue_go(now, verdicts)?;
            self.engine.upkeep(wall());
            let Self {
                engine, counting, ..
            } = self;
            engine.summaries(&mut |summary| counting.flow(&summary, now));
            self.carry_out(verdicts)?;
            self.next_gauges = Some(now);
        }
        if self.next_gauges.is_some_and(|at| at <= now) {
            self.next_gauges = None;
            let Self {
                engine, counting, ..
            } = self;
            engine.gauges(&mut |name, value| counting.gauge(name, value));
            let waiting = self.waiting.len() as u64;
            self.counting.gauge("waiting_verdicts", waiting);
        }
        Ok(verdicts.flush()?)
    }

    fn let_overdue_go(
        &mut self,
        now: Instant,
        verdicts: &mut VerdictWriter,
    ) -> Result<(), IoError> {
        while let Some(oldest) = self.waiting.first_entry() {
            if now.saturating_since(oldest.get().since) <= self.overdue {
                break;
            }
            let (token, waiting) = oldest.remove_entry();
            tracing::warn!(
                token = token.0,
                "the engine owes a verdict for too long; the packet goes on as it is"
            );
            self.counting.tally(Tally::VerdictsOverdue, 1);
            give(verdicts, waiting.id, KernelVerdict::Accept)?;
        }
        Ok(())
    }

    /// Carries out what the engine wants, until it wants nothing more.
    fn carry_out(&mut self, verdicts: &mut VerdictWriter) -> Result<(), IoError> {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Verdict(token, verdict) => self.verdict(token, &verdict, verdicts)?,
                Output::Inject(direction, packet) => {
                    // What was decided before goes before.
                    verdicts.flush()?;
                    self.inject(direction, &packet);
                }
                Output::Event(event) => self.event(event),
            }
        }
        Ok(())
    }

    fn verdict(
        &mut self,
        token: VerdictToken,
        verdict: &Verdict,
        verdicts: &mut VerdictWriter,
    ) -> Result<(), IoError> {
        let Some(waiting) = self.waiting.remove(&token) else {
            // Let go already.
            self.counting.tally(Tally::VerdictsUnknown, 1);
            return Ok(());
        };
        let kernel = match verdict {
            Verdict::Accept => KernelVerdict::Accept,
            Verdict::Replace(bytes) => KernelVerdict::Replace(bytes),
            Verdict::Drop => KernelVerdict::Drop,
            Verdict::Leave => KernelVerdict::RepeatMarked(waiting.mark | self.leave_mark),
        };
        match verdicts.verdict(waiting.id, kernel) {
            Ok(()) => Ok(()),
            Err(VerdictError::TooLong) => {
                self.counting.tally(Tally::QueueReplacementsTooLong, 1);
                give(verdicts, waiting.id, KernelVerdict::Accept)
            }
            Err(VerdictError::Queue(error)) => Err(error.into()),
        }
    }

    fn inject(&mut self, direction: Direction, packet: &[u8]) {
        tracing::trace!(?direction, bytes = packet.len(), "inject");
        match self.injector.send(direction, packet) {
            Ok(()) => {
                self.counting.tally(Tally::InjectedPackets, 1);
                self.counting
                    .tally(Tally::InjectedBytes, packet.len() as u64);
            }
            Err(SendError::TooLong) => self.counting.tally(Tally::InjectTooLong, 1),
            Err(why @ (SendError::NotIp | SendError::Refused(_))) => {
                tracing::debug!(
                    ?direction,
                    ?why,
                    bytes = packet.len(),
                    "a packet could not be sent"
                );
                self.counting.tally(Tally::InjectRefused, 1);
            }
        }
    }

    fn event(&mut self, event: Event) {
        tracing::trace!(?event, "event");
        self.counting.event(event.name(), event.amount());
        warn_of(event);
        match event.saved_bytes() {
            0 => {}
            bytes => self.counting.tally(Tally::SavedBytes, bytes),
        }
    }

    /// Time since the start.
    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn time_to_wait(&self) -> Duration {
        let now = self.now();
        let timeout = self.engine.poll_timeout().map(|(at, _)| at);
        let next = [timeout, self.next_gauges]
            .into_iter()
            .flatten()
            .fold(self.next_upkeep, Instant::min);
        next.saturating_since(now).max(MIN_WAIT)
    }
}

/// Says what an operator has to know of a device between the proxies.
fn warn_of(event: Event) {
    let seen = match event {
        Event::PathStopped(Meddling::ReplacesTimestamps) => "replaces TCP timestamps",
        Event::PathStopped(Meddling::TakesBytes) => "takes rewritten bytes into the stream",
        Event::PathStopped(Meddling::Withholds) => "holds or drops rewritten flights",
        Event::PathResumed => {
            tracing::info!("rewritten flights work again on a path where they did not");
            return;
        }
        _ => return,
    };
    tracing::warn!(
        "a device between the proxies {seen}: nothing is rewritten on its path for a while \
         (docs/operating.md, Middleboxes)"
    );
}

fn give(verdicts: &mut VerdictWriter, id: u32, verdict: KernelVerdict<'_>) -> Result<(), IoError> {
    match verdicts.verdict(id, verdict) {
        Ok(()) | Err(VerdictError::TooLong) => Ok(()),
        Err(VerdictError::Queue(error)) => Err(error.into()),
    }
}

/// Wall-clock time; 0 before 1970.
fn wall() -> UnixTime {
    UnixTime(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    )
}
