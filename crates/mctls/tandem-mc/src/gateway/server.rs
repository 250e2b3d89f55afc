//! In front of a web server: takes sessions with contexts, and asks the server over plain HTTP/1.1,
//! on a connection for each request.
//!
//! Is not: a cache; a balancer. Invariants: it connects to the one address that it was told of;
//! no header passes that is not known to be harmless, or listed in the settings, since a server
//! takes some for the word of a proxy, and anybody can write them; a server that does not answer is
//! an answer 502, or a session that ends early.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mctls::config::Terms;
use mctls_io::{Identity, Session, SessionReceiver, SessionSender, Timeouts};
use rustls::RootCertStore;
use tandem_daemon::passing::passes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

use crate::error::McError;
use crate::gateway::{Answer, Onward, own_answer, pass_on};
use crate::http::{Event, Head, LAST_CHUNK, Messages, Part, Reader, Side, Wrong, write_chunk};
use crate::layout::{Layout, part_of};
use crate::report::Seen;
use crate::serve::SEEN;
use crate::sessions::{Answers, Ended, Listening};
use crate::settings::ServerSettings;

/// How long the server behind may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How much is read at once.
const PIECE: usize = 1 << 14;
/// Headers that pass beside those that pass to any server ([`passes`]), in lower case: whom the
/// client serves, what frames its request, and what its own server has given it.
const PASS: [&str; 28] = [
    "authorization",
    "content-disposition",
    "content-length",
    "content-range",
    "cookie",
    "expect",
    "host",
    "transfer-encoding",
    "via",
    // By which a page of the server proves that a request is its own.
    "idempotency-key",
    "jenkins-crumb",
    "requesttoken",
    "requestverificationtoken",
    "x-csrf-token",
    "x-csrftoken",
    "x-wp-nonce",
    "x-xsrf-token",
    // WebDAV (RFC 4918, 10): without them a request would mean something else.
    "depth",
    "destination",
    "if",
    "lock-token",
    "overwrite",
    "timeout",
    // What a page's own program asks for.
    "hx-request",
    "hx-target",
    "next-action",
    "rsc",
    "soapaction",
];
/// Most names that are logged, once each.
const MAX_TOLD: usize = 64;
/// What the gateway says itself.
const SCHEME: &str = "X-Forwarded-Proto";

/// A gateway that listens, and serves nobody yet.
pub struct ServerGateway {
    listening: Listening,
    behind: Arc<Behind>,
}

struct Behind {
    address: String,
    idle: Duration,
    /// More headers that pass.
    pass: Vec<String>,
    /// Names of headers that were taken out and logged.
    told: Mutex<BTreeSet<String>>,
}

impl Behind {
    /// Takes out what is not to pass.
    fn keep_harmless(&self, head: &mut Head) {
        head.headers.retain(|line| {
            let name = line.name.to_ascii_lowercase();
            let is_listed = || self.pass.iter().any(|one| one.eq_ignore_ascii_case(&name));
            let passes = passes(&name) || PASS.contains(&name.as_str()) || is_listed();
            if !passes {
                self.tell(name);
            }
            passes
        });
        head.remove(SCHEME);
    }
}

impl Behind {
    /// Logs the name of a header that does not pass, so that an operator can let it.
    fn tell(&self, name: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MAX_TOLD && !told.contains(&name) {
            tracing::info!(
                name,
                "a header does not reach the server behind; `pass` lets it"
            );
            told.insert(name);
        }
    }
}

