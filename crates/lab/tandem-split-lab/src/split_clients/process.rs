//! A client program's process: started, fed, read to its end, and ended with all that it has
//! started.
//!
//! Invariants: nothing of it is left, a browser's many processes least of all; none is waited for
//! beyond its limit.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use tandem_testbed::LabError;
use tandem_testbed::command;

/// What a program wrote, and whether it ended well. What it started ends with it, and all of them
/// when the time is up.
pub(super) struct Ran {
    pub(super) stdout: Vec<u8>,
    pub(super) words: String,
    pub(super) is_success: bool,
}

/// Runs a program in a process group of its own for at most as long as the task's limit, and some.
pub(super) fn run(mut command: Command, input: &[u8], limit: Duration) -> Result<Ran, LabError> {
    let mut child = command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| command::start_error(&command, source))?;
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
    let (mut stdin, mut stdout, mut stderr) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let out = std::thread::scope(|scope| {
        // A program that ends without reading says why elsewhere. Its input stays open: some take
        // its end for their own.
        let fed = scope.spawn(move || {
            let fed = stdin.as_mut().map(|stdin| stdin.write_all(input));
            (stdin, fed)
        });
        let errors = scope.spawn(move || all(stderr.as_mut()));
        let output = scope.spawn(move || all(stdout.as_mut()));
        let status = command::wait_for(&mut child, limit).ok().flatten();
        if group.as_raw() > 1 {
            // Nothing of it may be left. It is gone already, mostly.
            let _ = killpg(group, Signal::SIGKILL);
        }
        // What was killed is waited for; how it ended is known.
        let _ = child.wait();
        drop(fed.join());
        let words = String::from_utf8_lossy(&errors.join().unwrap_or_default()).into_owned();
        let words = match status {
            Some(_) => words,
            None => format!("{words}\nwaited for until it was ended"),
        };
        Ran {
            stdout: output.join().unwrap_or_default(),
            words,
            is_success: status.is_some_and(|status| status.success()),
        }
    });
    Ok(out)
}

fn all(from: Option<&mut impl std::io::Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // What was read before an error is what there is.
        let _ = from.read_to_end(&mut bytes);
    }
    bytes
}
