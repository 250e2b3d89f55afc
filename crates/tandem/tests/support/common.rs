//! Running the built program, for the tests of the command line.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

/// A run of the program that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("the program writes UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("the program writes UTF-8"),
        }
    }

    /// Asserts that the run failed with `code`, wrote no result, and said why in one line, the last
    /// one; gives that line. Warnings in the log may stand before it.
    #[track_caller]
    pub(crate) fn failed_with(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "a failure has no result");
        let (log, said): (Vec<&str>, Vec<&str>) = self
            .stderr
            .lines()
            .partition(|line| line.contains(" WARN "));
        assert_eq!(
            said.len(),
            1,
            "one line says what to do: {said:?} after {log:?}"
        );
        said[0]
            .strip_prefix("tandem: ")
            .expect("the line names the program")
    }

    /// Asserts that the run ended well; gives what it wrote.
    #[track_caller]
    pub(crate) fn succeeded(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }
}

/// The program with these arguments, without what a terminal or a shell would add.
pub(crate) fn tandem<A: AsRef<OsStr>>(arguments: &[A]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.args(arguments);
    plain(&mut command);
    command
}

/// The program as a user without privileges: by itself where the tests have none, through `setpriv`
/// where they are root's.
pub(crate) fn unprivileged(arguments: &[&str]) -> Command {
    if !is_root() {
        return tandem(arguments);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.arg(env!("CARGO_BIN_EXE_tandem")).args(arguments);
    plain(&mut command);
    command
}

/// Whether what follows this command is another program's, its help too.
pub(crate) fn is_of_another_program(path: &[String]) -> bool {
    ["keyserver", "keytap", "lab", "mc", "measure"]
        .iter()
        .any(|name| path == [*name])
}

/// The arguments that show a command's help.
pub(crate) fn help_of(path: &[String]) -> Vec<String> {
    if is_of_another_program(path) {
        return ["help", &path[0]].map(str::to_owned).to_vec();
    }
    [path, &["--help".to_owned()]].concat()
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> Ran {
    Ran::new(
        command
            .stdin(Stdio::null())
            .output()
            .expect("the program was built for this test"),
    )
}

fn plain(command: &mut Command) {
    for name in ["COLUMNS", "RUST_LOG", "RUST_BACKTRACE", "NO_COLOR"] {
        command.env_remove(name);
    }
}

/// Whether the tests run as root: the owner of this process's own entry in `/proc`.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}
