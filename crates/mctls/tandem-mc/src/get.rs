//! A client: fetches a page through middleboxes, and reports who did what.
//!
//! Is not: a browser. Invariants: nothing is sent before both ends have agreed to what was asked
//! for; nothing comes out that is not vouched for; a page that was cut short is an error.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use flate2::write::GzDecoder;
use mctls::error::{Alert, Breach};
use mctls::suite::Suite;
use mctls_io::{
    Client, ClientSettings, Connected, Error, Fallback, KeyExchange, Session, Timeouts,
};
use rustls::RootCertStore;

use crate::discover::{Discovery, Missing, blamed};
use crate::error::McError;
use crate::http::{Event, Head, Messages, Reader, Side, Wrong};
use crate::layout::{ALL, FOUR, Layout, OFFERS, part_of};
use crate::offers::{Digest, Hasher, NOTHING, Statement};
use crate::report::{Outcome, Report, Seen};
use crate::serve::SEEN;
use crate::via::{ViaArgument, granted, host_of};

/// A page's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    text: String,
    pub(crate) host: String,
    pub(crate) authority: String,
    address: String,
    pub(crate) target: String,
}

impl Url {
    /// One out of its text: `https://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text
            .strip_prefix("https://")
            .ok_or("write https://HOST[:PORT]/PATH")?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("write what is neither ASCII nor visible as %XX".into());
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let slash = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(slash);
        if authority.contains('@') {
            return Err("names and passwords do not belong into a URL".into());
        }
        let address = match authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => authority.to_owned(),
            Some(_) | None => format!("{authority}:443"),
        };
        let host = host_of(&address).ok_or("write https://HOST[:PORT]/PATH")?;
        Ok(Self {
            text: text.to_owned(),
            host: host.to_owned(),
            authority: authority.to_owned(),
            target: match target.starts_with('/') {
                true => target.to_owned(),
                false => format!("/{target}"),
            },
            address,
        })
    }

    /// Where its server is, unless it is said otherwise.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The host in it, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// What to do where the server grants less than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Less {
    /// Send nothing, and say so: a filter that sees nothing filters nothing.
    Refuse,
    /// Go on.
    Accept,
}

/// What to fetch, and how.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The page.
    pub url: Url,
    /// Where its server is, if not where the URL says.
    pub connect: Option<String>,
    /// The middleboxes, the nearest first.
    pub via: Vec<ViaArgument>,
    /// What DNS said of middleboxes, those among them that it has proposed included, and what to do
    /// where one is missing.
    pub discovery: Discovery,
    /// Into how many contexts the data is divided.
    pub contexts: u8,
    /// Authorities of the server and of middleboxes.
    pub trust: Arc<RootCertStore>,
    /// More header lines.
    pub headers: Vec<(String, String)>,
    /// How long to wait: for the session, and for anything at all in it.
    pub timeout: Duration,
    /// What to do where the server grants less.
    pub less: Less,
}

/// How often a session is tried with middleboxes that DNS has proposed, before it is tried without.
const MAX_TRIES: usize = 2;

