//! Plain words: names and turns of phrase for which this workspace has a plainer one.
//!
//! Is not: spelling, which is `spelling`. A turn is found in prose alone; a name's first part in
//! code. The list grows as the text is cleaned: what stands in it is clean everywhere.

use crate::finding::Finding;
use crate::rust_text::code_only;
use crate::tree::{SourceFile, Tree};

/// First parts of names of constants, and what to write.
const NAMES: [(&str, &str); 7] = [
    ("MOST", "MAX"),
    ("LONGEST", "MAX"),
    ("LARGEST", "MAX"),
    ("SMALLEST", "MIN"),
    ("LEAST", "MIN"),
    ("SHORTEST", "MIN"),
    ("FEWEST", "MIN"),
];
/// Turns of phrase in small letters, and what to write.
const TURNS: [(&str, &str); 8] = [
    ("dear link", "slow link, or metered link"),
    ("bytes are dear", "bytes are expensive"),
    ("nobody need trust", "nobody has to trust"),
    ("lest", "so that ... not"),
    ("whence", "from where"),
    ("thereof", "of it"),
    ("has begun to pass as it is", "started in pass-through"),
    ("thin link", "slow link"),
];
/// The list itself.
const EXEMPT: &str = "xtask/src/words.rs";

/// Names and turns that have a plainer form.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let read = tree.files.iter().filter(|file| file.path != EXEMPT);
    Ok(read.flat_map(judge).collect())
}

fn judge(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line: usize, wrong: &str, right: &str| {
        findings.push(Finding::at(
            &file.path,
            line,
            format!("{wrong}: write {right}"),
        ));
    };
    if file.is_rust() {
        for (number, line) in (1..).zip(code_only(&file.text).lines()) {
            for name in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
                if let Some((first, right)) = banned(name) {
                    report(number, name, &name.replacen(first, right, 1));
                }
            }
        }
    }
    if file.is_rust() || file.path.ends_with(".md") {
        for (number, line) in (1..).zip(file.text.lines()) {
            let said = match file.is_rust() {
                true => line.find("//").map_or("", |at| &line[at..]),
                false => line,
            }
            .to_lowercase();
            for (turn, right) in TURNS.iter().filter(|(turn, _)| says(&said, turn)) {
                report(number, turn, right);
            }
        }
    }
    findings
}

/// The first part of a constant's name that has a plainer form.
fn banned(name: &str) -> Option<(&'static str, &'static str)> {
    let first = name.split('_').next().unwrap_or_default();
    NAMES.into_iter().find(|(wrong, _)| *wrong == first)
}

/// Whether these words stand in the text, not as a part of others.
fn says(text: &str, turn: &str) -> bool {
    text.match_indices(turn).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + turn.len()..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !is_word(before) && !is_word(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::fixture(&[(path, text)]))
            .expect("it reads any text")
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    const CLEAN: [String; 0] = [];

    #[test]
    fn names_of_bounds_are_found_in_code() {
        assert_eq!(
            found("a.rs", "const MOST_BYTES: usize = LEAST;\n"),
            ["MOST_BYTES: write MAX_BYTES", "LEAST: write MIN"]
        );
        assert_eq!(
            found("a.rs", "// MOST of it; \"LEAST\"\nlet almost = most;\n"),
            CLEAN
        );
        assert_eq!(found("a.rs", "const ALMOST_ALL: u8 = MAX_LEAST;\n"), CLEAN);
    }

    #[test]
    fn turns_are_found_in_prose() {
        let message = ["dear link: write slow link, or metered link"];
        assert_eq!(found("a.md", "Over the Dear link.\n"), message);
        assert_eq!(found("a.rs", "/// Over the dear link.\n"), message);
        assert_eq!(found("a.rs", "let a = \"the dear link\";\n"), CLEAN);
        assert_eq!(found("a.md", "the tallest, the dearest links\n"), CLEAN);
    }
}
