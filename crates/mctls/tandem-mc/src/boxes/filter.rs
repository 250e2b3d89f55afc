//! A parental filter: pages that are on its list are blocked before the server sees them.
//!
//! Reads the heads of requests, nothing else. An entry is a host, which stands for those below it
//! as well, or a path from its first slash on, or both: `ads.example`, `/games/`,
//! `a.example/games/`. A path stands for all that begin with its whole words: `/games` for
//! `/games/a`, not `/gamesome`.
//!
//! Is not: a judge of content. Invariant: what it compares is what the server will take it for:
//! case of the host, its port, escapes in the path, `.` and `..` make no difference.

use std::sync::Arc;

use crate::error::McError;
use crate::http::{Head, Side, unescaped};
use crate::service::{Decision, HttpService};

/// What is blocked.
#[derive(Debug)]
pub(crate) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    host: Option<String>,
    path: Option<String>,
}

impl Rules {
    pub(crate) fn of(entries: &[String]) -> Result<Self, McError> {
        if entries.is_empty() {
            return Err(McError::config(
                "a filter without a list blocks nothing; give `block = [\"ads.example\", \"/games/\"]`",
            ));
        }
        let rules = entries.iter().map(|entry| {
            let slash = entry.find('/').unwrap_or(entry.len());
            let (host, path) = entry.split_at(slash);
            if entry.is_empty() || entry.contains(char::is_whitespace) || entry.contains("://") {
                return Err(McError::config(&format!(
                    "block: {entry:?} is neither HOST, /PATH nor HOST/PATH"
                )));
            }
            Ok(Rule {
                host: (!host.is_empty()).then(|| host.to_ascii_lowercase()),
                path: (!path.is_empty()).then(|| plain_path(path)),
            })
        });
        Ok(Self(rules.collect::<Result<_, _>>()?))
    }

    fn blocks(&self, host: &str, path: &str) -> bool {
        self.0.iter().any(|rule| {
            let same_host = rule
                .host
                .as_deref()
                .is_none_or(|wanted| is_below(host, wanted));
            let same_path = rule.path.as_deref().is_none_or(|wanted| {
                path.strip_prefix(wanted)
                    .is_some_and(|rest| wanted.ends_with('/') || !rest.starts_with(is_of_a_word))
            });
            same_host && same_path
        })
    }
}

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_')
}

/// Whether a host is this one, or below it.
pub(crate) fn is_below(host: &str, wanted: &str) -> bool {
    host.strip_suffix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The host that a request is for, in small letters, without its port. `None` where it has none, or
/// two: servers differ in which of them they take.
pub(crate) fn host_of(head: &Head) -> Option<String> {
    let target = head.target()?;
    let absolute = target
        .split_once("://")
        .map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let named = match head.method() {
        Some("CONNECT") => Some(target),
        Some(_) | None => absolute,
    };
    let mut hosts = head.values("host");
    let authority = match (named, hosts.next(), hosts.next()) {
        (_, _, Some(_)) => return None,
        (Some(named), _, None) => named,
        (None, host, None) => std::str::from_utf8(host?).ok()?,
    };
    let authority = authority.rsplit('@').next().unwrap_or_default().trim();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    Some(host.trim_end_matches('.').to_ascii_lowercase())
}

/// A path with escapes taken back, `.` and `..` and double slashes resolved, and no query.
fn plain_path(target: &str) -> String {
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let unescaped = unescaped(path);
    let mut parts: Vec<&str> = Vec::new();
    for part in unescaped.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let end = if unescaped.ends_with('/') && !parts.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{end}", parts.join("/"))
}

/// For one session.
pub(crate) struct Filter(Arc<Rules>);

impl Filter {
    pub(crate) fn new(rules: Arc<Rules>) -> Self {
        Self(rules)
    }
}

impl HttpService for Filter {
    fn head(&mut self, side: Side, head: &mut Head) -> Decision {
        match (side, head.target()) {
            (Side::Requests, Some(target)) => {
                let blocks = |host: &str| self.0.blocks(host, &plain_path(target));
                match host_of(head) {
                    None => Decision::Block("a request without one host"),
                    Some(host) if blocks(&host) => Decision::Block("a page on the list"),
                    Some(_) => Decision::Pass,
                }
            }
            (Side::Requests | Side::Responses, _) => Decision::Pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(entries: &[&str], host: &str, target: &str) -> bool {
        let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
        let rules = Arc::new(Rules::of(&entries).expect("good entries"));
        let mut head = Head::request("GET", target).with("Host", host);
        let decision = Filter::new(rules).head(Side::Requests, &mut head);
        matches!(decision, Decision::Block(_))
    }

    #[test]
    fn hosts_and_those_below_them_are_blocked_and_no_others() {
        let list = ["ads.example"];
        for host in [
            "ads.example",
            "ADS.example:8443",
            "a.ads.example",
            "ads.example.",
        ] {
            assert!(blocked(&list, host, "/"), "{host}");
        }
        for host in ["bads.example", "ads.example.org", "example"] {
            assert!(!blocked(&list, host, "/"), "{host}");
        }
        assert!(blocked(&list, "other.example", "https://ads.example/x"));
        assert!(blocked(&list, "other.example", "https://x@ads.example:1/x"));
    }

    #[test]
    fn a_request_without_one_host_is_blocked() {
        let rules = Arc::new(Rules::of(&["ads.example".to_owned()]).expect("good entries"));
        let mut filter = Filter::new(rules);
        let two = Head::request("GET", "/")
            .with("Host", "a")
            .with("host", "b");
        for mut head in [two, Head::request("GET", "/")] {
            let decision = filter.head(Side::Requests, &mut head);
            assert!(matches!(decision, Decision::Block(_)), "{head:?}");
        }
        let mut tunnel = Head::request("CONNECT", "ads.example:443").with("Host", "a.example");
        let decision = filter.head(Side::Requests, &mut tunnel);
        assert!(matches!(decision, Decision::Block(_)));
    }

    #[test]
    fn paths_and_those_that_begin_with_them_are_blocked_however_they_are_written() {
        for target in [
            "/games/",
            "/games/a",
            "/g%61mes/a",
            "//games//a",
            "/x/../games/a?b",
        ] {
            assert!(blocked(&["/games/"], "x.example", target), "{target}");
        }
        for target in ["/", "/gamesome", "/x/games/", "/?/games/"] {
            assert!(!blocked(&["/games/"], "x.example", target), "{target}");
        }
        assert!(blocked(&["/games"], "x.example", "/games"));
        assert!(blocked(&["/games"], "x.example", "/games.html"));
        assert!(!blocked(&["/games"], "x.example", "/gamesome"));
        assert!(blocked(&["a.example/x"], "a.example", "/x"));
        assert!(!blocked(&["a.example/x"], "b.example", "/x"));
    }

    #[test]
    fn entries_that_could_never_be_met_are_refused() {
        for entry in ["", "a b", "https://a.example/"] {
            assert!(Rules::of(&[entry.to_owned()]).is_err(), "{entry:?}");
        }
        assert!(Rules::of(&[]).is_err());
    }
}
