//! Fuzzed functions, their targets and their corpora belong together: none without the others.
//!
//! A crate's `fuzzing` module lists its checks in `CHECKS`, by the name of the target. The target
//! is `fuzz/fuzz_targets/NAME.rs`, a `[[bin]]` of that name in `fuzz/Cargo.toml`, and inputs in
//! `fuzz/corpus/NAME/`. The targets are a workspace of their own, and so is the Python package: no
//! other build keeps their `Cargo.lock` up to date. What each says of our crates is held against
//! their `Cargo.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::finding::Finding;
use crate::rust_text::code_only;
use crate::tree::{SourceFile, Tree};

const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGETS: &str = "fuzz/fuzz_targets/";
const CORPUS: &str = "fuzz/corpus";
const LOCKS: [&str; 2] = ["fuzz/Cargo.lock", "extras/python/Cargo.lock"];

/// What is listed without a target or inputs, and targets that nothing lists.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let corpora = corpora(&tree.root.join(CORPUS))?;
    let mut findings = judge(tree, &corpora);
    for path in LOCKS {
        let lock = tree.root.join(path);
        if lock.exists() {
            let text = fs::read_to_string(&lock);
            let text = text.map_err(|error| format!("{}: {error}", lock.display()))?;
            findings.extend(stale(tree, path, &text));
        }
    }
    Ok(findings)
}

/// Our crates of which the lock says other dependencies than their `Cargo.toml`.
fn stale(tree: &Tree, path: &str, lock: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in lock.split("[[package]]").skip(1) {
        let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
        let Some(name) = package
            .lines()
            .find(|line| line.starts_with("name ="))
            .and_then(quoted)
        else {
            continue;
        };
        let manifest = tree.files.iter().find(|file| {
            file.path.starts_with("crates/") && file.path.ends_with(&format!("/{name}/Cargo.toml"))
        });
        let Some(manifest) = manifest else { continue };
        // "name", or "name version" where there are two of that name.
        let locked: BTreeSet<&str> = package
            .lines()
            .filter_map(|line| line.strip_prefix(" \""))
            .filter_map(|line| line.split([' ', '"']).next())
            .collect();
        let dependencies = manifest
            .text
            .lines()
            .skip_while(|line| *line != "[dependencies]")
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some((line, line.split_once(['.', ' ', '='])?.0)));
        // Optional ones are there where their feature is.
        let (optional, named): (Vec<_>, Vec<_>) =
            dependencies.partition(|(line, _)| line.contains("optional = true"));
        let [optional, named] = [optional, named].map(|list| {
            list.into_iter()
                .map(|(_, name)| name)
                .collect::<BTreeSet<_>>()
        });
        if !locked.difference(&optional).eq(&named) {
            let message = format!(
                "says other dependencies of {name} than its Cargo.toml: run cargo metadata beside it"
            );
            findings.push(Finding::on(path, message));
        }
    }
    findings
}

/// The folders of the corpus and how many inputs each has. None where there is no corpus at all.
fn corpora(folder: &Path) -> Result<BTreeMap<String, usize>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if !folder.exists() {
        return Ok(BTreeMap::new());
    }
    let mut corpora = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_dir() {
            let inputs = fs::read_dir(entry.path()).map_err(failed)?.count();
            corpora.insert(entry.file_name().to_string_lossy().into_owned(), inputs);
        }
    }
    Ok(corpora)
}

fn judge(tree: &Tree, corpora: &BTreeMap<String, usize>) -> Vec<Finding> {
    let manifest = tree.file(MANIFEST).map_or("", |file| file.text.as_str());
    let listed: BTreeMap<String, &str> = tree
        .rust()
        .filter(|file| file.path.ends_with("/src/fuzzing.rs"))
        .flat_map(|file| {
            checks_of(file)
                .into_iter()
                .map(|name| (name, file.path.as_str()))
        })
        .collect();
    let mut findings = Vec::new();
    for (name, place) in &listed {
        let mut report = |what: String| findings.push(Finding::on(place, what));
        if tree.file(&format!("{TARGETS}{name}.rs")).is_none() {
            report(format!("{name} has no target {TARGETS}{name}.rs"));
        }
        if !manifest.contains(&format!("name = \"{name}\"")) {
            report(format!("{name} has no [[bin]] in {MANIFEST}"));
        }
        if corpora.get(name).is_none_or(|&inputs| inputs == 0) {
            report(format!("{name} has no inputs in {CORPUS}/{name}/"));
        }
    }
    for file in tree.rust() {
        let target = file
            .path
            .strip_prefix(TARGETS)
            .and_then(|name| name.strip_suffix(".rs"));
        if let Some(name) = target.filter(|&name| !listed.contains_key(name)) {
            let message =
                format!("no crate's fuzzing module lists {name}: its corpus is never replayed");
            findings.push(Finding::on(&file.path, message));
        }
    }
    let known = |name: &&String| listed.contains_key(*name);
    for name in corpora.keys().filter(|name| !known(name)) {
        findings.push(Finding::on(
            &format!("{CORPUS}/{name}"),
            "is the corpus of no target",
        ));
    }
    findings
}

