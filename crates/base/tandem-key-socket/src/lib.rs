//! The UNIX socket by which programs hand in the handshake keys of their connections: bound and
//! read ([`KeySocket`]), and written to ([`hand_in`]).
//!
//! Is not: what is made of a key, nor whether it is one of any connection here (`tandem-engine`).
//! Who may write to the socket may hand in keys: that is up to its permissions.
//!
//! Invariants: nonsense is counted and harms nobody else; what comes is taken in bounded pieces;
//! the socket's file goes with it; who hands in waits for nothing.
#![forbid(unsafe_code)]

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tandem_record_key::{MAX_DATAGRAM_LEN, RecordKey};
use tokio::io::Interest;
use tokio::net;
use zeroize::Zeroizing;

/// The user that the daemon runs as, and his group.
const MODE: u32 = 0o660;

/// Datagrams that are taken at a time, so that whoever floods the socket holds nobody up for long.
const MAX_AT_A_TIME: usize = 64;

/// The socket, bound.
#[derive(Debug)]
pub struct KeySocket {
    socket: UnixDatagram,
    path: PathBuf,
}

/// What was taken at a time.
#[derive(Debug, Default)]
pub struct Taken {
    /// The keys.
    pub keys: Vec<RecordKey>,
    /// Datagrams that are no key.
    pub malformed: usize,
    /// Whether nothing more was there.
    pub is_all: bool,
}

impl KeySocket {
    /// Binds the socket. A file that a daemon has left behind is replaced.
    ///
    /// # Errors
    /// Something else is there, or the folder is not to be written to. The message names the path.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let problem = |error: io::Error| {
            let text = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "is there already; stop what has it, or choose another path".to_owned()
                }
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("{}: {text}", path.display()))
        };
        let keys = Self {
            socket: bind(path).map_err(problem)?,
            path: path.to_owned(),
        };
        let prepared = keys
            .socket
            .set_nonblocking(true)
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(MODE)));
        prepared.map_err(problem)?;
        Ok(keys)
    }

    /// What has come, without waiting.
    #[must_use]
    pub fn take(&self) -> Taken {
        let mut taken = Taken::default();
        // One byte more: a datagram that is too long is not cut to one that looks good.
        let mut buffer = Zeroizing::new([0; MAX_DATAGRAM_LEN + 1]);
        for _ in 0..MAX_AT_A_TIME {
            let Ok(length) = self.socket.recv(&mut *buffer) else {
                taken.is_all = true;
                break;
            };
            match RecordKey::from_datagram(&buffer[..length]) {
                Ok(key) => taken.keys.push(key),
                Err(_) => taken.malformed += 1,
            }
        }
        taken
    }

    /// Calls `take` whenever something has come, for ever; it says whether that was all.
    ///
    /// # Errors
    /// The socket cannot be waited for.
    pub async fn each(&self, take: impl Fn() -> bool) -> io::Result<()> {
        let socket = net::UnixDatagram::from_std(self.socket.try_clone()?)?;
        let take = || match take() {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        };
        loop {
            socket.async_io(Interest::READABLE, take).await?;
        }
    }
}

impl Drop for KeySocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Hands a key in at the socket with this path, without waiting.
///
/// # Errors
/// Nobody has the socket, or whoever has it has enough waiting.
pub fn hand_in(path: &Path, key: &RecordKey) -> io::Result<()> {
    // One for each key: a program that forks, or closes what it did not open, has none of ours.
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to(&key.to_datagram(), path).map(drop)
}

fn bind(path: &Path) -> io::Result<UnixDatagram> {
    let bound = UnixDatagram::bind(path);
    match bound {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind(path) => {
            fs::remove_file(path)?;
            UnixDatagram::bind(path)
        }
        bound => bound,
    }
}

/// Whether this is a socket that nobody has.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    is_socket
        && UnixDatagram::unbound()
            .and_then(|socket| socket.connect(path))
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tandem_record_key::{CLIENT_RANDOM_LEN, Direction, IV_LEN, Suite};

    use super::*;

    fn key() -> RecordKey {
        let suite = Suite::Aes128Gcm;
        let random = [1; CLIENT_RANDOM_LEN];
        let key = RecordKey::new(Direction::FromServer, suite, random, &[2; IV_LEN], &[3; 16]);
        key.expect("the suite's length")
    }

    fn datagram() -> Vec<u8> {
        key().to_datagram().to_vec()
    }

    #[test]
    fn keys_are_taken_and_nonsense_is_counted() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("keys");
        let keys = KeySocket::bind(&path).expect("a socket");
        let program = UnixDatagram::unbound().expect("a socket");
        let long = [&datagram()[..], &[0; 100]].concat();
        for sent in [&datagram()[..], b"", b"nonsense", &long, &datagram()] {
            program.send_to(sent, &path).expect("it is there");
        }
        let taken = keys.take();
        assert_eq!((taken.keys.len(), taken.malformed), (2, 3));
        assert!(taken.is_all);
        assert!(keys.take().keys.is_empty());
    }

    #[test]
    fn the_daemons_user_and_group_may_write_and_nobody_else() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("keys");
        let _keys = KeySocket::bind(&path).expect("a socket");
        let mode = fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, MODE);
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_goes_in_the_end() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("keys");
        drop(UnixDatagram::bind(&path).expect("a socket"));
        assert!(path.exists());
        // A program that another test starts has a copy of the socket until it runs.
        let start = Instant::now();
        let mut bound = KeySocket::bind(&path);
        while bound.is_err() && start.elapsed() < Duration::from_secs(60) {
            bound = KeySocket::bind(&path);
        }
        drop(bound.expect("a socket"));
        assert!(!path.exists());
    }

    #[test]
    fn what_somebody_has_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a directory");
        let (path, file) = (folder.path().join("keys"), folder.path().join("file"));
        let first = KeySocket::bind(&path).expect("a socket");
        fs::write(&file, "mine").expect("a file");
        for taken in [&path, &file] {
            let error = KeySocket::bind(taken).expect_err("it is taken");
            assert!(error.to_string().contains("is there already"), "{error}");
            assert!(taken.exists());
        }
        drop(first);
    }

    #[test]
    fn who_hands_in_does_not_wait_for_one_that_is_not_there_or_does_not_read() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("keys");
        let missing = hand_in(&path, &key()).map_err(|error| error.kind());
        assert_eq!(missing, Err(io::ErrorKind::NotFound));
        let socket = KeySocket::bind(&path).expect("a socket");
        // The kernel holds a bounded number for a reader that does not come.
        let refused = (0..100_000).find_map(|_| hand_in(&path, &key()).err());
        let refused = refused.map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::WouldBlock));
        assert!(!socket.take().keys.is_empty());
    }
}
