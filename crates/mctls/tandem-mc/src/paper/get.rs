//! A client over `mctls12`: fetches a page through middleboxes.
//!
//! Invariants: nothing comes out that is not vouched for; a page that was cut short is an error;
//! nobody is blamed or named beyond what this protocol can tell.

use std::io::Write;
use std::sync::Arc;

use mctls::party::ContextId;
use mctls_io::Timeouts;
use mctls12::list::{Context, MiddleboxList, Place};
use mctls12::receiver::{Delivery, Provenance};
use mctls12_io::{Error, Roots, connect, prototype};

use super::{Format, Open, open, terms};
use crate::error::McError;
use crate::get::Wanted;
use crate::http::{Event, Head, Messages, Part, Reader, Side, Wrong};
use crate::layout::{Layout, part_of};
use crate::report::{Outcome, Report, Word};
use crate::via::granted;

/// Fetches a page; its content goes to `out` as it comes.
///
/// # Errors
/// What kept the session from being tried: also that a middlebox is missing on which
/// [`Wanted::discovery`] insists. How one went that was tried is in the report.
pub async fn get(
    format: Format,
    wanted: &Wanted,
    out: &mut (dyn Write + Send),
) -> Result<Report, McError> {
    wanted.discovery.check(&wanted.via)?;
    let contexts = granted(&wanted.via, wanted.contexts)?;
    let url = &wanted.url;
    let mut report = Report::planned(Some(url.as_str()), &wanted.via, &contexts);
    report.protocol = match format {
        Format::Own => "mctls12".into(),
        Format::Prototype => "mctls12 of the prototype".into(),
    };
    let server = Place {
        name: url.host.clone(),
        address: wanted.connect.clone().unwrap_or(url.address().to_owned()),
    };
    let middleboxes = wanted.via.iter().map(|argument| Place {
        name: argument.via.name.clone(),
        address: argument.via.address.clone(),
    });
    let contexts = contexts.into_iter().map(|context| Context {
        id: context.id,
        purpose: context.purpose,
        rights: context.rights,
    });
    let list = MiddleboxList::new(server, middleboxes.collect(), contexts.collect());
    let list = list.map_err(|error| McError::Argument(error.to_string()))?;
    let roots = Roots::new(Arc::clone(&wanted.trust), Arc::clone(&wanted.trust));
    let roots = Arc::new(roots);
    let timeouts = Timeouts {
        handshake: wanted.timeout,
        idle: wanted.timeout,
    };
    let connected = match format {
        Format::Own => connect(list, roots, timeouts).await.map(open),
        Format::Prototype => prototype::connect(list, roots, timeouts).await,
    };
    let mut session = match connected {
        Ok(session) => session,
        Err(error) => {
            failed(&mut report, &error);
            return Ok(report);
        }
    };
    report.suite = Some("AES-128-CBC with HMAC-SHA256".into());
    match exchange(format, wanted, &mut session, &mut report, out).await {
        Ok(()) => report.outcome = Outcome::Complete,
        Err(Ended::Output(error)) => {
            session
                .sender
                .abort(&Error::Io(std::io::ErrorKind::Other.into()))
                .await;
            return Err(McError::Output(error));
        }
        Err(Ended::Session(error)) => {
            failed(&mut report, &error);
            session.sender.abort(&error).await;
        }
        Err(Ended::Answer(wrong)) => {
            report.outcome = Outcome::Failed;
            report.problem = Some(format!("the server's answer: {wrong}"));
            session.sender.abort(&Error::Blocked).await;
        }
    }
    Ok(report)
}

