//! Turning Tandem off in a hurry: every daemon of this network namespace ends, and no rule of any
//! stays.
//!
//! Is not: a part of a daemon. A daemon takes its own rules down when it is asked to end; here
//! those go too that a killed one left.
//!
//! Where systemd runs the daemons it is told first, so that it does not start a killed one anew;
//! nobody waits for it.
//!
//! Invariants: bounded in time, whatever state the daemons are in; a daemon is found by the lock
//! that it holds, never by a program's name.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use tandem_firewall::lock::{Running, StartLock, running};
use tandem_firewall::{Family, Firewall, Table, privilege};

use crate::error::IoError;

/// How long a daemon may take to end. It takes milliseconds, and on a busy machine as long as four
/// runs of `iptables`.
const PATIENCE: Duration = Duration::from_secs(3);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// There where systemd is the service manager (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

/// The services of the package.
const SERVICES: [&str; 3] = [
    "tandem-client-side@*.service",
    "tandem-server-side@*.service",
    "tandem-tunnel-*.service",
];

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The daemons that ran.
    pub stopped: Vec<Stopped>,
    /// Rules that were still there then: the program that took them away, and the name of their
    /// chain.
    pub removed: Vec<(&'static str, String)>,
    /// Tables that cannot be shown: what stands there is not known.
    pub unlisted: Vec<(Family, Table)>,
}

/// A daemon that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Its role and link: `client-side on ppp0`.
    pub name: String,
    /// Its process number.
    pub pid: i32,
    /// How it ended.
    pub ending: Ending,
}

/// How a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, as it was asked to.
    Asked,
    /// By force.
    Killed,
}

/// Ends every daemon of this network namespace and takes their rules away.
///
/// # Errors
/// A capability is missing, a daemon is another user's, or the firewall's programs fail.
pub fn off() -> Result<Done, IoError> {
    privilege::require()?;
    let mut telling = tell_systemd();
    let running = running()?;
    let mut stopped = Vec::new();
    for daemon in &running {
        send(daemon, Signal::SIGTERM)?;
    }
    for daemon in running {
        let ending = if ends(&daemon) {
            Ending::Asked
        } else {
            send(&daemon, Signal::SIGKILL)?;
            if !ends(&daemon) {
                return Err(IoError::system(
                    "killing a daemon",
                    std::io::Error::from(std::io::ErrorKind::TimedOut),
                ));
            }
            Ending::Killed
        };
        stopped.push(Stopped {
            name: daemon.name,
            pid: daemon.pid.as_raw(),
            ending,
        });
    }
    // Nobody sets rules meanwhile.
    let _starting = StartLock::take()?;
    let cleared = Firewall::here().clear()?;
    if let Some(telling) = &mut telling {
        // It has had its time; what it does from here on is not waited for.
        let _ = telling.try_wait();
    }
    Ok(Done {
        stopped,
        removed: cleared.removed,
        unlisted: cleared.unlisted,
    })
}

/// Has systemd stop the services, which it may take its time for. `None` where it is not there.
fn tell_systemd() -> Option<Child> {
    if !Path::new(SYSTEMD).is_dir() {
        return None;
    }
    Command::new("systemctl")
        .args(["--no-block", "stop"])
        .args(SERVICES)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

fn send(daemon: &Running, signal: Signal) -> Result<(), IoError> {
    match kill(daemon.pid, signal) {
        // It has just ended by itself.
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(errno) => Err(IoError::system("stopping a daemon", errno)),
    }
}

/// Whether it lets go of its lock in time.
fn ends(daemon: &Running) -> bool {
    let start = Instant::now();
    while daemon.is_there() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}
