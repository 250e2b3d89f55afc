//! Locks between the processes of one network namespace.
//!
//! Is not: a lock on a file or folder; those belong to whoever owns the file.
//!
//! Invariant: a lock ends with its process. Locks are names of abstract Unix sockets (unix(7)),
//! which belong to the network namespace and leave no file behind.

use std::collections::BTreeSet;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::Pid;

/// Held until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its name")] UnixListener);

impl Lock {
    /// Takes the lock of this name; `None` if another process, or this one, holds it.
    ///
    /// # Errors
    /// The name is too long, or the system refuses a socket.
    pub fn take(name: &str) -> io::Result<Option<Self>> {
        let bound = SocketAddr::from_abstract_name(name)
            .and_then(|address| UnixListener::bind_addr(&address));
        match bound {
            Ok(listener) => Ok(Some(Self(listener))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The names of all abstract sockets of this network namespace, locks among them.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn names() -> io::Result<BTreeSet<String>> {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/unix")?;
    Ok(sockets
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().last()?.strip_prefix('@'))
        .map(str::to_owned)
        .collect())
}

/// The process that holds the lock of this name (`SO_PEERCRED`, unix(7)). `None` if there is none,
/// or it is in another PID namespace.
#[must_use]
pub fn holder(name: &str) -> Option<Pid> {
    let address = SocketAddr::from_abstract_name(name).ok()?;
    let stream = UnixStream::connect_addr(&address).ok()?;
    let credentials = getsockopt(&stream, PeerCredentials).ok()?;
    (credentials.pid() > 0).then(|| Pid::from_raw(credentials.pid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_tells_who_holds_it() {
        let name = format!("tandem-test/{}", std::process::id());
        let lock = Lock::take(&name).expect("a socket").expect("nobody else");
        assert!(Lock::take(&name).expect("a socket").is_none());
        assert_eq!(holder(&name), Some(Pid::this()));
        assert!(names().expect("readable").contains(&name));
        drop(lock);
        assert_eq!(holder(&name), None);
    }
}
