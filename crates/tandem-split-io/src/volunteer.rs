//! The volunteer: a helper whom nobody need trust. It relays TLS to one origin, and puts the answers together from what it holds.
//!
//! Is not: able to change what a client accepts, nor to read what a client sends; what the origin answers it reads.
//!
//! Invariants: no open relay: there is one origin, and nothing but TLS records goes there; clients, memory, disk and rate are bounded; an origin that
//! cannot be reached costs the clients that ask then, and nothing else.

mod allowance;
mod cache;
mod disk;
mod fetch;
mod session;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tandem_barnraising::Member;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::channel::{ChannelKey, Connector, KeyName, Pin, ToOrigin};
use crate::error::SplitIoError;
use crate::listener;
use crate::metrics::Number;
use allowance::Allowance;
use cache::Cache;
use disk::Disk;
use fetch::Fetcher;

/// Clients at a time. One takes at most about a megabyte.
const CLIENTS: usize = 1024;
/// Payloads and lists in memory: 128 MiB.
const MEMORY: usize = 128 << 20;
/// How long the origin may take to open a channel.
const OPEN: Duration = Duration::from_secs(15);

/// The volunteers of a site, as they are at present: whoever follows a broker's list sends each new one.
pub type Members = watch::Receiver<Arc<[Member]>>;

/// Members that stay the same.
#[must_use]
pub fn constant_members(members: Vec<Member>) -> Members {
    watch::channel(members.into()).1
}

/// The key by which others know the volunteer with this cache: kept there, made if it is missing, fleeting without a cache.
///
/// # Errors
/// The directory or the file cannot be made or read.
pub fn key(cache: Option<&Path>) -> Result<ChannelKey, SplitIoError> {
    let Some(folder) = cache else {
        return ChannelKey::fleeting();
    };
    std::fs::create_dir_all(folder).map_err(|source| SplitIoError::File {
        path: folder.to_owned(),
        source,
    })?;
    ChannelKey::kept_in(&folder.join("key"))
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
    /// Where clients come.
    pub listen: SocketAddr,
    /// Where payloads are kept; in memory alone if nowhere.
    pub cache: Option<PathBuf>,
    /// Bytes in `cache` at most.
    pub cache_limit: u64,
    /// Bytes each second to all clients together; as many as there are if none is given.
    pub rate: Option<u64>,
    /// The site's volunteers; this one may be among them or not.
    pub members: Members,
    /// Where other volunteers ask; nowhere if none is given.
    pub peer_listen: Option<SocketAddr>,
}

/// What is counted.
#[derive(Clone, Debug)]
struct Numbers {
    clients: Number,
    open: Number,
    to_clients: Number,
    from_origin: Number,
    asked: Number,
    failed: Number,
    unreachable: Number,
    not_tls: Number,
    cache: cache::Numbers,
}

impl Numbers {
    fn new() -> Self {
        Self {
            clients: Number::counter("tandem_split_volunteer_clients", "Connections of clients"),
            open: Number::gauge(
                "tandem_split_volunteer_open_clients",
                "Connections of clients that are open",
            ),
            to_clients: Number::counter(
                "tandem_split_volunteer_sent_bytes",
                "Bytes of records sent to clients",
            ),
            from_origin: Number::counter(
                "tandem_split_volunteer_stub_bytes",
                "Bytes of messages received from the origin on clients' behalf, without misses",
            ),
            asked: Number::counter(
                "tandem_split_volunteer_misses",
                "Things that the origin was asked for",
            ),
            failed: Number::counter(
                "tandem_split_volunteer_failed_clients",
                "Connections of clients that ended early",
            ),
            unreachable: Number::counter(
                "tandem_split_volunteer_origin_failures",
                "Connections of clients that ended early because of the origin",
            ),
            not_tls: Number::counter(
                "tandem_split_volunteer_not_tls",
                "Connections of clients that spoke no TLS",
            ),
            cache: cache::Numbers {
                from_memory: Number::counter(
                    "tandem_split_volunteer_memory_hits",
                    "Things found in memory",
                ),
                from_disk: Number::counter(
                    "tandem_split_volunteer_disk_hits",
                    "Things found on disk",
                ),
                damaged: Number::counter(
                    "tandem_split_volunteer_damaged",
                    "Things on disk that had another digest",
                ),
                not_kept: Number::counter(
                    "tandem_split_volunteer_not_kept",
                    "Things that the disk did not take",
                ),
                disk_bytes: Number::gauge("tandem_split_volunteer_disk_bytes", "Bytes on disk"),
            },
        }
    }

