//! Turning Tandem off in a hurry: every daemon of this network namespace ends, and no rule of any
//! stays.
//!
//! Is not: a part of a daemon. A daemon takes its own rules down when it is asked to end; here
//! those go too that a killed one left.
//!
//! Where systemd runs the daemons it is told first, so that it does not start a killed one anew;
//! nobody waits for it.
//!
//! Invariants: bounded in time, whatever state the daemons are in; whatever fails, the rules are
//! removed as far as they can be; a daemon is found by the lock that it holds, never by a program's
//! name.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tandem_firewall::lock::{Running, StartLock, running};
use tandem_firewall::{Family, Firewall, Table, privilege};

use crate::error::IoError;

/// How long a daemon may take to end. It takes milliseconds, and on a busy machine as long as four
/// runs of `iptables`.
const PATIENCE: Duration = Duration::from_secs(3);

/// Between two looks: they are no children of this process, and may be others by then.
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
#[derive(Debug)]
pub struct Done {
    /// The daemons that ran.
    pub stopped: Vec<Stopped>,
    /// Rules that were still there then: the program that took them away, and the name of their
    /// chain.
    pub removed: Vec<(&'static str, String)>,
    /// Tables that cannot be shown: what stands there is not known.
    pub unlisted: Vec<(Family, Table)>,
    /// What could not be done.
    pub failures: Vec<IoError>,
}

/// A daemon that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Its role and link: `client-side on ppp0`.
    pub name: String,
    /// Its process number; `None` where the kernel does not say which it is.
    pub pid: Option<i32>,
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
    /// Not at all.
    Runs,
}

/// Ends every daemon of this network namespace and takes their rules away, as far as it can be
/// done.
///
/// # Errors
/// A capability is missing; then nothing is done.
pub fn off() -> Result<Done, IoError> {
    privilege::require()?;
    let mut telling = tell_systemd();
    let mut failures: Vec<IoError> = Vec::new();
    let running = running().unwrap_or_else(|error| {
        failures.push(error.into());
        Vec::new()
    });
    let stopped = stop(running, &mut failures);
    // Nobody sets rules meanwhile, unless a start takes too long.
    let _starting = StartLock::take().map_err(|error| failures.push(error.into()));
    let cleared = Firewall::here().clear();
    failures.extend(cleared.failures.into_iter().map(IoError::from));
    if let Some(telling) = &mut telling {
        // It has had its time; what it does from here on is not waited for.
        let _ = telling.try_wait();
    }
    Ok(Done {
        stopped,
        removed: cleared.removed,
        unlisted: cleared.unlisted,
        failures,
    })
}

/// Asks daemons to end, and ends by force those that do not.
fn stop(running: Vec<Running>, failures: &mut Vec<IoError>) -> Vec<Stopped> {
    let mut stopped = Vec::new();
    let mut left = running;
    for (signal, ending) in [
        (Signal::SIGTERM, Ending::Asked),
        (Signal::SIGKILL, Ending::Killed),
    ] {
        failures.extend(left.iter().filter_map(|daemon| send(daemon, signal).err()));
        let (ended, there) = wait(left);
        left = there;
        stopped.extend(ended.into_iter().map(|daemon| as_stopped(daemon, ending)));
    }
    if !left.is_empty() {
        let reason = std::io::Error::from(std::io::ErrorKind::TimedOut);
        failures.push(IoError::system("stopping a daemon", reason));
    }
    stopped.extend(left.into_iter().map(|it| as_stopped(it, Ending::Runs)));
    stopped
}

fn as_stopped(daemon: Running, ending: Ending) -> Stopped {
    Stopped {
        name: daemon.name,
        pid: daemon.pid.map(Pid::as_raw),
        ending,
    }
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
    let Some(pid) = daemon.pid else {
        return Ok(());
    };
    match kill(pid, signal) {
        // It has just ended by itself.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(IoError::system("stopping a daemon", errno)),
    }
}

/// Waits until they let go of their locks: those that did in time, and those that did not.
fn wait(mut running: Vec<Running>) -> (Vec<Running>, Vec<Running>) {
    let start = Instant::now();
    let mut ended = Vec::new();
    loop {
        let (left, gone): (Vec<_>, Vec<_>) = running.into_iter().partition(Running::is_there);
        ended.extend(gone);
        if left.is_empty() || start.elapsed() > PATIENCE {
            return (ended, left);
        }
        running = left;
        thread::sleep(PAUSE);
    }
}
