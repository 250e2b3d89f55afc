//! Spelling: common misspellings in prose and in names, and words written twice in a row.
//!
//! Not a dictionary: an unknown word is fine, a known mistake is not, so a name never has to be
//! declared. The list is `misspellings.txt`, a wrong and a right form a line.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::tree::{SourceFile, Tree};

/// A wrong form, a space, the right form; one pair a line.
const MISSPELLINGS: &str = include_str!("misspellings.txt");
/// The list itself, and the tests of this check.
const EXEMPT: [&str; 2] = ["xtask/src/misspellings.txt", "xtask/src/spelling.rs"];
/// Words that are a slip when they stand twice in a row. Not "that" or "had", which may.
const NEVER_TWICE: [&str; 22] = [
    "the", "a", "an", "of", "to", "in", "is", "it", "and", "or", "for", "by", "on", "at", "as",
    "are", "be", "with", "from", "this", "not", "its",
];

/// Misspelt and doubled words.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let known = known()?;
    let read = tree
        .files
        .iter()
        .filter(|file| !EXEMPT.contains(&file.path.as_str()));
    Ok(read.flat_map(|file| judge(file, &known)).collect())
}

fn known() -> Result<BTreeMap<&'static str, &'static str>, String> {
    let pair = |line: &'static str| {
        line.split_once(' ')
            .ok_or_else(|| format!("misspellings.txt: no right form: {line}"))
    };
    MISSPELLINGS
        .lines()
        .filter(|line| !line.is_empty())
        .map(pair)
        .collect()
}

fn judge(file: &SourceFile, known: &BTreeMap<&str, &str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for word in words(line) {
            if let Some(right) = known.get(word.to_lowercase().as_str()) {
                findings.push(Finding::at(
                    &file.path,
                    number,
                    format!("{word}: write {right}"),
                ));
            }
        }
        if let Some(word) = prose(file, line).and_then(doubled) {
            findings.push(Finding::at(
                &file.path,
                number,
                format!("{word} stands twice"),
            ));
        }
    }
    findings
}

/// The words of a line, where `snake_case` and `CamelCase` names are several words.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphabetic())
        .flat_map(|run| {
            let mut rest = run;
            std::iter::from_fn(move || {
                let starts_camel = |at: usize| {
                    let bytes = rest.as_bytes();
                    bytes[at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase()
                };
                let end = (1..rest.len())
                    .find(|&at| starts_camel(at))
                    .unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                rest = after;
                (!word.is_empty()).then_some(word)
            })
        })
}

/// The part of a line that is prose: all of a page, the comment of a line of code.
fn prose<'a>(file: &SourceFile, line: &'a str) -> Option<&'a str> {
    if file.path.ends_with(".md") {
        return Some(line);
    }
    let marker = if file.is_rust() { "//" } else { "# " };
    line.find(marker).map(|at| &line[at..])
}

fn doubled(prose: &str) -> Option<&str> {
    let words: Vec<&str> = prose.split_whitespace().collect();
    words
        .windows(2)
        .find(|pair| pair[0].eq_ignore_ascii_case(pair[1]) && NEVER_TWICE.contains(&pair[1]))
        .map(|pair| pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::fixture(&[(path, text)]);
        check(&tree)
            .unwrap()
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn misspellings_are_found_in_prose_and_in_names() {
        assert_eq!(
            found("a.md", "We recieve it.\n"),
            ["recieve: write receive"]
        );
        assert_eq!(
            found("a.rs", "fn is_occured() {}\n"),
            ["occured: write occurred"]
        );
        assert_eq!(
            found("a.rs", "struct SeperateFlow;\n"),
            ["Seperate: write separate"]
        );
        assert_eq!(
            found("a.rs", "/// Receives separate flows.\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn doubled_words_are_found_in_prose_only() {
        assert_eq!(found("a.md", "Of the the flow.\n"), ["the stands twice"]);
        assert_eq!(found("a.rs", "// what is is not\n"), ["is stands twice"]);
        assert_eq!(found("a.rs", "let a = a a;\n"), Vec::<String>::new());
        assert_eq!(
            found("a.md", "all that that brings\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_list_is_sound() {
        let known = known().unwrap();
        assert_eq!(
            known.len(),
            MISSPELLINGS.lines().filter(|line| !line.is_empty()).count()
        );
        for (wrong, right) in &known {
            assert!(wrong.bytes().all(|b| b.is_ascii_lowercase()), "{wrong}");
            assert!(
                !known.contains_key(right),
                "{right} is both right and wrong"
            );
        }
    }
}