/// The names in a module's `CHECKS`, the first in each pair: literals are blanked in the code, so
/// their places are found there and read in the text.
fn checks_of(file: &SourceFile) -> Vec<String> {
    let code = code_only(&file.text);
    let Some(start) = code.find("CHECKS:") else {
        return Vec::new();
    };
    let end = table_end(&code, start);
    file.text[start..end]
        .split("(\"")
        .skip(1)
        .filter_map(|pair| pair.split('"').next())
        .map(str::to_owned)
        .collect()
}

/// The end of the table that starts at `start`: the `];` that closes its value.
fn table_end(code: &str, start: usize) -> usize {
    let value = code[start..].find('=').map_or(start, |at| start + at);
    code[value..].find("];").map_or(code.len(), |at| value + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "//! Head.\npub const CHECKS: [(&str, Check); 2] = [\n    (\"hello\", hello),\n    #[cfg(feature = \"a\")]\n    (\"record\", record),\n];\n";
    const BINS: &str = "[[bin]]\nname = \"hello\"\n[[bin]]\nname = \"record\"\n";

    fn found(files: &[(&str, &str)], corpora: &[(&str, usize)]) -> Vec<String> {
        let corpora = corpora
            .iter()
            .map(|&(name, inputs)| (name.to_owned(), inputs))
            .collect();
        judge(&Tree::fixture(files), &corpora)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn what_is_listed_needs_a_target_a_bin_and_inputs() {
        let complete = [
            ("crates/a/src/fuzzing.rs", LIST),
            (MANIFEST, BINS),
            ("fuzz/fuzz_targets/hello.rs", "//! Head.\n"),
            ("fuzz/fuzz_targets/record.rs", "//! Head.\n"),
        ];
        assert_eq!(
            found(&complete, &[("hello", 1), ("record", 2)]),
            Vec::<String>::new()
        );
        assert_eq!(
            found(&complete, &[("hello", 0), ("record", 2)]),
            ["hello has no inputs in fuzz/corpus/hello/"]
        );
        assert_eq!(
            found(&complete[..3], &[("hello", 1), ("record", 2)]),
            ["record has no target fuzz/fuzz_targets/record.rs"]
        );
        assert_eq!(found(&complete[..1], &[]).len(), 6);
    }

    #[test]
    fn a_lock_that_is_behind_is_found() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\n\
            c = { workspace = true }\n# Not here: d.\nd = { workspace = true, optional = true }\n\
            \n[dev-dependencies]\ne.workspace = true\n";
        let tree = Tree::fixture(&[("crates/base/a/Cargo.toml", manifest)]);
        let lock = |dependencies: &str| {
            format!(
                "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n\
                 dependencies = [\n{dependencies}]\n\n[[package]]\nname = \"b\"\n"
            )
        };
        let count = |dependencies| stale(&tree, LOCKS[0], &lock(dependencies)).len();
        assert_eq!(count(" \"b\",\n \"c 1.0.0\",\n"), 0);
        assert_eq!(count(" \"b\",\n \"c\",\n \"d\",\n"), 0);
        assert_eq!(count(" \"b\",\n"), 1);
        assert_eq!(count(" \"b\",\n \"c\",\n \"rusqlite\",\n"), 1);
    }

    #[test]
    fn a_target_or_a_corpus_that_nothing_lists_is_found() {
        let files = [
            (MANIFEST, BINS),
            ("fuzz/fuzz_targets/hello.rs", "//! Head.\n"),
        ];
        assert_eq!(
            found(&files, &[("other", 1)]),
            [
                "no crate's fuzzing module lists hello: its corpus is never replayed",
                "is the corpus of no target"
            ]
        );
    }
}
