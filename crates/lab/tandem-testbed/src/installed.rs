//! Programs of the system: whether they are there, and in which version.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Where servers are that an ordinary user's search path leaves out.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// How to ask a program for its version.
#[derive(Debug)]
pub struct Question {
    program: OsString,
    words: &'static [&'static str],
}

impl Question {
    /// Words that make this program say it.
    pub fn new(program: impl Into<OsString>, words: &'static [&'static str]) -> Self {
        Self {
            program: program.into(),
            words,
        }
    }

    /// The first number with a dot in the answer; some answer to standard error.
    pub fn ask(&self) -> Option<String> {
        let output = Command::new(&self.program).args(self.words).output().ok()?;
        let all = [output.stdout, output.stderr].concat();
        number_in(&String::from_utf8_lossy(&all))
    }
}

fn number_in(text: &str) -> Option<String> {
    text.split(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .map(|word| word.trim_matches('.'))
        .find(|word| word.contains('.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-as-this").is_none());
    }

    #[test]
    fn the_version_is_found_in_what_programs_say() {
        let says = |text| number_in(text).unwrap_or_default();
        assert_eq!(says("go version go1.26.8 linux/amd64"), "1.26.8");
        assert_eq!(says("Server version: Apache/2.4.71 (Debian)"), "2.4.71");
        assert_eq!(says("2:3.87.1-1+deb12u4"), "3.87.1");
        assert_eq!(
            says("HAProxy version 2.6.12-1+deb12u4 2025/10/03"),
            "2.6.12"
        );
        assert_eq!(says("v20.20.2\n"), "20.20.2");
        assert_eq!(says("none."), "");
    }
}
