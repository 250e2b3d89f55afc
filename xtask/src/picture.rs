//! The tables of crates in `ARCHITECTURE.md` say what the table of layers says.
//!
//! One table a folder, under a heading that names the folder (`` ### `base/`: ... ``); a row is
//! `| crate | kind | what it is | what it uses |`, the last without the prefix `tandem-`. What the
//! crate is, the reader has to judge.

use crate::finding::Finding;
use crate::table::{Kind, LAYERS, Layer};
use crate::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";
/// What stands in the last column for a crate that uses none.
const NONE: &str = "nothing";

/// One row of the page.
#[derive(Debug)]
struct Row<'a> {
    line: usize,
    heading: &'a str,
    name: &'a str,
    kind: &'a str,
    uses: &'a str,
}

/// Crates that the page leaves out or describes otherwise, and rows of no crate.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let text = tree.file(PAGE).map_or("", |file| file.text.as_str());
    Ok(judge(text, LAYERS))
}

fn judge(text: &str, layers: &[Layer]) -> Vec<Finding> {
    let rows = rows(text);
    let mut findings = Vec::new();
    for layer in layers {
        let (kind, uses) = (kind(layer), uses(layer));
        let Some(row) = rows.iter().find(|row| row.name == layer.name) else {
            let message = format!(
                "{} has no row; under `{}`: | `{}` | {kind} | what it is | {uses} |",
                layer.name,
                folder(layer),
                layer.name,
            );
            findings.push(Finding::on(PAGE, message));
            continue;
        };
        let mut report = |what: &str, said: &str, is: &str| {
            if said != is {
                let message = format!("{} {what} {is}, not {said}", layer.name);
                findings.push(Finding::at(PAGE, row.line, message));
            }
        };
        report("is of the kind", row.kind, kind);
        report("uses", row.uses, &uses);
        if !row.heading.contains(&format!("`{}`", folder(layer))) {
            report("stands in", row.heading, folder(layer));
        }
    }
    for (at, row) in rows.iter().enumerate() {
        let known = layers.iter().any(|layer| layer.name == row.name);
        let again = rows[..at].iter().any(|before| before.name == row.name);
        if !known || again {
            let what = if known {
                "has a row already"
            } else {
                "is no crate"
            };
            let message = format!("{} {what}", row.name);
            findings.push(Finding::at(PAGE, row.line, message));
        }
    }
    findings
}

/// The rows of tables with four columns whose first is the name of one of our crates.
fn rows(text: &str) -> Vec<Row<'_>> {
    let mut heading = "";
    let mut rows = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        if content.starts_with('#') {
            heading = content;
        }
        let cells: Vec<&str> = content.split('|').map(str::trim).collect();
        let ["", name, kind, _, uses, ""] = cells[..] else {
            continue;
        };
        let name = name
            .strip_prefix('`')
            .and_then(|name| name.strip_suffix('`'));
        if let Some(name) = name {
            rows.push(Row {
                line,
                heading,
                name,
                kind,
                uses,
            });
        }
    }
    rows
}

/// The system that a crate is a part of: its folder below `crates/`.
fn folder(layer: &Layer) -> &'static str {
    let inside = layer.folder.strip_prefix("crates/").unwrap_or(layer.folder);
    inside.find('/').map_or(inside, |end| &inside[..=end])
}

fn kind(layer: &Layer) -> &'static str {
    match layer.kind {
        Kind::Core => "core",
        Kind::Adapter => "adapter",
        Kind::Program => "program",
        Kind::Testkit => "tests",
    }
}

fn uses(layer: &Layer) -> String {
    let short = |names: &[&str]| {
        let mut names: Vec<&str> = names
            .iter()
            .map(|name| name.strip_prefix("tandem-").unwrap_or(name))
            .collect();
        names.sort_unstable();
        names.join(", ")
    };
    let (shipped, tests) = (short(layer.may_use), short(layer.tests_may_use));
    match (shipped.as_str(), tests.as_str()) {
        ("", "") => NONE.to_owned(),
        (shipped, "") => shipped.to_owned(),
        ("", tests) => format!("{NONE}; tests: {tests}"),
        (shipped, tests) => format!("{shipped}; tests: {tests}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> [Layer; 2] {
        let one = Layer::new("tandem-one", "crates/base/tandem-one", Kind::Core, &[]);
        let two = Layer::new(
            "tandem-two",
            "crates/proxy/tandem-two",
            Kind::Adapter,
            &["tandem-one"],
        );
        [one, two]
    }

    fn found(page: &str) -> Vec<String> {
        judge(page, &layers())
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    const PAGE: &str = "## Crates\n### `base/`: below\n| crate | kind | is | uses |\n|---|---|---|---|\n| `tandem-one` | core | the first | nothing |\n### `proxy/`: above\n| `tandem-two` | adapter | the second | one |\n";

    #[test]
    fn a_page_that_says_what_the_table_says_is_clean() {
        assert_eq!(found(PAGE), Vec::<String>::new());
    }

    #[test]
    fn a_crate_that_is_left_out_is_found_with_the_row_that_it_needs() {
        let page = PAGE.replace("| `tandem-two` | adapter | the second | one |\n", "");
        assert_eq!(
            found(&page),
            [
                "ARCHITECTURE.md: tandem-two has no row; under `proxy/`: | `tandem-two` | adapter | what it is | one |"
            ]
        );
    }

    #[test]
    fn what_is_said_otherwise_is_found() {
        for (from, to, message) in [
            (
                "| adapter |",
                "| core |",
                "is of the kind adapter, not core",
            ),
            ("| one |", "| nothing |", "uses one, not nothing"),
            (
                "`proxy/`",
                "`split/`",
                "stands in proxy/, not ### `split/`: above",
            ),
        ] {
            assert_eq!(
                found(&PAGE.replace(from, to)),
                [format!("ARCHITECTURE.md:7: tandem-two {message}")]
            );
        }
    }

    #[test]
    fn rows_of_no_crate_and_second_rows_are_found() {
        let page = format!("{PAGE}| `tandem-three` | core | the third | one |\n");
        assert_eq!(
            found(&page),
            ["ARCHITECTURE.md:8: tandem-three is no crate"]
        );
        let page = format!("{PAGE}| `tandem-two` | adapter | the second | one |\n");
        assert_eq!(
            found(&page),
            ["ARCHITECTURE.md:8: tandem-two has a row already"]
        );
    }

    #[test]
    fn a_crate_for_tests_alone_is_said_so() {
        let [one, two] = layers();
        let two = Layer {
            tests_may_use: &["tandem-three"],
            ..two
        };
        assert_eq!(uses(&two), "one; tests: three");
        assert_eq!(uses(&one), "nothing");
    }
}
