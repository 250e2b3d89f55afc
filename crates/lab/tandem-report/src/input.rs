//! Reads what runs left in a directory and one level below: rows, what is known of their run,
//! waterfalls, and benches' lines.
//!
//! Damage is an error that names file and line, never a figure that is missing in silence: a result
//! out of half of its rows is wrong. Order is that of the paths, so that the same files make the
//! same page.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::exhibit::{self, Exhibit};
use super::run_info::{self, RunInfo};
use super::waterfall::{self, Waterfall};
use crate::accounts::Accounts;
use crate::cost_row::{self, CostRow};
use crate::error::ReportError;
use crate::mctls_row::{self, McRow};
use crate::row::Row;
use crate::split_row::{self, SplitRow};

/// What a directory holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Input {
    /// One for each file with rows, in the order of their paths.
    pub(crate) runs: Vec<Run>,
    /// Those of experiments with situations, likewise.
    pub(crate) staged: Vec<Run>,
    /// Those of many clients, likewise.
    pub(crate) crowds: Vec<Run>,
    /// In the order of their paths.
    pub(crate) waterfalls: Vec<Waterfall>,
    /// Likewise.
    pub(crate) exhibits: Vec<Exhibit>,
    /// Of `profile.jsonl`.
    pub(crate) profile: Vec<Accounts>,
    /// Of the evaluation of splitting.
    pub(crate) splitting: Vec<SplitRow>,
    /// Under what circumstances that was made, where it is known.
    pub(crate) splitting_info: Option<RunInfo>,
    /// Of the evaluation of multi-context TLS.
    pub(crate) mctls: Vec<McRow>,
    /// What TLS costs at servers.
    pub(crate) cost: Vec<CostRow>,
    /// Of `bench.jsonl`.
    pub(crate) benches: Vec<Bench>,
    /// Files that are no runs: only when they were made is read.
    pub(crate) others: Vec<Other>,
}

/// A file with results of another kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Other {
    /// Its name below the directory.
    pub(crate) name: String,
    /// `None` where nothing stands beside it.
    pub(crate) info: Option<RunInfo>,
}

/// A figure of a bench: one line of `bench.jsonl`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Bench {
    /// What was measured.
    pub(crate) bench: String,
    /// In the bench's unit.
    pub(crate) value: f64,
}

/// Where the benches' lines are.
const BENCHES: &str = "bench.jsonl";

/// Where the daemons' accounts are.
const PROFILE: &str = "profile.jsonl";

/// Results that have a page of their own and no rows.
const OTHERS: [&str; 6] = [
    "interop.jsonl",
    "soak.jsonl",
    "soak-tunnel.jsonl",
    "split-clients.jsonl",
    "survive.jsonl",
    "visits.jsonl",
];

/// One file with rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    /// The file's name below the directory.
    pub(crate) name: String,
    /// One or more.
    pub(crate) rows: Vec<Row>,
    /// `None` where nothing stands beside the rows.
    pub(crate) info: Option<RunInfo>,
}

