//! The volunteer: a helper that nobody has to trust. It relays TLS to one origin, and puts the
//! answers together from what it holds.
//!
//! Is not: able to change what a client accepts, nor to read what a client sends; what the origin
//! answers it reads.
//!
//! Invariants: no open relay: there is one origin, and nothing but TLS records goes there; clients,
//! memory, disk and rate are bounded; clients of one network leave places to others (`places`); an
//! origin that cannot be reached costs the clients that ask then, and nothing else.

mod allowance;
mod answer;
mod ask;
mod cache;
mod disk;
mod fetch;
mod guide;
mod link;
mod numbers;
mod patience;
mod peers;
mod ready;
mod session;
mod sharing;

pub use guide::Guide;
pub use sharing::{Directory, Holders, Members, Nobody, Placement, constant_members};

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tandem_barnraising::places::{Rank, Rules};
use tandem_barnraising::talk::Told;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::error::SplitIoError;
use crate::greet::SPLIT;
use crate::places::{self, Places};
use allowance::Allowance;
use ask::{Arrivals, Asker};
use cache::Cache;
use disk::Disk;
use fetch::Fetcher;
use link::Link;
use numbers::Numbers;
use peers::Peers;
use ready::Ready;
use tandem_channel::{Acceptor, Admission, ChannelError, ChannelKey, KeyName, Pin};
use tandem_daemon::listener;
use tandem_daemon::metrics::Number;

/// Clients at a time, unless [`Volunteer::limited_to`] says otherwise. One takes at most about a
/// megabyte.
const CLIENTS: usize = 1024;
/// Payloads and lists in memory: 128 MiB.
const MEMORY: usize = 128 << 20;
/// Channels of other volunteers at a time.
const PEERS: usize = 256;
/// Of those, from addresses that are no member's and before the key is known: a member may come by
/// another way than it is listed.
const STRANGERS: usize = 64;

/// The key by which others know the volunteer with this cache: kept there, made if it is missing;
/// fleeting without a cache, or where nothing can be kept.
///
/// # Errors
/// The directory or the file cannot be made or read.
pub fn key(cache: Option<&Path>) -> Result<ChannelKey, SplitIoError> {
    let Some(folder) = cache else {
        return Ok(ChannelKey::fleeting()?);
    };
    std::fs::create_dir_all(folder).map_err(|source| SplitIoError::File {
        path: folder.to_owned(),
        source,
    })?;
    match ChannelKey::kept_in(&folder.join("key")) {
        Err(ChannelError::File { path, source })
            if disk::is_read_only(&source) && !path.exists() =>
        {
            tracing::warn!(path = %path.display(), error = %source, "this volunteer's key cannot be kept: it will have another one after its next start");
            Ok(ChannelKey::fleeting()?)
        }
        key => Ok(key?),
    }
}

/// What a volunteer needs to know.
#[derive(Debug)]
pub struct Settings {
    /// Its own key: [`key`].
    pub key: ChannelKey,
    /// Where the origin is: host and port.
    pub origin: String,
    /// Its key; the first that is met if none is given.
    pub origin_key: Option<KeyName>,
    /// Where clients come; `[::]` is for IPv4, too, unless that has an address of its own.
    pub listen: Vec<SocketAddr>,
    /// Where payloads are kept; in memory alone if nowhere.
    pub cache: Option<PathBuf>,
    /// Bytes in `cache` at most.
    pub cache_limit: u64,
    /// Bytes each second to all clients together; as many as there are if none is given.
    pub rate: Option<u64>,
    /// The site's volunteers; this one may be among them or not.
    pub members: Members,
    /// Where other volunteers ask; nowhere if none is given.
    pub peer_listen: Vec<SocketAddr>,
    /// How to know whom of them to ask.
    pub directory: Arc<dyn Directory>,
}

/// What a volunteer says of itself, at any time.
#[derive(Clone, Debug)]
pub struct Tally(Numbers);

