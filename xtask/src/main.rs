//! `cargo xtask`: the checks of the house rules that neither rustc nor clippy makes, and a runner
//! for tests that starts several test programs at a time.
//!
//! Not a build system: building and linting are cargo's, and `make` calls them in order.
//! Each check reads and reports, changes nothing, and has unit tests that show it failing on a
//! violation; `docs/ci.md` says what each is for.
#![forbid(unsafe_code)]

mod bans;
mod circles;
mod finding;
mod fuzz;
mod heads;
mod layers;
mod picture;
mod rust_text;
mod size;
mod spelling;
mod subjects;
mod table;
mod test;
mod tree;
mod width;
mod words;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use finding::Finding;
use tree::Tree;

const USAGE: &str = "\
Usage: cargo xtask CHECK...
       cargo xtask test [OPTION OF CARGO TEST]...

Checks:
  layers    each crate depends only on what the table of layers allows
  picture   the tables of crates in ARCHITECTURE.md say the same
  bans      cores touch no clock, files, threads, environment; unsafe code stays in adapters
  circles   no files of a crate use each other in a circle
  heads     every Rust file opens with a `//!` head
  size      a Rust file of more than 800 lines without its tests gives a reason
  width     comments in Rust end at 100 columns, prose in Markdown at 120
  fuzz      each fuzzed function has a target and a corpus
  spelling  no common misspelling, no doubled word
  words     names and turns of phrase for which there is a plainer one
  subjects  new commits: `area: verb object`, at most 72 columns
  all       all of them

test: the tests that `cargo test` would run, several test programs at a time (TANDEM_TEST_JOBS)";

/// What one check is called on the command line, and how it runs.
struct Check {
    name: &'static str,
    run: fn(&Tree) -> Result<Vec<Finding>, String>,
}

const CHECKS: [Check; 11] = [
    Check {
        name: "layers",
        run: layers::check,
    },
    Check {
        name: "picture",
        run: picture::check,
    },
    Check {
        name: "bans",
        run: bans::check,
    },
    Check {
        name: "circles",
        run: circles::check,
    },
    Check {
        name: "heads",
        run: heads::check,
    },
    Check {
        name: "size",
        run: size::check,
    },
    Check {
        name: "width",
        run: width::check,
    },
    Check {
        name: "fuzz",
        run: fuzz::check,
    },
    Check {
        name: "spelling",
        run: spelling::check,
    },
    Check {
        name: "words",
        run: words::check,
    },
    Check {
        name: "subjects",
        run: subjects::check,
    },
];

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let [test, options @ ..] = &names[..]
        && test == "test"
    {
        return match test::run(&workspace_root(), options) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(why) => {
                eprintln!("error: {why}");
                ExitCode::FAILURE
            }
        };
    }
    let Some(chosen) = choose(&names) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&chosen) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The checks that `names` asks for, in the order of [`CHECKS`]; `None` for no name or an unknown
/// one.
fn choose(names: &[String]) -> Option<Vec<&'static Check>> {
    let known = |name: &String| name == "all" || CHECKS.iter().any(|check| check.name == name);
    if names.is_empty() || !names.iter().all(known) {
        return None;
    }
    let wanted = |check: &&Check| names.iter().any(|name| name == "all" || name == check.name);
    Some(CHECKS.iter().filter(wanted).collect())
}

/// Runs the checks, prints what they found and one closing line for each; the number of findings.
fn run(checks: &[&Check]) -> Result<usize, String> {
    let tree = Tree::read(&workspace_root())?;
    let mut out = std::io::stdout().lock();
    let mut total = 0;
    for check in checks {
        let mut findings = (check.run)(&tree)?;
        findings.sort();
        for finding in &findings {
            writeln!(out, "{finding}").map_err(|error| error.to_string())?;
        }
        let verdict = match findings.len() {
            0 => "ok".to_owned(),
            1 => "1 finding".to_owned(),
            n => format!("{n} findings"),
        };
        writeln!(out, "xtask {}: {verdict}", check.name).map_err(|error| error.to_string())?;
        total += findings.len();
    }
    Ok(total)
}

/// The folder above this crate's, fixed when xtask is built: it runs by `cargo xtask`, from its own
/// tree.
fn workspace_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Option<Vec<&'static str>> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        choose(&names).map(|checks| checks.iter().map(|check| check.name).collect())
    }

    #[test]
    fn checks_are_chosen_by_name() {
        assert_eq!(named(&["size", "layers"]), Some(vec!["layers", "size"]));
        assert_eq!(
            named(&["all"]).map(|checks| checks.len()),
            Some(CHECKS.len())
        );
    }

    #[test]
    fn an_unknown_check_is_refused_and_so_is_none() {
        assert_eq!(named(&["layers", "layer"]), None);
        assert_eq!(named(&[]), None);
    }

    #[test]
    fn the_usage_names_each_check() {
        for check in &CHECKS {
            assert!(
                USAGE.contains(&format!("\n  {} ", check.name)),
                "{}",
                check.name
            );
        }
    }
}
