//! The origin: in front of a plain server of HTTP/1.1, the end of its clients' TLS, which it speaks
//! through volunteers.
//!
//! Is not: reachable by clients. Who comes to its port is a volunteer.
//!
//! Invariants: what is served is public (`http`, `response`); the site's key serves nothing but the
//! site; connections are bounded; a connection that fails ends alone.

mod body;
mod chunks;
mod http;
mod inward;
mod misses;
mod renewal;
mod response;
mod served;
mod session;
mod spool;
mod upstream;

pub use body::{CutOff, RequestBody};
pub use served::Served;
pub use upstream::Upstream;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tandem_split::Decoder;
use tandem_split::message::{Channel, Message, Side};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;

use crate::error::SplitIoError;
use crate::greet::{SPLIT, greet};
use crate::tls::server::Site;
use renewal::Files;
use served::Watched;
use session::Session;
use spool::Spool;
use tandem_channel::{Acceptor, Admission, ChannelKey, KeyName, ServerChannel};
use tandem_daemon::listener;
use tandem_daemon::metrics::Number;

/// Connections at a time. One takes some 100 kB.
const CONNECTIONS: usize = 4096;
/// How long a volunteer may take to open a channel.
const OPENING: Duration = Duration::from_secs(15);
/// How long a channel may be there before the volunteer says what it wants: it keeps one ready for
/// a client that is still to come.
const GREETING: Duration = Duration::from_secs(120);

/// What an origin needs to know.
#[derive(Debug)]
pub struct Settings {
    /// Where volunteers come.
    pub listen: SocketAddr,
    /// The server behind.
    pub upstream: Upstream,
    /// The site's chain, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// The key by which volunteers know the origin, made if it is missing; derived from the site's
    /// key if none is named.
    pub channel_key: Option<PathBuf>,
    /// The volunteers that are served; any if there is no list.
    pub admitted: Option<PathBuf>,
}

/// What is counted.
#[derive(Clone, Debug)]
struct Numbers {
    sent: Number,
    connections: Number,
    open: Number,
    requests: Number,
    body_bytes: Number,
    misses: Number,
    absent: Number,
    unpublished: Number,
    refused_requests: Number,
    not_public: Number,
    resumed: Number,
    refused_by_clients: Number,
    forged_by_clients: Number,
    distrusted: Number,
    misdirected: Number,
    cut_answers: Number,
    vanished: Number,
    failed: Number,
}

impl Numbers {
    fn new() -> Self {
        Self {
            sent: Number::counter(
                "tandem_split_origin_sent_bytes",
                "Bytes written to the sockets of volunteers: handshakes, stubs, misses",
            ),
            connections: Number::counter(
                "tandem_split_origin_connections",
                "Connections of clients that volunteers have passed on",
            ),
            open: Number::gauge(
                "tandem_split_origin_open_channels",
                "Channels that are open",
            ),
            requests: Number::counter(
                "tandem_split_origin_requests",
                "Requests that clients have made",
            ),
            body_bytes: Number::counter(
                "tandem_split_origin_body_bytes",
                "Bytes of the answers' bodies, as clients get them",
            ),
            misses: Number::counter(
                "tandem_split_origin_misses",
                "Things that volunteers have asked for",
            ),
            absent: Number::counter(
                "tandem_split_origin_absent",
                "Things that volunteers have asked for and that were gone",
            ),
            unpublished: Number::counter(
                "tandem_split_origin_unpublished_records",
                "Records sent in full because nothing more could be published",
            ),
            refused_requests: Number::counter(
                "tandem_split_origin_refused_requests",
                "Requests that were answered here with an error",
            ),
            not_public: Number::counter(
                "tandem_split_origin_not_public",
                "Answers of the server behind that were not public",
            ),
            resumed: Number::counter(
                "tandem_split_origin_resumed_sessions",
                "Handshakes that resumed an earlier session",
            ),
            refused_by_clients: Number::counter(
                "tandem_split_origin_refused_by_clients",
                "Connections that a client has ended with an alert because of a bad record: a volunteer has changed something",
            ),
            forged_by_clients: Number::counter(
                "tandem_split_origin_forged_records",
                "Records that no client has sealed: a volunteer has changed something",
            ),
            distrusted: Number::counter(
                "tandem_split_origin_distrusted",
                "Handshakes that a client has ended with an alert because of the certificate",
            ),
            misdirected: Number::counter(
                "tandem_split_origin_misdirected",
                "Connections or requests for another host: a volunteer answers for a site that is not this one, or a name leads here by mistake",
            ),
            cut_answers: Number::counter(
                "tandem_split_origin_cut_answers",
                "Answers that could not be written to their end: the client has left or was cut off, which cannot be told apart",
            ),
            vanished: Number::counter(
                "tandem_split_origin_vanished_clients",
                "Connections on which a client went away without a word: it was cut off, or is one that never says a last word",
            ),
            failed: Number::counter(
                "tandem_split_origin_failed_channels",
                "Channels that ended early",
            ),
        }
    }

    fn all(&self) -> Vec<Number> {
        [
            &self.sent,
            &self.connections,
            &self.open,
            &self.requests,
            &self.body_bytes,
            &self.misses,
            &self.absent,
            &self.unpublished,
            &self.refused_requests,
            &self.not_public,
            &self.resumed,
            &self.refused_by_clients,
            &self.forged_by_clients,
            &self.distrusted,
            &self.misdirected,
            &self.cut_answers,
            &self.vanished,
            &self.failed,
        ]
        .map(Clone::clone)
        .to_vec()
    }
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    site: Mutex<Site>,
    upstream: Upstream,
    spool: Arc<Spool>,
    numbers: Numbers,
    watched: Watched,
}