    fn all(&self) -> Vec<Number> {
        [
            &self.clients,
            &self.open,
            &self.to_clients,
            &self.from_origin,
            &self.asked,
            &self.failed,
            &self.unreachable,
            &self.not_tls,
            &self.cache.from_memory,
            &self.cache.from_disk,
            &self.cache.damaged,
            &self.cache.not_kept,
            &self.cache.disk_bytes,
        ]
        .map(Clone::clone)
        .to_vec()
    }
}

/// The way to the origin.
#[derive(Clone, Debug)]
struct Link {
    origin: Arc<str>,
    connector: Connector,
}

impl Link {
    /// A new channel.
    async fn open(&self) -> io::Result<ToOrigin> {
        let opened = async {
            let stream = TcpStream::connect(&*self.origin).await?;
            self.connector.open(stream).await
        };
        timeout(OPEN, opened)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

/// What all clients share.
#[derive(Debug)]
struct Shared {
    link: Link,
    fetcher: Arc<Fetcher>,
    allowance: Allowance,
    numbers: Numbers,
}

/// A volunteer that listens, and does not answer yet.
#[derive(Debug)]
pub struct Volunteer {
    listener: TcpListener,
    shared: Arc<Shared>,
    key: KeyName,
}

impl Volunteer {
    /// Opens the cache and listens. Must be called within a runtime.
    ///
    /// # Errors
    /// Whatever is wrong with the settings or what they name.
    pub async fn bind(settings: Settings) -> Result<Self, SplitIoError> {
        check_address(&settings.origin)?;
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
        let connector = Connector::new(&key, pin).map_err(|error| SplitIoError::System {
            what: "TLS",
            source: io::Error::other(error),
        })?;
        let link = Link {
            origin: settings.origin.into(),
            connector,
        };
        let listener = listener::listen(settings.listen).await?;
        let cache = Arc::new(Cache::new(MEMORY, disk, numbers.cache.clone()));
        let shared = Shared {
            fetcher: Fetcher::start(cache, link.clone(), numbers.asked.clone()),
            link,
            allowance: Allowance::new(settings.rate),
            numbers,
        };
        Ok(Self {
            listener,
            shared: Arc::new(shared),
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

    /// The key by which an origin with a list knows it.
    #[must_use]
    pub fn key(&self) -> KeyName {
        self.key
    }

    /// What is counted.
    #[must_use]
    pub fn numbers(&self) -> Vec<Number> {
        self.shared.numbers.all()
    }

    /// Serves for ever.
    pub async fn serve(self) {
        listener::serve(self.listener, CLIENTS, |client| {
            let shared = Arc::clone(&self.shared);
            async move {
                shared.numbers.clients.add(1);
                let _open = shared.numbers.open.hold();
                if let Err(error) = session::serve(&shared, client).await {
                    count(&shared.numbers, &error);
                    tracing::debug!(%error, "a client's connection ended early");
                }
            }
        })
        .await;
    }
}

fn count(numbers: &Numbers, error: &session::Failed) {
    numbers.failed.add(1);
    match error {
        session::Failed::NotTls(_) => numbers.not_tls.add(1),
        session::Failed::Origin(_) | session::Failed::Stubs(_) => numbers.unreachable.add(1),
        session::Failed::Client(_) | session::Failed::Late | session::Failed::NoRandom => {}
    }
}

/// `HOST:PORT`; whether there is such a host is found out when a client comes.
fn check_address(origin: &str) -> Result<(), SplitIoError> {
    let port = origin.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(1..)) => Ok(()),
        _ => Err(SplitIoError::Setting {
            setting: "--origin",
            reason: format!("{origin:?} should be HOST:PORT"),
        }),
    }
}
