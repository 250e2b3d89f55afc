//! What a session was to be, and what became of it: who may do what, who saw and changed what, how
//! it ended, and who is to blame.
//!
//! Is not: how it looks ([`crate::table`]). Invariants: what the protocol has proved and what a
//! server says are told apart; nobody is blamed beyond what the protocol can tell.

use std::collections::{BTreeMap, BTreeSet};

use mctls::config::{Context, Right, Terms};
use mctls::error::{Alert, Breach, Check, Policy};
use mctls::party::{ContextId, Position};
use mctls::receiver::{Delivery, Provenance};
use mctls_io::{Error, Part};
use serde::{Deserialize, Serialize};

use crate::discover::Found;
use crate::layout::{ALL, DIGEST, FOUR, Kind};
use crate::offers::Statement;
use crate::via::{Grants, ViaArgument};

/// The version of the form in which reports are written.
pub const VERSION: u32 = 1;

/// A session, planned or over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// What was asked for; none in a plan without a URL.
    pub url: Option<String>,
    /// The protocol.
    pub protocol: String,
    /// How records were protected, once that was agreed on.
    pub suite: Option<String>,
    /// The middleboxes, the nearest to the client first.
    pub middleboxes: Vec<Party>,
    /// What DNS said of middleboxes, where it was asked.
    #[serde(default)]
    pub found: Vec<Found>,
    /// The contexts.
    pub contexts: Vec<Row>,
    /// How it ended.
    pub outcome: Outcome,
    /// The status code of the answer.
    pub status: Option<u16>,
    /// How many bytes of content the answer had, decompressed.
    pub body_bytes: u64,
    /// Whether the content was what the server vouched for, where a context is there for that.
    #[serde(default)]
    pub content: Option<Content>,
    /// How many bytes of the body have left the server, as it says; fewer where a cache has filled
    /// the body in.
    #[serde(default)]
    pub sent_bytes: Option<u64>,
    /// Who has filled the body in.
    #[serde(default)]
    pub filled_by: BTreeSet<u8>,
    /// Who ended the session, if a middlebox did: its number.
    pub ended_by: Option<u8>,
    /// Who may have overstepped: all that the protocol cannot tell apart.
    pub suspects: Vec<u8>,
    /// In which context, by its number.
    pub overstepped_in: Option<u8>,
    /// What went wrong, in words.
    pub problem: Option<String>,
}

/// A middlebox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Its number, from 1 next to the client.
    pub position: u8,
    /// The name in its certificate.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// The name under which DNS proposed it; none where the user named it himself.
    #[serde(default)]
    pub found_by: Option<String>,
    /// Why it has the rights it has, where they are a kind's.
    pub why: Option<String>,
}

/// A context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its number.
    pub id: u8,
    /// Its purpose.
    pub name: String,
    /// What each middlebox may do.
    pub rights: Vec<Word>,
    /// Which middleboxes have seen data of it.
    pub saw: BTreeSet<u8>,
    /// Which have changed some.
    pub changed: BTreeSet<u8>,
    /// How many bytes arrived in it, here or, of the request, at the server.
    pub bytes: u64,
}

/// A right, in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// Neither read nor write.
    None,
    /// Read.
    Read,
    /// Read and write.
    Write,
}

impl From<Right> for Word {
    fn from(right: Right) -> Self {
        match right {
            Right::None => Self::None,
            Right::Read => Self::Read,
            Right::Write => Self::Write,
        }
    }
}

/// What content was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// What the server vouched for.
    Same,
    /// Something else, by a middlebox that may.
    Other,
}

/// Whether bodies of responses are in a context with this purpose.
pub(crate) fn carries_bodies(purpose: &str) -> bool {
    [FOUR[3], ALL].contains(&purpose)
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It has not begun.
    Planned,
    /// Everything came, and every byte is vouched for.
    Complete,
    /// A middlebox did not let it through.
    Blocked,
    /// Somebody did what he may not.
    Overstepped,
    /// Anything else.
    Failed,
}