impl Shared {
    fn site(&self) -> Site {
        self.site
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Why a channel ended early.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the client's TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Split(#[from] tandem_split::Error),
    #[error("the server behind the origin: {0}")]
    Upstream(upstream::Fault),
    #[error("the server behind the origin has fallen silent")]
    Silence,
    #[error("the body of a request is not in chunks")]
    Chunks,
    #[error("nobody takes what is written")]
    Stalled,
    #[error("nothing was said in time")]
    Late,
    #[error("a record that was not expected")]
    NoKeys,
}

/// An origin that listens, and does not answer yet.
#[derive(Debug)]
pub struct Origin {
    listener: TcpListener,
    acceptor: Acceptor,
    shared: Arc<Shared>,
    files: Files,
    key: KeyName,
}

impl Origin {
    /// Reads the files and listens.
    ///
    /// # Errors
    /// Whatever is wrong with the settings or what they name.
    pub async fn bind(settings: Settings) -> Result<Self, SplitIoError> {
        let (files, site) = Files::open(settings.certificate, settings.key)?;
        let tls = |error: rustls::Error| SplitIoError::System {
            what: "TLS",
            source: io::Error::other(error),
        };
        let key = match &settings.channel_key {
            Some(path) => ChannelKey::kept_in(path)?,
            None => {
                let secret = std::fs::read(&files.key).map_err(|source| SplitIoError::File {
                    path: files.key.clone(),
                    source,
                })?;
                ChannelKey::derived_from(&secret).map_err(tls)?
            }
        };
        let admission = match &settings.admitted {
            Some(path) => Admission::listed_in(path)?,
            None => Admission::Any,
        };
        let spool = Spool::new().map_err(|source| SplitIoError::System {
            what: "a temporary file for what is published",
            source,
        })?;
        let listener = listener::listen("--listen", settings.listen).await?;
        Ok(Self {
            listener,
            acceptor: Acceptor::new(SPLIT, &key, admission)?,
            shared: Arc::new(Shared {
                site: Mutex::new(site),
                upstream: settings.upstream,
                spool: Arc::new(spool),
                numbers: Numbers::new(),
                watched: Watched::new(),
            }),
            files,
            key: key.name(),
        })
    }

    /// Where it listens, the port in numbers.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The site's name.
    #[must_use]
    pub fn host(&self) -> String {
        self.shared.site().host().to_owned()
    }

    /// The key by which volunteers know it.
    #[must_use]
    pub fn key(&self) -> KeyName {
        self.key
    }

    /// What is counted.
    #[must_use]
    pub fn numbers(&self) -> Vec<Number> {
        self.shared.numbers.all()
    }

    /// What is served from now on, response by response.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Served> {
        self.shared.watched.watch()
    }

    /// Serves for ever.
    pub async fn serve(self) {
        tokio::spawn(self.files.keep_current(Arc::clone(&self.shared)));
        listener::serve(self.listener, CONNECTIONS, |stream| {
            let (acceptor, shared) = (self.acceptor.clone(), Arc::clone(&self.shared));
            async move {
                let _open = shared.numbers.open.hold();
                if let Err(error) = serve_channel(&acceptor, &shared, stream).await {
                    shared.numbers.failed.add(1);
                    tracing::debug!(%error, "a channel ended early");
                }
            }
        })
        .await;
    }
}

async fn serve_channel(
    acceptor: &Acceptor,
    shared: &Arc<Shared>,
    stream: TcpStream,
) -> Result<(), Failed> {
    let opened = acceptor.open(stream, shared.numbers.sent.shared());
    let mut io = timeout(OPENING, opened).await.map_err(|_| Failed::Late)??;
    let mut decoder = Decoder::new(Side::Volunteer);
    let greeted = timeout(GREETING, greet(&mut io, &mut decoder)).await;
    let greeting = match greeted {
        Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
        Ok(Ok(greeting)) => greeting,
        // Nobody came for whom it was kept ready.
        Ok(Err(_)) | Err(_) => return Ok(()),
    };
    match greeting.channel {
        Channel::Misses => misses::serve(shared, io, decoder).await,
        Channel::Connection => {
            shared.numbers.connections.add(1);
            let volunteer = tandem_channel::holder(&io);
            let (from_volunteer, to_volunteer) = tokio::io::split(io);
            let (records, from_client) = mpsc::channel(8);
            let reader = tokio::spawn(pass_records(from_volunteer, decoder, records));
            let session = Session::new(
                shared,
                volunteer,
                greeting.encodings,
                to_volunteer,
                from_client,
            )?;
            let served = session.run().await;
            reader.abort();
            served
        }
    }
}

/// Hands on the client's records until there are no more, so that an alert is heard while a
/// response is being written.
async fn pass_records(
    mut from_volunteer: tokio::io::ReadHalf<ServerChannel>,
    mut decoder: Decoder,
    records: mpsc::Sender<Vec<u8>>,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        loop {
            match decoder.next_message() {
                Ok(Some(Message::Verbatim(record))) => {
                    if records.send(record.bytes().to_vec()).await.is_err() {
                        return;
                    }
                }
                // The decoder lets nothing else through on this channel.
                Ok(Some(_)) | Err(_) => return,
                Ok(None) => break,
            }
        }
        let Ok(len @ 1..) = from_volunteer.read(&mut buffer).await else {
            return;
        };
        let mut bytes = &buffer[..len];
        while !bytes.is_empty() {
            let taken = decoder.push(bytes);
            bytes = &bytes[taken..];
            if taken == 0 {
                match decoder.next_message() {
                    Ok(Some(Message::Verbatim(record))) => {
                        if records.send(record.bytes().to_vec()).await.is_err() {
                            return;
                        }
                    }
                    Ok(_) | Err(_) => return,
                }
            }
        }
    }
}
