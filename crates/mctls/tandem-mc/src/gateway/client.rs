//! Beside a browser: takes plain HTTP/1.1 on this machine, as a proxy (`GET http://NAME/`) or as
//! the host itself (`Host: NAME`), and fetches from the servers that it was told of over sessions
//! with contexts.
//!
//! Is not: an open proxy, nor a way around TLS: `CONNECT` is refused. Invariants: it listens on
//! loopback only; names that it was not told of are refused; a session serves one connection of a
//! browser's, and one server; what was not vouched for is an error, or an answer that is cut short.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mctls::error::Alert;
use mctls::suite::Suite;
use mctls_io::{
    Client, ClientSettings, Connected, Error, Fallback, KeyExchange, Session, SessionReceiver,
    Timeouts,
};
use rustls::RootCertStore;
use serde::Deserialize;
use tandem_daemon::listener;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use crate::error::McError;
use crate::gateway::{Answer, Onward, own_answer, pass_on};
use crate::http::{Event, Head, Messages, Part, Reader, Side, Wrong};
use crate::layout::{Layout, part_of};
use crate::report::{Outcome, Report};
use crate::serve::SEEN;
use crate::sessions::MAX_SESSIONS;
use crate::settings;
use crate::via::{ViaArgument, granted, host_of};

/// How long a session may rest before the next request has one of its own: the other side gives a
/// silent one up after a minute.
const MAX_REST: Duration = Duration::from_secs(20);
/// How much is read at once.
const PIECE: usize = 1 << 14;

/// The settings of a client's gateway.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The servers.
    #[serde(default, rename = "site")]
    pub sites: Vec<SiteSettings>,
}

/// A server, and how it is reached.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteSettings {
    /// Its name, as in `http://NAME/` and in its certificate.
    pub name: String,
    /// Where it is, if not at port 443 of that name.
    #[serde(default)]
    pub connect: Option<String>,
    /// The middleboxes, the nearest first, as for `get`.
    #[serde(default)]
    pub via: Vec<String>,
    /// Into how many contexts to divide: 4 by default.
    #[serde(default)]
    pub contexts: Option<u8>,
}

impl Settings {
    /// Those in a file.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, McError> {
        settings::read(path)
    }
}

/// A server that is known.
struct Site {
    name: String,
    address: String,
    client: Client,
    /// For the words about what goes wrong.
    plan: Report,
}

impl Site {
    fn of(one: &SiteSettings, trust: &Arc<RootCertStore>, wait: Duration) -> Result<Self, McError> {
        let name = one.name.to_ascii_lowercase();
        let wrong = |what: &str| McError::config(&format!("site {name:?}: {what}"));
        let address = one.connect.clone().unwrap_or_else(|| format!("{name}:443"));
        if name.contains(':') || host_of(&address).is_none() {
            return Err(wrong("`name` is a host, and `connect` HOST:PORT"));
        }
        let via = one.via.iter().map(|text| ViaArgument::parse(text));
        let via: Vec<_> = via.collect::<Result<_, _>>().map_err(|why| wrong(&why))?;
        let contexts = granted(&via, one.contexts.unwrap_or(4))?;
        if contexts
            .iter()
            .any(|one| one.purpose == crate::layout::OFFERS)
        {
            return Err(wrong(
                "a cache needs a client that checks it; use `tandem mc get`",
            ));
        }
        let plan = Report::planned(Some(&format!("https://{name}/")), &via, &contexts);
        let client = Client::new(ClientSettings {
            roots: Arc::clone(trust),
            middlebox_roots: Arc::clone(trust),
            via: via.into_iter().map(|argument| argument.via).collect(),
            least: contexts.iter().map(|one| one.rights.clone()).collect(),
            contexts,
            suites: Suite::ALL.to_vec(),
            key_exchange: KeyExchange::Hybrid,
            fallback: Fallback::Refuse,
            plain_protocols: Vec::new(),
            timeouts: Timeouts {
                handshake: wait,
                ..Timeouts::default()
            },
        })?;
        Ok(Self {
            name,
            address,
            client,
            plan,
        })
    }

    /// The status and words for an error.
    fn judge(&self, error: &Error) -> Refusal {
        let mut report = self.plan.clone();
        report.failed(error);
        let text = report.problem.unwrap_or_default();
        match report.outcome {
            Outcome::Blocked => Refusal(403, "Forbidden", text),
            _ => Refusal(502, "Bad Gateway", text),
        }
    }
}

