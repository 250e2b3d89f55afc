//! A volunteer's membership: it joins by the URI that it was given, renews, follows the list,
//! leaves.
//!
//! Is not: the serving of clients, which goes on whatever becomes of this.
//!
//! How long a list counts: one that the broker has just sent for its life from then on, whatever
//! this machine's wall clock says; one that was read from the cache by that clock, since nothing
//! else knows how old it is.
//!
//! Invariants: a broker counts only by the key in the URI; a list only by its signature, and never
//! after a newer one, also not across a restart; a broker that is gone takes nothing away: what it
//! said last is kept in the cache, and a list counts until it ends.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::door::BROKER;
use tandem_barnraising::talk::{Answer, Join, MAX_ANSWER, Prospect, Question, Told, Welcome, Wish};
use tandem_barnraising::uri::Host;
use tandem_barnraising::{List, Member, SiteUri};
use tandem_channel::{ChannelKey, Connector, KeyName, Pin, first_of};
use tandem_split_io::SplitIoError;
use tandem_wire::UnixTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::error::BrokerError;
use crate::moment::wall;

/// How long a broker may take for one answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait after the first failure; twice as long after each other.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait while nothing is known yet.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// What renewals come within, whatever a broker says.
const RENEW: std::ops::RangeInclusive<u32> = 1..=3600;
/// Under which name it is kept in the cache.
const KEPT: &str = "broker";

/// What a volunteer needs for it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The site, and its broker.
    pub uri: SiteUri,
    /// The volunteer's key.
    pub key: ChannelKey,
    /// Where the volunteer listens for clients: it asks from this address, unless it is that of no
    /// particular one.
    pub listen: IpAddr,
    /// The port at which other volunteers ask it; 0 for none.
    pub peers: u16,
    /// The directory in which it is kept what the broker said.
    pub cache: Option<PathBuf>,
}

/// Where the origin is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `HOST:PORT`.
    pub address: String,
    /// By which it is known.
    pub key: KeyName,
}

/// See above.
#[derive(Debug)]
pub struct Membership {
    access: BrokerAccess,
    peers: u16,
    kept_in: Option<PathBuf>,
    known: Known,
    members: watch::Sender<Arc<[Member]>>,
    failures: u32,
}

/// What the broker has said.
#[derive(Debug, Clone)]
struct Known {
    origin: Origin,
    renew: Duration,
    /// The newest list that there was, also after its end.
    list: Option<Held>,
}

#[derive(Debug, Clone)]
struct Held {
    list: List,
    bytes: Vec<u8>,
    ends: Ends,
}

/// By which clock a list ends.
#[derive(Debug, Clone, Copy)]
enum Ends {
    /// One that only goes forward: it came from the broker itself.
    At(Instant),
    /// The wall's: it was read from the cache.
    AsItSays,
}

impl Held {
    fn counts(&self, now: Now) -> bool {
        match self.ends {
            Ends::At(end) => now.steady < end,
            Ends::AsItSays => now.wall < self.list.ends,
        }
    }
}

/// Both clocks.
#[derive(Debug, Clone, Copy)]
struct Now {
    steady: Instant,
    wall: UnixTime,
}

