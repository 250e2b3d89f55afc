//! The origin: in front of a plain server of HTTP/1.1, the end of its clients' TLS, which it speaks
//! through volunteers. Channels of one network, or with one key, leave places to others (`places`).
//!
//! Is not: reachable by clients. Who comes to its port is a volunteer.
//!
//! Invariants: what is served is public (`http`, `response`), and leads to HTTPS (`locations`); the
//! site's key serves nothing but the site; connections are bounded; who is served next, and how
//! much work a volunteer may cause, is bounded by key and network (`work`); a connection that fails
//! ends alone.

mod body;
mod cache_control;
mod chunks;
mod content_range;
pub(crate) mod fuzzing;
mod hearing;
mod http;
mod inward;
mod kept;
mod locations;
mod misses;
mod numbers;
mod renewal;
mod response;
mod served;
mod session;
mod silence;
mod spool;
mod upstream;
mod witness;
mod work;

pub use crate::tls::server::Resumption;
pub use body::{CutOff, RequestBody};
pub use renewal::RELOAD;
pub use served::Served;
pub use tandem_barnraising::talk::Report;
pub use tandem_barnraising::work::Limits;
pub use upstream::Upstream;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use tandem_barnraising::admission::Rate;
use tandem_barnraising::places::{Rank, Rules};
use tandem_split::Decoder;
use tandem_split::message::{Channel, Greeting, Side};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::SplitIoError;
use crate::greet::{self, SPLIT};
use crate::places::{Place, Places};
use crate::tls::server::Site;
use hearing::{Telling, hearing};
use kept::Kept;
use numbers::Numbers;
use renewal::Files;
use served::Watched;
use session::{Credit, STALL, Session};
use spool::Spool;
use tandem_channel::{Acceptor, Admission, ChannelKey, KeyName, ServerChannel};
use tandem_daemon::listener;
use tandem_daemon::metrics::Number;
use witness::Witnesses;
use work::{Account, Work};

/// Connections at a time, unless [`Origin::limited_to`] says otherwise. One takes some 100 kB.
const CONNECTIONS: usize = 4096;
/// One of so many is for volunteers alone through which clients have been served.
const RESERVED: usize = 4;
/// How often the others of a network may open a channel: each takes a handshake, 0.37 ms of the
/// processor's time. A new volunteer may have so many clients before the first of them is served.
const STRANGERS: Rate = Rate {
    every: Duration::from_millis(50),
    burst: 128,
};
/// How long a volunteer may take to open a channel.
const OPENING: Duration = Duration::from_secs(10);
/// How long a channel may be there before the volunteer says what it wants,
const WORD: Duration = Duration::from_secs(10);
/// and if clients have been served through it: it keeps one ready for a client that is still to
/// come.
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
    /// Whether clients may resume sessions, by which volunteers can tell that one has come before.
    pub resumption: Resumption,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    site: Mutex<Site>,
    upstream: Upstream,
    spool: Arc<Spool>,
    kept: Kept,
    work: Work,
    witnesses: Witnesses,
    numbers: Numbers,
    watched: Watched,
    told_of_http: Once,
}

impl Shared {
    /// Counts header lines that led into the clear, and says at the first what to do about it.
    fn count_secured(&self, lines: u64) {
        if lines == 0 {
            return;
        }
        self.numbers.secured.add(lines);
        self.told_of_http.call_once(|| {
            tracing::warn!(
                "the server behind leads clients to http:// of this site, where anybody can answer: the origin makes it https:// in headers, not in pages; let the server redirect without a host (nginx: absolute_redirect off)"
            );
        });
    }

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
    #[error("the server behind the origin has something else now than the client has begun to get")]
    Changed,
    #[error("nobody takes what is written")]
    Stalled,
    #[error("nothing was said in time")]
    Late,
    #[error("a record that was not expected")]
    NoKeys,
    #[error("there are too many channels of this key")]
    Crowded,
}

