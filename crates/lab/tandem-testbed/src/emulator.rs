//! The emulated link in real time: `tandem_netsim`'s link between TUN devices.
//!
//! One thread waits for packets and for the link's next due instant (`ppoll`, nanoseconds, no timer
//! slack), and does no work otherwise. The arithmetic is the link's own and does not depend on how
//! late the thread wakes; only the moment at which a packet is handed over does. A wake-up is late
//! by some tens of microseconds on an idle machine.
//!
//! It keeps a log of what was offered, with the packets' bytes, so that bytes can be told apart by
//! flow and phase after the fact and a capture can be written. Its counters are the only figure for
//! bytes in any result.
//!
//! Invariant: nothing here looks into a packet to decide what becomes of it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use tandem_netsim::link::{Direction, Input, Link, LinkConfig, LinkCounters};
use tandem_trace::Moment;
use tandem_wire::Instant;

use crate::comment::comment;
use crate::describe::Narrator;
use crate::error::LabError;
use crate::interrupt;
use crate::moment;
pub use crate::pcapng::CaptureFile;
use crate::pcapng::LinkCapture;
use crate::topology::{LinkEnds, Place};

/// The largest packet that a read returns: an IP packet's own limit.
const MAX_PACKET: usize = 65_535;

/// Packets read from one device before the other has its turn.
const READS_IN_A_ROW: usize = 64;

/// Packets whose bytes are kept between two calls of [`Emulator::take_log`]. A handshake has some
/// thirty; a bulk transfer would fill the memory. Later ones are counted by the link, and are not
/// in the log.
const LOG_LIMIT: usize = 4096;

/// A packet that was offered to the link.
#[derive(Debug, Clone)]
pub struct Crossing {
    /// Which way.
    pub direction: Direction,
    /// When it came to the link.
    pub offered: Moment,
    /// When it left at the far end. `None`: not yet, or it never did.
    pub delivered: Option<Moment>,
    /// Whether the link took it.
    pub fate: Fate,
    /// What it carries, in words.
    pub words: String,
    /// The IP packet.
    pub packet: Vec<u8>,
}

/// Whether the link took a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was sent, or will be. Whether it arrives is another matter.
    Taken,
    /// Refused at the entry: no room in the queue, or larger than the MTU.
    Refused,
}

/// A link that runs, until dropped.
#[derive(Debug)]
pub struct Emulator {
    shared: Arc<Shared>,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<Result<(), LabError>>>,
}

#[derive(Debug)]
struct Shared {
    /// Where it comes out: which of the server sides what goes up, which of the client sides what
    /// goes down.
    leads_to: [AtomicUsize; 2],
    /// Moment and clock reading at the link's time zero.
    start: (Moment, Clock),
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    link: Link,
    log: Vec<Crossing>,
    /// Where in the log packets are that have not come out yet, with a digest of their bytes.
    under_way: Vec<(u64, usize)>,
    narrator: Narrator,
    capture: Option<LinkCapture>,
    last_event: Clock,
    undeliverable: u64,
}

/// What a link does at a moment, for waiting and for showing.
#[derive(Debug, Clone, Copy)]
pub struct Activity {
    /// Whether a packet waits, is being sent or is on its way.
    pub busy: bool,
    /// Time since a packet last entered or left.
    pub quiet_for: Duration,
    /// The counters.
    pub counters: LinkCounters,
}

