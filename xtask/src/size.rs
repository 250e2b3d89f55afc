//! One concept a file: beyond 800 lines without its tests a reason is written down.
//!
//! The reason is a line of the file's head: `//! Length: why this is one concept after all`.

use crate::finding::Finding;
use crate::rust_text::test_lines;
use crate::tree::{SourceFile, Tree};

/// Lines without tests that a file may have before it owes a reason.
const LIMIT: usize = 800;
/// How the reason opens, in the file's head.
const REASON: &str = "//! Length:";

/// Files that are long and do not say why.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    Ok(tree.rust().filter_map(judge).collect())
}

fn judge(file: &SourceFile) -> Option<Finding> {
    if file.is_test_only() {
        return None;
    }
    let lines = test_lines(&file.text)
        .into_iter()
        .filter(|&is_test| !is_test)
        .count();
    let reasoned = file
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .any(|line| {
            line.strip_prefix(REASON)
                .is_some_and(|reason| !reason.trim().is_empty())
        });
    (lines > LIMIT && !reasoned).then(|| {
        Finding::on(
            &file.path,
            format!("{lines} lines without tests (limit {LIMIT}); split it, or add `{REASON} REASON` to its head"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(head: &str, code_lines: usize, tests: &str) -> String {
        format!("{head}{}{tests}", "fn a() {}\n".repeat(code_lines))
    }

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::fixture(&[(path, text)])).unwrap().len()
    }

    #[test]
    fn a_long_file_without_a_reason_is_found() {
        assert_eq!(found("a/src/lib.rs", &long("//! Head.\n", LIMIT, "")), 1);
        assert_eq!(
            found("a/src/lib.rs", &long("//! Head.\n", LIMIT - 1, "")),
            0
        );
        assert_eq!(found("a/src/lib.rs", &long("//! Length:\n", LIMIT, "")), 1);
    }

    #[test]
    fn a_reason_in_the_head_is_taken() {
        let head = "//! Head.\n//!\n//! Length: one table, and half of it is data.\n";
        assert_eq!(found("a/src/lib.rs", &long(head, LIMIT, "")), 0);
    }

    #[test]
    fn tests_do_not_count() {
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "fn t() {}\n".repeat(LIMIT)
        );
        assert_eq!(found("a/src/lib.rs", &long("//! Head.\n", 10, &tests)), 0);
        assert_eq!(found("a/tests/all.rs", &long("//! Head.\n", LIMIT, "")), 0);
    }
}
