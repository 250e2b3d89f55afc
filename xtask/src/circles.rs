//! No circle of imports between the files of a crate: what uses a file can be read after it.
//!
//! A file uses another when a path in it (an import, or a path in its code) leads to an item of the
//! other, through re-exports to where the item is defined. That a module lists its children
//! (`mod child;`) is no use, nor is what a child takes from the modules around it: it is a part of
//! them, and moves with them. Tests do not count.

mod graph;
mod imports;

use crate::finding::Finding;
use crate::table::LAYERS;
use crate::tree::Tree;
use graph::circles;
use imports::Crate;

/// Every circle.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let folders: Vec<&str> = LAYERS.iter().map(|layer| layer.folder).collect();
    Ok(judge(tree, &folders))
}

fn judge(tree: &Tree, folders: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in folders {
        let files = Crate::read(tree, folder);
        for circle in circles(&files.uses()) {
            let names: Vec<&str> = circle.iter().map(|&file| files.name(file)).collect();
            let message = format!(
                "uses each other in a circle: {} (see xtask/src/circles.rs)",
                names.join(", ")
            );
            findings.push(Finding::on(folder, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRATE: &str = "crates/a";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|&(path, text)| (format!("{CRATE}/src/{path}"), text))
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        judge(&Tree::fixture(&files), &[CRATE])
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    fn circle(names: &str) -> Vec<String> {
        vec![format!(
            "uses each other in a circle: {names} (see xtask/src/circles.rs)"
        )]
    }

    const CLEAN: Vec<String> = Vec::new();

    #[test]
    fn two_files_that_import_each_other_are_found() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\n"),
            ("one.rs", "use crate::two::{Other, Two};\npub struct One;\n"),
            ("two.rs", "use super::one::One;\npub struct Two;\n"),
        ];
        assert_eq!(found(&files), circle("one.rs, two.rs"));
        assert_eq!(found(&files[..2]), CLEAN);
    }

    #[test]
    fn a_path_in_code_is_a_use_and_one_in_a_comment_or_a_test_is_not() {
        let one = ("one.rs", "fn a() { crate::two::b(); }\n");
        let root = ("lib.rs", "mod one;\nmod two;\n");
        let two = |text| [root, one, ("two.rs", text)];
        let code = "fn b(one: crate::one::One) {}\n";
        assert_eq!(found(&two(code)), circle("one.rs, two.rs"));
        let comment = "/// [`crate::one::One`]\nfn b() {}\n";
        assert_eq!(found(&two(comment)), CLEAN);
        let test = "fn b() {}\n#[cfg(test)]\nmod tests {\n    use crate::one::a;\n}\n";
        assert_eq!(found(&two(test)), CLEAN);
        let visibility = "pub(in crate::one) fn b() {}\n";
        assert_eq!(found(&two(visibility)), CLEAN);
    }

    #[test]
    fn a_child_may_use_its_parent_and_its_siblings_not_in_a_circle() {
        let files = [
            ("lib.rs", "mod one;\n"),
            (
                "one.rs",
                "mod a;\nmod b;\nuse a::A;\nuse b::B;\npub struct One;\n",
            ),
            ("one/a.rs", "use super::{One, b::B};\npub struct A;\n"),
            ("one/b.rs", "use super::One;\npub struct B;\n"),
        ];
        assert_eq!(found(&files), CLEAN);
        let mut files = files;
        files[3].1 = "use super::A;\npub struct B;\n";
        assert_eq!(found(&files), circle("one/a.rs, one/b.rs"));
    }

    #[test]
    fn a_child_that_uses_what_uses_its_parent_is_found() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\n"),
            ("one.rs", "mod child;\nuse child::Part;\n"),
            ("one/child.rs", "use crate::two::Two;\npub struct Part;\n"),
            ("two.rs", "use crate::one::Part;\npub struct Two;\n"),
        ];
        assert_eq!(found(&files), circle("one/child.rs, two.rs"));
    }

    #[test]
    fn a_name_is_followed_to_the_file_that_defines_it() {
        // The root and `one` re-export; `two` uses what `one/child` defines.
        let files = [
            (
                "lib.rs",
                "mod one;\nmod two;\npub use one::Part as Piece;\n",
            ),
            (
                "one.rs",
                "mod child;\npub use child::Part;\nfn a() { crate::two::b(); }\n",
            ),
            ("one/child.rs", "pub struct Part;\n"),
            ("two.rs", "use crate::Piece;\npub fn b() {}\n"),
        ];
        assert_eq!(found(&files), CLEAN);
        let mut files = files;
        files[2].1 = "pub struct Part(crate::two::Two);\n";
        assert_eq!(found(&files), circle("one/child.rs, two.rs"));
    }

    #[test]
    fn super_in_a_module_within_a_file_is_the_file() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\n"),
            (
                "one.rs",
                "mod inner {\n    use super::super::two::Two;\n    use super::One;\n}\npub struct One;\n",
            ),
            ("two.rs", "pub struct Two;\n"),
        ];
        assert_eq!(found(&files), CLEAN);
        let mut files = files;
        files[2].1 = "pub struct Two(crate::one::One);\n";
        assert_eq!(found(&files), circle("one.rs, two.rs"));
    }
}