/// An origin that listens, and does not answer yet.
#[derive(Debug)]
pub struct Origin {
    listener: TcpListener,
    places: Places,
    acceptor: Acceptor,
    shared: Arc<Shared>,
    files: Files,
    channel_key: ChannelKey,
}

impl Origin {
    /// Reads the files and listens.
    ///
    /// # Errors
    /// Whatever is wrong with the settings or what they name.
    pub async fn bind(settings: Settings) -> Result<Self, SplitIoError> {
        let (files, site) = Files::open(settings.certificate, settings.key, settings.resumption)?;
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
        let numbers = Numbers::new();
        Ok(Self {
            listener,
            places: places_of_channels(CONNECTIONS, &numbers),
            acceptor: Acceptor::new(SPLIT, &key, admission)?,
            shared: Arc::new(Shared {
                site: Mutex::new(site),
                upstream: settings.upstream,
                spool: Arc::new(spool),
                kept: Kept::new(numbers.kept.clone()),
                work: Work::new(numbers.work.clone()),
                witnesses: Witnesses::new(),
                numbers,
                watched: Watched::new(),
                told_of_http: Once::new(),
            }),
            files,
            channel_key: key,
        })
    }

    /// Serves so many channels at a time in place of 4096. One takes some 100 kB.
    #[must_use]
    pub fn limited_to(self, channels: usize) -> Self {
        let places = places_of_channels(channels, &self.shared.numbers);
        Self { places, ..self }
    }

    /// Lets volunteers cause no more than this over time, in place of [`Limits::default`].
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        self.shared.work.limit(limits);
        self
    }

    /// Keeps so many bytes of bodies in memory in place of 128 MiB; with 0 none, and each body is
    /// fetched and hashed each time.
    #[must_use]
    pub fn keeping(self, bytes: u64) -> Self {
        self.shared.kept.limit(bytes);
        self
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
        self.channel_key.name()
    }

    /// What is counted.
    #[must_use]
    pub fn numbers(&self) -> Vec<Number> {
        let mut numbers = self.shared.numbers.all();
        numbers.extend(self.shared.witnesses.numbers());
        numbers
    }

    /// What is served from now on, response by response.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Served> {
        self.shared.watched.watch()
    }

    /// Volunteers through which clients refuse what they get, from now on: what a broker should be
    /// told.
    #[must_use]
    pub fn reports(&self) -> broadcast::Receiver<Report> {
        self.shared.witnesses.reports()
    }

    /// The key that it shows, for whoever speaks for it.
    #[must_use]
    pub fn channel_key(&self) -> &ChannelKey {
        &self.channel_key
    }

    /// Serves for ever.
    pub async fn serve(self) {
        tokio::spawn(self.files.keep_current(Arc::clone(&self.shared)));
        let rank = |_: IpAddr| Rank::Stranger;
        let serving = self.places.serve(self.listener, rank, |stream, place| {
            let (acceptor, shared) = (self.acceptor.clone(), Arc::clone(&self.shared));
            async move {
                let _open = shared.numbers.open.hold();
                if let Err(error) = serve_channel(&acceptor, &shared, stream, place).await {
                    shared.numbers.failed.add(1);
                    tracing::debug!(%error, "a channel ended early");
                }
            }
        });
        serving.await;
    }
}

fn places_of_channels(total: usize, numbers: &Numbers) -> Places {
    let rules = Rules {
        total,
        reserved: total / RESERVED,
        strangers: Some(STRANGERS),
    };
    Places::new(rules, numbers.sent_away.clone())
}

