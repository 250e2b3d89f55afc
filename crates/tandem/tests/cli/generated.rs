//! Manual pages and completions: every command has them, and the programs that read them find no
//! fault.
//!
//! Is not: their content, which is that of `--help` (`help.rs`).

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::support::common;
use common::{help_of, run, tandem};
use tandem_testkit::{has, is_installed, not_tried};

/// The commands below a path of names, as its help lists them.
fn commands_below(path: &[String]) -> Vec<Vec<String>> {
    let help = run(&mut tandem(&help_of(path))).succeeded().to_owned();
    let mut found = Vec::new();
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .filter(|name| *name != "help");
    for name in listed {
        let below = [path, &[name.to_owned()]].concat();
        found.extend(commands_below(&below));
        found.push(below);
    }
    found
}

#[test]
fn every_command_has_a_manual_page_that_shows_its_flags_and_examples() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    run(&mut tandem(&["man", pages.to_str().unwrap()])).succeeded();
    let mut expected: BTreeSet<String> = commands_below(&[])
        .iter()
        .map(|path| format!("tandem-{}.1", path.join("-")))
        .collect();
    expected.insert("tandem.1".to_owned());
    let written: BTreeSet<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(written, expected);
    if !has(&["man", "groff"]) {
        return;
    }
    for name in &written {
        // As a terminal shows it, with every warning that groff has.
        let shown = run(Command::new("man")
            .args(["--warnings=w", "--encoding=UTF-8", "--local-file"])
            .arg(pages.join(name))
            .env("MANWIDTH", "100")
            .env("MAN_KEEP_FORMATTING", "")
            .env("LC_ALL", "C.UTF-8"));
        assert_eq!(shown.stderr, "", "{name}");
        let text = shown.succeeded();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION"] {
            assert!(text.contains(section), "{name}: {text}");
        }
    }
    let page = fs::read_to_string(pages.join("tandem-client-side.1")).unwrap();
    for words in [
        r"\-\-link",
        r"\-\-dry\-run",
        "client\\-side.toml",
        "tandem(1)",
    ] {
        assert!(
            page.replace("\\fB", "").replace("\\fR", "").contains(words),
            "{words} in {page}"
        );
    }
}

#[test]
fn shells_take_their_completions_and_bash_completes_commands_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&mut tandem(&["completions", shell]))
            .succeeded()
            .to_owned();
        assert!(script.contains("client-side"), "{shell}");
        let file = folder.path().join(shell);
        fs::write(&file, &script).unwrap();
        if is_installed(shell) {
            let checked = run(Command::new(shell).arg("-n").arg(&file));
            assert_eq!(checked.succeeded(), "", "{shell}");
        } else {
            not_tried(format_args!(
                "the completions of {shell}, which is not installed"
            ));
        }
    }
    if !has(&["bash"]) {
        return;
    }
    let complete = |words: &[&str]| {
        let line = words.join(" ");
        let script = format!(
            "source '{}'; COMP_WORDS=({line}); COMP_CWORD={}; COMP_LINE='{line}'; COMP_POINT={}; \
             _tandem tandem '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            folder.path().join("bash").display(),
            words.len() - 1,
            line.len(),
            words[words.len() - 1],
            words[words.len() - 2],
        );
        run(Command::new("bash").args(["--norc", "-c", &script]))
            .succeeded()
            .to_owned()
    };
    assert_eq!(complete(&["tandem", "clie"]), "client-side\n");
    assert!(complete(&["tandem", "server-side", "--dr"]).contains("--dry-run"));
}
