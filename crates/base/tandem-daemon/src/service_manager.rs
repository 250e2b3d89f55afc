//! What the service manager is told: ready, still alive, stopping (sd_notify(3)).
//!
//! Is not: a library of systemd's; the protocol is a datagram of `NAME=VALUE` lines to the socket
//! that `$NOTIFY_SOCKET` names.
//!
//! Invariants: without a service manager nothing happens; telling it never waits and never fails
//! the daemon.

use std::env;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The way to the service manager that started this process, if one did.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    wants_signs: bool,
}

impl ServiceManager {
    /// The one that the environment names.
    #[must_use]
    pub fn of_environment() -> Self {
        let Some(address) = env::var_os("NOTIFY_SOCKET") else {
            return Self::default();
        };
        // The time between two signs is minutes in any sensible unit; the daemon gives one each
        // second.
        let wants_signs = env::var_os("WATCHDOG_USEC").is_some();
        match connect(&address) {
            Ok(socket) => Self {
                socket: Some(socket),
                wants_signs,
            },
            Err(error) => {
                tracing::warn!("the service manager cannot be reached: {error}");
                Self::default()
            }
        }
    }

    /// The daemon serves; `status` is shown by `systemctl status`.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// The daemon still works. If this is said too rarely, the service manager restarts the daemon
    /// (`WatchdogSec=`).
    pub fn alive(&self) {
        if self.wants_signs {
            self.tell("WATCHDOG=1");
        }
    }

    /// The daemon is stopping.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, words: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(words.as_bytes())
        {
            tracing::debug!("the service manager could not be told: {error}");
        }
    }
}

/// A path, or an abstract name after an `@`.
fn connect(address: &OsString) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match address.as_bytes().strip_prefix(b"@") {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(address)?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_address_are_reached_and_a_reader_that_is_gone_stops_nobody() {
        let directory = tempfile::tempdir().expect("a place for temporary files");
        let path = directory.path().join("notify");
        let name = format!("tandem-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).expect("a free path");
        let by_name = SocketAddr::from_abstract_name(&name)
            .and_then(|address| UnixDatagram::bind_addr(&address))
            .expect("a free name");
        for (address, listener) in [
            (path.into_os_string(), by_path),
            (format!("@{name}").into(), by_name),
        ] {
            let manager = ServiceManager {
                socket: Some(connect(&address).expect("somebody listens")),
                wants_signs: false,
            };
            manager.ready("well");
            manager.alive();
            manager.stopping();
            let read = || {
                let mut words = [0; 64];
                let length = listener.recv(&mut words).expect("it was sent");
                String::from_utf8_lossy(&words[..length]).into_owned()
            };
            assert_eq!(read(), "READY=1\nSTATUS=well");
            assert_eq!(read(), "STOPPING=1", "no signs of life were asked for");
            drop(listener);
            manager.stopping();
        }
        assert!(connect(&"/nonexistent/notify".into()).is_err());
    }
}
