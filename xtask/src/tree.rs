//! The workspace's text files, read once for all checks.
//!
//! Not git's view: a file counts before it is added, since a check is run before the commit.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold what is made, not what is written.
const SKIPPED_FOLDERS: [&str; 4] = ["target", ".git", "artifacts", "out"];
/// Endings of the files that the checks read.
const TEXT_ENDINGS: [&str; 6] = ["rs", "md", "toml", "sh", "txt", "service"];
/// Files without an ending that the checks read.
const TEXT_NAMES: [&str; 2] = ["Makefile", "run"];
/// Generated or licence texts, which are not ours to change. Matched on the whole path's start.
const SKIPPED_PATHS: [&str; 2] = ["docs/results/", "Cargo.lock"];

/// One text file.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Path from the workspace's root, with `/` between its parts.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl SourceFile {
    /// Whether this is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether all of this file is test or bench code, by the folder or the name it has.
    pub(crate) fn is_test_only(&self) -> bool {
        let mut parts = self.path.split('/').rev();
        let name = parts.next().unwrap_or_default();
        name == "tests.rs" || parts.any(|folder| matches!(folder, "tests" | "benches" | "fuzz"))
    }
}

/// All text files under the workspace's root, sorted by path.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The folder that holds the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The files.
    pub(crate) files: Vec<SourceFile>,
}

impl Tree {
    /// Reads the tree.
    ///
    /// # Errors
    /// A folder or file that cannot be read, or a text file that is not UTF-8.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self {
            root: root.to_owned(),
            files,
        })
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The file at this path from the root.
    pub(crate) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

#[cfg(test)]
impl Tree {
    /// A tree out of pairs of path and text, for the checks' own tests.
    pub(crate) fn fixture(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|&(path, text)| SourceFile {
                path: path.to_owned(),
                text: text.to_owned(),
            })
            .collect();
        Self {
            root: PathBuf::new(),
            files,
        }
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                read_folder(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() && is_text(&path, &name) {
            let text =
                fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
            files.push(SourceFile { path, text });
        }
    }
    Ok(())
}

fn is_text(path: &str, name: &str) -> bool {
    if SKIPPED_PATHS
        .iter()
        .any(|skipped| path.starts_with(skipped))
    {
        return false;
    }
    match name.rsplit_once('.') {
        Some((_, ending)) => TEXT_ENDINGS.contains(&ending),
        None => TEXT_NAMES.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_files_are_told_from_others() {
        assert!(is_text("crates/a/src/lib.rs", "lib.rs"));
        assert!(is_text("Makefile", "Makefile"));
        assert!(is_text(".ci/run", "run"));
        assert!(!is_text("fuzz/corpus/records/0001", "0001"));
        assert!(!is_text("docs/results/README.md", "README.md"));
    }

    #[test]
    fn test_code_is_known_by_its_folder() {
        let named = |path: &str| SourceFile {
            path: path.to_owned(),
            text: String::new(),
        };
        assert!(named("crates/a/tests/cli.rs").is_test_only());
        assert!(named("crates/a/src/flow/tests.rs").is_test_only());
        assert!(!named("crates/a/src/contests.rs").is_test_only());
    }

    #[test]
    fn the_tree_holds_this_very_file() {
        let tree = Tree::read(&crate::workspace_root()).unwrap();
        assert!(tree.file("xtask/src/tree.rs").is_some());
        assert!(
            tree.files
                .iter()
                .all(|file| !file.path.starts_with("target/"))
        );
    }
}
