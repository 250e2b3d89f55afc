//! The primary's end: it takes in what its standby knows, and tells it whatever changes.
//!
//! Is not: who acts: the standby finds that out by itself.
//!
//! Invariants: one standby at a time, the one that came last; strangers get no further than a
//! handshake, hold few places, and each for seconds; a broker that hangs says nothing, so that its
//! standby goes on acting.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tandem_broker_dns::copied::{Heard, Other};
use tandem_channel::{Acceptor, Admission, ChannelKey, ServerChannel};
use tandem_daemon::listener;
use tandem_split_io::SplitIoError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{BEAT, GONE, PAIR, PATIENCE, THERE, check_format, known, read_zone};
use crate::database::copy::FORMAT;
use crate::error::BrokerError;
use crate::keeper::{Keeper, Who};
use crate::moment::wall;
use crate::pair_status::{Role, Shown};
use crate::tables::{Frame, Tables, malformed};

/// Connections in all, and of one network: a standby needs one.
const PLACES: usize = 32;
const PLACES_EACH: usize = 4;
/// How long a primary that has just been started waits for its standby, which comes each second.
const FIRST: Duration = Duration::from_secs(5);

/// See above.
#[derive(Debug, Clone)]
pub(crate) struct Primary {
    acceptor: Acceptor,
    keeper: Keeper,
    dns: Option<Arc<Other>>,
    pub(crate) shown: Shown,
    /// How many standbys have come.
    count: Arc<watch::Sender<u64>>,
    /// Whether this broker serves already.
    serves: Arc<AtomicBool>,
}

impl Primary {
    pub(crate) async fn bind(
        listen: SocketAddr,
        key: &ChannelKey,
        keeper: Keeper,
        dns: Option<Other>,
    ) -> Result<(Self, TcpListener), BrokerError> {
        let admission = Admission::Listed(HashSet::from([key.name()]));
        let acceptor = Acceptor::new(PAIR, key, admission).map_err(SplitIoError::from)?;
        let listener = listener::listen("pair.listen", listen).await;
        let primary = Self {
            acceptor,
            keeper,
            dns: dns.map(Arc::new),
            shown: Shown::new(Role::Primary),
            count: Arc::new(watch::Sender::new(0)),
            serves: Arc::default(),
        };
        Ok((primary, listener.map_err(SplitIoError::from)?))
    }

    /// Waits until the standby has told what it knows, or does not come.
    pub(crate) async fn first(&self) {
        let mut count = self.count.subscribe();
        let came = timeout(FIRST, count.wait_for(|count| *count > 0)).await;
        self.serves.store(true, Ordering::Relaxed);
        if came.is_err() {
            tracing::warn!(
                "the standby has not come: this broker starts with what it knew at its end"
            );
        }
    }

    /// Serves for ever.
    pub(crate) async fn serve(self, listener: TcpListener) {
        listener::serve_shared(listener, PLACES, PLACES_EACH, |stream| {
            let primary = self.clone();
            async move {
                let from = stream.peer_addr().ok();
                match timeout(PATIENCE, primary.acceptor.open(stream, Arc::default())).await {
                    Ok(Ok(channel)) => primary.talk(channel).await,
                    Ok(Err(error)) => {
                        tracing::debug!(?from, %error, "no standby: it does not hold the key");
                    }
                    Err(_) => tracing::debug!(?from, "no standby: it says nothing"),
                }
            }
        })
        .await;
    }

    async fn talk(&self, mut channel: ServerChannel) {
        let told = match timeout(GONE, self.listen(&mut channel)).await {
            Ok(told) => told,
            Err(late) => Err(late.into()),
        };
        if let Err(error) = told {
            tracing::error!(%error, "what the standby knows cannot be taken");
            return;
        }
        let mut number = 0;
        self.count.send_modify(|count| {
            *count += 1;
            number = *count;
        });
        tracing::info!("the standby is there");
        self.shown.set_connected(true);
        let mut count = self.count.subscribe();
        let ended = tokio::select! {
            ended = self.tell(&mut channel) => ended.err(),
            _ = count.wait_for(|count| *count != number) => None,
        };
        if let Some(error) = ended {
            tracing::warn!(%error, "the standby is gone");
        }
        if *self.count.borrow() == number {
            self.shown.set_connected(false);
        }
    }