impl Emulator {
    /// Starts a link between the devices, the first of each end until it is told otherwise. All of
    /// the link's chance comes from `seed`. With `capture`, what is offered is written there.
    ///
    /// # Errors
    /// `Io` where the capture cannot be written, `Kernel` where there is no event descriptor or
    /// thread.
    pub fn start(
        ends: LinkEnds,
        config: LinkConfig,
        seed: u64,
        capture: Option<CaptureFile>,
    ) -> Result<Self, LabError> {
        let capture = capture.as_ref().map(LinkCapture::create).transpose()?;
        let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|errno| {
            LabError::Kernel {
                what: "an event descriptor",
                source: errno.into(),
            }
        })?);
        let shared = Arc::new(Shared {
            leads_to: [AtomicUsize::new(0), AtomicUsize::new(0)],
            start: (moment::now(), Clock::now()),
            state: Mutex::new(State {
                link: Link::new(config, seed, Instant::ZERO),
                log: Vec::new(),
                under_way: Vec::new(),
                narrator: Narrator::default(),
                capture,
                last_event: Clock::now(),
                undeliverable: 0,
            }),
        });
        let thread = std::thread::Builder::new()
            .name("link".to_owned())
            .spawn({
                let (shared, stop) = (Arc::clone(&shared), Arc::clone(&stop));
                move || run(&shared, &ends, &stop)
            })
            .map_err(|source| LabError::Kernel {
                what: "a thread",
                source,
            })?;
        Ok(Self {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// What has been counted since the start.
    pub fn counters(&self) -> LinkCounters {
        self.shared.lock().link.counters()
    }

    /// What it does now.
    pub fn activity(&self) -> Activity {
        let state = self.shared.lock();
        Activity {
            busy: state.link.poll_timeout().is_some(),
            quiet_for: state.last_event.elapsed(),
            counters: state.link.counters(),
        }
    }

    /// Waits until a connection's last packets have crossed: for `quiet` nothing has happened, or
    /// `limit` has passed.
    ///
    /// # Errors
    /// `Interrupted`.
    pub fn settle(&self, quiet: Duration, limit: Duration) -> Result<(), LabError> {
        interrupt::wait_until(limit, Duration::from_millis(10), || {
            let activity = self.activity();
            !activity.busy && activity.quiet_for >= quiet
        })
        .map(|_| ())
    }

    /// What was offered since the last call, in order, and forgets it. Call it when the link is not
    /// busy: a packet under way is then not reported as delivered later.
    pub fn take_log(&self) -> Vec<Crossing> {
        let mut state = self.shared.lock();
        state.under_way.clear();
        std::mem::take(&mut state.log)
    }

    /// Those crossings from `from` on, without forgetting: for showing them as they happen.
    pub fn log_from(&self, from: usize) -> Vec<Crossing> {
        self.shared
            .lock()
            .log
            .get(from..)
            .map(<[Crossing]>::to_vec)
            .unwrap_or_default()
    }

    /// Changes both directions under way.
    pub fn reconfigure(&self, config: LinkConfig) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.link.reconfigure(Direction::Up, config.up, now);
        state.link.reconfigure(Direction::Down, config.down, now);
        drop(state);
        self.wake();
    }

    /// Has what goes this way come out at that gateway from now on, also what is under way: where
    /// the beam points. What comes to the link is taken from any gateway.
    pub fn lead(&self, direction: Direction, place: Place) {
        let number = match place {
            Place::First => 0,
            Place::Other => 1,
        };
        self.shared
            .outlet(direction)
            .store(number, Ordering::Relaxed);
    }

    /// Whether the thread still runs; it ends by itself when a device is gone.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the link and says what it counted.
    ///
    /// # Errors
    /// What ended it before: a device that is gone, a capture that could not be written.
    pub fn stop(mut self) -> Result<LinkCounters, LabError> {
        self.finish()?;
        Ok(self.counters())
    }

    fn finish(&mut self) -> Result<(), LabError> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        self.wake();
        match thread.join() {
            Ok(result) => result,
            Err(_) => Err(LabError::Command {
                command: "the link emulator".to_owned(),
                why: "its thread panicked".to_owned(),
            }),
        }
    }

    /// The thread looks up; whether it is to stop it sees by who else holds the descriptor: nobody.
    fn wake(&self) {
        // Fails only where the counter is full, and then the thread is about to look up anyway.
        let _ = self
            .stop
            .write(if self.thread.is_none() { STOP } else { LOOK_UP });
    }
}

/// Values of the event descriptor: it adds them up, so one stop among any number of look-ups shows
/// in the high half.
const LOOK_UP: u64 = 1;
const STOP: u64 = 1 << 32;

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::warn!(%error, "the link emulator ended with an error");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of the thread is reported when it is joined; the counters are still worth
        // reading.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outlet(&self, direction: Direction) -> &AtomicUsize {
        match direction {
            Direction::Up => &self.leads_to[0],
            Direction::Down => &self.leads_to[1],
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.1.elapsed()
    }

    fn moment(&self, at: Clock) -> Moment {
        self.start.0 + at.duration_since(self.start.1)
    }
}

