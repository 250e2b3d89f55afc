//! By how many lines a program for this project's protocol differs from one for plain TLS.
//!
//! Counted are lines that only one of two examples has (what is left without the longest common
//! sequence), both as rustfmt lays them out, without comments and empty lines.

use tandem_report::mctls_row::Lines;

/// What a pair of programs does, over plain TLS, and over contexts.
const PAIRS: [(&str, &str, &str); 2] = [
    (
        "client that fetches a page",
        include_str!("../examples/get-over-tls.rs"),
        include_str!("../examples/get-over-mctls13.rs"),
    ),
    (
        "server of one page",
        include_str!("../examples/serve-over-tls.rs"),
        include_str!("../examples/serve-over-mctls13.rs"),
    ),
];

/// All pairs.
pub(crate) fn all() -> Vec<Lines> {
    let pairs = PAIRS.iter();
    pairs
        .map(|(program, plain, ours)| compare(program, plain, ours))
        .collect()
}

fn compare(program: &str, plain: &str, ours: &str) -> Lines {
    let (plain, ours) = (code(plain), code(ours));
    let common = common(&plain, &ours);
    let count = |lines: usize| u32::try_from(lines).unwrap_or(u32::MAX);
    Lines {
        program: program.to_owned(),
        of: count(plain.len()),
        added: count(ours.len() - common),
        removed: count(plain.len() - common),
    }
}

fn code(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect()
}

/// Length of the longest common sequence.
fn common(left: &[&str], right: &[&str]) -> usize {
    let mut row = vec![0; right.len() + 1];
    for one in left {
        let mut corner = 0;
        for (at, other) in right.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = match one == other {
                true => corner + 1,
                false => above.max(row[at]),
            };
            corner = above;
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_only_one_has_are_counted() {
        let plain = "//! A program.\nuse a;\n\nfn main() {\n    a();\n}\n";
        let ours = "//! Another.\nuse b;\nfn main() {\n    // First.\n    b();\n    a();\n}\n";
        let lines = compare("program", plain, ours);
        assert_eq!((lines.of, lines.added, lines.removed), (4, 2, 1));
    }
}