/// Reads a directory.
///
/// # Errors
/// `NoResults` where there is no directory or no row in it; `DamagedResults` for what cannot be a
/// result; `Io`.
pub(crate) fn read(directory: &Path) -> Result<Input, ReportError> {
    let no_results = || ReportError::NoResults {
        dir: directory.to_owned(),
    };
    if !directory.is_dir() {
        return Err(no_results());
    }
    let mut input = Input::default();
    for path in files(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if [BENCHES, PROFILE, cost_row::ROWS, mctls_row::ROWS].contains(&&*name)
            || OTHERS.contains(&&*name)
        {
            let info = run_info::beside(&path);
            let below = path.strip_prefix(directory).unwrap_or(&path);
            input.others.push(Other {
                name: below.display().to_string(),
                info: info.is_file().then(|| json(&info)).transpose()?,
            });
        }
        if name == BENCHES {
            input.benches.extend(lines(&path, |_| Ok(()))?);
        } else if name == PROFILE {
            input.profile.extend(lines(&path, |_| Ok(()))?);
        } else if name == cost_row::ROWS {
            input.cost.extend(lines(&path, |_| Ok(()))?);
        } else if name == mctls_row::ROWS {
            input.mctls.extend(lines(&path, |_| Ok(()))?);
        } else if name == split_row::ROWS {
            input.splitting.extend(lines(&path, |_| Ok(()))?);
            let info = run_info::beside(&path);
            input.splitting_info = info.is_file().then(|| json(&info)).transpose()?;
        } else if name.ends_with(".jsonl") && !OTHERS.contains(&&*name) {
            let rows = lines(&path, plausible)?;
            if rows.is_empty() {
                continue;
            }
            let info = run_info::beside(&path);
            let below = path.strip_prefix(directory).unwrap_or(&path);
            let (crowds, rows): (Vec<Row>, Vec<Row>) =
                rows.into_iter().partition(|row| row.clients.is_some());
            if !crowds.is_empty() {
                input.crowds.push(Run {
                    name: below.display().to_string(),
                    rows: crowds,
                    info: info.is_file().then(|| json(&info)).transpose()?,
                });
            }
            let (staged, rows): (Vec<Row>, Vec<Row>) =
                rows.into_iter().partition(|row| row.situation.is_some());
            let run = Run {
                name: below.display().to_string(),
                rows,
                info: info.is_file().then(|| json(&info)).transpose()?,
            };
            if !staged.is_empty() {
                input.staged.push(Run {
                    rows: staged,
                    ..run.clone()
                });
            }
            if !run.rows.is_empty() {
                input.runs.push(run);
            }
        } else if name.starts_with(waterfall::PREFIX) && name.ends_with(".json") {
            input.waterfalls.push(checked(&path, json(&path)?)?);
        } else if name.starts_with(exhibit::PREFIX) && name.ends_with(".json") {
            let exhibit: Exhibit = json(&path)?;
            if exhibit.fields().is_none() {
                return Err(ReportError::DamagedResults {
                    file: path,
                    line: 1,
                    why: "no messages with certificates".to_owned(),
                });
            }
            input.exhibits.push(exhibit);
        }
    }
    let has_runs = [&input.runs, &input.staged, &input.crowds]
        .into_iter()
        .any(|runs| !runs.is_empty());
    let has_others =
        !(input.splitting.is_empty() && input.cost.is_empty() && input.mctls.is_empty());
    if !has_runs && !has_others {
        return Err(no_results());
    }
    Ok(input)
}

/// All files in a directory and in the directories in it, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let mut files = Vec::new();
    for path in entries(directory)? {
        if path.is_dir() {
            files.extend(entries(&path)?.into_iter().filter(|path| path.is_file()));
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
    fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(ReportError::io(format!("read {}", directory.display())))
}

/// A file's lines, each held against a check that says in words what is wrong.
fn lines<T: DeserializeOwned>(
    path: &Path,
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<Vec<T>, ReportError> {
    let io = || ReportError::io(format!("read {}", path.display()));
    let file = File::open(path).map_err(io())?;
    let mut values = Vec::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let damaged = |why: String| ReportError::DamagedResults {
            file: path.to_owned(),
            line: index + 1,
            why,
        };
        let line = line.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => damaged("not UTF-8".to_owned()),
            _ => io()(error),
        })?;
        if line.trim().is_empty() {
            continue;
        }
        let value =
            serde_json::from_str(&line).map_err(|error| damaged(without_position(&error)))?;
        check(&value).map_err(damaged)?;
        values.push(value);
    }
    Ok(values)
}