impl Report {
    /// A session by these middleboxes, with these contexts, before it begins.
    #[must_use]
    pub fn planned(url: Option<&str>, via: &[ViaArgument], contexts: &[Context]) -> Self {
        let middleboxes = (1..).zip(via).map(|(position, argument)| Party {
            position,
            name: argument.via.name.clone(),
            address: argument.via.address.clone(),
            found_by: argument.found_by.clone(),
            why: match &argument.grants {
                Grants::Kind(kind) => Some(kind.why().to_owned()),
                Grants::Some(_) => None,
            },
        });
        let rows = contexts.iter().map(|context| Row {
            id: context.id.0,
            name: context.purpose.clone(),
            rights: context.rights.iter().copied().map(Word::from).collect(),
            saw: BTreeSet::new(),
            changed: BTreeSet::new(),
            bytes: 0,
        });
        Self {
            version: VERSION,
            url: url.map(str::to_owned),
            protocol: "mctls13".into(),
            suite: None,
            middleboxes: middleboxes.collect(),
            found: Vec::new(),
            contexts: rows.collect(),
            outcome: Outcome::Planned,
            status: None,
            body_bytes: 0,
            content: None,
            sent_bytes: None,
            filled_by: BTreeSet::new(),
            ended_by: None,
            suspects: Vec::new(),
            overstepped_in: None,
            problem: None,
        }
    }

    /// Takes over what was agreed on.
    pub fn agreed(&mut self, terms: &Terms) {
        for (row, context) in self.contexts.iter_mut().zip(terms.contexts()) {
            row.rights = context.rights.iter().copied().map(Word::from).collect();
        }
    }

    /// Takes over what arrived.
    pub fn note(&mut self, seen: &Seen) {
        for (name, marks) in &seen.0 {
            if let Some(row) = self.contexts.iter_mut().find(|row| row.name == *name) {
                row.saw.extend(&marks.saw);
                row.changed.extend(&marks.changed);
                row.bytes += marks.bytes;
            }
        }
    }

    /// Takes over why the session ended.
    pub fn failed(&mut self, error: &Error) {
        let judged = Judged::of(error, self);
        self.outcome = judged.outcome;
        self.ended_by = judged.ended_by;
        self.suspects = judged.suspects;
        self.overstepped_in = judged.overstepped_in;
        self.problem = Some(judged.words);
    }

    /// Takes over what the server says of the body, and whether the content may be taken: not where
    /// a kind of middlebox that leaves content as it is has made another of it.
    pub(crate) fn vouched(&mut self, digest: Option<&str>, statement: Option<&Statement>) -> bool {
        let is_asked_for = self.contexts.iter().any(|row| row.name == DIGEST);
        let body = self.contexts.iter().find(|row| carries_bodies(&row.name));
        let (true, Some(body)) = (is_asked_for, body) else {
            return true;
        };
        let Some(statement) = statement else {
            // Nothing had a body, or the server does not say what it was.
            return self.body_bytes == 0 || body.changed.is_empty();
        };
        let is_same = digest == Some(&statement.digest);
        self.content = Some(match is_same {
            true => Content::Same,
            false => Content::Other,
        });
        self.sent_bytes = Some(statement.sent);
        if statement.sent < body.bytes {
            let others = body.changed.iter();
            let others = others.filter(|position| {
                let party = self
                    .middleboxes
                    .iter()
                    .find(|one| one.position == **position);
                party.is_some_and(|party| party.why.as_deref() != Some(Kind::Compress.why()))
            });
            self.filled_by = others.copied().collect();
        }
        // Whoever was granted a right by its context alone may put other content there.
        let is_free = self
            .middleboxes
            .iter()
            .zip(&body.rights)
            .any(|(party, right)| party.why.is_none() && *right == Word::Write);
        is_same || is_free
    }

