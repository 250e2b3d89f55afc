//! Every Rust file opens with `//!`: what it is, what it is not, its invariants.

use crate::finding::Finding;
use crate::tree::Tree;

/// Files that do not open with a head, or open with an empty one.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let lacks_head = |text: &str| {
        let first = text.lines().next().unwrap_or_default();
        first
            .strip_prefix("//!")
            .is_none_or(|head| head.trim().is_empty())
    };
    let message = "opens without a `//!` head; say in its first lines what the file is and is not";
    Ok(tree
        .rust()
        .filter(|file| lacks_head(&file.text))
        .map(|file| Finding::at(&file.path, 1, message))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_head_is_found() {
        let tree = Tree::fixture(&[
            ("crates/a/src/good.rs", "//! What it is.\nfn a() {}\n"),
            ("crates/a/src/none.rs", "fn a() {}\n//! Too late.\n"),
            ("crates/a/src/hollow.rs", "//!\nfn a() {}\n"),
            ("crates/a/src/empty.rs", ""),
            (
                "crates/a/src/outer.rs",
                "/// Of the item, not of the file.\nfn a() {}\n",
            ),
            ("crates/a/README.md", "No Rust, no head.\n"),
        ]);
        let found: Vec<String> = check(&tree).unwrap().into_iter().map(|f| f.path).collect();
        assert_eq!(
            found,
            ["none", "hollow", "empty", "outer"].map(|name| format!("crates/a/src/{name}.rs"))
        );
    }
}