/// Fetches a page; its content goes to `out` as it comes.
///
/// # Errors
/// What kept the session from being tried: also that a middlebox is missing on which
/// [`Wanted::discovery`] insists. How one went that was tried is in the report.
pub async fn get(wanted: &Wanted, out: &mut (dyn Write + Send)) -> Result<Report, McError> {
    let (mut via, mut discovery) = (wanted.via.clone(), wanted.discovery.clone());
    discovery.check(&via)?;
    let mut tries = 0;
    let (mut report, mut session) = loop {
        let (mut report, reached) = set_up(wanted, &via).await?;
        tries += 1;
        let error = match reached {
            Ok(session) => {
                report.found = discovery.found;
                break (report, *session);
            }
            Err(error) => error,
        };
        let one = blamed(&error).filter(|_| tries < MAX_TRIES);
        let why = report.problem.as_deref().unwrap_or_default();
        // Nothing was sent yet. What the user has named himself stays.
        let is_to_go_on =
            discovery.missing == Missing::Continue && discovery.drop_from(&mut via, one, why);
        if !is_to_go_on {
            report.found = discovery.found;
            return Ok(report);
        }
    };
    match exchange(wanted, &mut session, &mut report, out).await {
        Ok(()) => report.outcome = Outcome::Complete,
        Err(Ended::Output(error)) => {
            session.sender.abort(Alert::Internal).await;
            return Err(McError::Output(error));
        }
        Err(Ended::Session(error)) => {
            report.failed(&error);
            if let Some(alert) = error.alert() {
                session.sender.abort(alert).await;
            }
        }
        Err(Ended::Content) => report.altered(),
        Err(Ended::Answer(problem)) => {
            report.outcome = Outcome::Failed;
            report.problem = Some(format!("the server's answer: {problem}"));
            session.sender.abort(Alert::DecodeError).await;
        }
    }
    Ok(report)
}

/// Sets a session up by these middleboxes. Where there is none, the report says why.
async fn set_up(
    wanted: &Wanted,
    via: &[ViaArgument],
) -> Result<(Report, Result<Box<Session>, Error>), McError> {
    let contexts = granted(via, wanted.contexts)?;
    let mut report = Report::planned(Some(wanted.url.as_str()), via, &contexts);
    let least = match wanted.less {
        Less::Refuse => contexts
            .iter()
            .map(|context| context.rights.clone())
            .collect(),
        Less::Accept => Vec::new(),
    };
    let client = Client::new(ClientSettings {
        roots: Arc::clone(&wanted.trust),
        middlebox_roots: Arc::clone(&wanted.trust),
        via: via.iter().map(|argument| argument.via.clone()).collect(),
        contexts,
        least,
        suites: Suite::ALL.to_vec(),
        key_exchange: KeyExchange::Hybrid,
        fallback: Fallback::Refuse,
        plain_protocols: Vec::new(),
        timeouts: Timeouts {
            handshake: wanted.timeout,
            idle: wanted.timeout,
        },
    })?;
    let address = wanted.connect.as_deref().unwrap_or(wanted.url.address());
    let error = match client.connect(address, &wanted.url.host).await {
        Ok(Connected::Session(session)) => {
            report.suite = Some(session.configuration.suite.to_string());
            report.agreed(&session.configuration.terms);
            return Ok((report, Ok(session)));
        }
        Ok(Connected::Plain(_)) => Error::PlainTls,
        Err(error) => error,
    };
    report.failed(&error);
    let first = via.first().map_or(address, |one| one.via.address.as_str());
    let cut = mctls::Error::Peer(Breach::Truncated);
    match (&error, &mut report.problem) {
        (Error::Io(_), Some(problem)) => *problem = format!("{first}: {problem}"),
        (Error::Session(error), Some(problem)) if *error == cut && !via.is_empty() => {
            *problem += ", or a middlebox may not connect to what is behind it (its `allow`)";
        }
        (_, Some(_) | None) => {}
    }
    Ok((report, Err(error)))
}

