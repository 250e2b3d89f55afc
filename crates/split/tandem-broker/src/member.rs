//! A volunteer's membership: it joins by the URI that it was given, renews, follows the list,
//! leaves.
//!
//! Is not: the serving of clients, which goes on whatever becomes of this.
//!
//! It asks from each of its addresses, one of a family, so that the broker knows it by both. Its
//! key says that they are one volunteer's. A broker of an older Tandem takes one address: it hangs
//! up on the kind of question that others know, and is asked as before, from the first address
//! alone.
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
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::door::BROKER;
use tandem_barnraising::list::Form;
use tandem_barnraising::talk::{
    Answer, Join, MAX_ANSWER, Prospect, Question, Refusal, Told, Welcome, Wish,
};
use tandem_barnraising::uri::Host;
use tandem_barnraising::{Family, List, Peer, SiteUri};
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
    /// Where the volunteer listens for clients: it asks from the first of each family, unless that
    /// is no particular one.
    pub listen: Vec<SocketAddr>,
    /// Where other volunteers ask it; nowhere if none is given.
    pub peers: Vec<SocketAddr>,
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
    seats: Vec<Seat>,
    kept_in: Option<PathBuf>,
    known: Known,
    members: watch::Sender<Arc<[Peer]>>,
    failures: u32,
}

/// An address of the volunteer that the broker is to know.
#[derive(Debug, Clone)]
struct Seat {
    family: Family,
    /// The port at which other volunteers ask it there; 0 for none.
    peers: u16,
    /// Why the broker does not know it, as was logged last.
    problem: Option<String>,
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
    #[error("the broker ends the channel without an answer")]
    HungUp,
}

/// Which brokers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knows {
    /// One that takes each address from which a volunteer asks.
    Addresses,
    /// One of an older Tandem, for which a second address would be a move.
    OneAddress,
}

