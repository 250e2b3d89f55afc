//! Locks between daemons of one network namespace: one of each role and link, and one start at a time.
//!
//! Is not: the store's lock; that is the store's.
//!
//! Invariant: a lock ends with its process. They are names of abstract Unix sockets (unix(7)), which belong to the network namespace as the
//! rules and the queue do, and leave no file behind.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

use tandem_packet::Role;

use crate::config::{LinkName, role_name};
use crate::error::IoError;

/// How long one start waits for another: two dozen runs of `iptables` on a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Held by the one daemon of a role and link.
#[derive(Debug)]
pub(super) struct InstanceLock(#[expect(dead_code, reason = "held for its name")] UnixListener);

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

/// Held while marks are chosen and rules set.
#[derive(Debug)]
pub(super) struct StartLock(#[expect(dead_code, reason = "held for its name")] UnixListener);

impl StartLock {
    pub(super) fn take() -> Result<Self, IoError> {
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

fn take(name: &str) -> Result<Option<UnixListener>, IoError> {
    let bound =
        SocketAddr::from_abstract_name(name).and_then(|address| UnixListener::bind_addr(&address));
    match bound {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(IoError::system("taking a lock", error)),
    }
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
        drop(first);
        InstanceLock::take(Role::ClientSide, &link).expect("free again");
    }
}