/// An answer of the gateway's own.
struct Refusal(u16, &'static str, String);

/// A gateway that listens, and serves nobody yet.
pub struct ClientGateway {
    listener: TcpListener,
    sites: Arc<[Site]>,
}

impl ClientGateway {
    /// One for these servers.
    ///
    /// # Errors
    /// The address is not one of this machine's alone, or is taken; the settings cannot be.
    pub async fn bind(
        listen: SocketAddr,
        trust: Arc<RootCertStore>,
        settings: &Settings,
        wait: Duration,
    ) -> Result<Self, McError> {
        if !listen.ip().is_loopback() {
            return Err(McError::Argument(
                "--listen: a browser's gateway listens on loopback only, such as 127.0.0.1:8080"
                    .into(),
            ));
        }
        if settings.sites.is_empty() {
            return Err(McError::config(
                "a gateway serves the names that it is told of; give [[site]] with name = \"...\"",
            ));
        }
        let sites = settings.sites.iter().map(|one| Site::of(one, &trust, wait));
        let sites = sites.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            listener: listener::listen("--listen", listen).await?,
            sites: sites.into(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, McError> {
        self.listener.local_addr().map_err(McError::Output)
    }

    /// Serves, for ever.
    pub async fn serve(self) {
        let sites = self.sites;
        listener::serve(self.listener, MAX_SESSIONS, move |stream| {
            let sites = Arc::clone(&sites);
            async move {
                if let Err(why) = connection(&sites, stream).await {
                    tracing::debug!("a browser's connection was ended: {why}");
                }
            }
        })
        .await;
    }
}

/// What a browser asks.
struct Browser {
    read: OwnedReadHalf,
    messages: Messages,
    pending: VecDeque<Event>,
}

/// Why a browser's connection ends early.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Browser(#[from] std::io::Error),
    #[error(transparent)]
    Asked(Wrong),
    #[error(transparent)]
    Session(#[from] Error),
    #[error("the server's answer: {0}")]
    Answer(Wrong),
    #[error("the answer could not be finished")]
    Cut,
}

impl Browser {
    async fn next(&mut self) -> Result<Option<Event>, Ended> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let mut piece = vec![0; PIECE];
            let read = timeout(Timeouts::default().idle, self.read.read(&mut piece)).await;
            let length = read.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
            if length == 0 {
                self.messages.finish().map_err(Ended::Asked)?;
                return Ok(None);
            }
            let events = self.messages.push(Part::Whole, &piece[..length]);
            self.pending.extend(events.map_err(Ended::Asked)?);
        }
    }
}

/// A session that may serve the next request, too.
struct Open {
    site: usize,
    session: Session,
    used: Instant,
}

async fn connection(sites: &[Site], stream: TcpStream) -> Result<(), Ended> {
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.into_split();
    let mut browser = Browser {
        read,
        messages: Messages::new(Side::Requests, Reader::Endpoint),
        pending: VecDeque::new(),
    };
    let mut open: Option<Open> = None;
    loop {
        let head = match browser.next().await {
            Ok(Some(Event::Head { head, .. })) => head,
            Ok(Some(Event::Framing(_) | Event::Body(_) | Event::End)) => continue,
            Ok(None) => return Ok(()),
            Err(Ended::Asked(wrong)) => {
                let refusal = Refusal(400, "Bad Request", wrong.to_string());
                return refuse(&mut write, &refusal).await;
            }
            Err(other) => return Err(other),
        };
        let mut telling = Telling {
            answer: Answer::new(head.method().unwrap_or_default(), head.version),
            is_last: head.closes(),
            has_begun: false,
        };
        let (index, head) = match asked(sites, head) {
            Ok(asked) => asked,
            Err(refusal) => return refuse(&mut write, &refusal).await,
        };
        let Some(site) = sites.get(index) else {
            return Ok(());
        };
        let kept = open
            .take()
            .filter(|open| open.site == index && open.used.elapsed() < MAX_REST);
        let mut session = match kept {
            Some(kept) => kept.session,
            None => match site.client.connect(&site.address, &site.name).await {
                Ok(Connected::Session(session)) => *session,
                Ok(Connected::Plain(_)) => {
                    return refuse(&mut write, &site.judge(&Error::PlainTls)).await;
                }
                Err(error) => return refuse(&mut write, &site.judge(&error)).await,
            },
        };
        let done = exchange(&mut session, &mut browser, &mut write, head, &mut telling).await;
        match done {
            Ok(()) if telling.is_last => {
                // The server has said everything; it may hear that nothing more comes.
                let _ = session.sender.close().await;
                return Ok(());
            }
            Ok(()) => {}
            Err(ended) => {
                let refusal = match &ended {
                    Ended::Session(error) => Some(site.judge(error)),
                    Ended::Answer(wrong) => Some(Refusal(502, "Bad Gateway", wrong.to_string())),
                    Ended::Browser(_) | Ended::Asked(_) | Ended::Cut => None,
                };
                let alert = match &ended {
                    Ended::Session(error) => error.alert(),
                    _ => Some(Alert::Internal),
                };
                if let Some(alert) = alert {
                    session.sender.abort(alert).await;
                }
                if telling.has_begun && telling.answer.is_bare() {
                    // An orderly end would be that of the answer, so the connection is reset.
                    write.as_ref().set_zero_linger()?;
                    write.forget();
                    return Err(ended);
                }
                return match refusal {
                    Some(refusal) if !telling.has_begun => refuse(&mut write, &refusal).await,
                    _ => Err(ended),
                };
            }
        }
        open = Some(Open {
            site: index,
            session,
            used: Instant::now(),
        });
    }
}

/// How an answer goes to the browser.
struct Telling {
    answer: Answer,
    /// Nothing follows on its connection.
    is_last: bool,
    has_begun: bool,
}

/// Says why nothing comes, and that the connection ends.
async fn refuse(write: &mut OwnedWriteHalf, refusal: &Refusal) -> Result<(), Ended> {
    let Refusal(status, reason, text) = refusal;
    let (head, body) = own_answer(*status, reason, text);
    let mut bytes = head.with("Connection", "close").to_bytes();
    bytes.extend(body);
    write.write_all(&bytes).await?;
    Ok(write.shutdown().await?)
}

/// Of which server a request asks, and the request as that server is asked.
fn asked(sites: &[Site], mut head: Head) -> Result<(usize, Head), Refusal> {
    if head.method() == Some("CONNECT") {
        let text = "this gateway opens no TLS connection of yours; ask for http://NAME/, and it \
            fetches from https://NAME/ by itself";
        return Err(Refusal(501, "Not Implemented", text.into()));
    }
    let target = head.target().unwrap_or_default();
    let absolute = target.split_once("://").map(|(_, rest)| {
        let slash = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let slash = if path.starts_with('/') { "" } else { "/" };
        (authority.to_owned(), format!("{slash}{path}"))
    });
    let hosts: Vec<&[u8]> = head.values("host").collect();
    let host = match hosts.as_slice() {
        [host] => String::from_utf8_lossy(host).into_owned(),
        // Which of two is meant, nobody knows.
        _ => String::new(),
    };
    let (authority, target) = absolute.unwrap_or((host, target.to_owned()));
    let name = authority
        .rsplit_once(':')
        .map_or(authority.as_str(), |(name, _)| name);
    let name = name.to_ascii_lowercase();
    let Some(index) = sites.iter().position(|site| site.name == name) else {
        let known: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
        let text = format!(
            "it was not told of that name; it knows {}",
            known.join(", ")
        );
        return Err(Refusal(403, "Forbidden", text));
    };
    let method = head.method().unwrap_or_default().to_owned();
    pass_on(&mut head);
    head.remove("host");
    let headers = std::mem::take(&mut head.headers);
    let mut asked = Head::request(&method, &target).with("Host", &name);
    asked.headers.extend(headers);
    Ok((index, asked))
}

async fn exchange(
    session: &mut Session,
    browser: &mut Browser,
    write: &mut OwnedWriteHalf,
    head: Head,
    telling: &mut Telling,
) -> Result<(), Ended> {
    let terms = session.configuration.terms.clone();
    let layout = Layout::of(&terms).ok_or(Ended::Cut)?;
    let (sender, receiver) = (&mut session.sender, &mut session.receiver);
    let ask = async {
        sender
            .send(layout.request_headers, &head.to_bytes())
            .await?;
        loop {
            match browser.next().await? {
                Some(Event::Framing(bytes) | Event::Body(bytes)) => {
                    sender.send(layout.request_body, &bytes).await?;
                }
                Some(Event::End) => return Ok(()),
                Some(Event::Head { .. }) | None => return Err(Ended::Asked(Wrong::Cut)),
            }
        }
    };
    let tell = async {
        loop {
            for part in received(receiver, &terms, &mut telling.answer).await? {
                match part {
                    Onward::Head(mut head) => {
                        head.remove(SEEN);
                        let is_final = head.status().is_none_or(|status| status >= 200);
                        if telling.is_last && is_final {
                            head = head.with("Connection", "close");
                        }
                        write.write_all(&local(head).to_bytes()).await?;
                        telling.has_begun = true;
                    }
                    Onward::Body(bytes) => write.write_all(&bytes).await?,
                    Onward::End => return Ok(()),
                }
            }
        }
    };
    let ((), ()) = tokio::try_join!(ask, tell)?;
    Ok(())
}

async fn received(
    receiver: &mut SessionReceiver,
    terms: &mctls::config::Terms,
    answer: &mut Answer,
) -> Result<Vec<Onward>, Ended> {
    let Some(delivery) = receiver.recv().await? else {
        return answer.finish().map_err(Ended::Answer);
    };
    let context = terms.context(delivery.context).ok_or(Ended::Cut)?;
    let part = part_of(&context.purpose, Side::Responses);
    let part = part.ok_or(Ended::Answer(Wrong::Place))?;
    answer.push(part, &delivery.payload).map_err(Ended::Answer)
}

/// An answer whose own links lead through the gateway again, and which does not tell the browser to
/// leave it.
fn local(mut head: Head) -> Head {
    head.remove("strict-transport-security");
    head.remove("alt-svc");
    for line in &mut head.headers {
        let leads = ["location", "content-location"];
        let is_link = leads
            .iter()
            .any(|name| line.name.eq_ignore_ascii_case(name));
        if let (true, Some(rest)) = (is_link, line.value.strip_prefix(b"https://")) {
            line.value = [b"http://", rest].concat();
        }
    }
    head
}
