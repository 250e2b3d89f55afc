//! Subjects of commits: `area: verb object`, at most 72 columns.
//!
//! Counts from [`SINCE`] on; what is older stays as it is. Says nothing where there is no history
//! to look at: an unpacked archive, a shallow clone, a machine without git. Merges have git's
//! subject.

use std::path::Path;
use std::process::Command;

use crate::finding::Finding;
use crate::tree::Tree;

/// The last commit before the rule.
const SINCE: &str = "98eb26b198b886c9df58dce336d2b8c94bae1ff2";
/// Columns of a subject.
const MAX_SUBJECT: usize = 72;

/// Subjects of another form.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let log = log(&tree.root).unwrap_or_default();
    Ok(judge(&log))
}

/// The commits since [`SINCE`], a line each: abbreviated hash, space, subject. `None` where that
/// commit is no ancestor of this one, or cannot be asked for.
fn log(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    };
    git(&["merge-base", "--is-ancestor", SINCE, "HEAD"])?;
    let range = format!("{SINCE}..HEAD");
    git(&["log", "--no-merges", "--format=%h %s", &range])
}

fn judge(log: &str) -> Vec<Finding> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    commits
        .filter_map(|(hash, subject)| {
            let place = format!("commit {hash}");
            let width = subject.chars().count();
            if width > MAX_SUBJECT {
                let message =
                    format!("its subject has {width} columns, the limit is {MAX_SUBJECT}");
                return Some(Finding::on(&place, message));
            }
            let message = format!("its subject is not `area: verb object`: {subject}");
            (!has_form(subject)).then(|| Finding::on(&place, message))
        })
        .collect()
}

/// Whether this is an area in small letters (or some, with commas between them), a colon, a space
/// and what was done.
fn has_form(subject: &str) -> bool {
    let Some((area, what)) = subject.split_once(": ") else {
        return false;
    };
    let in_area = |c: char| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, ',' | ' ' | '/' | '_' | '-')
    };
    !area.is_empty()
        && area.chars().all(in_area)
        && what.starts_with(|c: char| c.is_ascii_alphabetic())
        && what.contains(' ')
        && !what.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(subject: &str) -> usize {
        judge(&format!("1234567 {subject}\n")).len()
    }

    #[test]
    fn an_area_a_colon_and_what_was_done_is_the_form() {
        assert_eq!(found("delta: check lengths before shifting"), 0);
        assert_eq!(found("split, broker-dns: test guards"), 0);
        for other in [
            "Say what ran beside the measurement",
            "Delta: check lengths",
            ": check lengths",
            "delta:check lengths",
            "delta: ",
            "delta: lengths",
            "delta: check lengths.",
        ] {
            assert_eq!(found(other), 1, "{other}");
        }
    }

    #[test]
    fn a_long_subject_is_found() {
        let of = |columns: usize| format!("delta: check {}", "a".repeat(columns - 13));
        assert_eq!(found(&of(MAX_SUBJECT)), 0);
        assert_eq!(found(&of(MAX_SUBJECT + 1)), 1);
    }

    #[test]
    fn without_a_history_nothing_is_said() {
        assert_eq!(log(Path::new("/nonexistent")), None);
        let nowhere = std::env::temp_dir();
        assert_eq!(log(&nowhere), None);
        assert!(judge("").is_empty());
    }
}
