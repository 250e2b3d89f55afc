//! Every `tandem lab ... --help`, byte for byte as in `tests/snapshots`, and what the program says
//! where it cannot work.
//!
//! After a change on purpose: `REGEN=1 cargo test -p tandem-lab --test help`, and read the
//! difference.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The lab's own program.
const LAB: &str = env!("CARGO_BIN_EXE_tandem-lab");

fn output(command: &mut Command) -> Output {
    for name in ["COLUMNS", "RUST_LOG", "RUST_BACKTRACE", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
        .stdin(Stdio::null())
        .output()
        .expect("the program was built for this test")
}

fn help(command: &str) -> String {
    let mut program = Command::new(LAB);
    program.args(command.split_whitespace()).arg("--help");
    let output = output(&mut program);
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

/// The commands that a help text lists under "Commands:", without `help` itself.
fn commands_in(text: &str) -> impl Iterator<Item = &str> {
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
}

#[test]
fn every_help_is_as_in_its_snapshot() {
    let snapshots = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let all = help("");
    let mut texts = vec![("tandem-lab.txt".to_owned(), all.clone())];
    texts.extend(commands_in(&all).map(|name| (format!("tandem-lab-{name}.txt"), help(name))));
    for (name, text) in &texts {
        let file = snapshots.join(name);
        if std::env::var_os("REGEN").is_some() {
            fs::write(&file, text).expect("the snapshot folder is part of the source");
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert!(*text == expected, "{name} differs: REGEN=1 rewrites it");
        let long = |line: &&str| line.starts_with("    tandem") && line.chars().count() > 80;
        assert_eq!(text.lines().find(long), None, "{name}");
        assert!(text.contains("Usage: tandem lab"), "{name}");
    }
    let names: BTreeSet<String> = texts.into_iter().map(|(name, _)| name).collect();
    for entry in fs::read_dir(&snapshots).expect("the snapshot folder is part of the source") {
        let name = entry.expect("readable").file_name();
        let name = name.to_string_lossy().into_owned();
        assert!(
            names.contains(&name),
            "{name} is the snapshot of no command"
        );
    }
}

#[test]
fn without_privileges_it_says_so() {
    let mut command = Command::new(LAB);
    if nix::unistd::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(LAB);
    }
    let output = output(command.arg("up"));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(words.starts_with("tandem lab: ") && words.contains("root"));
    assert_eq!(words.lines().count(), 1, "{words}");
}