impl ServerGateway {
    /// One for the server at this address, host and port.
    ///
    /// # Errors
    /// The address to listen on cannot be used, or TLS cannot be set up.
    pub async fn bind(
        listen: SocketAddr,
        identity: Identity,
        middlebox_roots: Arc<RootCertStore>,
        behind: &str,
        settings: ServerSettings,
        timeouts: Timeouts,
    ) -> Result<Self, McError> {
        if !settings.headers.is_empty() {
            return Err(McError::config(
                "header: a gateway passes on what its server says, and adds nothing",
            ));
        }
        let pass = settings.pass.clone();
        let listening =
            Listening::bind(listen, identity, middlebox_roots, settings, timeouts).await?;
        Ok(Self {
            listening,
            behind: Arc::new(Behind {
                address: behind.to_owned(),
                idle: timeouts.idle,
                pass,
                told: Mutex::default(),
            }),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, McError> {
        self.listening.address()
    }

    /// Serves, for ever.
    pub async fn serve(self) {
        self.listening.serve(self.behind).await;
    }
}

impl Answers for Behind {
    async fn exchanges(&self, session: &mut Session) -> Result<(), Ended> {
        exchanges(session, self).await
    }
}

/// The requests of a session.
struct Requests {
    terms: Terms,
    layout: Layout,
    messages: Messages,
    pending: VecDeque<Event>,
    /// What is known of the present one; its answer tells.
    seen: Arc<Mutex<Seen>>,
}

impl Requests {
    async fn next(&mut self, receiver: &mut SessionReceiver) -> Result<Option<Event>, Ended> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let Some(delivery) = receiver.recv().await? else {
                self.messages.finish()?;
                return Ok(None);
            };
            // The server behind refers to nothing.
            if Some(delivery.context) == self.layout.offers {
                continue;
            }
            let context = self.terms.context(delivery.context).ok_or(Wrong::Place)?;
            let part = part_of(&context.purpose, Side::Requests).ok_or(Wrong::Place)?;
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.note(&context.purpose, &delivery);
            drop(seen);
            self.pending
                .extend(self.messages.push(part, &delivery.payload)?);
        }
    }
}

async fn exchanges(session: &mut Session, behind: &Behind) -> Result<(), Ended> {
    let terms = session.configuration.terms.clone();
    let layout = Layout::of(&terms).ok_or(Wrong::Place)?;
    let mut requests = Requests {
        terms,
        layout,
        messages: Messages::new(Side::Requests, Reader::Endpoint),
        pending: VecDeque::new(),
        seen: Arc::default(),
    };
    while let Some(event) = requests.next(&mut session.receiver).await? {
        let Event::Head { head, .. } = event else {
            continue;
        };
        let is_last = head.closes();
        let method = head.method().unwrap_or_default().to_owned();
        let trouble = match method.as_str() {
            "CONNECT" => return Err(Wrong::Head.into()),
            _ => exchange(session, &mut requests, behind, head).await?,
        };
        if let Some(why) = trouble {
            tracing::warn!("the server behind: {why}");
            let (head, body) = own_answer(502, "Bad Gateway", "its server does not answer");
            let told = head.with(SEEN, seen(&requests.seen));
            session
                .sender
                .send(layout.response_headers, &told.to_bytes())
                .await?;
            if method != "HEAD" {
                session.sender.send(layout.response_body, &body).await?;
            }
        }
        *requests.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen::default();
        if is_last {
            break;
        }
    }
    Ok(session.sender.close().await?)
}

fn seen(seen: &Mutex<Seen>) -> String {
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .to_header()
}

/// One request and its answer; gives back why there is none.
async fn exchange(
    session: &mut Session,
    requests: &mut Requests,
    behind: &Behind,
    mut head: Head,
) -> Result<Option<String>, Ended> {
    let mut answer = Answer::new(head.method().unwrap_or_default(), head.version);
    pass_on(&mut head);
    behind.keep_harmless(&mut head);
    let is_chunked = head.values("Transfer-Encoding").next().is_some();
    let head = head.with(SCHEME, "https").with("Connection", "close");
    let connected = timeout(CONNECT, TcpStream::connect(&behind.address)).await;
    let (stream, trouble) = match connected {
        Ok(Ok(stream)) => (Some(stream.into_split()), None),
        Ok(Err(error)) => (None, Some(error.to_string())),
        Err(_) => (None, Some(format!("no connection within {CONNECT:?}"))),
    };
    let (read, mut write) = stream.unzip();
    let (layout, told) = (requests.layout, Arc::clone(&requests.seen));
    let (sender, receiver) = (&mut session.sender, &mut session.receiver);
    let ask = async {
        let mut bytes = head.to_bytes();
        loop {
            send(&mut write, behind.idle, &bytes).await;
            bytes = match requests.next(receiver).await? {
                // Chunks are framed anew: trailers are headers, too, which some servers believe.
                Some(Event::Framing(_)) => Vec::new(),
                Some(Event::Body(bytes)) if is_chunked => chunk(&bytes),
                Some(Event::Body(bytes)) => bytes,
                Some(Event::End) if is_chunked => {
                    send(&mut write, behind.idle, LAST_CHUNK).await;
                    return Ok(());
                }
                Some(Event::End) => return Ok(()),
                Some(Event::Head { .. }) | None => return Err(Ended::Http(Wrong::Cut)),
            };
        }
    };
    let tell = async {
        match read {
            Some(mut read) => {
                answered(&mut read, &mut answer, sender, layout, &told, behind.idle).await
            }
            None => Ok(None),
        }
    };
    let ((), untold) = tokio::try_join!(ask, tell)?;
    Ok(trouble.or(untold))
}

/// Writes to the server behind. One that has answered need not read on; the rest goes nowhere.
async fn send(to: &mut Option<OwnedWriteHalf>, idle: Duration, bytes: &[u8]) {
    if let Some(open) = to {
        let written = timeout(idle, open.write_all(bytes)).await;
        if !matches!(written, Ok(Ok(()))) {
            *to = None;
        }
    }
}

fn chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = Vec::new();
    write_chunk(data, &mut chunk);
    chunk
}

