//! A process that removes rules when the daemon that set them is killed, or fails to do it.
//!
//! Is for rules that do harm without their daemon, as a redirection to a port where nobody listens
//! any more. Is not: the orderly end ([`crate::InstalledRules`]).
//!
//! It reads from a pipe that the daemon alone holds, and which ends with the daemon. A daemon that
//! starts at that very moment may lose its rules to it; then its keeper sets them again.

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
        let script = format!(
            "trap '' HUP INT TERM\nread -r line\nPATH=\"$PATH:/usr/sbin:/sbin\"\n{removal}\n"
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
