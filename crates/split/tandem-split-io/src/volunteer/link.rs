//! The link to somebody: the origin, or another volunteer. That to the origin may become another
//! while the volunteer serves: a broker tells.
//!
//! Is not: a choice between origins. There is one at a time, and what is open to the one before
//! stays as long as it lasts.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_barnraising::Peer;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::SplitIoError;
use crate::greet::SPLIT;
use tandem_channel::{ChannelKey, ClientChannel, Connector, CountedChannel, Pin, dial};

/// How long opening a channel may take, all addresses together.
const OPEN: Duration = Duration::from_secs(15);

/// Opens channels.
#[derive(Clone, Debug)]
pub(super) struct Link {
    target: Arc<Mutex<Target>>,
}

#[derive(Clone, Debug)]
struct Target {
    to: To,
    connector: Connector,
}

/// Where somebody is.
#[derive(Clone, Debug)]
enum To {
    /// `HOST:PORT`: wherever that leads when a channel is opened.
    Host(Arc<str>),
    /// At one of these, the first that takes a connection.
    Addresses(Arc<[SocketAddr]>),
}

impl Link {
    /// As the holder of `key`, to whoever at `HOST:PORT` holds what is pinned.
    pub(super) fn new(to: &str, key: &ChannelKey, pin: Pin) -> Result<Self, SplitIoError> {
        Ok(Self {
            target: Arc::new(Mutex::new(Target::new(to, key, pin)?)),
        })
    }

    /// As the holder of `key`, to another volunteer, at the addresses at which it answers any.
    pub(super) fn to_peer(peer: &Peer, key: &ChannelKey, pin: Pin) -> Result<Self, SplitIoError> {
        let addresses = peer.addresses().filter(|address| address.port() != 0);
        let target = Target {
            to: To::Addresses(addresses.collect()),
            connector: Connector::new(SPLIT, key, pin)?,
        };
        Ok(Self {
            target: Arc::new(Mutex::new(target)),
        })
    }

    /// A new channel.
    pub(super) async fn open(&self) -> io::Result<ClientChannel> {
        let target = self.lock().clone();
        in_time(async {
            let stream = target.dialled().await?;
            target.connector.open(stream).await
        })
        .await
    }

    /// The same; what comes by it is added to `came`.
    pub(super) async fn open_counted(&self, came: Arc<AtomicU64>) -> io::Result<CountedChannel> {
        let target = self.lock().clone();
        in_time(async {
            let stream = target.dialled().await?;
            target.connector.open_counted(stream, came).await
        })
        .await
    }

    /// From the next channel on it leads there.
    pub(super) fn lead_to(&self, to: &str, key: &ChannelKey, pin: Pin) -> Result<(), SplitIoError> {
        *self.lock() = Target::new(to, key, pin)?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Target> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn in_time<T>(opened: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(OPEN, opened)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

impl Target {
    fn new(to: &str, key: &ChannelKey, pin: Pin) -> Result<Self, SplitIoError> {
        check_address(to)?;
        let connector = Connector::new(SPLIT, key, pin)?;
        Ok(Self {
            to: To::Host(to.into()),
            connector,
        })
    }

    async fn dialled(&self) -> io::Result<TcpStream> {
        match &self.to {
            To::Host(host) => dial(&**host, OPEN).await,
            To::Addresses(addresses) => dial(&**addresses, OPEN).await,
        }
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