/// Why an exchange ended early.
enum Ended {
    Session(Error),
    Answer(Wrong),
    Output(std::io::Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

impl From<Wrong> for Ended {
    fn from(wrong: Wrong) -> Self {
        Self::Answer(wrong)
    }
}

/// How an answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Http,
    /// The prototype's server sends a file as it is, in any contexts.
    Bare,
}

impl Style {
    /// That of an answer that begins with this.
    fn of(format: Format, first: &[u8]) -> Self {
        match format {
            Format::Prototype if !first.starts_with(b"HTTP/") => Self::Bare,
            Format::Own | Format::Prototype => Self::Http,
        }
    }
}

async fn exchange(
    format: Format,
    wanted: &Wanted,
    session: &mut Open,
    report: &mut Report,
    out: &mut (dyn Write + Send),
) -> Result<(), Ended> {
    let terms = terms(&session.list).ok_or(Wrong::Place)?;
    let layout = Layout::of(&terms).ok_or(Wrong::Place)?;
    let mut head = Head::request("GET", &wanted.url.target)
        .with("Host", &wanted.url.authority)
        .with(
            "User-Agent",
            concat!("tandem-mc/", env!("CARGO_PKG_VERSION")),
        )
        .with("Accept", "*/*")
        .with("Connection", "close");
    for (name, value) in &wanted.headers {
        head = head.with(name, value);
    }
    let sender = &mut session.sender;
    sender
        .send(layout.request_headers, &head.to_bytes())
        .await?;
    let mut messages = Messages::new(Side::Responses, Reader::Endpoint);
    messages.expect_answer("GET");
    // Interim answers have no body, and another follows (RFC 9110, section 15.2).
    let mut is_final = false;
    let mut is_whole = false;
    let mut style = None;
    loop {
        let delivery = session.receiver.recv().await?;
        let events = match &delivery {
            // Its end is the session's.
            None if style == Some(Style::Bare) => {
                out.flush().map_err(Ended::Output)?;
                return Ok(session.sender.close().await?);
            }
            None => messages.finish()?.into_iter().collect(),
            Some(delivery) => {
                let context = terms.context(delivery.context).ok_or(Wrong::Place)?;
                note(report, delivery);
                let part = match format {
                    Format::Own => {
                        part_of(&context.purpose, Side::Responses).ok_or(Wrong::Place)?
                    }
                    Format::Prototype => Part::Whole,
                };
                match *style.get_or_insert_with(|| Style::of(format, &delivery.data)) {
                    Style::Http => messages.push(part, &delivery.data)?,
                    Style::Bare => vec![Event::Body(delivery.data.clone())],
                }
            }
        };
        for event in events {
            if is_whole {
                return Err(Wrong::Behind.into());
            }
            match event {
                Event::Head { head, .. } => {
                    report.status = head.status();
                    is_final = report.status.is_none_or(|status| status >= 200);
                }
                Event::Framing(_) => {}
                Event::Body(data) => {
                    out.write_all(&data).map_err(Ended::Output)?;
                    report.body_bytes += u64::try_from(data.len()).unwrap_or(u64::MAX);
                }
                Event::End if is_final => {
                    out.flush().map_err(Ended::Output)?;
                    is_whole = true;
                    session.sender.close().await?;
                }
                Event::End => {}
            }
        }
        match (delivery, is_whole) {
            (None, true) => return Ok(()),
            (None, false) => return Err(Wrong::Cut.into()),
            (Some(_), _) => {}
        }
    }
}

/// Takes over what arrived. A change is a writer's; which one's, is known where there is one.
fn note(report: &mut Report, delivery: &Delivery) {
    let id = delivery.context;
    let writers = with_right(report, id, Word::Write);
    let row = report.contexts.iter_mut().find(|row| row.id == id.0);
    if let Some(row) = row {
        row.bytes += u64::try_from(delivery.data.len()).unwrap_or(u64::MAX);
        if let (Provenance::Changed, [only]) = (delivery.provenance, writers.as_slice()) {
            row.changed.insert(*only);
        }
    }
}

/// Which middleboxes have exactly this right in a context, as it was asked for.
fn with_right(report: &Report, id: ContextId, right: Word) -> Vec<u8> {
    let row = report.contexts.iter().find(|row| row.id == id.0);
    let rights = row.map(|row| row.rights.as_slice()).unwrap_or_default();
    let positions = (1..).zip(rights).filter(|(_, has)| **has == right);
    positions.map(|(position, _)| position).collect()
}

/// Takes over why the session ended.
fn failed(report: &mut Report, error: &Error) {
    report.outcome = Outcome::Failed;
    let mut words = error.to_string();
    let names = report.middleboxes.iter().map(|party| party.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    if error.is_forgery() {
        report.outcome = Outcome::Overstepped;
    }
    if let Some(id) = error.overwritten() {
        report.suspects = with_right(report, id, Word::Read);
        report.overstepped_in = Some(id.0);
    }
    if error.is_cut() && !names.is_empty() {
        words += &format!(
            "; the server went away, or one of {names} did, or blocks, or has less than it needs"
        );
    }
    report.problem = Some(words);
}
