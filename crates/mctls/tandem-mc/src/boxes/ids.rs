//! Intrusion detection: ends a session in which a pattern of an attack passes.
//!
//! Reads everything, changes nothing. A pattern is a string of bytes, looked for in heads and in
//! bodies (without the framing of chunks), also across the borders of records and chunks, and in
//! the target of a request once more with its escapes taken back.
//!
//! Is not: able to look into compressed bodies, nor into what it has no right to. Invariant: it is
//! linear in what passes, whatever the patterns.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::McError;
use crate::http::{Head, Side, unescaped};
use crate::service::{Decision, HttpService};

/// What is looked for.
#[derive(Debug)]
pub(crate) struct Patterns {
    automaton: AhoCorasick,
    /// How much of what passed has to be kept to see a pattern that goes on.
    overlap: usize,
}

impl Patterns {
    pub(crate) fn of(patterns: &[String]) -> Result<Self, McError> {
        if patterns.iter().any(String::is_empty) {
            return Err(McError::config("patterns: an empty one is everywhere"));
        }
        let longest = patterns.iter().map(String::len).max();
        let longest = longest.ok_or_else(|| {
            McError::config(
                "intrusion detection needs patterns; give `patterns = [\"../../etc/passwd\"]`",
            )
        })?;
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .build(patterns)
            .map_err(|error| McError::config(&format!("patterns: {error}")))?;
        Ok(Self {
            automaton,
            overlap: longest - 1,
        })
    }
}

/// The end of what has passed of a body.
#[derive(Debug, Default)]
struct Tail(Vec<u8>);

impl Tail {
    /// Whether a pattern ends in `data`, which follows what came before.
    fn meets(&mut self, patterns: &Patterns, data: &[u8]) -> bool {
        self.0.extend_from_slice(data);
        let met = patterns.automaton.is_match(&self.0);
        let done = self.0.len().saturating_sub(patterns.overlap);
        self.0.drain(..done);
        met
    }
}

/// For one session.
pub(crate) struct Ids {
    patterns: Arc<Patterns>,
    requests: Tail,
    responses: Tail,
}

impl Ids {
    pub(crate) fn new(patterns: Arc<Patterns>) -> Self {
        Self {
            patterns,
            requests: Tail::default(),
            responses: Tail::default(),
        }
    }

    fn tail(&mut self, side: Side) -> &mut Tail {
        match side {
            Side::Requests => &mut self.requests,
            Side::Responses => &mut self.responses,
        }
    }

    fn look(&mut self, side: Side, data: &[u8]) -> Decision {
        let patterns = Arc::clone(&self.patterns);
        match self.tail(side).meets(&patterns, data) {
            true => Decision::Block("a pattern of an attack"),
            false => Decision::Pass,
        }
    }
}

impl HttpService for Ids {
    fn head(&mut self, side: Side, head: &mut Head) -> Decision {
        let meant = unescaped(head.target().unwrap_or_default());
        for text in [meant.as_bytes(), &head.to_bytes()] {
            let decision = self.look(side, text);
            // What lies in two messages is no pattern.
            self.tail(side).0.clear();
            if decision != Decision::Pass {
                return decision;
            }
        }
        Decision::Pass
    }

    fn body(&mut self, side: Side, data: &[u8]) -> Decision {
        self.look(side, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> Ids {
        let patterns = Patterns::of(&["evil".to_owned(), "etc/passwd".to_owned()]);
        Ids::new(Arc::new(patterns.expect("good patterns")))
    }

    #[test]
    fn a_pattern_is_found_wherever_the_borders_of_records_lie() {
        let text = b"nothing, then ../../ETC/passwd and more";
        for size in 1..=text.len() {
            let mut ids = ids();
            let met = text
                .chunks(size)
                .any(|piece| ids.body(Side::Requests, piece) != Decision::Pass);
            assert!(met, "{size}");
        }
    }

    #[test]
    fn what_lies_in_two_directions_or_messages_is_no_pattern() {
        let mut ids = ids();
        assert_eq!(ids.body(Side::Requests, b"ev"), Decision::Pass);
        assert_eq!(ids.body(Side::Responses, b"il"), Decision::Pass);
        assert_eq!(ids.body(Side::Requests, b"en ev"), Decision::Pass);
        let mut head = Head::request("GET", "/");
        assert_eq!(ids.head(Side::Requests, &mut head), Decision::Pass);
        assert_eq!(ids.body(Side::Requests, b"il"), Decision::Pass);
    }

    #[test]
    fn heads_are_looked_at() {
        for target in ["/evil", "/%65v%69l", "/x/%65tc/passwd"] {
            let mut head = Head::request("GET", target);
            let decision = ids().head(Side::Requests, &mut head);
            assert_ne!(decision, Decision::Pass, "{target}");
        }
    }

    #[test]
    fn no_patterns_and_empty_ones_are_refused() {
        assert!(Patterns::of(&[]).is_err());
        assert!(Patterns::of(&[String::new()]).is_err());
    }
}
