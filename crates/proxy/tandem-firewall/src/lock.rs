//! Locks between daemons of one network namespace: one of each role and link, and one start at a
//! time.
//!
//! Is not: the store's lock; that is the store's.
//!
//! Invariant: a lock belongs to the network namespace, as the rules and the queue do, and ends with
//! its process.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tandem_daemon::lock::{Lock, holder, is_held};

use crate::error::FirewallError;
use crate::link::LinkName;
use crate::rules::Owner;

/// How long one start waits for another: two dozen runs of `iptables` on a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries: nothing tells when a name is free, but whoever holds it, who may hang.
const PAUSE: Duration = Duration::from_millis(20);

/// Held by the one daemon of a role and link.
#[derive(Debug)]
pub struct InstanceLock(#[expect(dead_code, reason = "held for its name")] Lock);

impl InstanceLock {
    /// Takes it for `role`, which is `client-side` or `server-side`.
    ///
    /// # Errors
    /// Another daemon has it, or the system refuses a lock.
    pub fn take(role: &'static str, link: &LinkName) -> Result<Self, FirewallError> {
        match take(&name(role, link.as_str()))? {
            Some(listener) => Ok(Self(listener)),
            None => Err(FirewallError::AlreadyRunning {
                role,
                link: link.as_str().to_owned(),
            }),
        }
    }
}

fn name(role: &str, link: &str) -> String {
    format!("tandem/{role}/{link}")
}

/// Whether a daemon runs here whose chains would have this name.
#[must_use]
pub fn has_daemon(chain: &str) -> bool {
    let lock = Owner::ALL.iter().find_map(|owner| {
        let link = chain.strip_prefix(owner.prefix())?;
        Some(name(owner.role(), link))
    });
    lock.is_some_and(|lock| is_held(&lock).unwrap_or(false))
}

/// Process, role and link of a daemon that runs in this network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its process; `None` where the kernel does not say which it is.
    pub pid: Option<Pid>,
    /// `client-side on ppp0`.
    pub name: String,
    lock: String,
}

/// All of them, by their locks: whoever listens on a lock's name is the daemon, and the kernel says
/// which process that is.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn running() -> Result<Vec<Running>, FirewallError> {
    let names = tandem_daemon::lock::names()
        .map_err(|error| FirewallError::system("looking for running daemons", error))?;
    let running = names.iter().filter_map(|name| Running::by(name));
    // One that has ended meanwhile has no process either.
    Ok(running
        .filter(|daemon| daemon.pid.is_some() || daemon.is_there())
        .collect())
}

impl Running {
    /// The daemon that holds this lock, if it is one of a daemon.
    fn by(lock: &str) -> Option<Self> {
        let (role, link) = lock.strip_prefix("tandem/")?.split_once('/')?;
        Some(Self {
            pid: holder(lock),
            name: format!("{role} on {link}"),
            lock: lock.to_owned(),
        })
    }

    /// Whether it still runs and its lock is held, as far as can be seen. Never waits for it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        // Another one may have started in its place.
        let runs = |pid| kill(pid, None::<Signal>) != Err(Errno::ESRCH);
        self.pid.is_none_or(runs) && is_held(&self.lock).unwrap_or(true)
    }
}

/// Held while marks are chosen and rules set.
#[derive(Debug)]
pub struct StartLock(#[expect(dead_code, reason = "held for its name")] Lock);

impl StartLock {
    /// Takes it, after a while if another start has it.
    ///
    /// # Errors
    /// The other start takes more than 10 s, or the system refuses a lock.
    pub fn take() -> Result<Self, FirewallError> {
        let start = Instant::now();
        loop {
            if let Some(listener) = take("tandem/start")? {
                return Ok(Self(listener));
            }
            if start.elapsed() > PATIENCE {
                return Err(FirewallError::system(
                    "waiting for another daemon's start",
                    std::io::Error::from(ErrorKind::TimedOut),
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn take(name: &str) -> Result<Option<Lock>, FirewallError> {
    Lock::take(name).map_err(|error| FirewallError::system("taking a lock", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_of_the_same_role_and_link_is_told_so() {
        let link = LinkName::new(&format!("t{}", std::process::id())).expect("good");
        let first = InstanceLock::take("client-side", &link).expect("nobody else");
        let second = InstanceLock::take("client-side", &link).expect_err("taken");
        assert!(
            matches!(second, FirewallError::AlreadyRunning { .. }),
            "{second:?}"
        );
        InstanceLock::take("server-side", &link).expect("the other role is another lock");
        let name = format!("client-side on {link}");
        let found: Vec<Pid> = running()
            .expect("readable")
            .into_iter()
            .filter(|daemon| daemon.name == name && daemon.is_there())
            .filter_map(|daemon| daemon.pid)
            .collect();
        assert_eq!(found, [Pid::this()]);
        drop(first);
        // A program that another test starts has all descriptors of this process for a moment,
        // until it is another program.
        let start = Instant::now();
        while let Err(error) = InstanceLock::take("client-side", &link) {
            assert!(start.elapsed() < PATIENCE, "free again: {error}");
            std::thread::yield_now();
        }
    }
}
