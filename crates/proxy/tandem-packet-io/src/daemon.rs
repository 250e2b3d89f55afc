//! A daemon from start to end: what is checked and taken in which order, the event loop, and giving
//! everything back.
//!
//! Is not: a decision on a packet ([`Engine`]), nor set-up of logging; the binary does that.
//!
//! Invariants: rules are the last thing that is set and the first that is taken away, and the queue
//! to which they lead is read from before the first is set until after the last is gone, unless an
//! error or a panic ends the daemon: then packets wait until the rules are gone. Whatever ends it,
//! the rules go and the packets that wait are let go.

mod event_loop;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use tandem_firewall::lock::{InstanceLock, StartLock};
use tandem_firewall::{Firewall, Link, RuleSet, RulesKeeper, Sight, privilege};
use tandem_link::inband::Key;
use tandem_packet::{Limits, Proxy};
use tandem_queue::queue::{Overflow, PacketQueue};
use tandem_store_sqlite::SqliteStore;

use crate::admin;
use crate::config::{Config, MarkChoice, Marks, Mode, role_name};
use crate::engine::{Engine, PassThrough};
use crate::error::IoError;
use crate::inject::Injector;
use crate::metrics::{Board, Counting, Facts, Tally};
use crate::rules;
use tandem_daemon::admin::AdminPort;
use tandem_daemon::service_manager::ServiceManager;
use tandem_daemon::signals::Signals;

use event_loop::EventLoop;

/// Runs the daemon that `config` describes, until SIGTERM, SIGINT or SIGHUP; then everything is
/// taken down and the result is `Ok`.
///
/// `ready` is called once, when the rules are in force and the queue is bound. The calling thread
/// gives up all capabilities but CAP_NET_ADMIN and CAP_NET_RAW for good.
///
/// # Errors
/// What prevents the start, or ended the run; by then nothing is left in the firewall.
pub fn run(config: Config, ready: impl FnOnce()) -> Result<(), IoError> {
    match config.mode {
        Mode::Packet => {
            let key = config.key.load()?;
            start(config, |config, mtu| proxy(config, key, mtu), ready)
        }
        Mode::PassThrough => run_engine(config, PassThrough::default(), ready),
    }
}

/// As [`run`], with an engine of the caller's in place of the packet engine: for tests and
/// measurements.
///
/// # Errors
/// As [`run`].
pub fn run_engine<E: Engine>(
    config: Config,
    engine: E,
    ready: impl FnOnce(),
) -> Result<(), IoError> {
    start(config, |_, _| Ok(engine), ready)
}

/// What [`run`] would have the firewall do, as input for a shell, and what it would take away at
/// the end. Changes nothing.
///
/// # Errors
/// There is no such link, or the firewall cannot be read.
pub fn dry_run(config: &Config) -> Result<String, IoError> {
    Link::find(&config.link)?;
    let firewall = Firewall::here();
    let sight = if privilege::missing()?.is_empty() {
        Sight::Full
    } else {
        Sight::None
    };
    let marks = match (config.marks, sight) {
        (MarkChoice::Fixed(marks), _) => marks,
        (MarkChoice::FirstFree, Sight::None) => Marks::CANDIDATES[0],
        (choice @ MarkChoice::FirstFree, Sight::Full) => {
            rules::marks(&firewall, choice, config.role, &config.link)?
        }
    };
    Ok(firewall.describe(&rules(config, marks), sight)?)
}

/// The rules that [`run`] sets, for whoever looks for them: the marks may be others in force.
#[must_use]
pub fn rule_set(config: &Config) -> RuleSet {
    let marks = match config.marks {
        MarkChoice::Fixed(marks) => marks,
        MarkChoice::FirstFree => Marks::CANDIDATES[0],
    };
    rules(config, marks)
}

fn rules(config: &Config, marks: Marks) -> RuleSet {
    rules::rules(
        config.role,
        &config.link,
        &config.ports,
        config.queue,
        marks,
    )
}

