//! When and where a run was made: what a result needs besides its rows, in a file beside them.
//!
//! `X.run.json` stands beside `X.jsonl`. It names no host and no user. A report without it says
//! that machine and date are not known; it never guesses them from the machine that makes the
//! report.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::date::date;
use crate::error::ReportError;

/// The circumstances of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// When its first trial began, UTC, as `2026-03-01 14:05`.
    pub date: String,
    /// When its last trial was over, likewise. Not known of results of before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Processors and kernel, in words.
    pub machine: String,
    /// With which of cargo's profiles the repository's programs were built, all alike. Not known of
    /// results of before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Programs at the ends and in between, with their versions.
    #[serde(default)]
    pub programs: Vec<Program>,
    /// The links that were emulated.
    #[serde(default)]
    pub links: Vec<LinkInfo>,
    /// Arms of other programs that did not work over a link, with it and the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A program that took part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// As it is called.
    pub name: String,
    /// In its own words.
    pub version: String,
}

/// A link in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkInfo {
    /// As rows call it.
    pub name: String,
    /// Rates and delay.
    pub description: String,
    /// Where the figures are from.
    pub source: String,
}

impl RunInfo {
    /// Of a run that begins now on this machine. What cannot be read is left unsaid.
    pub fn here() -> Self {
        Self {
            date: now(),
            until: None,
            machine: machine(),
            profile: std::env::current_exe()
                .ok()
                .and_then(|program| profile(&program)),
            programs: Vec::new(),
            links: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// With the time of its first and its last trial: the run may have waited for others.
    #[must_use]
    pub fn with_times(mut self, first: String, last: String) -> Self {
        self.date = first;
        self.until = Some(last);
        self
    }

    /// When it was made, in words.
    pub(crate) fn period(&self) -> String {
        match &self.until {
            Some(until) => format!("{} to {until}", self.date),
            None => self.date.clone(),
        }
    }

    /// "Measured 2026-03-01 14:05 to 2026-03-01 15:10 UTC on ...": all but the links, in sentences.
    pub fn in_words(&self) -> String {
        let mut words = format!("Measured {} UTC on {}.", self.period(), self.machine);
        for Program { name, version } in &self.programs {
            words += &format!(" {name} {version}.");
        }
        if let Some(profile) = &self.profile {
            words += &format!(" Built with the profile `{profile}`.");
        }
        words
    }

    /// With a program that takes part.
    #[must_use]
    pub fn with_program(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.programs.push(Program {
            name: name.into(),
            version: version.into(),
        });
        self
    }

    /// With a link that is emulated.
    #[must_use]
    pub fn with_link(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        self.links.push(LinkInfo {
            name: name.into(),
            description: description.into(),
            source: source.into(),
        });
        self
    }

    /// Writes it to where a report looks for it: beside the file with the rows.
    ///
    /// # Errors
    /// `Io`.
    pub fn write_beside(&self, rows: &Path) -> Result<PathBuf, ReportError> {
        let path = beside(rows);
        let write = || ReportError::io(format!("write {}", path.display()));
        let mut text = serde_json::to_string_pretty(self).map_err(|error| write()(error.into()))?;
        text.push('\n');
        fs::write(&path, text).map_err(write())?;
        Ok(path)
    }
}

/// The time, UTC, as such a file has it.
pub fn now() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since_epoch.unwrap_or_default())
}

/// The file that belongs to a file with rows.
pub(crate) fn beside(rows: &Path) -> PathBuf {
    rows.with_extension("run.json")
}

/// Processors as proc_cpuinfo(5) names the first, and the kernel's release (proc_sys_kernel(5)).
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name")
                .and_then(|rest| rest.split_once(':'))
        })
        .map_or_else(
            || std::env::consts::ARCH.to_owned(),
            |(_, name)| name.split_whitespace().collect::<Vec<_>>().join(" "),
        );
    let processors = available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{processors} × {model}, Linux {}", kernel.trim())
}

/// The folder that a program was built into has the profile's name (Cargo's build cache), and some
/// folders below it for what is neither a library nor a program of a package.
fn profile(program: &Path) -> Option<String> {
    let folder = program
        .ancestors()
        .skip(1)
        .find(|folder| !folder.ends_with("deps") && !folder.ends_with("examples"))?;
    Some(folder.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_folder_names_the_profile_it_was_built_with() {
        for path in ["lab/tandem-lab", "lab/deps/cost-0a1b", "lab/examples/small"] {
            let path = Path::new("/home/target").join(path);
            assert_eq!(profile(&path).as_deref(), Some("lab"), "{}", path.display());
        }
        assert_eq!(profile(Path::new("/")), None);
    }

    #[test]
    fn what_is_written_beside_rows_reads_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let rows = directory.path().join("handshake.jsonl");
        let info = RunInfo::here().with_program("nginx", "1.26").with_link(
            "iridium",
            "2.4 kbit/s",
            "table 4.1",
        );
        let path = info.write_beside(&rows).expect("a writable folder");
        assert_eq!(path, directory.path().join("handshake.run.json"));
        let read = fs::read_to_string(path).expect("it was written");
        let read: RunInfo = serde_json::from_str(&read).expect("what was written");
        assert_eq!(read, info);
        assert!(info.machine.contains("Linux"), "{}", info.machine);
        let words = info.in_words();
        let begin = format!(
            "Measured {} UTC on {}. nginx 1.26.",
            info.date, info.machine
        );
        assert!(words.starts_with(&begin), "{words}");
    }
}