    /// The content is not what the server vouched for: those who may write it are suspected.
    pub(crate) fn altered(&mut self) {
        let body = self.contexts.iter().find(|row| carries_bodies(&row.name));
        let Some(body) = body else { return };
        let id = body.id;
        self.suspects = body.changed.iter().copied().collect();
        self.outcome = Outcome::Overstepped;
        self.overstepped_in = Some(id);
        let names: Vec<String> = self.suspects.iter().map(|one| self.named(*one)).collect();
        self.problem = Some(format!(
            "the content is not what the server vouched for; {} changed it",
            match names.as_slice() {
                [] => "nobody who said so".to_owned(),
                names => names.join(", "),
            }
        ));
    }

    /// A middlebox as people call it.
    fn named(&self, position: u8) -> String {
        let party = self.middleboxes.iter().find(|one| one.position == position);
        party.map_or_else(
            || format!("middlebox {position}"),
            |party| format!("{} (middlebox {position})", party.name),
        )
    }

    /// Which middleboxes have exactly this right in a context.
    fn with_right(&self, id: ContextId, right: Word) -> Vec<u8> {
        let row = self.contexts.iter().find(|row| row.id == id.0);
        let rights = row.map(|row| row.rights.as_slice()).unwrap_or_default();
        let positions = (1..).zip(rights).filter(|(_, has)| **has == right);
        positions.map(|(position, _)| position).collect()
    }
}

/// What an error says, and of whom.
struct Judged {
    outcome: Outcome,
    ended_by: Option<u8>,
    suspects: Vec<u8>,
    overstepped_in: Option<u8>,
    words: String,
}

impl Judged {
    fn of(error: &Error, report: &Report) -> Self {
        let mut judged = Self {
            outcome: Outcome::Failed,
            ended_by: None,
            suspects: Vec::new(),
            overstepped_in: None,
            words: error.to_string(),
        };
        if let Error::Session(session) = error {
            judged.session(*session, report);
        }
        if let Error::Tls {
            part: Part::Leg(position),
            ..
        }
        | Error::TimedOut(Part::Leg(position), _) = error
        {
            judged.name(*position, report);
        }
        judged
    }

    fn session(&mut self, error: mctls::Error, report: &Report) {
        match error {
            mctls::Error::Policy(Policy::MiddleboxAlert(position, alert)) => {
                self.ended_by = Some(position.number());
                let name = report.named(position.number());
                self.words = match alert {
                    Alert::Blocked => {
                        self.outcome = Outcome::Blocked;
                        format!("{name} blocked the exchange")
                    }
                    Alert::BadRecord => {
                        self.outcome = Outcome::Overstepped;
                        format!("{name} found a record that somebody before it may not have made")
                    }
                    alert => format!("{name} ended the session: {alert}"),
                };
            }
            mctls::Error::Policy(Policy::PeerAlert(Alert::BadRecord)) => {
                self.outcome = Outcome::Overstepped;
                self.words =
                    "the server found a record that somebody on the path may not have made".into();
            }
            mctls::Error::Policy(Policy::TooLittle(position, _))
            | mctls::Error::Peer(Breach::Stripped(position, _)) => {
                self.name(position, report);
                self.words += "; nothing was sent";
            }
            mctls::Error::Forged(check) => self.forged(check, report),
            mctls::Error::Peer(Breach::Sequence { .. } | Breach::Part) => {
                self.outcome = Outcome::Overstepped;
                self.words += "; somebody on the path dropped, repeated or moved a record";
            }
            mctls::Error::Peer(Breach::Author(position)) => {
                self.outcome = Outcome::Overstepped;
                self.suspects = vec![position.number()];
                self.name(position, report);
            }
            mctls::Error::Peer(Breach::Truncated) => {
                let parties = report.middleboxes.iter().map(|party| party.name.as_str());
                let parties: Vec<&str> = parties.collect();
                if !parties.is_empty() {
                    self.words += &format!("; {} or the server went away", parties.join(", "));
                }
            }
            mctls::Error::Peer(_)
            | mctls::Error::Policy(_)
            | mctls::Error::Malformed(_)
            | mctls::Error::Caller(_) => {}
        }
    }