/// Why an exchange ended early.
enum Ended {
    Session(Error),
    Answer(String),
    /// The content is not the server's.
    Content,
    Output(std::io::Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

impl From<Wrong> for Ended {
    fn from(wrong: Wrong) -> Self {
        Self::Answer(wrong.to_string())
    }
}

async fn exchange(
    wanted: &Wanted,
    session: &mut Session,
    report: &mut Report,
    out: &mut (dyn Write + Send),
) -> Result<(), Ended> {
    let terms = session.configuration.terms.clone();
    let layout = Layout::of(&terms).ok_or(Wrong::Place)?;
    let head = request(wanted);
    session
        .sender
        .send(layout.request_headers, &head.to_bytes())
        .await?;
    if let Some(context) = layout.offers {
        session.sender.send(context, NOTHING).await?;
    }
    let mut statement = None;
    let mut messages = Messages::new(Side::Responses, Reader::Endpoint);
    messages.expect_answer("GET");
    let mut answer = Answer::Awaited;
    let mut content = Content::new(out);
    loop {
        let delivery = session.receiver.recv().await?;
        let events = match &delivery {
            None => messages.finish()?.into_iter().collect(),
            Some(delivery) => {
                let context = terms.context(delivery.context).ok_or(Wrong::Place)?;
                let mut seen = Seen::default();
                seen.note(&context.purpose, delivery);
                report.note(&seen);
                if Some(delivery.context) == layout.digest {
                    statement = Statement::parse(&delivery.payload);
                    continue;
                }
                let part = part_of(&context.purpose, Side::Responses).ok_or(Wrong::Place)?;
                messages.push(part, &delivery.payload)?
            }
        };
        for event in events {
            if answer == Answer::Whole {
                return Err(Wrong::Behind.into());
            }
            match event {
                Event::Head { head, .. } => {
                    report.status = head.status();
                    let is_interim = report.status.is_some_and(|status| status < 200);
                    answer = if is_interim {
                        Answer::Interim
                    } else {
                        Answer::Coming
                    };
                    if let Some(seen) = head.text(SEEN) {
                        // A server tells of requests alone: the rest was seen here.
                        let purposes = [FOUR[0], FOUR[1], ALL, OFFERS];
                        report.note(&Seen::of_header(seen).only(&purposes));
                    }
                    content.begin(&head)?;
                }
                Event::Framing(_) => {}
                Event::Body(data) => content.write(&data)?,
                Event::End if answer == Answer::Interim => answer = Answer::Awaited,
                Event::End => {
                    content.end()?;
                    answer = Answer::Whole;
                    session.sender.close().await?;
                }
            }
        }
        report.body_bytes = content.length();
        if delivery.is_none() {
            return match answer {
                Answer::Whole => {
                    let digest = content.digest().map(|digest| digest.to_field());
                    match report.vouched(digest.as_deref(), statement.as_ref()) {
                        true => Ok(()),
                        false => Err(Ended::Content),
                    }
                }
                Answer::Awaited | Answer::Interim | Answer::Coming => Err(Wrong::Cut.into()),
            };
        }
    }
}

/// How far the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Awaited,
    /// One that another follows (RFC 9110, section 15.2).
    Interim,
    Coming,
    Whole,
}

fn request(wanted: &Wanted) -> Head {
    let url = &wanted.url;
    let mut head = Head::request("GET", &url.target)
        .with("Host", &url.authority)
        .with(
            "User-Agent",
            concat!("tandem-mc/", env!("CARGO_PKG_VERSION")),
        )
        .with("Accept", "*/*")
        // A middlebox that compresses does not see requests: whoever grants it that has to take it.
        .with("Accept-Encoding", "gzip")
        .with("Connection", "close");
    for (name, value) in &wanted.headers {
        head = head.with(name, value);
    }
    head
}

/// Counts what is written, and makes its digest.
struct Counted<'a> {
    out: &'a mut (dyn Write + Send),
    length: u64,
    hasher: Hasher,
}

