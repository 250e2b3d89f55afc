//! External programs that are run to their end, with errors in their own words.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::error::LabError;

/// Programs that the lab calls, and the Debian packages that have them.
const PACKAGES: [(&str, &str); 8] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("iptables", "iptables"),
    ("nginx", "nginx"),
    ("openssl", "openssl"),
    ("curl", "curl"),
    ("gnutls-cli", "gnutls-bin"),
    ("sysctl", "procps"),
];

/// Lines of a failed program's own words that an error repeats.
const MAX_LINES: usize = 4;

/// How a command line looks to a human.
pub fn line(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// What a failed start means: a missing program, or the system's word.
pub fn start_error(command: &Command, source: io::Error) -> LabError {
    let name = command.get_program();
    if source.kind() == io::ErrorKind::NotFound
        && let Some((program, package)) = PACKAGES
            .iter()
            .find(|(program, _)| OsStr::new(program) == name)
    {
        return LabError::ProgramMissing { program, package };
    }
    LabError::Io {
        what: format!("start {}", line(command)),
        source,
    }
}

/// Waits for the end of a program that was started, for so long at most; `None`: it still runs.
/// Goes on where the user has interrupted the lab: what was started has to be ended then too.
///
/// # Errors
/// The system's, where it is not ours to wait for.
pub fn wait_for(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() >= deadline {
            return Ok(ended);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a program to its end; its output if it says that it succeeded.
///
/// # Errors
/// `ProgramMissing`, `Io`, or `Command` with what it wrote to standard error.
pub fn run(command: &mut Command) -> Result<Output, LabError> {
    run_with_input(command, "")
}

/// As [`run`], with this text as standard input.
///
/// # Errors
/// `ProgramMissing`, `Command`, `Io`.
pub fn run_with_input(command: &mut Command, input: &str) -> Result<Output, LabError> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| start_error(command, source))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading says why in its exit status. The input fits the pipe,
        // so this cannot block for ever.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(LabError::io(format!("wait for {}", line(command))))?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .take(MAX_LINES)
        .collect();
    let why = if words.is_empty() {
        output.status.to_string()
    } else {
        words.join("; ")
    };
    Err(LabError::Command {
        command: line(command),
        why,
    })
}

/// `ip` with these words, separated by spaces.
///
/// # Errors
/// `ProgramMissing`, `Command`.
pub fn ip(words: &str) -> Result<(), LabError> {
    run(Command::new("ip").args(words.split_ascii_whitespace())).map(|_| ())
}
