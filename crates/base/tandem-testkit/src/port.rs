//! Ports of the loopback interface for what a test starts.
//!
//! A test chooses a port, and some other program binds it later. So that no test of another process
//! chooses the same one in between, a port is reserved by the name of a socket that this process
//! keeps; the kernel frees the name with the process.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// They lie below those that the system gives to whoever wants any (ip_local_port_range: from
/// 32,768), so that no other connection takes one before the test does.
const FIRST: u32 = 12_000;
const PORTS: u32 = 20_000;

/// A port of 127.0.0.1 that is free for TCP and UDP. No other call gives it while this process
/// runs.
///
/// # Panics
/// If none of 20,000 ports is free.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    for _ in 0..PORTS {
        let next = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + next % PORTS).expect("both are small");
        let Ok(reserved) = reserve(port) else {
            continue;
        };
        let at = ("127.0.0.1", port);
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            let mut all = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(reserved);
            return port;
        }
    }
    panic!("no port of the loopback interface is free");
}

fn reserve(port: u16) -> std::io::Result<UnixListener> {
    let name = format!("tandem-test-port-{port}");
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_and_is_given_once() {
        let ports = [free_port(), free_port()];
        assert_ne!(ports[0], ports[1]);
        for port in ports {
            TcpListener::bind(("127.0.0.1", port)).expect("it is free");
            // As another process would find it, whether or not something listens on it.
            reserve(port).expect_err("it is reserved");
        }
    }
}
