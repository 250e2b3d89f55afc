//! A tracker blocker: takes out of headers what tells a site who comes back, and from where.
//!
//! Writes the heads of requests and responses, and sees no body. At hosts that are listed, or at
//! all where none are, it removes `Cookie`, `Referer`, `Origin` and what else is named, and
//! `Set-Cookie` and `ETag` of the responses.
//!
//! Is not: a blocker of pages. Invariant: a request to another host goes on as its very bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::boxes::filter::{host_of, is_below};
use crate::error::McError;
use crate::http::{Head, MAX_HEADERS, Side};
use crate::service::{Decision, HttpService};
use crate::settings::BoxSettings;

/// What is taken out of requests and of responses.
const FOLLOWS: [&str; 5] = ["Cookie", "Referer", "Origin", "Set-Cookie", "ETag"];

/// Where, and what.
#[derive(Debug)]
pub(crate) struct Rules {
    hosts: Vec<String>,
    names: Vec<String>,
}

impl Rules {
    pub(crate) fn of(settings: &BoxSettings) -> Result<Self, McError> {
        let names = match settings.headers.as_slice() {
            [] => FOLLOWS.map(str::to_owned).to_vec(),
            named => named.to_vec(),
        };
        for name in &names {
            let vital = ["host", "content-length", "transfer-encoding", "connection"];
            if name.is_empty() || vital.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(McError::config(&format!(
                    "headers: {name:?} cannot be taken out of a message"
                )));
            }
        }
        let hosts = settings.hosts.iter();
        Ok(Self {
            hosts: hosts.map(|host| host.to_ascii_lowercase()).collect(),
            names,
        })
    }

    fn is_listed(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|listed| is_below(host, listed))
    }
}

/// For one session.
pub(crate) struct Tracker {
    rules: Arc<Rules>,
    /// Of requests whose responses have not come: whether they went to a host that is listed.
    asked: VecDeque<bool>,
}

impl Tracker {
    pub(crate) fn new(rules: Arc<Rules>) -> Self {
        Self {
            rules,
            asked: VecDeque::new(),
        }
    }
}

impl HttpService for Tracker {
    fn head(&mut self, side: Side, head: &mut Head) -> Decision {
        let is_listed = match side {
            Side::Requests => {
                // Which of two hosts a server takes, nobody knows.
                let is_listed = host_of(head).is_none_or(|host| self.rules.is_listed(&host));
                if self.asked.len() == MAX_HEADERS {
                    return Decision::Block("too many requests without an answer");
                }
                self.asked.push_back(is_listed);
                is_listed
            }
            // An interim response is not the answer yet.
            Side::Responses if head.status().is_some_and(|status| status < 200) => {
                self.asked.front().copied().unwrap_or(true)
            }
            Side::Responses => self.asked.pop_front().unwrap_or(true),
        };
        let before = head.headers.len();
        if is_listed {
            for name in &self.rules.names {
                head.remove(name);
            }
        }
        match head.headers.len() < before {
            true => Decision::Change,
            false => Decision::Pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracker(hosts: &[&str]) -> Tracker {
        let settings = BoxSettings {
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            ..BoxSettings::default()
        };
        Tracker::new(Arc::new(Rules::of(&settings).expect("good settings")))
    }

    fn request(host: &str) -> Head {
        Head::request("GET", "/")
            .with("Host", host)
            .with("cookie", "id=1")
            .with("Accept", "*/*")
    }

    #[test]
    fn what_follows_a_person_goes_and_everything_else_stays() {
        let mut tracker = tracker(&[]);
        let mut head = request("ads.example");
        assert_eq!(tracker.head(Side::Requests, &mut head), Decision::Change);
        assert_eq!(head.text("cookie"), None);
        assert_eq!(head.text("accept"), Some("*/*"));
        let mut answer = Head::response(200, "OK").with("Set-Cookie", "id=1");
        assert_eq!(tracker.head(Side::Responses, &mut answer), Decision::Change);
        assert!(answer.headers.is_empty());
    }

    #[test]
    fn only_hosts_that_are_listed_are_touched_and_answers_belong_to_their_requests() {
        let mut tracker = tracker(&["ads.example"]);
        let mut good = request("x.example");
        assert_eq!(tracker.head(Side::Requests, &mut good), Decision::Pass);
        let mut bad = request("a.ads.example");
        assert_eq!(tracker.head(Side::Requests, &mut bad), Decision::Change);
        let answer = || Head::response(200, "OK").with("Set-Cookie", "id=1");
        assert_eq!(tracker.head(Side::Responses, &mut answer()), Decision::Pass);
        assert_eq!(
            tracker.head(Side::Responses, &mut answer()),
            Decision::Change
        );
    }

    #[test]
    fn what_a_message_needs_cannot_be_taken_out() {
        let settings = BoxSettings {
            headers: vec!["Content-Length".into()],
            ..BoxSettings::default()
        };
        assert!(Rules::of(&settings).is_err());
    }
}