/// What came of asking for all of a volunteer's addresses.
#[derive(Debug)]
enum Round {
    /// The broker knows one at least.
    Welcome(Known),
    /// It knows none.
    Failed(Trouble),
    /// It says no.
    Refused(Refusal),
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
        let mut seats = seats(&listen, &peers);
        let access = BrokerAccess::new(uri, &key, listen)?;
        let broker = access.broker();
        let mut failures = 0;
        loop {
            let round = access
                .ask_for(&mut seats, kept.as_ref(), Told::default(), Wanted::One)
                .await;
            let problem = match round {
                Round::Welcome(known) => {
                    let membership = Self::new(access, seats, kept_in, known);
                    membership.keep();
                    return Ok(membership);
                }
                Round::Refused(refusal) => match refusal.prospect() {
                    Prospect::Never => return Err(BrokerError::Refused { broker, refusal }),
                    Prospect::Later => refusal.to_string(),
                },
                Round::Failed(Trouble::WrongKey) if kept.is_none() => {
                    return Err(BrokerError::WrongKey { broker });
                }
                Round::Failed(trouble) => trouble.to_string(),
            };
            tracing::warn!(%broker, %problem, "not joined yet");
            if let Some(known) = kept.take() {
                tracing::info!("what the broker said last is enough to serve");
                let mut membership = Self::new(access, seats, kept_in, known);
                membership.failures = 1;
                return Ok(membership);
            }
            failures += 1;
            sleep(backoff(failures, MAX_WAIT)).await;
        }
    }

    fn new(access: BrokerAccess, seats: Vec<Seat>, kept_in: Option<PathBuf>, known: Known) -> Self {
        let members = watch::Sender::new(known.members(Now::read()));
        Self {
            access,
            seats,
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
    pub fn members(&self) -> watch::Receiver<Arc<[Peer]>> {
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
        // One address was enough to begin with; now the other one.
        let mut wait = match (self.failures, self.seats.len()) {
            (0, 2..) => Duration::ZERO,
            _ => self.wait(),
        };
        loop {
            sleep(wait).await;
            let before = self.known.origin.clone();
            self.renew(told()).await;
            if self.known.origin != before {
                tracing::info!("the broker names another origin");
                moved(&self.known.origin);
            }
            wait = self.wait();
        }
    }

    fn wait(&self) -> Duration {
        match self.failures {
            0 => self.known.renew,
            failures => backoff(failures, self.known.renew),
        }
    }

    async fn renew(&mut self, told: Told) {
        let broker = self.access.broker();
        let known = Some(&self.known);
        let round = self
            .access
            .ask_for(&mut self.seats, known, told, Wanted::All)
            .await;
        match round {
            Round::Welcome(known) => {
                if std::mem::take(&mut self.failures) > 0 {
                    tracing::info!(%broker, "the broker answers again");
                }
                self.known = known;
                self.keep();
            }
            Round::Refused(refusal) => {
                tracing::warn!(%broker, %refusal, "not renewed");
                self.failures = self.failures.saturating_add(1);
            }
            Round::Failed(trouble) => {
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
    fn members(&self, now: Now) -> Arc<[Peer]> {
        match &self.list {
            Some(held) if held.counts(now) => held.list.members.clone().into(),
            Some(_) | None => Arc::from([]),
        }
    }
}

/// One address of each family that is listened on, IPv4 first: all browsers have that.
fn seats(listen: &[SocketAddr], peers: &[SocketAddr]) -> Vec<Seat> {
    let has = |addresses: &[SocketAddr], family: Family| {
        let any = |address: &SocketAddr| address.is_ipv6() && address.ip().is_unspecified();
        let fits = |address: &&SocketAddr| Family::of(address.ip()) == family || any(address);
        addresses.iter().find(fits).copied()
    };
    let seats = [Family::V4, Family::V6].into_iter().filter_map(|family| {
        has(listen, family)?;
        Some(Seat {
            family,
            peers: has(peers, family).map_or(0, |address| address.port()),
            problem: None,
        })
    });
    seats.collect()
}

fn wish(known: Option<&Known>, peers: u16, told: Told, now: Now) -> Join {
    let held = known.and_then(|known| known.list.as_ref());
    // One that counts no more here is to be sent again, if it is the newest still.
    let held = held.filter(|held| held.counts(now));
    Join {
        form: Form::All,
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

/// How many addresses the broker is to know before something else is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    One,
    All,
}

/// A volunteer's, or an origin's, access to the broker.
#[derive(Clone)]
pub(crate) struct BrokerAccess {
    uri: SiteUri,
    /// From where it is asked, if that is a particular address.
    listen: Vec<SocketAddr>,
    connector: Connector,
    /// How often nobody answered. Each time it is begun with another address: a machine whose
    /// program hangs takes connections.
    failures: Arc<AtomicUsize>,
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
        listen: Vec<SocketAddr>,
    ) -> Result<Self, SplitIoError> {
        let pin = Pin::to(KeyName::from_bytes(uri.key.0));
        let connector = Connector::new(BROKER, key, pin)?;
        Ok(Self {
            uri,
            listen,
            connector,
            failures: Arc::default(),
        })
    }

    /// For messages.
    pub(crate) fn broker(&self) -> String {
        format!("the broker at {}:{}", self.uri.host, self.uri.port)
    }

    /// Asks from whatever address the broker is reached, IPv4 first.
    pub(crate) async fn ask(&self, wish: Wish) -> Result<Answer, Trouble> {
        self.ask_from(None, wish).await
    }

    /// The same from an address of this family.
    async fn ask_from(&self, family: Option<Family>, wish: Wish) -> Result<Answer, Trouble> {
        let answer = match timeout(PATIENCE, self.exchange(family, wish)).await {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        };
        if answer.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// Asks for all of these addresses, or until the broker knows one.
    async fn ask_for(
        &self,
        seats: &mut [Seat],
        known: Option<&Known>,
        told: Told,
        wanted: Wanted,
    ) -> Round {
        let mut round = Round::Failed(Trouble::HungUp);
        let mut known = known.cloned();
        let only = seats.len() == 1;
        let mut takes_one = false;
        for seat in seats {
            if takes_one {
                seat.note(Some(
                    "it is of an older Tandem, and takes one address".to_owned(),
                ));
                continue;
            }
            let join = wish(known.as_ref(), seat.peers, told, Now::read());
            let mut answer = self.join(Some(seat.family), join).await;
            // Whoever forwards clients here may have the other family.
            if only && matches!(answer, Err(Trouble::Io(_))) {
                answer = self.join(None, join).await;
            }
            let (problem, knows) = match answer {
                Ok((Answer::Welcome(welcome), knows)) => {
                    let now = take(&self.uri, known.as_ref(), welcome, Now::read());
                    known = Some(now.clone());
                    round = Round::Welcome(now);
                    (None, knows)
                }
                Ok((Answer::Refused(refusal), knows)) => {
                    let problem = refusal.to_string();
                    if !matches!(round, Round::Welcome(_)) {
                        round = Round::Refused(refusal);
                    }
                    (Some(problem), knows)
                }
                Ok((Answer::Farewell | Answer::Noted, _)) => (
                    Some("an answer to another question".to_owned()),
                    Knows::Addresses,
                ),
                Err(trouble) => {
                    let problem = trouble.to_string();
                    if matches!(round, Round::Failed(_)) {
                        round = Round::Failed(trouble);
                    }
                    (Some(problem), Knows::Addresses)
                }
            };
            seat.note(problem);
            if matches!(round, Round::Welcome(_)) {
                match (wanted, knows) {
                    (Wanted::One, _) => break,
                    (Wanted::All, Knows::OneAddress) => takes_one = true,
                    (Wanted::All, Knows::Addresses) => {}
                }
            }
        }
        round
    }

    async fn join(&self, family: Option<Family>, join: Join) -> Result<(Answer, Knows), Trouble> {
        match self.ask_from(family, Wish::Join(join)).await {
            Err(Trouble::HungUp) => {
                let join = Join {
                    form: Form::One,
                    ..join
                };
                let answer = self.ask_from(family, Wish::Join(join)).await?;
                Ok((answer, Knows::OneAddress))
            }
            answer => Ok((answer?, Knows::Addresses)),
        }
    }

    async fn exchange(&self, family: Option<Family>, wish: Wish) -> Result<Answer, Trouble> {
        let stream = self.connect(family).await?;
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
        let length = match channel.read_u32().await {
            Ok(length) => length as usize,
            Err(error) if is_end(&error) => return Err(Trouble::HungUp),
            Err(error) => return Err(error.into()),
        };
        if length > MAX_ANSWER {
            return Err(malformed().into());
        }
        let mut answer = vec![0; length];
        channel.read_exact(&mut answer).await?;
        Ok(Answer::parse(&answer).ok_or_else(malformed)?)
    }

    async fn connect(&self, family: Option<Family>) -> io::Result<TcpStream> {
        let port = self.uri.port;
        let mut addresses: Vec<SocketAddr> = match &self.uri.host {
            Host::Address(address) => vec![(*address, port).into()],
            Host::Name(name) => lookup_host((name.as_str(), port)).await?.collect(),
        };
        let fits = |address: &SocketAddr| family.is_none_or(|of| of == Family::of(address.ip()));
        addresses.retain(fits);
        in_turn(&mut addresses, self.failures.load(Ordering::Relaxed));
        first_of(&addresses, PATIENCE, |broker| self.connect_to(broker)).await
    }

    async fn connect_to(&self, broker: SocketAddr) -> io::Result<TcpStream> {
        let socket = match broker {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        let own = self.listen.iter().map(SocketAddr::ip).find(|own| {
            let is_one = !own.is_unspecified() && own.is_ipv4() == broker.is_ipv4();
            // From where it serves; but one behind a forwarder of its own machine is not found at
            // its loopback.
            is_one && (broker.ip().is_loopback() || !own.is_loopback())
        });
        if let Some(own) = own {
            socket.bind((own, 0).into())?;
        }
        socket.connect(broker).await
    }
}

impl Seat {
    /// Notes, and logs if it is something else than before, whether the broker knows this address.
    fn note(&mut self, problem: Option<String>) {
        if self.problem == problem {
            return;
        }
        let family = self.family;
        match &problem {
            Some(problem) => {
                tracing::info!(?family, %problem, "the broker does not know this volunteer by an address of this family");
            }
            None => {
                tracing::info!(
                    ?family,
                    "the broker knows this volunteer by an address of this family"
                );
            }
        }
        self.problem = problem;
    }
}

/// Brings a broker's addresses into the order in which they are tried after so many failures: a
/// second broker of the site has the same name. A resolver may give them in another order each
/// time.
fn in_turn(addresses: &mut [SocketAddr], failures: usize) {
    addresses.sort_unstable();
    let first = failures.checked_rem(addresses.len()).unwrap_or(0);
    addresses.rotate_left(first);
    // Browsers find the volunteer where it asks from, and all of them have IPv4.
    addresses.sort_by_key(SocketAddr::is_ipv6);
}

/// Whether an error says that the other end has ended the channel.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

/// Whether the other end was refused for the key that it showed.
fn is_wrong_key(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(test)]
mod tests;
