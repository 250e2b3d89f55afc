//! Under what circumstances results came about: stands beside the rows, so that they can be judged later.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::endpoints::Endpoints;
use crate::error::LabError;
use crate::experiment::{Effort, Experiment};
use crate::links;
use crate::moment::{self, Moment};

/// The circumstances of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The experiment's name.
    pub experiment: String,
    /// What it is for.
    pub about: String,
    /// When it began, UTC.
    pub date: String,
    /// Whether it was cut down.
    pub quick: bool,
    /// Of all its chance.
    pub seed: u64,
    /// Trials of each arm.
    pub trials: u32,
    /// In the order of tables.
    pub links: Vec<LinkSetting>,
    /// In the order of tables.
    pub endpoints: Vec<Endpoints>,
    /// The processor and how many of it.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// TCP's congestion control in new namespaces.
    pub congestion_control: String,
    /// Programs' own words on their versions.
    pub programs: Vec<String>,
}

/// A link as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSetting {
    /// Its name.
    pub name: String,
    /// Rates and delay.
    pub figures: String,
    /// Where they are from.
    pub source: String,
}

impl Setting {
    /// Of a run that begins now. What cannot be found out is left empty.
    ///
    /// # Errors
    /// `Usage` where a link cannot be.
    pub fn now(experiment: &Experiment, effort: Effort) -> Result<Self, LabError> {
        let links = experiment
            .links
            .iter()
            .map(|link| {
                Ok(LinkSetting {
                    name: link.name.clone(),
                    figures: links::describe(&link.config()?),
                    source: link.source().to_owned(),
                })
            })
            .collect::<Result<_, LabError>>()?;
        Ok(Self {
            experiment: experiment.name.clone(),
            about: experiment.about.clone(),
            date: moment::date(Moment::now()),
            quick: effort == Effort::Quick,
            seed: experiment.seed,
            trials: experiment.trials,
            links,
            endpoints: experiment.endpoints.clone(),
            processor: processor(),
            kernel: first_line(Path::new("/proc/sys/kernel/osrelease")),
            congestion_control: first_line(Path::new("/proc/sys/net/ipv4/tcp_congestion_control")),
            programs: [
                ("openssl", "version"),
                ("nginx", "-v"),
                ("curl", "--version"),
                ("gnutls-cli", "--version"),
            ]
            .into_iter()
            .filter_map(|(program, argument)| version_of(program, argument))
            .collect(),
        })
    }

    /// One line for tables.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "{} UTC, {}, Linux {}, TCP {}; {}",
            self.date,
            self.processor,
            self.kernel,
            self.congestion_control,
            self.programs.join(", ")
        )
    }
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, model)| model.trim())
        .collect();
    match models.first() {
        Some(model) => format!("{} x {model}", models.len()),
        None => format!(
            "{} processors",
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
    }
}

fn first_line(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The first line that a program says of its version; nginx says it to standard error.
fn version_of(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next()?;
    let words: Vec<&str> = line
        .trim_start_matches("nginx version: ")
        .split_ascii_whitespace()
        .take(2)
        .collect();
    Some(words.join(" "))
}
