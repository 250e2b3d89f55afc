//! The way to somebody: the origin, or another volunteer. That to the origin may become another
//! while the volunteer serves: a broker tells.
//!
//! Is not: a choice between origins. There is one at a time, and what is open to the one before
//! stays as long as it lasts.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::ready::Ready;
use crate::channel::{ChannelKey, Connector, KeyName, Pin, ToOrigin};
use crate::error::SplitIoError;

/// How long opening a channel may take.
const OPEN: Duration = Duration::from_secs(15);

/// Opens channels.
#[derive(Clone, Debug)]
pub(super) struct Link {
    way: Arc<Mutex<Way>>,
}

#[derive(Clone, Debug)]
struct Way {
    to: Arc<str>,
    connector: Connector,
}

impl Link {
    /// As the holder of `key`, to whoever at `HOST:PORT` holds what is pinned.
    pub(super) fn new(to: &str, key: &ChannelKey, pin: Pin) -> Result<Self, SplitIoError> {
        Ok(Self {
            way: Arc::new(Mutex::new(Way::new(to, key, pin)?)),
        })
    }

    /// A new channel.
    pub(super) async fn open(&self) -> io::Result<ToOrigin> {
        let way = self.lock().clone();
        let opened = async {
            let stream = TcpStream::connect(&*way.to).await?;
            way.connector.open(stream).await
        };
        timeout(OPEN, opened)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    fn lock(&self) -> MutexGuard<'_, Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Way {
    fn new(to: &str, key: &ChannelKey, pin: Pin) -> Result<Self, SplitIoError> {
        check_address(to)?;
        let connector = Connector::new(key, pin).map_err(|error| SplitIoError::System {
            what: "TLS",
            source: io::Error::other(error),
        })?;
        Ok(Self {
            to: to.into(),
            connector,
        })
    }
}

/// Leads a volunteer that serves to another origin.
#[derive(Clone, Debug)]
pub struct Guide {
    pub(super) ready: Ready,
    pub(super) key: ChannelKey,
}

impl Guide {
    /// From the next channel on, to the one at `HOST:PORT` with this key.
    ///
    /// # Errors
    /// The address is none. The way is as it was.
    pub fn lead_to(&self, origin: &str, key: KeyName) -> Result<(), SplitIoError> {
        *self.ready.link().lock() = Way::new(origin, &self.key, Pin::to(key))?;
        self.ready.forget();
        Ok(())
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
