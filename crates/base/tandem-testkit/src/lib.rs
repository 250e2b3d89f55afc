//! What a test says when it cannot run in full, where the real captures and chains are, which ports
//! are free, browsers as clients, whether memory holds a secret, and how a bench tells its figures.
//!
//! Cargo hides the output of tests that pass, and a skipped test passes. So each skip is a line in
//! the file that `TANDEM_SKIPPED` names; `make test` sets the variable and lists the lines at its
//! end. Without the variable the line goes to standard error alone.
//!
//! Is not: a dependency of anything but tests and benches.

#![forbid(unsafe_code)]

pub mod bench;
pub mod browser;
pub mod memory;
mod port;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub use port::free_port;

/// The environment variable with the path of the file that collects the lines.
const COLLECTED_IN: &str = "TANDEM_SKIPPED";

/// Notes that the running test, or a part of it, is skipped although this machine could be made to
/// run it: `reason` says what it needs. With root and all data there, no test may call this.
pub fn skipped(reason: impl Display) {
    note("skipped", &reason);
}

/// Notes that the running test leaves out an extra that needs what ordinary systems do not have.
/// Listed, but not counted as a skipped test.
pub fn not_tried(reason: impl Display) {
    note("not tried", &reason);
}

/// What lies at `path` below the folder with captures and chains: `TANDEM_DATA`, or
/// `../shared/data` beside the repository. `None`, and a note, where it is absent.
#[must_use]
pub fn data(path: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TANDEM_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data"),
        PathBuf::from,
    );
    let found = folder.join(path);
    if found.exists() {
        return Some(found);
    }
    skipped(format_args!("needs {}", found.display()));
    None
}

/// Whether the test runs as root.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

/// Whether a program of this name is in `PATH`, or where Debian keeps those for administrators.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file())
}

/// Whether the test runs as root and these programs are installed. `false`, and a note, if not.
#[must_use]
pub fn has_root_and(programs: &[&str]) -> bool {
    if !is_root() {
        skipped("needs root");
        return false;
    }
    has(programs)
}

/// Whether these programs are installed. `false`, and a note that names those missing, if not.
#[must_use]
pub fn has(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs
        .iter()
        .copied()
        .filter(|program| !is_installed(program))
        .collect();
    if !missing.is_empty() {
        skipped(format_args!("needs {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// The folder of the OpenSSL that `scripts/ensure-tools.sh openssl` builds beside the system's,
/// with `bin/openssl` and `lib/libssl.so.3`. `None`, and a note, where it is absent.
#[must_use]
pub fn openssl_3_5() -> Option<PathBuf> {
    let in_home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache/tandem/tools"));
    let tools = std::env::var_os("TANDEM_TOOLS").filter(|folder| !folder.is_empty());
    let tools = tools.map(PathBuf::from);
    let folder = tools.or_else(in_home)?.join("openssl-3.5");
    if folder.join("bin/openssl").is_file() {
        return Some(folder);
    }
    skipped("needs OpenSSL 3.5: scripts/ensure-tools.sh openssl");
    None
}

fn note(kind: &str, reason: &dyn Display) {
    let line = format!("{kind}: {}: {reason}\n", running_test());
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os(COLLECTED_IN) {
        // One write to a file opened for appending: lines of tests that run side by side stay
        // whole.
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&file)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("{}: {error}", Path::new(&file).display()));
    }
}

/// `BINARY::TEST`: the test harness names each test's thread after the test.
fn running_test() -> String {
    let binary = std::env::current_exe().ok();
    let binary = binary
        .as_deref()
        .and_then(Path::file_stem)
        .unwrap_or_default()
        .to_string_lossy();
    // Cargo appends a hash to the binary's name.
    let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
    let thread = std::thread::current();
    format!("{binary}::{}", thread.name().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_note_names_the_test_that_makes_it() {
        assert_eq!(
            super::running_test(),
            "tandem_testkit::tests::a_note_names_the_test_that_makes_it"
        );
    }
}