    fn forged(&mut self, check: Check, report: &Report) {
        self.outcome = Outcome::Overstepped;
        let (id, right, but) = match check {
            Check::WriterTag(id) => (id, Word::Read, "may only read it"),
            Check::EndpointTag(id) => (id, Word::Write, "has to say so"),
            Check::AuthorTag(position)
            | Check::PathSkipped(position)
            | Check::PathStamp(position)
            | Check::LegBinding(position)
            | Check::Confirm(position) => return self.name(position, report),
            // The last two are between middleboxes.
            Check::Aead(_)
            | Check::ShareDigest
            | Check::Transcript
            | Check::Ready
            | Check::Pair
            | Check::Restored(_) => return,
        };
        self.suspects = report.with_right(id, right);
        self.overstepped_in = Some(id.0);
        let names: Vec<String> = self.suspects.iter().map(|one| report.named(*one)).collect();
        let context = report.contexts.iter().find(|row| row.id == id.0);
        let context = context.map_or_else(|| id.to_string(), |row| row.name.clone());
        // Whoever is on the way can spoil a tag, so this is a suspicion and no proof.
        self.words = match names.as_slice() {
            [] => format!("{context} was changed by somebody who may not"),
            [one] => format!("{context} was changed, and {one}, which {but}, is suspected"),
            several => format!(
                "{context} was changed, and one of {}, which {but}, is suspected",
                several.join(", ")
            ),
        };
    }

    /// Adds the name of a middlebox that the words have by its number.
    fn name(&mut self, position: Position, report: &Report) {
        let number = position.to_string();
        let name = report.named(position.number());
        self.words = self.words.replacen(&number, &name, 1);
    }
}

/// Who saw and changed what arrived, by contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(BTreeMap<String, Marks>);

/// In one context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Marks {
    saw: BTreeSet<u8>,
    changed: BTreeSet<u8>,
    bytes: u64,
}

impl Seen {
    /// Takes what is known of data that has arrived in the context of this purpose.
    pub fn note(&mut self, purpose: &str, delivery: &Delivery) {
        let marks = self.0.entry(purpose.to_owned()).or_default();
        marks.bytes += u64::try_from(delivery.payload.len()).unwrap_or(u64::MAX);
        let numbers = |positions: &[Position]| -> Vec<u8> {
            positions.iter().map(|position| position.number()).collect()
        };
        marks.saw.extend(numbers(&delivery.seen_by));
        if let Provenance::ChangedBy(positions) = &delivery.provenance {
            marks.changed.extend(numbers(positions));
        }
    }