impl Now {
    fn read() -> Self {
        Self {
            steady: Instant::now(),
            wall: wall(),
        }
    }
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("another key than the one in the URI")]
    WrongKey,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Membership {
    /// Joins. Waits for the broker where nothing is known from before; where something is, that is
    /// enough to begin with.
    ///
    /// # Errors
    /// The broker does not take this volunteer, or is not the one of the URI.
    pub async fn join(settings: Settings) -> Result<Self, BrokerError> {
        let Settings {
            uri,
            key,
            listen,
            peers,
            cache,
        } = settings;
        let kept_in = cache.map(|folder| folder.join(KEPT));
        let mut kept = kept_in.as_deref().and_then(|path| read(path, &uri));
        let access = BrokerAccess::new(uri, &key, listen)?;
        let broker = access.broker();
        let mut failures = 0;
        loop {
            let join = wish(kept.as_ref(), peers, Told::default(), Now::read());
            let problem = match access.ask(Wish::Join(join)).await {
                Ok(Answer::Welcome(welcome)) => {
                    let known = take(&access.uri, kept.as_ref(), welcome, Now::read());
                    let membership = Self::new(access, peers, kept_in, known);
                    membership.keep();
                    return Ok(membership);
                }
                Ok(Answer::Refused(refusal)) => match refusal.prospect() {
                    Prospect::Never => return Err(BrokerError::Refused { broker, refusal }),
                    Prospect::Later => refusal.to_string(),
                },
                Ok(Answer::Farewell | Answer::Noted) => "an answer to another question".to_owned(),
                Err(Trouble::WrongKey) if kept.is_none() => {
                    return Err(BrokerError::WrongKey { broker });
                }
                Err(trouble) => trouble.to_string(),
            };
            tracing::warn!(%broker, %problem, "not joined yet");
            if let Some(known) = kept.take() {
                tracing::info!("what the broker said last is enough to serve");
                let mut membership = Self::new(access, peers, kept_in, known);
                membership.failures = 1;
                return Ok(membership);
            }
            failures += 1;
            sleep(backoff(failures, MAX_WAIT)).await;
        }
    }

    fn new(access: BrokerAccess, peers: u16, kept_in: Option<PathBuf>, known: Known) -> Self {
        let members = watch::Sender::new(known.members(Now::read()));
        Self {
            access,
            peers,
            kept_in,
            known,
            members,
            failures: 0,
        }
    }

    /// Where the origin is.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.known.origin
    }

    /// The site's volunteers that are well, as the list says that counts at each time.
    #[must_use]
    pub fn members(&self) -> watch::Receiver<Arc<[Member]>> {
        self.members.subscribe()
    }

    /// To be awaited at the end, when [`Self::stay`] has been given up: tells the broker that this
    /// volunteer leaves.
    pub fn leave(&self) -> impl Future<Output = ()> + Send + 'static {
        let access = self.access.clone();
        async move {
            match access.ask(Wish::Leave).await {
                Ok(_) => tracing::info!("the broker knows that this volunteer leaves"),
                Err(trouble) => {
                    tracing::info!(%trouble, "the broker will find out by itself that this volunteer is gone");
                }
            }
        }
    }

    /// Renews for ever. `told` says what was done; `moved` is called when the origin is elsewhere.
    pub async fn stay(mut self, told: impl Fn() -> Told, moved: impl Fn(&Origin)) {
        loop {
            let wait = match self.failures {
                0 => self.known.renew,
                failures => backoff(failures, self.known.renew),
            };
            sleep(wait).await;
            let before = self.known.origin.clone();
            self.renew(told()).await;
            if self.known.origin != before {
                tracing::info!("the broker names another origin");
                moved(&self.known.origin);
            }
        }
    }

    async fn renew(&mut self, told: Told) {
        let join = wish(Some(&self.known), self.peers, told, Now::read());
        let broker = self.access.broker();
        match self.access.ask(Wish::Join(join)).await {
            Ok(Answer::Welcome(welcome)) => {
                if std::mem::take(&mut self.failures) > 0 {
                    tracing::info!(%broker, "the broker answers again");
                }
                self.known = take(&self.access.uri, Some(&self.known), welcome, Now::read());
                self.keep();
            }
            Ok(Answer::Refused(refusal)) => {
                tracing::warn!(%broker, %refusal, "not renewed");
                self.failures = self.failures.saturating_add(1);
            }
            Ok(Answer::Farewell | Answer::Noted) => {
                self.failures = self.failures.saturating_add(1);
            }
            Err(trouble) => {
                if self.failures == 0 {
                    tracing::warn!(%broker, %trouble, "the broker is not there: clients are served with what is known");
                }
                self.failures = self.failures.saturating_add(1);
            }
        }
        let members = self.known.members(Now::read());
        self.members.send_if_modified(|shown| {
            let is_other = *shown != members;
            *shown = members;
            is_other
        });
    }

    /// In the cache, whole or not at all.
    fn keep(&self) {
        let Some(path) = &self.kept_in else { return };
        let bytes = written(&self.access.uri, &self.known);
        if std::fs::read(path).is_ok_and(|there| there == bytes) {
            return;
        }
        let beside = path.with_extension("new");
        let kept = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
        if let Err(error) = kept {
            tracing::warn!(path = %path.display(), %error, "what the broker said could not be kept");
        }
    }
}

impl Known {
    fn members(&self, now: Now) -> Arc<[Member]> {
        match &self.list {
            Some(held) if held.counts(now) => held.list.members.clone().into(),
            Some(_) | None => Arc::from([]),
        }
    }
}

fn wish(known: Option<&Known>, peers: u16, told: Told, now: Now) -> Join {
    let held = known.and_then(|known| known.list.as_ref());
    // One that counts no more here is to be sent again, if it is the newest still.
    let held = held.filter(|held| held.counts(now));
    Join {
        peers,
        held: held.map_or(0, |held| held.list.version),
        issued: held.map_or(UnixTime(0), |held| held.list.issued),
        told,
    }
}

/// What is known after this answer.
fn take(uri: &SiteUri, known: Option<&Known>, welcome: Welcome, now: Now) -> Known {
    let held = known.and_then(|known| known.list.clone());
    let renew = welcome.renew.clamp(*RENEW.start(), *RENEW.end());
    let origin = Origin {
        address: welcome.origin,
        key: KeyName::from_bytes(welcome.origin_key.0),
    };
    let list = if welcome.list.is_empty() {
        held
    } else {
        match open(uri, welcome.list) {
            Some(new) if new.list.supersedes(held.as_ref().map(|held| &held.list)) => {
                let end = now.steady.checked_add(new.list.life());
                Some(Held {
                    ends: end.map_or(Ends::AsItSays, Ends::At),
                    ..new
                })
            }
            Some(_) => {
                tracing::warn!("the broker's list is older than the one before: it does not count");
                held
            }
            None => held,
        }
    };
    Known {
        origin,
        renew: Duration::from_secs(renew.into()),
        list,
    }
}

