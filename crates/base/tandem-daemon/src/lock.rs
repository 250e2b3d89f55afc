//! Locks between the processes of one network namespace.
//!
//! Is not: a lock on a file or folder; those belong to whoever owns the file.
//!
//! Invariant: a lock ends with its process. Locks are names of abstract Unix sockets (unix(7)),
//! which belong to the network namespace and leave no file behind.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::unistd::Pid;

/// The sockets of this network namespace (proc_net(5)).
const SOCKETS: &str = "/proc/thread-self/net/unix";

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
    let sockets = std::fs::read_to_string(SOCKETS)?;
    Ok(sockets
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().last()?.strip_prefix('@'))
        .map(str::to_owned)
        .collect())
}

/// Whether any process holds the lock of this name. Asks the kernel, and not that process.
///
/// # Errors
/// As [`names`].
pub fn is_held(name: &str) -> io::Result<bool> {
    Ok(names()?.contains(name))
}

/// The process that holds the lock of this name (`SO_PEERCRED`, unix(7)). `None` if there is none,
/// or it is in another PID namespace. Each call leaves a connection there that nobody accepts, so
/// [`is_held`] is for asking often. Whoever may connect can use up the room for these; then the
/// process is found by its open files, if this one may look at them.
#[must_use]
pub fn holder(name: &str) -> Option<Pid> {
    let address = UnixAddr::new_abstract(name.as_bytes()).ok()?;
    // Where there is no room for the connection, it fails in place of waiting for some.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream = socket(AddressFamily::Unix, SockType::Stream, flags, None).ok()?;
    match connect(stream.as_raw_fd(), &address) {
        Ok(()) => {}
        Err(Errno::EAGAIN) => return by_open_files(name),
        Err(_) => return None,
    }
    let credentials = getsockopt(&stream, PeerCredentials).ok()?;
    (credentials.pid() > 0).then(|| Pid::from_raw(credentials.pid()))
}

/// The process that has the socket of this name open (proc_pid_fd(5)).
fn by_open_files(name: &str) -> Option<Pid> {
    // What accepts connections (`__SO_ACCEPTCON`): those that wait have the same name.
    const LISTENS: &str = "00010000";
    let sockets = std::fs::read_to_string(SOCKETS).ok()?;
    let socket = sockets.lines().find_map(|line| {
        let [_, _, _, flags, _, _, inode, path] =
            line.split_ascii_whitespace().collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let is_it = flags == LISTENS && path.strip_prefix('@') == Some(name);
        is_it.then(|| format!("socket:[{inode}]"))
    })?;
    let mut processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.find_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        let mut files = std::fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let is_open = files
            .any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == &*socket));
        is_open.then(|| Pid::from_raw(number))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lock_is_held_once_and_tells_who_holds_it() {
        let name = format!("tandem-test/{}", std::process::id());
        let lock = Lock::take(&name).expect("a socket").expect("nobody else");
        assert!(Lock::take(&name).expect("a socket").is_none());
        assert_eq!(holder(&name), Some(Pid::this()));
        assert!(is_held(&name).expect("readable"));
        drop(lock);
        assert_eq!(holder(&name), None);
        assert!(!is_held(&name).expect("readable"));
    }

    #[test]
    fn a_lock_whose_socket_takes_no_more_is_seen_without_waiting_for_it() {
        let name = format!("tandem-test/full/{}", std::process::id());
        let _lock = Lock::take(&name).expect("a socket").expect("nobody else");
        let room = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("readable");
        let room: usize = room.trim().parse().expect("a number");
        let (tell, told) = mpsc::channel();
        let asked = name.clone();
        std::thread::spawn(move || {
            for _ in 0..=room {
                let _ = holder(&asked);
            }
            tell.send(holder(&asked)).expect("somebody waits");
        });
        let found = told.recv_timeout(Duration::from_secs(60));
        assert_eq!(found.expect("it does not block"), Some(Pid::this()));
        assert!(is_held(&name).expect("readable"));
    }
}
