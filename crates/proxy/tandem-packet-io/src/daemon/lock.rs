//! Locks between daemons of one network namespace: one of each role and link, and one start at a
//! time.
//!
//! Is not: the store's lock; that is the store's.
//!
//! Invariant: a lock belongs to the network namespace, as the rules and the queue do, and ends with
//! its process.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tandem_daemon::lock::{Lock, holder};
use tandem_packet::Role;

use crate::config::{LinkName, role_name};
use crate::error::IoError;

/// How long one start waits for another: two dozen runs of `iptables` on a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Held by the one daemon of a role and link.
#[derive(Debug)]
pub(super) struct InstanceLock(#[expect(dead_code, reason = "held for its name")] Lock);

impl InstanceLock {
    pub(super) fn take(role: Role, link: &LinkName) -> Result<Self, IoError> {
        let name = format!("tandem/{}/{link}", role_name(role));
        match take(&name)? {
            Some(listener) => Ok(Self(listener)),
            None => Err(IoError::AlreadyRunning {
                role: role_name(role),
                link: link.as_str().to_owned(),
            }),
        }
    }
}

/// Process, role and link of a daemon that runs in this network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) pid: Pid,
    /// `client-side on ppp0`.
    pub(crate) name: String,
    lock: String,
}

/// All of them, by their locks: whoever listens on a lock's name is the daemon, and the kernel says
/// which process that is.
///
/// # Errors
/// The list of sockets cannot be read.
pub(crate) fn running() -> Result<Vec<Running>, IoError> {
    let names = tandem_daemon::lock::names()
        .map_err(|error| IoError::system("looking for running daemons", error))?;
    Ok(names.iter().filter_map(|name| Running::by(name)).collect())
}

impl Running {
    /// The daemon that holds this lock, if it is one of a daemon.
    fn by(lock: &str) -> Option<Self> {
        let (role, link) = lock.strip_prefix("tandem/")?.split_once('/')?;
        Some(Self {
            pid: holder(lock)?,
            name: format!("{role} on {link}"),
            lock: lock.to_owned(),
        })
    }

    /// Whether it still holds its lock.
    pub(crate) fn is_there(&self) -> bool {
        holder(&self.lock) == Some(self.pid)
    }
}

/// Held while marks are chosen and rules set.
#[derive(Debug)]
pub(crate) struct StartLock(#[expect(dead_code, reason = "held for its name")] Lock);

impl StartLock {
    pub(crate) fn take() -> Result<Self, IoError> {
        let start = Instant::now();
        loop {
            if let Some(listener) = take("tandem/start")? {
                return Ok(Self(listener));
            }
            if start.elapsed() > PATIENCE {
                return Err(IoError::system(
                    "waiting for another daemon's start",
                    std::io::Error::from(ErrorKind::TimedOut),
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn take(name: &str) -> Result<Option<Lock>, IoError> {
    Lock::take(name).map_err(|error| IoError::system("taking a lock", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_of_the_same_role_and_link_is_told_so() {
        let link = LinkName::new(&format!("t{}", std::process::id())).expect("good");
        let first = InstanceLock::take(Role::ClientSide, &link).expect("nobody else");
        let second = InstanceLock::take(Role::ClientSide, &link).expect_err("taken");
        assert!(
            matches!(second, IoError::AlreadyRunning { .. }),
            "{second:?}"
        );
        InstanceLock::take(Role::ServerSide, &link).expect("the other role is another lock");
        let name = format!("client-side on {link}");
        let found: Vec<Pid> = running()
            .expect("readable")
            .into_iter()
            .filter(|daemon| daemon.name == name && daemon.is_there())
            .map(|daemon| daemon.pid)
            .collect();
        assert_eq!(found, [Pid::this()]);
        drop(first);
        // A program that another test starts has all descriptors of this process for a moment,
        // until it is another program.
        let start = Instant::now();
        while let Err(error) = InstanceLock::take(Role::ClientSide, &link) {
            assert!(start.elapsed() < PATIENCE, "free again: {error}");
            std::thread::yield_now();
        }
    }
}
