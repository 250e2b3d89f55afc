//! What cores may not do, and where unsafe code may stand.
//!
//! The work itself is clippy's and rustc's: a core's `clippy.toml` lists the calls it may not make
//! and `#![forbid(unsafe_code)]` keeps unsafe code out. This check holds that they are asked: each
//! core has the same bans, nobody switches them off, and paths that clippy cannot ban as a whole
//! (`std::fs`) are not written.

use crate::finding::Finding;
use crate::rust_text::{code_only, test_lines};
use crate::table::{Kind, LAYERS, Layer};
use crate::tree::{SourceFile, Tree};

/// The crate whose `clippy.toml` is the model for all cores.
const MODEL: &str = "crates/base/tandem-wire/clippy.toml";
/// Without these in it the model bans too little.
const MODEL_NAMES: [&str; 6] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::env::var",
    "std::fs::File",
];
/// Paths whose mere mention gives a core away.
const BANNED_PATHS: [(&str, &str); 8] = [
    ("std::fs", "files"),
    ("std::thread", "threads"),
    ("std::env::", "the environment"),
    ("std::process", "processes"),
    ("std::os::", "the operating system"),
    ("std::time::SystemTime", "a clock"),
    ("std::net::TcpStream", "sockets"),
    ("std::net::UdpSocket", "sockets"),
];
/// Asks nothing of a thread but whether this one is ending anyway: a drop guard may want to know.
const ALLOWED_PATH: &str = "std::thread::panicking";
/// Clippy lints that hold a core's bans.
const BAN_LINTS: [&str; 3] = [
    "clippy::disallowed_methods",
    "clippy::disallowed_types",
    "clippy::disallowed_macros",
];
/// What a core says of casts that lose a part of a number; its tests may.
const CASTS: &str = "#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]";
/// The attribute that keeps unsafe code out of a crate.
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Bans that are missing, weakened or broken.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let mut findings = judge_model(tree);
    for layer in LAYERS {
        match layer.kind {
            Kind::Core => {
                findings.extend(judge_clippy(tree, layer));
                findings.extend(judge_unsafe(tree, layer));
                findings.extend(judge_casts(tree, layer));
                for file in files_of(tree, layer) {
                    findings.extend(judge_core_file(file));
                }
            }
            Kind::Program | Kind::Testkit => findings.extend(judge_unsafe(tree, layer)),
            Kind::Adapter => {}
        }
    }
    Ok(findings)
}

fn files_of<'a>(tree: &'a Tree, layer: &Layer) -> impl Iterator<Item = &'a SourceFile> {
    let prefix = format!("{}/", layer.folder);
    tree.rust()
        .filter(move |file| file.path.starts_with(&prefix))
}

fn judge_model(tree: &Tree) -> Vec<Finding> {
    let text = tree.file(MODEL).map_or("", |file| file.text.as_str());
    MODEL_NAMES
        .iter()
        .filter(|name| !text.contains(**name))
        .map(|name| Finding::on(MODEL, format!("does not ban {name}")))
        .collect()
}

fn judge_clippy(tree: &Tree, layer: &Layer) -> Option<Finding> {
    let path = format!("{}/clippy.toml", layer.folder);
    let model = tree.file(MODEL).map(|file| &file.text);
    match tree.file(&path) {
        None => Some(Finding::on(&path, format!("is missing: copy {MODEL}"))),
        Some(file) if Some(&file.text) != model => Some(Finding::on(
            &path,
            format!("differs from {MODEL}: all cores have the same bans"),
        )),
        Some(_) => None,
    }
}

fn judge_unsafe(tree: &Tree, layer: &Layer) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root = ["src/lib.rs", "src/main.rs"]
        .iter()
        .find_map(|name| tree.file(&format!("{}/{name}", layer.folder)));
    if let Some(root) = root.filter(|root| !code_only(&root.text).contains(FORBID)) {
        findings.push(Finding::on(&root.path, format!("lacks {FORBID}")));
    }
    for file in files_of(tree, layer) {
        for (line, code) in code_only(&file.text).lines().enumerate() {
            if words(code).any(|word| word == "unsafe") {
                let message = "unsafe code belongs in an adapter, with its reason";
                findings.push(Finding::at(&file.path, line + 1, message));
            }
        }
    }
    findings
}

fn judge_casts(tree: &Tree, layer: &Layer) -> Option<Finding> {
    let root = tree.file(&format!("{}/src/lib.rs", layer.folder))?;
    let denies = code_only(&root.text).contains(CASTS);
    (!denies).then(|| Finding::on(&root.path, format!("lacks {CASTS}")))
}