/// The packet engine with its store.
fn proxy(config: &Config, key: Option<Key>, mtu: usize) -> Result<Proxy<SqliteStore>, IoError> {
    let (store, warnings) = SqliteStore::open(&config.store, tandem_store::Limits::default())
        .map_err(|error| IoError::setting("store", error.to_string()))?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    // The near side's MTU is not known; Ethernet's is what the engine's default stands for.
    let limits = Limits {
        mtu: mtu.min(config.limits.mtu),
        ..config.limits
    };
    let engine = tandem_packet::Config {
        role: config.role,
        wire: config.wire,
        client_certificates: config.client_certificates,
        key,
        ports: config.ports.clone(),
        limits,
    };
    Ok(Proxy::new(engine, store))
}

fn start<E: Engine>(
    config: Config,
    engine: impl FnOnce(&Config, usize) -> Result<E, IoError>,
    ready: impl FnOnce(),
) -> Result<(), IoError> {
    let link = Link::find(&config.link)?;
    privilege::require()?;
    let _instance = InstanceLock::take(role_name(config.role), &config.link)?;
    let signals = Signals::catch()?;
    let manager = ServiceManager::of_environment();
    let admin = config
        .admin
        .map(|address| AdminPort::bind("admin", address))
        .transpose()?;

    // From here on nobody else chooses marks, until ours show in the rules.
    let starting = StartLock::take()?;
    let firewall = Firewall::here();
    let marks = rules::marks(&firewall, config.marks, config.role, &config.link)?;
    let rules = rules(&config, marks);
    firewall.try_features(&rules)?;
    let mut queue = PacketQueue::bind(config.queue, Overflow::Passes)?;
    let injector = Injector::open(&config.link, link.index, marks.inject())?;

    // What needed more is done: from here on the rest is out of reach, for the threads to come too.
    privilege::keep_only_needed()?;
    let engine = engine(&config, link.mtu)?;
    let board = Board::new(Facts::of(&config));
    let address = admin.as_ref().map(AdminPort::address);
    let _server = admin
        .map(|port| admin::serve(port, board.clone()))
        .transpose()?;
    let overdue = config.limits.hold_time;
    let mut event_loop = EventLoop::new(engine, injector, Counting::on(&board), marks, overdue);

    let pair = || UnixStream::pair().map_err(|error| IoError::system("opening a socket", error));
    let (setting, removing) = (pair()?, pair()?);
    // On a panic the rules go with their owner.
    let outcome = catch_unwind(AssertUnwindSafe(|| -> Result<(), IoError> {
        let mut read = |end: BorrowedFd<'_>| event_loop.run(&mut queue, end, &manager);
        let (installed, outcome) = beside(setting, || firewall.install(rules), &mut read);
        let rules = RulesKeeper::start(installed?, move |restored| {
            board.count(Tally::RulesRestored, restored);
        })?;
        outcome?;
        drop(starting);
        tracing::info!(
            role = role_name(config.role),
            link = config.link.as_str(),
            mode = config.mode.name(),
            mode_reason = config.mode_reason,
            queue = config.queue,
            admin = address.map(tracing::field::display),
            "ready"
        );
        manager.ready(&format!("{} on {}", role_name(config.role), config.link));
        ready();

        let outcome = read(signals.as_fd());
        manager.stopping();
        let (removed, last) = beside(removing, || rules.remove(), &mut read);
        outcome.and(last).and(removed.map_err(IoError::from))
    }));
    match outcome {
        Ok(outcome) => {
            event_loop.finish(&mut queue);
            outcome
        }
        Err(panic) => {
            manager.stopping();
            // The engine is in an unknown state: its packets go without it.
            event_loop.let_all_go(&mut queue);
            resume_unwind(panic)
        }
    }
}

/// Does `work` on a thread of its own, and `meanwhile` beside it. That gets one end of the pair;
/// the other is closed when the work is done.
fn beside<T: Send, U>(
    (end, working): (UnixStream, UnixStream),
    work: impl FnOnce() -> T + Send,
    meanwhile: impl FnOnce(BorrowedFd<'_>) -> U,
) -> (T, U) {
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let done = work();
            drop(working);
            done
        });
        let met = meanwhile(end.as_fd());
        match thread.join() {
            Ok(done) => (done, met),
            Err(panic) => resume_unwind(panic),
        }
    })
}