async fn serve_channel(
    acceptor: &Acceptor,
    shared: &Arc<Shared>,
    stream: TcpStream,
    place: Place,
) -> Result<(), Failed> {
    let opened = acceptor.open(stream, shared.numbers.sent.shared());
    let mut io = timeout(OPENING, opened).await.map_err(|_| Failed::Late)??;
    let volunteer = tandem_channel::holder(&io);
    if volunteer.is_some_and(|key| !place.count_for(key)) {
        return Err(Failed::Crowded);
    }
    let account = shared.work.account(volunteer, place.address());
    let place = Arc::new(place);
    let mut decoder = Decoder::new(Side::Volunteer);
    let mut is_used_again = false;
    loop {
        let Some(greeting) = greeting(&mut io, &mut decoder, &place).await? else {
            return Ok(());
        };
        // A client's first words come with the greeting, and the answers to both go together: one
        // record and one packet for each client less.
        let is_answered = greeting.channel == Channel::Misses || decoder.is_between_messages();
        if is_answered {
            let said = timeout(STALL, greet::say(&mut io, greeting)).await;
            said.map_err(|_| Failed::Stalled)??;
        }
        match greeting.channel {
            Channel::Misses => {
                return misses::serve(shared, io, decoder, &place, &account).await;
            }
            Channel::Connection => {}
        }
        shared.numbers.connections.add(1);
        shared.numbers.used_again.add(is_used_again.into());
        is_used_again = true;
        let greeted = Greeted {
            greeting,
            is_answered,
        };
        match serve_client(shared, io, decoder, greeted, &account, &place).await? {
            Some(channel) => (io, decoder) = channel,
            None => return Ok(()),
        }
    }
}

/// What was agreed with a volunteer.
struct Greeted {
    greeting: Greeting,
    is_answered: bool,
}

/// Serves one client. Gives the channel back where it is good for another.
async fn serve_client(
    shared: &Arc<Shared>,
    io: ServerChannel,
    decoder: Decoder,
    greeted: Greeted,
    account: &Account,
    place: &Arc<Place>,
) -> Result<Option<(ServerChannel, Decoder)>, Failed> {
    let greeting = greeted.greeting;
    let (from_volunteer, to_volunteer) = tokio::io::split(io);
    let telling = match greeting.tells_progress() {
        true => Telling::Both,
        false => Telling::Nobody,
    };
    let (ear, records, taken) = hearing(telling);
    let ear = if greeting.goes_on() {
        ear.until_over()
    } else {
        ear
    };
    // A task of its own: a task that wakes itself wakes another thread with it. A set ends its task
    // when it is dropped: also where the channel ends for want of a place.
    let mut reader = JoinSet::new();
    reader.spawn(ear.hear(from_volunteer, decoder));
    let mut session = Session::new(
        shared,
        greeting,
        to_volunteer,
        records,
        Credit::new(telling, taken),
        account.clone(),
        place,
    )?;
    if !greeted.is_answered {
        session.answer(greeting);
    }
    let ended = session.run().await;
    let Some(to_volunteer) = ended.to_volunteer else {
        return ended.served.map(|()| None);
    };
    if let Err(error) = ended.served {
        // The client's, and not the channel's.
        shared.numbers.failed.add(1);
        tracing::debug!(%error, "a client's connection ended early");
    }
    // Its client may be slow to take what was sent last. All was said to it: what is still to come
    // is no reason to keep others out.
    place.rest();
    match timeout(STALL, reader.join_next()).await {
        Ok(Some(Ok(Some((from_volunteer, decoder))))) => {
            Ok(Some((from_volunteer.unsplit(to_volunteer), decoder)))
        }
        Ok(_) | Err(_) => Ok(None),
    }
}

/// What the volunteer wants; nothing if it goes, or no client has come for whom the channel was
/// kept ready.
async fn greeting(
    io: &mut ServerChannel,
    decoder: &mut Decoder,
    place: &Place,
) -> Result<Option<Greeting>, Failed> {
    let mut greeted = pin!(greet::hear(io, decoder));
    let mut in_time = timeout(WORD, greeted.as_mut()).await;
    if in_time.is_err() && place.is_known() {
        in_time = timeout(GREETING - WORD, greeted).await;
    }
    match in_time {
        Ok(Ok(greeting)) => Ok(Some(greeting)),
        Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error.into()),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}