/// Passes an answer on; gives back why nothing of it has come.
async fn answered(
    read: &mut tokio::net::tcp::OwnedReadHalf,
    answer: &mut Answer,
    sender: &mut SessionSender,
    layout: Layout,
    told: &Mutex<Seen>,
    idle: Duration,
) -> Result<Option<String>, Ended> {
    let mut has_begun = false;
    let mut piece = vec![0; PIECE];
    loop {
        let onward = match timeout(idle, read.read(&mut piece)).await {
            Ok(Ok(0)) => answer.finish().map_err(|wrong| wrong.to_string()),
            Ok(Ok(length)) => {
                let onward = answer.push(Part::Whole, &piece[..length]);
                onward.map_err(|wrong| wrong.to_string())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("nothing within {idle:?}")),
        };
        let onward = match onward {
            Ok(onward) => onward,
            Err(why) if has_begun => {
                return Err(Ended::Source(format!("the server behind: {why}")));
            }
            Err(why) => return Ok(Some(why)),
        };
        for part in onward {
            match part {
                Onward::Head(mut head) => {
                    head.remove(SEEN);
                    let head = head.with(SEEN, seen(told));
                    sender
                        .send(layout.response_headers, &head.to_bytes())
                        .await?;
                    has_begun = true;
                }
                Onward::Body(bytes) => sender.send(layout.response_body, &bytes).await?,
                Onward::End => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_claims_an_origin_stays_however_it_is_written_and_what_is_listed_passes() {
        let behind = Behind {
            address: String::new(),
            idle: Duration::ZERO,
            pass: vec!["X-Api-Key".into(), "X-Forwarded-Proto".into()],
            told: Mutex::default(),
        };
        let good = ["Host", "Cookie", "authorization", "Accept", "x-api-key"];
        let mut head = Head::request("GET", "/");
        for name in good {
            head = head.with(name, "1");
        }
        for claim in [
            "Forwarded",
            "X-Forwarded-For",
            "X_Forwarded_For",
            "x-forwarded_proto",
            "X-Forwarded-Proto",
            "X-Forwarded-Port",
            "X-Real-IP",
            "X-Client-IP",
            "True-Client-IP",
            "CF-Connecting-IP",
            "X-Cluster-Client-Ip",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-HTTP-Method-Override",
            "X-Remote-User",
            "Ssl-Client-Cert",
            "Content_Length",
            "Proxy",
        ] {
            head = head.with(claim, "192.0.2.1");
        }
        behind.keep_harmless(&mut head);
        let left: Vec<&str> = head.headers.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(left, good);
    }
}