fn run(shared: &Shared, ends: &LinkEnds, stop: &EventFd) -> Result<(), LabError> {
    // The default slack of 50 microseconds would be a tenth of a packet's time on the faster links.
    // A refusal costs precision only.
    let _ = nix::sys::prctl::set_timerslack(1);
    let mut buffer = vec![0; MAX_PACKET];
    loop {
        let due = shared.lock().link.poll_timeout().map(|(at, _)| at);
        let wait = due.map(|at| TimeSpec::from(at.saturating_since(shared.now())));
        let devices = ends.client_sides.iter().chain(&ends.server_sides);
        let mut descriptors: Vec<PollFd<'_>> = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)]
            .into_iter()
            .chain(devices.map(|device| PollFd::new(device.as_fd(), PollFlags::POLLIN)))
            .collect();
        match ppoll(&mut descriptors, wait, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(device_error("wait for the link's devices", errno)),
        }
        let woken = descriptors[0].any().unwrap_or(false);
        if woken && stop.read().is_ok_and(|value| value >= STOP) {
            return Ok(());
        }
        for device in &ends.client_sides {
            read_all(shared, device, Direction::Up, &mut buffer)?;
        }
        for device in &ends.server_sides {
            read_all(shared, device, Direction::Down, &mut buffer)?;
        }
        hand_over(shared, ends);
    }
}

/// Offers to the link what a device has.
fn read_all(
    shared: &Shared,
    device: &OwnedFd,
    direction: Direction,
    buffer: &mut [u8],
) -> Result<(), LabError> {
    for _ in 0..READS_IN_A_ROW {
        match nix::unistd::read(device, buffer) {
            Ok(length) => offer(shared, direction, buffer[..length].to_vec())?,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
            // The device is down: nothing comes, and it may come up again.
            Err(Errno::EIO) => return Ok(()),
            Err(errno) => return Err(device_error("read from a device of the link", errno)),
        }
    }
    Ok(())
}

fn offer(shared: &Shared, direction: Direction, packet: Vec<u8>) -> Result<(), LabError> {
    let clock = Clock::now();
    let offered = shared.moment(clock);
    let now = shared.now();
    let mut guard = shared.lock();
    let state = &mut *guard;
    state.last_event = clock;
    let refused_before = refused(state.link.counters());
    let logs = state.log.len() < LOG_LIMIT;
    let words = if logs || state.capture.is_some() {
        state.narrator.words(direction, &packet)
    } else {
        String::new()
    };
    if let Some(capture) = &mut state.capture {
        capture.packet(
            offered,
            direction,
            &packet,
            &comment(direction, &words, &packet),
        )?;
    }
    let logged = logs.then(|| packet.clone());
    state.link.handle_input(Input { direction, packet }, now);
    let fate = if refused(state.link.counters()) > refused_before {
        Fate::Refused
    } else {
        Fate::Taken
    };
    if let Some(packet) = logged {
        if fate == Fate::Taken {
            let entry = (digest(direction, &packet), state.log.len());
            state.under_way.push(entry);
        }
        state.log.push(Crossing {
            direction,
            offered,
            delivered: None,
            fate,
            words,
            packet,
        });
    }
    Ok(())
}

/// Does what is due and writes out what has arrived.
fn hand_over(shared: &Shared, ends: &LinkEnds) {
    let now = shared.now();
    let mut guard = shared.lock();
    let state = &mut *guard;
    state.link.handle_timeout(now);
    while let Some(output) = state.link.poll_output() {
        let devices = match output.direction {
            Direction::Up => &ends.server_sides,
            Direction::Down => &ends.client_sides,
        };
        let outlet = shared.outlet(output.direction).load(Ordering::Relaxed);
        let Some(device) = devices.get(outlet).or(devices.first()) else {
            continue;
        };
        let written = nix::unistd::write(device, &output.packet);
        let clock = Clock::now();
        state.last_event = clock;
        if let Err(errno) = written {
            state.undeliverable += 1;
            tracing::warn!(%errno, "a packet could not be handed over at the link's far end");
            continue;
        }
        let key = digest(output.direction, &output.packet);
        // Corrupted packets and second copies are not found, and stay without a time of delivery.
        if let Some(found) = state
            .under_way
            .iter()
            .position(|(digest, _)| *digest == key)
        {
            let (_, index) = state.under_way.remove(found);
            state.log[index].delivered = Some(shared.moment(clock));
        }
    }
}

/// What the link refused at its entry.
fn refused(counters: LinkCounters) -> u64 {
    let of = |direction: tandem_netsim::link::DirectionCounters| {
        direction.dropped_queue + direction.dropped_oversize
    };
    of(counters.up) + of(counters.down)
}

fn digest(direction: Direction, packet: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    direction.hash(&mut hasher);
    packet.hash(&mut hasher);
    hasher.finish()
}

fn device_error(what: &str, errno: Errno) -> LabError {
    LabError::Io {
        what: what.to_owned(),
        source: errno.into(),
    }
}
