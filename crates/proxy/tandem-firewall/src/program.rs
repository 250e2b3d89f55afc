//! Running the programs that change the firewall and the routes.
//!
//! Is not: what they are told.
//!
//! Invariant: they run in a process group of their own, so that a Ctrl-C on the terminal does not
//! cut them off half-way.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::error::FirewallError;

/// The program that sets routes and rules for them.
pub(crate) const IP: &str = "ip";

/// Where the programs are when `PATH` does not lead there, as in a user's shell on Debian.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Runs a program with this input; what it prints.
///
/// # Errors
/// There is no such program, or it failed.
pub(crate) fn call(
    program: &str,
    arguments: &[&str],
    input: &str,
) -> Result<String, FirewallError> {
    let output = output(program, arguments, input)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program that prints nothing, with `stdout` open until it ends.
///
/// # Errors
/// As [`call`].
pub(crate) fn call_with(
    stdout: Stdio,
    program: &str,
    arguments: &[&str],
    input: &str,
) -> Result<(), FirewallError> {
    run(stdout, program, arguments, input).map(drop)
}

/// Runs a program to its end, which is to be a good one.
///
/// # Errors
/// As [`call`].
pub(crate) fn output(
    program: &str,
    arguments: &[&str],
    input: &str,
) -> Result<Output, FirewallError> {
    run(Stdio::piped(), program, arguments, input)
}

fn run(
    stdout: Stdio,
    program: &str,
    arguments: &[&str],
    input: &str,
) -> Result<Output, FirewallError> {
    let failed = |reason: String| match program {
        IP => FirewallError::Routing { reason },
        _ => FirewallError::Firewall {
            program: program.to_owned(),
            reason,
        },
    };
    let mut child = Command::new(path(program)?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    // The programs read all input before they print, and print less than a pipe holds until it is
    // closed.
    let written = child
        .stdin
        .take()
        .map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        written.map_err(|error| failed(error.to_string()))?;
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("Try "))
        .collect::<Vec<_>>()
        .join(" ");
    Err(failed(if reason.is_empty() {
        output.status.to_string()
    } else {
        reason
    }))
}

/// The program by its full path.
///
/// # Errors
/// There is no such program.
pub(crate) fn path(program: &str) -> Result<PathBuf, FirewallError> {
    find(program).ok_or_else(|| FirewallError::MissingTool {
        program: program.to_owned(),
        package: match program {
            IP => "iproute2",
            _ => "iptables",
        },
    })
}

/// The program by its full path, if it is there. Exec's own search would not do: it takes a folder
/// of the PATH that this user may not enter for a program that may not be run.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH").unwrap_or_default(), program)
}

fn find_in(path: &OsStr, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path)
        .chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = call("tandem-no-such-program", &[], "").expect_err("there is none");
        assert!(
            matches!(error, FirewallError::MissingTool { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("package iptables"), "{error}");
    }

    #[test]
    fn what_lies_where_administrators_programs_are_is_found_without_the_path() {
        for folder in ["/usr/sbin", "/sbin"] {
            let entries = std::fs::read_dir(folder).expect("it is on every system");
            let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let is_program = |name: &String| PathBuf::from(folder).join(name).is_file();
            let name = names.find(is_program).expect("programs lie there");
            for path in ["", "/nonexistent"] {
                let found = find_in(OsStr::new(path), &name);
                assert!(
                    found.is_some_and(|found| found.is_file()),
                    "{folder}/{name}"
                );
            }
        }
    }

    #[test]
    fn a_program_runs_in_a_process_group_of_its_own() {
        // The fifth field is the group (proc_pid_stat(5)); a leader's group has its own number.
        let script = "echo $$; cut -d' ' -f5 /proc/$$/stat";
        let said = call("sh", &["-c", script], "").expect("a shell");
        let numbers: Vec<&str> = said.lines().collect();
        assert_eq!(numbers.len(), 2, "{said}");
        assert_eq!(numbers[0], numbers[1]);
    }

    #[test]
    fn a_failing_program_is_one_line() {
        let error =
            call("sh", &["-c", "echo one >&2; echo two >&2; exit 3"], "").expect_err("it fails");
        assert!(matches!(error, FirewallError::Firewall { .. }), "{error:?}");
        assert!(error.to_string().contains("one two"), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
}