fn plausible(row: &Row) -> Result<(), String> {
    for (name, seconds) in [
        ("seconds_handshake", row.seconds_handshake),
        ("seconds_first_byte", row.seconds_first_byte),
    ] {
        if seconds.is_some_and(|seconds| seconds < 0.0) {
            return Err(format!("{name} is below zero"));
        }
    }
    Ok(())
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, ReportError> {
    let text =
        fs::read_to_string(path).map_err(ReportError::io(format!("read {}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| ReportError::DamagedResults {
        file: path.to_owned(),
        line: error.line(),
        why: without_position(&error),
    })
}

fn checked(path: &Path, waterfall: Waterfall) -> Result<Waterfall, ReportError> {
    let backwards = waterfall
        .arms
        .iter()
        .flat_map(|arm| &arm.packets)
        .any(|packet| {
            packet.at_seconds < 0.0
                || packet
                    .arrived_seconds
                    .is_some_and(|arrived| arrived < packet.at_seconds)
        });
    if backwards {
        return Err(ReportError::DamagedResults {
            file: path.to_owned(),
            line: 1,
            why: "a packet arrives before it is sent".to_owned(),
        });
    }
    Ok(waterfall)
}

/// The parser's words without the line and column in its own count.
fn without_position(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words
        .rsplit_once(" at line ")
        .map_or(words.as_str(), |(words, _)| words)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        directory
    }

    #[test]
    fn rows_are_read_here_and_one_level_below() {
        let line = synthetic::lines(&synthetic::rows()[..1]);
        let info = r#"{"date":"2026-03-01 14:05","machine":"2 × X"}"#;
        let here = directory(&[
            ("b.jsonl", &line),
            ("b.run.json", info),
            ("sub/a.jsonl", &format!("\n{line}\n")),
            ("sub/deeper/c.jsonl", "not read"),
            ("notes.txt", "not read"),
            ("empty.jsonl", ""),
            ("interop.jsonl", "{}"),
            ("soak.jsonl", "{}"),
            ("split-clients.jsonl", "{}"),
            (
                "bench.jsonl",
                "{\"bench\":\"engine\",\"value\":12345.5,\"unit\":\"handshakes/s\"}\n",
            ),
        ]);
        let input = read(here.path()).expect("they are well-formed");
        let names: Vec<&str> = input.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["b.jsonl", "sub/a.jsonl"]);
        assert_eq!(
            input.runs[0]
                .info
                .as_ref()
                .map(|info| info.machine.as_str()),
            Some("2 × X")
        );
        assert_eq!(input.runs[1].info, None);
        assert_eq!(input.runs[0].rows, input.runs[1].rows);
        let benches: Vec<(&str, f64)> = input
            .benches
            .iter()
            .map(|bench| (bench.bench.as_str(), bench.value))
            .collect();
        assert_eq!(benches, [("engine", 12_345.5)]);
        let others: Vec<&str> = input
            .others
            .iter()
            .map(|other| other.name.as_str())
            .collect();
        let expected = [
            "bench.jsonl",
            "interop.jsonl",
            "soak.jsonl",
            "split-clients.jsonl",
        ];
        assert_eq!(others, expected);
    }

    #[test]
    fn no_rows_are_an_error_in_one_line() {
        for files in [&[][..], &[("a.jsonl", "\n")], &[("a.json", "{}")]] {
            let error = read(directory(files).path()).unwrap_err();
            assert!(matches!(error, ReportError::NoResults { .. }), "{error:?}");
            assert_eq!(error.to_string().lines().count(), 1);
        }
        let missing = directory(&[]).path().join("nothing");
        assert!(matches!(read(&missing), Err(ReportError::NoResults { .. })));
    }

    #[test]
    fn damage_is_an_error_that_names_the_line() {
        let good = synthetic::lines(&synthetic::rows()[..1]);
        let cut = &good[..good.len() / 2];
        let negative = good.replace("\"seconds_first_byte\":", "\"seconds_first_byte\":-");
        for (bad, expected) in [
            (cut, "EOF"),
            ("{}", "missing field"),
            (&negative, "below zero"),
        ] {
            let here = directory(&[("rows.jsonl", &format!("{good}{bad}"))]);
            let error = read(here.path()).unwrap_err();
            assert!(
                matches!(error, ReportError::DamagedResults { line: 2, .. }),
                "{error:?}"
            );
            let words = error.to_string();
            assert!(
                words.contains("rows.jsonl, line 2") && words.contains(expected),
                "{words}"
            );
            assert_eq!(words.lines().count(), 1);
        }
    }

    #[test]
    fn a_waterfall_that_runs_backwards_is_refused() {
        let line = synthetic::lines(&synthetic::rows()[..1]);
        let mut waterfall = synthetic::waterfall();
        let text = serde_json::to_string(&waterfall).expect("it has a form");
        let here = directory(&[("a.jsonl", &line), ("waterfall-x.json", &text)]);
        assert_eq!(
            read(here.path()).expect("they are well-formed").waterfalls,
            [waterfall.clone()]
        );
        waterfall.arms[0].packets[1].arrived_seconds = Some(0.0);
        fs::write(
            here.path().join("waterfall-x.json"),
            serde_json::to_string(&waterfall).expect("it has a form"),
        )
        .expect("it can be written");
        assert!(matches!(
            read(here.path()),
            Err(ReportError::DamagedResults { .. })
        ));
    }
}