/// A list that the broker of this URI has signed.
fn open(uri: &SiteUri, bytes: Vec<u8>) -> Option<Held> {
    let broker = KeyName::from_bytes(uri.key.0);
    let opened = List::open(&bytes, &uri.site, |message, signature| {
        broker.has_signed(message, signature)
    });
    match opened {
        Ok(list) => Some(Held {
            list,
            bytes,
            ends: Ends::AsItSays,
        }),
        Err(error) => {
            tracing::warn!(%error, "a list that does not count");
            None
        }
    }
}

/// As it is kept: the URI, a line's end, and a welcome.
fn written(uri: &SiteUri, known: &Known) -> Vec<u8> {
    let welcome = Welcome {
        renew: known.renew.as_secs() as u32,
        origin: known.origin.address.clone(),
        origin_key: tandem_barnraising::PublicKey(known.origin.key.bytes()),
        list: known
            .list
            .as_ref()
            .map_or_else(Vec::new, |held| held.bytes.clone()),
    };
    let mut bytes = format!("{uri}\n").into_bytes();
    bytes.extend(Answer::Welcome(welcome).write());
    bytes
}

/// What was kept, if it is of this URI.
fn read(path: &Path, uri: &SiteUri) -> Option<Known> {
    let bytes = std::fs::read(path).ok()?;
    let answer = bytes.strip_prefix(format!("{uri}\n").as_bytes())?;
    let Answer::Welcome(mut welcome) = Answer::parse(answer)? else {
        return None;
    };
    let list = std::mem::take(&mut welcome.list);
    // It counted once, and keeps older ones out also after its end.
    let list = (!list.is_empty()).then(|| open(uri, list)).flatten();
    let known = take(uri, None, welcome, Now::read());
    Some(Known { list, ..known })
}

/// Twice as long each time, and for each volunteer a little different, so that they do not all come
/// back at once.
fn backoff(failures: u32, longest: Duration) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(12));
    let mut random = [0];
    // Without random bytes they come at once: no more than that.
    let _ = getrandom::fill(&mut random);
    doubled
        .min(longest)
        .mul_f64(1.0 + f64::from(random[0]) / 1024.0)
}

/// A volunteer's, or an origin's, access to the broker.
#[derive(Clone)]
pub(crate) struct BrokerAccess {
    uri: SiteUri,
    listen: IpAddr,
    connector: Connector,
}

impl std::fmt::Debug for BrokerAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BrokerAccess({})", self.uri)
    }
}

impl BrokerAccess {
    pub(crate) fn new(
        uri: SiteUri,
        key: &ChannelKey,
        listen: IpAddr,
    ) -> Result<Self, SplitIoError> {
        let pin = Pin::to(KeyName::from_bytes(uri.key.0));
        let connector = Connector::new(BROKER, key, pin)?;
        Ok(Self {
            uri,
            listen,
            connector,
        })
    }

    /// For messages.
    pub(crate) fn broker(&self) -> String {
        format!("the broker at {}:{}", self.uri.host, self.uri.port)
    }

    pub(crate) async fn ask(&self, wish: Wish) -> Result<Answer, Trouble> {
        let answer = timeout(PATIENCE, self.exchange(wish)).await;
        answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    async fn exchange(&self, wish: Wish) -> Result<Answer, Trouble> {
        let stream = self.connect().await?;
        let mut channel = match self.connector.open(stream).await {
            Ok(channel) => channel,
            Err(error) if is_wrong_key(&error) => return Err(Trouble::WrongKey),
            Err(error) => return Err(error.into()),
        };
        let question = Question {
            site: self.uri.site.clone(),
            wish,
        };
        let question = question.write();
        // Some hundred bytes.
        channel.write_u32(question.len() as u32).await?;
        channel.write_all(&question).await?;
        channel.flush().await?;
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "an answer that is none");
        let length = channel.read_u32().await? as usize;
        if length > MAX_ANSWER {
            return Err(malformed().into());
        }
        let mut answer = vec![0; length];
        channel.read_exact(&mut answer).await?;
        Ok(Answer::parse(&answer).ok_or_else(malformed)?)
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let port = self.uri.port;
        let mut addresses: Vec<SocketAddr> = match &self.uri.host {
            Host::Address(address) => vec![(*address, port).into()],
            Host::Name(name) => lookup_host((name.as_str(), port)).await?.collect(),
        };
        // Browsers find the volunteer where it asks from, and all of them have IPv4.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        first_of(&addresses, PATIENCE, |broker| self.connect_to(broker)).await
    }

    async fn connect_to(&self, broker: SocketAddr) -> io::Result<TcpStream> {
        let socket = match broker {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        let is_one = !self.listen.is_unspecified() && self.listen.is_ipv4() == broker.is_ipv4();
        // From where it serves; but one behind a forwarder of its own machine is not found at its
        // loopback.
        if is_one && (broker.ip().is_loopback() || !self.listen.is_loopback()) {
            socket.bind((self.listen, 0).into())?;
        }
        socket.connect(broker).await
    }
}

/// Whether the other end was refused for the key that it showed.
fn is_wrong_key(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(test)]
mod tests;