impl Tally {
    /// What it has done up to now.
    #[must_use]
    pub fn told(&self) -> Told {
        let numbers = &self.0;
        Told {
            clients: numbers.clients.value(),
            sent: numbers.to_clients.value(),
            from_origin: numbers.from_origin.value() + numbers.missed.value(),
        }
    }
}

/// What all clients share.
#[derive(Debug)]
struct Shared {
    ready: Ready,
    fetcher: Arc<Fetcher>,
    allowance: Allowance,
    numbers: Numbers,
}

/// A volunteer that listens, and does not answer yet.
#[derive(Debug)]
pub struct Volunteer {
    listeners: Vec<TcpListener>,
    places: Places,
    peers: Option<PeerPort>,
    shared: Arc<Shared>,
    key: ChannelKey,
}

impl Volunteer {
    /// Opens the cache and listens. Must be called within a runtime.
    ///
    /// # Errors
    /// Whatever is wrong with the settings or what they name.
    pub async fn bind(settings: Settings) -> Result<Self, SplitIoError> {
        let numbers = Numbers::new();
        let disk = match &settings.cache {
            Some(folder) => Some(Disk::open(folder, settings.cache_limit)?),
            None => None,
        };
        let key = settings.key;
        let pin = match settings.origin_key {
            Some(key) => Pin::to(key),
            None => Pin::first_met(settings.cache.map(|folder| folder.join("origin-key")))?,
        };
        let link = Link::new(&settings.origin, &key, pin)?;
        let listeners = listener::listen_all("--listen", &settings.listen)?;
        let peers = match &settings.peer_listen[..] {
            [] => None,
            addresses => Some(PeerPort::open(addresses, &key, &settings.members)?),
        };
        let arrivals = Arrivals {
            cache: Arc::new(Cache::new(MEMORY, disk, numbers.cache.clone())),
            directory: settings.directory,
        };
        let fetcher = Fetcher::new(
            Arc::clone(&arrivals.cache),
            Peers::new(
                key.clone(),
                settings.members,
                arrivals.clone(),
                numbers.peers.clone(),
            ),
            Asker::start(
                link.clone(),
                arrivals,
                numbers.asked.clone(),
                numbers.missed.clone(),
            ),
        );
        let shared = Shared {
            fetcher: Arc::new(fetcher),
            ready: Ready::over(link),
            allowance: Allowance::new(settings.rate),
            numbers,
        };
        Ok(Self {
            listeners,
            places: places_of_clients(CLIENTS, &shared.numbers),
            peers,
            shared: Arc::new(shared),
            key,
        })
    }

    /// Serves so many clients at a time in place of 1024. One takes at most about a megabyte.
    #[must_use]
    pub fn limited_to(self, clients: usize) -> Self {
        let places = places_of_clients(clients, &self.shared.numbers);
        Self { places, ..self }
    }

    /// Where it listens first, the port in numbers.
    ///
    /// # Errors
    /// The system does not say, or it listens nowhere.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let first = self.listeners.first().ok_or(io::ErrorKind::NotFound)?;
        first.local_addr()
    }

    /// Where it answers other volunteers first, the port in numbers.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let first = self.peers.as_ref()?.listeners.first()?;
        first.local_addr().ok()
    }

    /// The key by which an origin with a list knows it.
    #[must_use]
    pub fn key(&self) -> KeyName {
        self.key.name()
    }

    /// By which it can be led to another origin while it serves.
    #[must_use]
    pub fn guide(&self) -> Guide {
        Guide {
            ready: self.shared.ready.clone(),
            key: self.key.clone(),
        }
    }

    /// What it can say that it has done.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally(self.shared.numbers.clone())
    }

    /// What is counted.
    #[must_use]
    pub fn numbers(&self) -> Vec<Number> {
        self.shared.numbers.all()
    }

    /// Serves for ever.
    pub async fn serve(self) {
        if let Some(port) = self.peers {
            tokio::spawn(port.serve(Arc::clone(&self.shared)));
        }
        let mut serving = JoinSet::new();
        for listener in self.listeners {
            let (places, shared) = (self.places.clone(), Arc::clone(&self.shared));
            serving.spawn(serve_clients(listener, places, shared));
        }
        while serving.join_next().await.is_some() {}
    }
}