fn judge_core_file(file: &SourceFile) -> Vec<Finding> {
    if file.is_test_only() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let is_test = test_lines(&file.text);
    for (line, code) in code_only(&file.text).lines().enumerate() {
        if is_test.get(line) == Some(&true) {
            continue;
        }
        let code = code.replace(ALLOWED_PATH, "");
        for (path, what) in BANNED_PATHS {
            if code.contains(path) {
                let message = format!("{path} in a core: {what} come in as arguments");
                findings.push(Finding::at(&file.path, line + 1, message));
            }
        }
        for lint in BAN_LINTS.iter().filter(|lint| code.contains(**lint)) {
            let message = format!("{lint} is switched off in a core");
            findings.push(Finding::at(&file.path, line + 1, message));
        }
    }
    findings
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_does_not_deny_casts_is_found() {
        let layer = crate::table::layer("tandem-wire").unwrap();
        let judged = |text: &str| {
            let path = format!("{}/src/lib.rs", layer.folder);
            let tree = Tree::fixture(&[(&path, text)]);
            judge_casts(&tree, layer).map(|finding| finding.to_string())
        };
        let message = format!("crates/base/tandem-wire/src/lib.rs: lacks {CASTS}");
        assert_eq!(judged("//! Head.\n"), Some(message));
        assert_eq!(judged(CASTS), None);
    }

    /// A tree in which every crate keeps the rules, then changed by one file.
    fn found(path: &str, text: Option<&str>) -> Vec<String> {
        let model = MODEL_NAMES.join("\n");
        let mut files: Vec<(String, String)> = Vec::new();
        for layer in LAYERS {
            files.push((
                format!("{}/src/lib.rs", layer.folder),
                format!("//! Head.\n{FORBID}\n{CASTS}\n// unsafe is a word here\n"),
            ));
            if layer.kind == Kind::Core {
                files.push((format!("{}/clippy.toml", layer.folder), model.clone()));
            }
        }
        files.retain(|(kept, _)| kept != path);
        files.extend(text.map(|text| (path.to_owned(), text.to_owned())));
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        check(&Tree::fixture(&files))
            .unwrap()
            .into_iter()
            .map(|f| f.to_string())
            .collect()
    }

    #[test]
    fn a_tree_that_keeps_the_rules_is_clean() {
        assert_eq!(found("unused", None), Vec::<String>::new());
    }

    #[test]
    fn a_core_without_its_bans_or_with_others_is_found() {
        assert_eq!(found("crates/proxy/tandem-link/clippy.toml", None).len(), 1);
        assert_eq!(
            found("crates/proxy/tandem-link/clippy.toml", Some("")).len(),
            1
        );
    }

    #[test]
    fn a_model_that_bans_nothing_is_found() {
        let found = found(MODEL, Some("disallowed-methods = []\n"));
        assert!(
            found
                .iter()
                .any(|line| line.contains("does not ban std::thread::sleep"))
        );
    }

    #[test]
    fn a_core_that_does_not_forbid_unsafe_code_is_found() {
        let text = format!("//! Head.\n{CASTS}\n");
        let found = found("crates/base/tandem-wire/src/lib.rs", Some(&text));
        assert_eq!(
            found,
            ["crates/base/tandem-wire/src/lib.rs: lacks #![forbid(unsafe_code)]"]
        );
    }

    #[test]
    fn unsafe_code_in_a_core_is_found_and_in_an_adapter_is_not() {
        let text = "//! Head.\nfn a() { unsafe { b() } }\n";
        assert_eq!(
            found("crates/base/tandem-wire/tests/a.rs", Some(text)).len(),
            1
        );
        assert_eq!(
            found("crates/proxy/tandem-packet-io/src/a.rs", Some(text)).len(),
            0
        );
    }

    #[test]
    fn a_core_that_names_files_or_a_clock_is_found() {
        let text = "//! Head.\nuse std::fs;\nfn a(at: std::time::SystemTime) {}\n";
        assert_eq!(
            found("crates/proxy/tandem-packet/src/a.rs", Some(text)).len(),
            2
        );
        let in_test = "//! Head.\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(
            found("crates/proxy/tandem-packet/src/a.rs", Some(in_test)).len(),
            0
        );
        let guard = "//! Head.\nfn a() -> bool { std::thread::panicking() }\n";
        assert_eq!(
            found("crates/proxy/tandem-packet/src/a.rs", Some(guard)).len(),
            0
        );
        let documented = "//! Head.\n/// Not `std::fs`.\nfn a() {}\n";
        assert_eq!(
            found("crates/proxy/tandem-packet/src/a.rs", Some(documented)).len(),
            0
        );
    }

    #[test]
    fn switching_a_ban_off_is_found() {
        let text = "//! Head.\n#![allow(clippy::disallowed_methods)]\nuse std::fs;\n";
        assert_eq!(
            found("crates/base/tandem-store/src/memory.rs", Some(text)).len(),
            2
        );
    }
}
