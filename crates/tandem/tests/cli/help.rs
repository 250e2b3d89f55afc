//! Every `--help`, byte for byte as in `tests/snapshots`: what users read changes on purpose or not
//! at all.
//!
//! After a change on purpose: `REGEN=1 cargo test -p tandem --test cli help::`, and read the
//! difference.

use crate::support::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn snapshots() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

fn help(path: &[String]) -> String {
    common::run(&mut common::tandem(&common::help_of(path)))
        .succeeded()
        .to_owned()
}

/// The commands that a help text lists under "Commands:", without `help` itself.
fn commands_in(text: &str) -> Vec<String> {
    text.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|rest| !rest.starts_with(' '))
        })
        .filter_map(|line| line.split(' ').next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Every command by its path of names, the program itself first, with its help text.
fn all_commands() -> Vec<(Vec<String>, String)> {
    let mut open = vec![Vec::new()];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        let text = help(&path);
        for name in commands_in(&text) {
            let mut below = path.clone();
            below.push(name);
            open.push(below);
        }
        found.push((path, text));
    }
    found
}

#[test]
fn every_help_is_as_in_its_snapshot() {
    let regenerate = std::env::var_os("REGEN").is_some();
    let mut expected_files = BTreeSet::new();
    let mut different = Vec::new();
    for (path, text) in all_commands() {
        let name = [&["tandem".to_owned()], path.as_slice()].concat().join("-") + ".txt";
        let file = snapshots().join(&name);
        if regenerate {
            fs::write(&file, &text).expect("the snapshot folder is part of the source");
        } else if fs::read_to_string(&file).ok().as_deref() != Some(text.as_str()) {
            different.push(name.clone());
        }
        expected_files.insert(name);
    }
    assert!(
        different.is_empty(),
        "differ from their snapshots (REGEN=1 rewrites them): {different:?}"
    );
    for entry in fs::read_dir(snapshots()).expect("the snapshot folder is part of the source") {
        let name = entry
            .expect("readable")
            .file_name()
            .to_string_lossy()
            .into_owned();
        assert!(
            expected_files.contains(&name),
            "{name} is the snapshot of no command; remove it"
        );
    }
}

#[test]
fn examples_fit_a_terminal_of_80_columns() {
    // Wrapped text follows the terminal; the examples do not, and clap would break them anywhere.
    for (path, text) in all_commands() {
        let long = |line: &&str| line.starts_with("    tandem") && line.chars().count() > 80;
        assert_eq!(text.lines().find(long), None, "{path:?}");
    }
}

#[test]
fn every_command_has_a_help_of_its_own_behind_h_too() {
    for (mut path, long) in all_commands() {
        if common::is_of_another_program(&path) {
            continue;
        }
        path.push("-h".to_owned());
        let short = common::run(&mut common::tandem(&path))
            .succeeded()
            .to_owned();
        assert!(short.lines().count() <= long.lines().count(), "{path:?}");
        assert!(short.contains("Usage: tandem"), "{path:?}");
    }
}