/// Serves those who come to one of the addresses; all share the places.
async fn serve_clients(listener: TcpListener, places: Places, shared: Arc<Shared>) {
    let rank = |_: IpAddr| Rank::Stranger;
    let serving = places.serve(listener, rank, |client, place| {
        let shared = Arc::clone(&shared);
        async move {
            shared.numbers.clients.add(1);
            let _open = shared.numbers.open.hold();
            if let Err(error) = session::serve(&shared, client, place).await {
                count(&shared.numbers, &error);
                tracing::debug!(%error, "a client's connection ended early");
            }
        }
    });
    serving.await;
}

fn places_of_clients(total: usize, numbers: &Numbers) -> Places {
    let rules = Rules {
        total,
        reserved: 0,
        strangers: None,
    };
    Places::new(rules, numbers.clients_sent_away.clone())
}

/// Where other volunteers ask.
#[derive(Debug)]
struct PeerPort {
    listeners: Vec<TcpListener>,
    acceptor: Acceptor,
    members: Members,
}

impl PeerPort {
    fn open(
        addresses: &[SocketAddr],
        key: &ChannelKey,
        members: &Members,
    ) -> Result<Self, SplitIoError> {
        let admitted = members.clone();
        let admission = Admission::If(Box::new(move |key| sharing::has(&admitted, key)));
        let acceptor = Acceptor::new(SPLIT, key, admission)?;
        Ok(Self {
            listeners: listener::listen_all("--peer-listen", addresses)?,
            acceptor,
            members: members.clone(),
        })
    }

    async fn serve(self, shared: Arc<Shared>) {
        let rules = Rules {
            total: PEERS,
            reserved: PEERS - STRANGERS,
            strangers: None,
        };
        let refused = &shared.numbers.refused_peers;
        let numbers = places::Numbers {
            refused: refused.clone(),
            displaced: refused.clone(),
        };
        let places = Places::new(rules, numbers);
        let mut serving = JoinSet::new();
        for listener in self.listeners {
            let (acceptor, members) = (self.acceptor.clone(), self.members.clone());
            let (places, shared) = (places.clone(), Arc::clone(&shared));
            serving.spawn(async move {
                let ranked = |from| rank(&members, from);
                let each = |stream, place| {
                    let (shared, acceptor) = (Arc::clone(&shared), acceptor.clone());
                    let members = members.clone();
                    async move {
                        let served =
                            answer::serve(&shared, &acceptor, &members, stream, place).await;
                        if let Err(error) = served {
                            tracing::debug!(%error, "a channel of another volunteer ended early");
                        }
                    }
                };
                places.serve(listener, ranked, each).await;
            });
        }
        while serving.join_next().await.is_some() {}
    }
}

fn count(numbers: &Numbers, error: &session::Failed) {
    numbers.failed.add(1);
    match error {
        session::Failed::NotTls(_) | session::Failed::NoHello => numbers.not_tls.add(1),
        session::Failed::Origin(_) | session::Failed::Stubs(_) => numbers.unreachable.add(1),
        session::Failed::Client(_) | session::Failed::Late | session::Failed::NoRandom => {}
    }
}

/// What is known of whoever comes from this address before its key is.
fn rank(members: &Members, from: IpAddr) -> Rank {
    let from = from.to_canonical();
    let members = members.borrow();
    match members.iter().any(|member| member.is_at(from)) {
        true => Rank::Known,
        false => Rank::Stranger,
    }
}