    /// As a header's value: `request-headers bytes=80 saw=1+2 changed=2`, with commas between.
    #[must_use]
    pub fn to_header(&self) -> String {
        let list = |name: &str, numbers: &BTreeSet<u8>| {
            let numbers: Vec<String> = numbers.iter().map(u8::to_string).collect();
            match numbers.is_empty() {
                true => String::new(),
                false => format!(" {name}={}", numbers.join("+")),
            }
        };
        let parts = self.0.iter().map(|(name, marks)| {
            let (saw, changed) = (list("saw", &marks.saw), list("changed", &marks.changed));
            format!("{name} bytes={}{saw}{changed}", marks.bytes)
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Out of such a value; what cannot be read is left out. Only requests are a server's to tell.
    #[must_use]
    pub fn of_header(value: &str) -> Self {
        let mut seen = Self::default();
        for part in value.split(", ").take(FOUR.len() + 1) {
            let mut words = part.split(' ');
            let Some(name) = words.next() else { continue };
            let mut marks = Marks::default();
            for word in words {
                let numbers = |text: &str| -> BTreeSet<u8> {
                    let numbers = text.split('+').filter_map(|number| number.parse().ok());
                    numbers
                        .filter(|number| Position::new(*number).is_some())
                        .collect()
                };
                match word.split_once('=') {
                    Some(("bytes", text)) => marks.bytes = text.parse().unwrap_or_default(),
                    Some(("saw", text)) => marks.saw = numbers(text),
                    Some(("changed", text)) => marks.changed = numbers(text),
                    Some(_) | None => {}
                }
            }
            seen.0.insert(name.to_owned(), marks);
        }
        seen
    }

    /// Without what is told of any other context than these.
    #[must_use]
    pub fn only(mut self, purposes: &[&str]) -> Self {
        self.0.retain(|name, _| purposes.contains(&name.as_str()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::via::granted;

    fn report(via: &[&str]) -> Report {
        let via: Vec<_> = via
            .iter()
            .map(|text| ViaArgument::parse(text).expect("good"))
            .collect();
        let contexts = granted(&via, 4).expect("good");
        Report::planned(None, &via, &contexts)
    }

    fn position(number: u8) -> Position {
        Position::new(number).expect("a position")
    }

    fn judged(report: &Report, error: impl Into<mctls::Error>) -> Report {
        let mut report = report.clone();
        report.failed(&Error::Session(error.into()));
        report
    }

    #[test]
    fn a_reader_that_writes_is_named_where_it_is_the_only_one() {
        let body = ContextId(4);
        let one = report(&["a.example@h:1=ids", "b.example@h:1=filter"]);
        let caught = judged(&one, Check::WriterTag(body));
        assert_eq!(
            (caught.outcome, caught.suspects),
            (Outcome::Overstepped, vec![1])
        );
        let words = "response-body was changed, and a.example (middlebox 1), which may only read \
            it, is suspected";
        assert_eq!(caught.problem.as_deref(), Some(words));
        let two = report(&["a.example@h:1=ids", "b.example@h:1=ids"]);
        let caught = judged(&two, Check::WriterTag(body));
        assert_eq!(caught.suspects, [1, 2]);
        // A writer has the key of that tag.
        let mixed = report(&["a.example@h:1=compress", "b.example@h:1=ids"]);
        assert_eq!(judged(&mixed, Check::WriterTag(body)).suspects, [2]);
        assert_eq!(judged(&mixed, Check::EndpointTag(body)).suspects, [1]);
    }

    #[test]
    fn a_middlebox_that_blocks_is_named_and_nobody_is_blamed() {
        let plan = report(&["a.example@h:1=filter"]);
        let blocked = judged(&plan, Policy::MiddleboxAlert(position(1), Alert::Blocked));
        assert_eq!(
            (blocked.outcome, blocked.ended_by),
            (Outcome::Blocked, Some(1))
        );
        let words = "a.example (middlebox 1) blocked the exchange";
        assert_eq!(blocked.problem.as_deref(), Some(words));
        assert!(blocked.suspects.is_empty());
    }

    #[test]
    fn whoever_has_no_key_is_not_made_a_middlebox() {
        let plan = report(&["a.example@h:1=ids"]);
        let caught = judged(&plan, Check::Aead(ContextId(4)));
        assert_eq!(
            (caught.outcome, caught.suspects),
            (Outcome::Overstepped, vec![])
        );
    }

    #[test]
    fn what_a_server_saw_crosses_in_a_header() {
        let marks = |saw: &[u8], changed: &[u8]| Marks {
            saw: saw.iter().copied().collect(),
            changed: changed.iter().copied().collect(),
            bytes: 80,
        };
        let seen = Seen(BTreeMap::from([
            (FOUR[0].to_owned(), marks(&[1, 2], &[2])),
            (FOUR[1].to_owned(), marks(&[], &[])),
        ]));
        let value = seen.to_header();
        assert_eq!(
            value,
            "request-body bytes=80, request-headers bytes=80 saw=1+2 changed=2"
        );
        assert_eq!(Seen::of_header(&value), seen);
        for odd in ["", "x", "request-headers saw=0+17+x", "a=b, , c"] {
            let _ = Seen::of_header(odd);
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let plan = report(&["a.example@h:1=filter", "h:2"]);
        let text = serde_json::to_string(&plan).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Report>(&text).expect("a report"),
            plan
        );
    }
}
