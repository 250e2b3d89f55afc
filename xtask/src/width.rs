//! How wide comments and prose may be: 100 columns in Rust, 120 in Markdown.
//!
//! What cannot be broken counts for nothing: code blocks and drawings, rows of tables, a line that
//! is one word, such as an address. Lines of code are rustfmt's.

use crate::finding::Finding;
use crate::tree::{SourceFile, Tree};

/// Columns of a comment line in Rust, its indentation included.
const MAX_COMMENT: usize = 100;
/// Columns of a line of prose in Markdown.
const MAX_PROSE: usize = 120;

/// Lines that are too wide.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    Ok(tree.files.iter().flat_map(judge).collect())
}

fn judge(file: &SourceFile) -> Vec<Finding> {
    let max = if file.is_rust() {
        MAX_COMMENT
    } else if file.path.ends_with(".md") {
        MAX_PROSE
    } else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut is_block = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        let Some(prose) = prose(file, line) else {
            is_block = false;
            continue;
        };
        if prose.trim_start().starts_with("```") {
            is_block = !is_block;
            continue;
        }
        let width = line.chars().count();
        if width > max && !is_block && can_be_broken(prose) {
            let message = format!("is {width} columns wide, the limit is {max}");
            findings.push(Finding::at(&file.path, number, message));
        }
    }
    findings
}

/// What a line says: all of it in Markdown; in Rust what stands behind the marker of a line that is
/// a comment.
fn prose<'a>(file: &SourceFile, line: &'a str) -> Option<&'a str> {
    if !file.is_rust() {
        return Some(line);
    }
    let comment = line.trim_start().strip_prefix("//")?;
    let text = comment.strip_prefix(['/', '!']).unwrap_or(comment);
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// Whether a line of prose has a place where it can end sooner.
fn can_be_broken(prose: &str) -> bool {
    let is_row = prose.starts_with('|');
    let is_indented = prose.starts_with("    ");
    !is_row && !is_indented && prose.trim().contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::fixture(&[(path, text)])).unwrap().len()
    }

    #[test]
    fn a_wide_comment_is_found_and_wide_code_is_not() {
        let line = |marker: &str, columns: usize| {
            let rest = "ab ".repeat(columns);
            format!("{marker}{}c\n", &rest[..columns - marker.len() - 1])
        };
        for marker in ["// ", "/// ", "//! ", "    // "] {
            assert_eq!(found("a.rs", &line(marker, MAX_COMMENT + 1)), 1, "{marker}");
            assert_eq!(found("a.rs", &line(marker, MAX_COMMENT)), 0, "{marker}");
        }
        assert_eq!(found("a.rs", &line("let a = ", MAX_COMMENT + 1)), 0);
        assert_eq!(found("a.md", &line("", MAX_PROSE + 1)), 1);
        assert_eq!(found("a.md", &line("", MAX_PROSE)), 0);
        assert_eq!(found("a.toml", &line("# ", MAX_PROSE + 1)), 0);
    }

    #[test]
    fn columns_are_counted_and_not_bytes() {
        let arrows = "→ ".repeat(MAX_PROSE / 2);
        assert_eq!(found("a.md", arrows.trim_end()), 0);
        assert_eq!(found("a.md", &format!("{arrows}→")), 1);
    }

    #[test]
    fn what_cannot_be_broken_is_left_alone() {
        let wide = "ab ".repeat(60);
        assert_eq!(found("a.md", &format!("| {wide}|\n")), 0);
        assert_eq!(found("a.md", &format!("    {wide}\n")), 0);
        assert_eq!(found("a.md", &format!("```\n{wide}\n```\n")), 0);
        assert_eq!(found("a.md", &format!("```\n```\n{wide}\n")), 1);
        assert_eq!(found("a.rs", &format!("//! | {wide}|\n")), 0);
        assert_eq!(
            found("a.rs", &format!("//! ```text\n//! {wide}\n//! ```\n")),
            0
        );
        // A block ends with the comment that it stands in.
        assert_eq!(
            found("a.rs", &format!("/// ```\nfn a() {{}}\n// {wide}\n")),
            1
        );
        let address = format!("https://example.org/{}", "a".repeat(200));
        assert_eq!(found("a.md", &format!("{address}\n")), 0);
    }
}
