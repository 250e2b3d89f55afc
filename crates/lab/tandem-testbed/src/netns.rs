//! One network namespace with a name, as `ip netns` has them.
//!
//! A thread that enters one does so for good and ends with its work; the process's other threads
//! stay where they are. Children of that thread live in the namespace. Nothing in here touches the
//! machine's own interfaces.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command;
use crate::error::LabError;
use crate::interrupt;

/// Where `ip netns` keeps its names.
const NAMES: &str = "/run/netns";

/// How long processes may take to end by themselves before they are killed.
const GRACE: Duration = Duration::from_secs(2);

/// A handle on a network namespace. Cheap to clone; the namespace lives until its name is removed
/// and the last process in it ends.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: String,
    file: Arc<File>,
}

impl Namespace {
    /// Makes a namespace with its loopback interface up.
    ///
    /// # Errors
    /// `Command` where `ip` refuses, `ProgramMissing` without `ip`.
    pub fn create(name: &str) -> Result<Self, LabError> {
        command::ip(&format!("netns add {name}"))?;
        let namespace = Self::open(name)?;
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// One that exists.
    ///
    /// # Errors
    /// `Usage` where there is none of that name.
    pub fn open(name: &str) -> Result<Self, LabError> {
        let path = path(name);
        let file = File::open(&path).map_err(|source| {
            LabError::usage(
                format!("namespace {name}"),
                format!("cannot open {}: {source}", path.display()),
            )
        })?;
        Ok(Self {
            name: name.to_owned(),
            file: Arc::new(file),
        })
    }

    /// Its name, as `ip netns` prints it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` inside, in a thread of its own, and waits for it.
    ///
    /// # Errors
    /// `Kernel` where the namespace cannot be entered; else what `work` says.
    ///
    /// # Panics
    /// Where `work` panics.
    pub fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        std::thread::scope(|scope| {
            match scope
                .spawn(|| {
                    self.enter()?;
                    work()
                })
                .join()
            {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Moves the calling thread into the namespace, for good.
    ///
    /// # Errors
    /// `Kernel`, `Io`.
    pub fn enter(&self) -> Result<(), LabError> {
        setns(&*self.file, CloneFlags::CLONE_NEWNET).map_err(|errno| LabError::Kernel {
            what: "entering a network namespace",
            source: errno.into(),
        })
    }

    /// Starts a program inside.
    ///
    /// # Errors
    /// `ProgramMissing`, `Io`.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, LabError> {
        self.run(|| {
            command
                .spawn()
                .map_err(|source| command::start_error(command, source))
        })
    }

    /// Runs a program inside to its end; its standard output.
    ///
    /// # Errors
    /// As it failed: `ProgramMissing`, `Io`, `Command`.
    pub fn output(&self, command: &mut Command) -> Result<Vec<u8>, LabError> {
        self.run(|| command::run(command).map(|output| output.stdout))
    }

    /// `ip` with these words, separated by spaces, inside.
    ///
    /// # Errors
    /// `Command`, `ProgramMissing`.
    pub fn ip(&self, words: &str) -> Result<(), LabError> {
        command::ip(&format!("-n {} {words}", self.name))
    }

    /// As [`Namespace::ip`], one command a line, all by one process.
    ///
    /// # Errors
    /// `Command`.
    pub fn ip_batch(&self, lines: &str) -> Result<(), LabError> {
        command::run_with_input(
            Command::new("ip").args(["-n", &self.name, "-batch", "-"]),
            lines,
        )
        .map(|_| ())
    }

    /// Sets a kernel setting of the namespace; `key` is the path below `/proc/sys/net`.
    ///
    /// # Errors
    /// `Io`.
    pub fn set(&self, key: &str, value: &str) -> Result<(), LabError> {
        self.run(|| {
            fs::write(Path::new("/proc/sys/net").join(key), value)
                .map_err(LabError::io(format!("set net/{key} to {value}")))
        })
    }

    /// Whether a socket listens on this TCP port inside.
    ///
    /// # Errors
    /// `Kernel`.
    pub fn listens_on(&self, port: u16) -> Result<bool, LabError> {
        self.run(|| {
            let table = |name: &str| {
                fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
            };
            Ok(has_listener(&table("tcp"), port) || has_listener(&table("tcp6"), port))
        })
    }
}

/// All named namespaces of the machine.
///
/// # Errors
/// `Io`.
pub fn named() -> Result<Vec<String>, LabError> {
    match fs::read_dir(NAMES) {
        Ok(entries) => Ok(entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(LabError::Io {
            what: format!("list {NAMES}"),
            source,
        }),
    }
}

/// Removes the name; the namespace goes when nothing is left in it.
///
/// # Errors
/// `Command`.
pub fn delete(name: &str) -> Result<(), LabError> {
    command::ip(&format!("netns delete {name}"))
}

/// Asks every process in the namespace to end, and kills those that do not.
///
/// # Errors
/// `Io`.
pub fn end_processes(name: &str) -> Result<(), LabError> {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        for pid in processes(name)? {
            // It may have ended in between, which is what is wanted.
            let _ = kill(Pid::from_raw(pid), signal);
        }
        // Not `interrupt::wait_until`: this runs while an interrupted lab is being taken down.
        let end = std::time::Instant::now() + GRACE;
        while std::time::Instant::now() < end {
            if processes(name)?.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

fn processes(name: &str) -> Result<Vec<i32>, LabError> {
    let output = command::run(Command::new("ip").args(["netns", "pids", name]))?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect())
}

fn path(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

/// Whether `/proc/net/tcp`'s text shows a socket in state LISTEN (0A) on this port.
fn has_listener(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|row| {
        let mut columns = row.split_ascii_whitespace().skip(1);
        let local = columns.next().unwrap_or_default();
        let state = columns.nth(1).unwrap_or_default();
        local.ends_with(&suffix) && state == "0A"
    })
}

/// Waits until something listens on `port` in `namespace`.
///
/// # Errors
/// `Command` after `limit`, in the name of `program`; `Interrupted`.
pub fn wait_for_listener(
    namespace: &Namespace,
    port: u16,
    program: &str,
    limit: Duration,
) -> Result<(), LabError> {
    let came = interrupt::wait_until(limit, Duration::from_millis(10), || {
        namespace.listens_on(port).unwrap_or(false)
    })?;
    if came {
        Ok(())
    } else {
        Err(LabError::Command {
            command: program.to_owned(),
            why: format!("does not listen on port {port} after {} s", limit.as_secs()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let listener = "   0: 00000000:01BB 00000000:0000 0A 00000000:00000000";
        let connection = "   1: 0100007F:01BB 0100007F:9C40 01 00000000:00000000";
        assert!(has_listener(&format!("{head}{listener}"), 443));
        assert!(!has_listener(&format!("{head}{listener}"), 80));
        assert!(!has_listener(&format!("{head}{connection}"), 443));
    }
}
