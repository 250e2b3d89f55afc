//! What of an HTTP message decides what the ICAP server is shown of it, and how another message can
//! stand in its place.
//!
//! Is not: what becomes of a message ([`super::message`]). Invariant: what stands in a message's
//! place has the length that its own head says, whatever the server's head claims.

use crate::http::{Head, Side, Start, Version};
use crate::icap::reply::Follows;

/// A request that waits for its response.
pub(super) struct Asked {
    /// Its head as a server is shown it; empty where none is asked about responses.
    pub(super) raw: Vec<u8>,
    pub(super) is_head: bool,
}

/// What of the original decides how another can stand in its place.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) side: Side,
    /// Whether its body passes here, and there is one.
    pub(super) body: Seen,
    /// Whether it answers HEAD.
    pub(super) answers_head: bool,
    pub(super) head: Head,
    /// What a request's target begins with for the server: filters know absolute ones alone.
    pub(super) prefix: Option<String>,
}

/// What of a body passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// There is none.
    None,
    All,
    /// This middlebox has no right to it.
    Nothing,
}

/// Lines that say how long a message is.
const LENGTHS: [&str; 3] = ["content-length", "transfer-encoding", "trailer"];

impl Original {
    /// A head from the server with the target in the form in which the original has it.
    pub(super) fn placed(&self, mut head: Head) -> Result<Head, &'static str> {
        if let (Some(prefix), Start::Request { target, .. }) = (&self.prefix, &mut head.start) {
            let rest = target.strip_prefix(prefix.as_str());
            match rest {
                Some("") => *target = "/".into(),
                Some(rest) if rest.starts_with('/') => *target = rest.to_owned(),
                Some(_) | None if target.starts_with('/') => {}
                Some(_) | None => return Err("the ICAP server sends the request elsewhere"),
            }
        }
        Ok(head)
    }

    /// Whether another head says the same: servers add `Via`, and frame bodies anew.
    pub(super) fn is_like(&self, head: &Head) -> bool {
        let lines = |head: &Head| {
            let lines = head.headers.iter().filter_map(|line| {
                let name = line.name.to_ascii_lowercase();
                let is_own = name == "via" || LENGTHS.contains(&name.as_str());
                (!is_own).then(|| (name, line.value.clone()))
            });
            lines.collect::<Vec<_>>()
        };
        let status = self.head.status() == head.status();
        let request = (self.head.method(), self.head.target()) == (head.method(), head.target());
        status && request && lines(&self.head) == lines(head)
    }

    /// The head that goes on in the place of this one's.
    pub(super) fn replaced(&self, mut head: Head, body: Follows) -> Result<Vec<u8>, &'static str> {
        for name in LENGTHS {
            head.remove(name);
        }
        head.version = Version::Http11;
        let status = head.status();
        if status.is_some_and(|status| status < 200) {
            return Err("the ICAP server's message is none that can be final");
        }
        let is_bare = matches!(status, Some(204 | 304));
        head = match (body, self.body) {
            (Follows::Body, Seen::All) if !is_bare => head.with("Transfer-Encoding", "chunked"),
            (Follows::Body, _) => {
                return Err("the ICAP server's message has no place for its body");
            }
            (Follows::Nothing, Seen::All) if is_bare => head,
            (Follows::Nothing, Seen::All) => head.with("Content-Length", "0"),
            // The body goes by unseen, or there is none: its length stays.
            (Follows::Nothing, Seen::Nothing) => {
                if is_bare {
                    return Err("the ICAP server's message has no place for the body");
                }
                self.with_lines(head)
            }
            (Follows::Nothing, Seen::None) => match (self.side, is_bare) {
                (Side::Requests, _) => self.with_lines(head),
                (Side::Responses, true) => head,
                (Side::Responses, false) if self.answers_head => self.with_lines(head),
                (Side::Responses, false) => head.with("Content-Length", "0"),
            },
        };
        Ok(head.to_bytes())
    }

    fn with_lines(&self, mut head: Head) -> Head {
        let lines = self.head.headers.iter().filter(|line| {
            let name = line.name.to_ascii_lowercase();
            LENGTHS.contains(&name.as_str())
        });
        head.headers.extend(lines.cloned());
        head
    }
}

/// What the target of a request to a server begins with in its absolute form (RFC 9112, section
/// 3.2.2).
pub(super) fn prefix(head: &Head) -> Option<String> {
    let mut hosts = head.values("host");
    let (Some(host), None, Some(target)) = (hosts.next(), hosts.next(), head.target()) else {
        return None;
    };
    let host = std::str::from_utf8(host).ok()?;
    let is_plain = target.starts_with('/') && host.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then(|| format!("https://{host}"))
}

/// A request's head as the server is shown it.
pub(super) fn shown(head: &Head) -> Option<Vec<u8>> {
    let prefix = prefix(head)?;
    let mut head = head.clone();
    if let Start::Request { target, .. } = &mut head.start {
        target.insert_str(0, &prefix);
    }
    Some(head.to_bytes())
}

pub(super) const fn follows(body: Seen) -> Follows {
    match body {
        Seen::All => Follows::Body,
        Seen::None | Seen::Nothing => Follows::Nothing,
    }
}
