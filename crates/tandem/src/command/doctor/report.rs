//! What was found: checks, each with a verdict and what to do; as text and for programs.
//!
//! Is not: the looking.
//!
//! Invariant: a check that is not `ok` says what to do, in one line.

use std::fmt::{Display, Write as _};

use serde::Serialize;

/// How grave it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    /// Saves less than it could, or may stop working.
    Warning,
    /// Keeps the proxy from working.
    Problem,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What was looked at, in one word.
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
    /// What was found.
    pub(super) found: String,
    /// What to do, unless it is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to_do: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Ok,
            found: found.into(),
            to_do: None,
        }
    }

    pub(super) fn warning(
        name: &'static str,
        found: impl Into<String>,
        to_do: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Warning,
            to_do: Some(to_do.into()),
            ..Self::ok(name, found)
        }
    }

    pub(super) fn problem(
        name: &'static str,
        found: impl Into<String>,
        to_do: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Problem,
            ..Self::warning(name, found, to_do)
        }
    }

    /// Of an error whose message says what is wrong and, behind a semicolon, what to do.
    pub(super) fn of_error(name: &'static str, error: &impl Display) -> Self {
        let message = error.to_string();
        match message.rsplit_once("; ") {
            Some((found, to_do)) => Self::problem(name, found, to_do),
            None => Self::problem(name, message, "see docs/operating.md"),
        }
    }
}

/// All that was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    subject: String,
    checks: Vec<Check>,
}

impl Report {
    pub(super) fn new(subject: String) -> Self {
        Self {
            subject,
            checks: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, check: Check) {
        self.checks.push(check);
    }

    pub(super) fn extend(&mut self, checks: impl IntoIterator<Item = Check>) {
        self.checks.extend(checks);
    }

    fn count(&self, verdict: Verdict) -> usize {
        let checks = self.checks.iter();
        checks.filter(|check| check.verdict == verdict).count()
    }

    pub(super) fn problems(&self) -> usize {
        self.count(Verdict::Problem)
    }

    /// For a person: a line for each check, and below it what to do.
    pub(super) fn text(&self) -> String {
        let names = self.checks.iter().map(|check| check.name.len());
        let width = names.max().unwrap_or_default();
        let mut out = format!("{}\n\n", self.subject);
        for check in &self.checks {
            let (verdict, name) = (check.verdict.name(), check.name);
            let _ = writeln!(out, "  {verdict:<7}  {name:<width$}  {}", check.found);
            if let Some(to_do) = &check.to_do {
                let _ = writeln!(out, "  {:<7}  {:<width$}  -> {to_do}", "", "");
            }
        }
        let _ = writeln!(
            out,
            "\nproblems: {}, warnings: {}, ok: {}",
            self.count(Verdict::Problem),
            self.count(Verdict::Warning),
            self.count(Verdict::Ok)
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_aligned_and_says_what_to_do() {
        let mut report = Report::new("client-side on ppp0".to_owned());
        report.add(Check::ok("link", "ppp0 is up"));
        report.add(Check::of_error(
            "firewall",
            &"cannot find; the program; install it",
        ));
        assert_eq!(
            report.text(),
            "\
client-side on ppp0

  ok       link      ppp0 is up
  problem  firewall  cannot find; the program
                     -> install it

problems: 1, warnings: 0, ok: 1
"
        );
        assert_eq!(report.problems(), 1);
    }
}