    /// What the standby knows, which stops acting at the first word.
    async fn listen(&self, channel: &mut ServerChannel) -> io::Result<()> {
        self.keeper.answers().await;
        channel.write_u8(THERE).await?;
        channel.flush().await?;
        let frame = Frame::read(channel).await?;
        check_format(&frame)?;
        let (theirs, steady) = (frame.wall, frame.steady);
        self.shown
            .set_ahead(theirs.cast_signed().saturating_sub(wall().0.cast_signed()));
        let mut tables = Tables::default();
        tables.apply(frame)?;
        if let (Some(dns), Some(copied)) = (&self.dns, read_zone(&tables)?) {
            dns.heard.send_replace(Arc::new(Heard {
                copied: Some(copied),
                clock: None,
                is_there: true,
            }));
        }
        if tables.0.is_empty() {
            // It has never had a copy.
            return Ok(());
        }
        let who = match self.serves.load(Ordering::Relaxed) {
            false => Who::ActedMeanwhile,
            true => Who::OnlyLinkWasGone,
        };
        let taken = self.keeper.take(tables, steady, who).await;
        taken.map_err(io::Error::other)
    }

    /// All that is known, and then what has changed, for as long as the standby listens.
    async fn tell(&self, channel: &mut ServerChannel) -> io::Result<()> {
        let mut published = self.keeper.published();
        let mut last = Tables::default();
        loop {
            let (tables, steady) = known(&self.keeper, self.dns.as_deref()).await?;
            let frame = tables.since(&last, FORMAT, (wall().0, steady));
            last = tables;
            let heard = async {
                frame.write(channel).await?;
                channel.read_u8().await
            };
            match timeout(GONE, heard).await?? {
                0 => {}
                _ => return Err(malformed("another answer than the standby's")),
            }
            tokio::select! {
                () = sleep(BEAT) => {}
                _ = published.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tandem_channel::{Connector, Pin};
    use tokio::net::TcpStream;

    use super::*;
    use crate::config::Config;
    use crate::config::tests::SMALL;
    use crate::database::Database;

    fn key(seed: u8) -> ChannelKey {
        ChannelKey::from_seed(&[seed; 32]).expect("a key")
    }

    /// What a primary with the key 1 says to the holder of this key, who knows which one that is.
    async fn told(primary: SocketAddr, own: u8) -> io::Result<Frame> {
        let pin = Pin::to(key(1).name());
        let connector = Connector::new(PAIR, &key(own), pin).expect("a client");
        let stream = TcpStream::connect(primary).await?;
        let mut channel = connector.open(stream).await?;
        assert_eq!(channel.read_u8().await?, THERE);
        // As a standby that has never had a copy.
        let empty = Tables::default();
        let frame = empty.since(&empty, FORMAT, (0, 0));
        frame.write(&mut channel).await?;
        channel.flush().await?;
        Frame::read(&mut channel).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_who_holds_the_brokers_key_is_told_or_heard() {
        let folder = tempfile::tempdir().expect("a directory");
        let text = format!("{SMALL}\n[pair]\nlisten = \"127.0.0.1:0\"");
        let config = Config::parse(&text, Path::new("test.toml")).expect("well-formed");
        let path = folder.path().join("broker.sqlite");
        let (database, kept) = Database::open(&path, &config.site).expect("a disk");
        let keeper = Keeper::new(&config, key(1), database, kept);
        let listen = "127.0.0.1:0".parse().expect("an address");
        let (primary, listener) = Primary::bind(listen, &key(1), keeper, None)
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (count, shown) = (primary.count.subscribe(), primary.shown.clone());
        tokio::spawn(primary.serve(listener));
        for stranger in [2, 3] {
            assert!(told(address, stranger).await.is_err());
        }
        assert_eq!(*count.borrow(), 0);
        assert!(!shown.status().connected);
        let frame = told(address, 1).await.expect("the standby");
        assert!(frame.new.rows("site").next().is_some());
        assert_eq!(*count.borrow(), 1);
    }
}