impl Write for Counted<'_> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(data)?;
        self.length += u64::try_from(written).unwrap_or(u64::MAX);
        self.hasher.update(&data[..written.min(data.len())]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Where the content goes, decompressed.
enum Content<'a> {
    Plain(Counted<'a>),
    Gzip(Box<GzDecoder<Counted<'a>>>),
    /// Between the two.
    Nowhere,
}

impl<'a> Content<'a> {
    fn new(out: &'a mut (dyn Write + Send)) -> Self {
        Self::Plain(Counted {
            out,
            length: 0,
            hasher: Hasher::default(),
        })
    }

    fn begin(&mut self, head: &Head) -> Result<(), Ended> {
        let mut codings = head.values("content-encoding");
        match (codings.next(), codings.next()) {
            (None, _) => Ok(()),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"identity") => Ok(()),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"gzip") => {
                *self = match std::mem::replace(self, Self::Nowhere) {
                    Self::Plain(out) => Self::Gzip(Box::new(GzDecoder::new(out))),
                    other @ (Self::Gzip(_) | Self::Nowhere) => other,
                };
                Ok(())
            }
            (Some(_), _) => Err(Ended::Answer("a coding that was not asked for".into())),
        }
    }

    fn write(&mut self, data: &[u8]) -> Result<(), Ended> {
        match self {
            Self::Plain(out) => out.write_all(data).map_err(Ended::Output),
            Self::Gzip(out) => out.write_all(data).map_err(bad_or_output),
            Self::Nowhere => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), Ended> {
        match self {
            Self::Plain(out) => out.flush().map_err(Ended::Output),
            Self::Gzip(out) => {
                out.try_finish().map_err(bad_or_output)?;
                out.get_mut().flush().map_err(Ended::Output)
            }
            Self::Nowhere => Ok(()),
        }
    }

    fn length(&self) -> u64 {
        match self {
            Self::Plain(out) => out.length,
            Self::Gzip(out) => out.get_ref().length,
            Self::Nowhere => 0,
        }
    }
}

impl Content<'_> {
    fn digest(&self) -> Option<Digest> {
        match self {
            Self::Plain(out) => Some(out.hasher.clone().finish()),
            Self::Gzip(out) => Some(out.get_ref().hasher.clone().finish()),
            Self::Nowhere => None,
        }
    }
}

/// What the decoder refuses is the server's fault, all else that of the output.
fn bad_or_output(error: std::io::Error) -> Ended {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match error.kind() {
        InvalidData | InvalidInput | UnexpectedEof => {
            Ended::Answer("content that is no gzip".into())
        }
        _ => Ended::Output(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::discover::Accepted;
    use crate::paper;

    #[tokio::test]
    async fn nothing_is_sent_where_a_middlebox_is_missing_that_must_not_be() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a flag");
        let wanted = Wanted {
            url: Url::parse("https://page.example/").expect("a URL"),
            connect: Some(listener.local_addr().expect("bound").to_string()),
            via: Vec::new(),
            discovery: Discovery {
                found: Vec::new(),
                accepted: vec![Accepted::parse("a.example=filter").expect("good")],
                missing: Missing::Fail,
            },
            contexts: 4,
            trust: Arc::new(RootCertStore::empty()),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            less: Less::Refuse,
        };
        let mut out = Vec::new();
        let refused = get(&wanted, &mut out).await;
        assert!(matches!(refused, Err(McError::Discovery(_))), "{refused:?}");
        let refused = paper::get::get(paper::Format::Own, &wanted, &mut out).await;
        assert!(matches!(refused, Err(McError::Discovery(_))), "{refused:?}");
        assert!(listener.accept().is_err(), "somebody was asked");
    }

    #[test]
    fn urls_are_taken_apart() {
        let parts = |text: &str| {
            let url = Url::parse(text).expect("a URL");
            (url.address().to_owned(), url.authority, url.target)
        };
        let same = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(
            parts("https://a.example"),
            same("a.example:443", "a.example", "/")
        );
        assert_eq!(
            parts("https://a.example:8443/b/c?d#e"),
            same("a.example:8443", "a.example:8443", "/b/c?d")
        );
        assert_eq!(
            parts("https://[::1]:1/?x"),
            same("[::1]:1", "[::1]:1", "/?x")
        );
        assert_eq!(parts("https://[::1]"), same("[::1]:443", "[::1]", "/"));
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "",
            "http://a.example/",
            "https://",
            "https:///x",
            "https://a b/",
            "https://a.example/ x",
            "https://a.example:x/",
            "https://user@a.example/",
            "https://a.example/\u{e9}",
            "https://a.example/\r\nX: y",
        ] {
            assert!(Url::parse(text).is_err(), "{text:?}");
        }
    }
}
