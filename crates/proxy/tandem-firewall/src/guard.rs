//! A process that removes rules when the daemon that set them is killed, or fails to do it.
//!
//! Is for rules that do harm without their daemon, as a redirection to a port where nobody listens
//! any more. Is not: the orderly end ([`crate::InstalledRules`]).
//!
//! It reads from a pipe that the daemon holds, and the programs that set rules for it
//! ([`Guard::pipe`]), since they outlive a daemon that is killed. The pipe ends with the last of
//! them. A daemon that starts at that very moment may lose its rules to it; then its keeper sets
//! them again.

use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::error::FirewallError;

/// The process. Dropping it ends it without a word, unless it is at work.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Has a shell carry out `removal` when this process ends, however it does.
    ///
    /// # Errors
    /// The shell cannot be started.
    pub(crate) fn start(removal: &str) -> Result<Self, FirewallError> {
        // Signals that a terminal or a service manager sends to a whole group are the daemon's.
        // systemd's watchdog sends ABRT (systemd.service(5), `WatchdogSignal=`).
        let script = format!(
            "trap '' HUP INT QUIT ABRT TERM USR1 USR2\nwhile read -r line; do :; done\n\
             PATH=\"$PATH:/usr/sbin:/sbin\"\n{removal}\n"
        );
        Command::new("/bin/sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
            .map_err(|error| FirewallError::system("starting the guard of the rules", error))
    }

    /// For a program that it waits for, too, as that program's output.
    pub(crate) fn pipe(&self) -> Stdio {
        let pipe = self.0.stdin.as_ref();
        let pipe = pipe.and_then(|pipe| pipe.as_fd().try_clone_to_owned().ok());
        pipe.map_or_else(Stdio::null, Stdio::from)
    }

    /// Has it carry out the removal now, beside this process, which does not wait for it.
    pub(crate) fn carry_out(mut self) {
        drop(self.0.stdin.take());
    }

    /// Its number.
    #[cfg(test)]
    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }

    /// What the end of this process does; waits for it.
    #[cfg(test)]
    pub(crate) fn finish(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Without its pipe it is at work.
        if self.0.stdin.is_some() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    /// The signals that a process ignores, a bit each (`SigIgn`, proc_pid_status(5)).
    fn ignored(process: u32) -> u64 {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        u64::from_str_radix(set.expect("it is there").trim(), 16).expect("hexadecimal")
    }

    #[test]
    fn signals_that_are_meant_for_the_daemon_do_not_end_it() {
        let folder = tempfile::tempdir().expect("a directory");
        let done = folder.path().join("done");
        let mut guard = Guard::start(&format!(": > {}", done.display())).expect("a shell");
        let signals = [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGABRT,
            Signal::SIGTERM,
            Signal::SIGUSR1,
            Signal::SIGUSR2,
        ];
        let all: u64 = signals.iter().map(|signal| 1 << (*signal as i32 - 1)).sum();
        let start = Instant::now();
        // A shell takes a moment to come that far.
        while ignored(guard.process()) & all != all {
            assert!(start.elapsed() < Duration::from_secs(60), "not ignored");
            std::thread::yield_now();
        }
        let process = Pid::from_raw(guard.process().try_into().expect("a process"));
        for signal in signals {
            kill(process, signal).expect("it runs");
        }
        guard.finish();
        assert!(done.exists());
    }
}
