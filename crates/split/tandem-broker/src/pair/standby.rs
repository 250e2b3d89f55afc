//! The standby's end: it copies what the primary knows, and acts while that is gone.
//!
//! Is not: what acting is (`keeper/pair.rs`).
//!
//! Invariants: it stops acting before it tells the primary what it knows, so that nobody joins in
//! between, and not before that has said that it is there; it does not act while it is connected: a
//! primary that was silent for too long is told anew, on another connection; what it
//! copies is whole, or it is not taken.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tandem_broker_dns::copied::{Heard, Other, TheirClock};
use tandem_channel::{ChannelKey, Connector, Pin, dial};
use tandem_split_io::SplitIoError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{GONE, PAIR, PATIENCE, THERE, check_format, known, read_zone};
use crate::database::copy::FORMAT;
use crate::error::BrokerError;
use crate::keeper::{Keeper, Part, Who};
use crate::moment::wall;
use crate::pair_status::{Role, Shown};
use crate::tables::{Frame, Tables, malformed};

/// Between two attempts to reach the primary.
const AGAIN: Duration = Duration::from_millis(500);

/// When the primary said something last.
#[derive(Debug, Clone, Copy)]
enum Seen {
    At(Instant),
    /// It is gone, and that is known.
    Gone,
}

/// See above.
#[derive(Debug)]
pub(crate) struct Standby {
    primary: String,
    connector: Connector,
    keeper: Keeper,
    dns: Option<Other>,
    pub(crate) shown: Shown,
    /// Whether there is something to act on: a copy from now or from before a restart.
    knows: watch::Sender<bool>,
    seen: watch::Sender<Seen>,
}

impl Standby {
    pub(crate) fn new(
        primary: &str,
        key: &ChannelKey,
        keeper: Keeper,
        dns: Option<Other>,
        knows: bool,
    ) -> Result<Self, BrokerError> {
        let connector = Connector::new(PAIR, key, Pin::to(key.name()));
        Ok(Self {
            primary: primary.to_owned(),
            connector: connector.map_err(SplitIoError::from)?,
            keeper,
            dns,
            shown: Shown::new(Role::Standby),
            knows: watch::Sender::new(knows),
            seen: watch::Sender::new(Seen::At(Instant::now())),
        })
    }

    /// Whether there is something to answer by.
    pub(crate) fn knows(&self) -> watch::Receiver<bool> {
        self.knows.subscribe()
    }

    /// Follows and acts, for ever.
    pub(crate) async fn serve(self) {
        self.seen.send_replace(Seen::At(Instant::now()));
        let mut seen = self.seen.subscribe();
        let mut following = pin!(self.follow());
        loop {
            tokio::select! {
                biased;
                () = &mut following => {}
                () = gone(&mut seen) => self.act().await,
            }
        }
    }

    async fn act(&self) {
        self.seen.send_replace(Seen::Gone);
        if !*self.knows.borrow() {
            tracing::error!(
                primary = self.primary,
                "the primary is not there, and this standby has never had a copy: it answers nobody"
            );
            return;
        }
        tracing::warn!(
            primary = self.primary,
            "the primary is gone: this standby acts in its place"
        );
        self.keeper.set_part(Part::Acting).await;
        self.hear(|heard| heard.is_there = false);
        self.shown.set_acting(true);
    }

    /// Whether the primary has not been silent for too long meanwhile: then this standby acts.
    fn check_seen(&self) -> io::Result<()> {
        match *self.seen.borrow() {
            Seen::At(_) => Ok(()),
            Seen::Gone => Err(malformed("it was silent for too long, and is asked anew")),
        }
    }

    fn hear(&self, change: impl FnOnce(&mut Heard)) {
        if let Some(dns) = &self.dns {
            dns.heard.send_modify(|heard| change(Arc::make_mut(heard)));
        }
    }

    /// With each word of the primary. Nothing has to be done for it.
    fn hear_clock(&self, clock: Option<TheirClock>) {
        if let Some(dns) = &self.dns {
            dns.heard.send_if_modified(|heard| {
                Arc::make_mut(heard).clock = clock;
                false
            });
        }
    }

    async fn follow(&self) {
        let mut said = String::new();
        loop {
            let Err(error) = self.copy(&mut said).await;
            self.shown.set_connected(false);
            let reason = error.to_string();
            // Once for as long as it stays the same.
            if reason != said {
                tracing::warn!(primary = self.primary, %error, "the primary cannot be followed");
                said = reason;
            }
            sleep(AGAIN).await;
        }
    }

    /// One connection to the primary.
    async fn copy(&self, said: &mut String) -> io::Result<std::convert::Infallible> {
        let stream = dial(self.primary.as_str(), PATIENCE).await?;
        let mut channel = timeout(PATIENCE, self.connector.open(stream)).await??;
        // One that hangs has its system take connections, and may still shake hands.
        match timeout(PATIENCE, channel.read_u8()).await?? {
            THERE => {}
            _ => return Err(malformed("another first word than the primary's")),
        }
        // From here on the primary takes those who come.
        self.seen.send_replace(Seen::At(Instant::now()));
        self.keeper.set_part(Part::Following).await;
        if let Err(late) = self.check_seen() {
            // Which of the two parts this broker took first is not known.
            self.act().await;
            return Err(late);
        }
        self.shown.set_acting(false);
        let knows = *self.knows.borrow();
        let (tables, steady) = match knows {
            true => known(&self.keeper, self.dns.as_ref()).await?,
            false => Default::default(),
        };
        let frame = tables.since(&Tables::default(), FORMAT, (wall().0, steady));
        timeout(GONE, frame.write(&mut channel)).await??;
        let mut tables = Tables::default();
        let mut is_first = true;
        loop {
            let frame = timeout(GONE, Frame::read(&mut channel)).await??;
            self.check_seen()?;
            check_format(&frame)?;
            let ahead = frame
                .wall
                .cast_signed()
                .saturating_sub(wall().0.cast_signed());
            let clock = Some(TheirClock::heard(frame.wall));
            let steady = frame.steady;
            if tables.apply(frame)? {
                let copied = read_zone(&tables)?;
                let taken = self.keeper.take(tables.clone(), steady, Who::Primary);
                taken.await.map_err(io::Error::other)?;
                // Taking it may have taken long.
                self.check_seen()?;
                self.hear(|heard| {
                    *heard = Heard {
                        copied,
                        clock,
                        is_there: true,
                    };
                });
            }
            self.hear_clock(clock);
            self.shown.set_ahead(ahead);
            channel.write_u8(0).await?;
            channel.flush().await?;
            self.check_seen()?;
            self.seen.send_replace(Seen::At(Instant::now()));
            if std::mem::take(&mut is_first) {
                tracing::info!(primary = self.primary, "the primary is followed");
                said.clear();
                self.shown.set_connected(true);
                self.knows.send_replace(true);
            }
        }
    }
}

/// Waits until the primary has been silent for too long.
async fn gone(seen: &mut watch::Receiver<Seen>) {
    loop {
        let last = *seen.borrow_and_update();
        match last {
            Seen::At(at) => tokio::select! {
                _ = seen.changed() => {}
                () = sleep_until(at + GONE) => return,
            },
            Seen::Gone => {
                if seen.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;

    use tandem_channel::{Acceptor, Admission, ServerChannel};
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Config;
    use crate::config::tests::SMALL;
    use crate::database::Database;
    use crate::pair::primary::Primary;

    const ANY: &str = "127.0.0.1:0";

    fn key() -> ChannelKey {
        ChannelKey::from_seed(&[1; 32]).expect("a key")
    }

    fn keeper(folder: &Path, pair: &str) -> Keeper {
        let text = format!("{SMALL}\n[pair]\n{pair}");
        let config = Config::parse(&text, Path::new("test.toml")).expect("well-formed");
        let path = folder.join("broker.sqlite");
        let (database, kept) = Database::open(&path, &config.site).expect("a disk");
        Keeper::new(&config, key(), database, kept)
    }

    fn primarys(folder: &Path) -> Keeper {
        keeper(folder, &format!("listen = {ANY:?}"))
    }

    fn standbys(folder: &Path) -> Keeper {
        keeper(folder, "primary = \"127.0.0.1:1\"")
    }

    fn standby(primary: SocketAddr, keeper: Keeper, dns: Option<Other>) -> Standby {
        Standby::new(&primary.to_string(), &key(), keeper, dns, true).expect("a client")
    }

    /// What a name server that follows hears by, and the other end of it.
    fn dns() -> (Other, watch::Receiver<Arc<Heard>>) {
        let (heard, hears) = watch::channel(Arc::default());
        let (_, copied) = watch::channel(Arc::default());
        (Other { copied, heard }, hears)
    }

    async fn is_gone(seen: &mut watch::Receiver<Seen>) {
        let gone = seen.wait_for(|seen| matches!(seen, Seen::Gone));
        let gone = timeout(3 * GONE, gone).await;
        gone.expect("in time").expect("it is there");
    }

    async fn ends_as(part: Part, keeper: &Keeper) {
        let mut parts = keeper.part();
        let reached = parts.wait_for(|now| *now == part);
        let reached = timeout(3 * GONE, reached).await;
        reached.expect("in time").expect("it is there");
    }

    /// A primary that says what a test has it say.
    struct Scripted {
        listener: TcpListener,
        acceptor: Acceptor,
        keeper: Keeper,
        last: Tables,
    }

    impl Scripted {
        async fn new(folder: &Path) -> Self {
            let admission = Admission::Listed([key().name()].into());
            Self {
                listener: TcpListener::bind(ANY).await.expect("a free port"),
                acceptor: Acceptor::new(PAIR, &key(), admission).expect("a server"),
                keeper: primarys(folder),
                last: Tables::default(),
            }
        }

        fn address(&self) -> SocketAddr {
            self.listener.local_addr().expect("bound")
        }

        /// Has the standby come, and says that it is there.
        async fn greets(&self) -> ServerChannel {
            let (stream, _) = self.listener.accept().await.expect("loopback");
            let opened = self.acceptor.open(stream, Arc::default()).await;
            let mut channel = opened.expect("it holds the key");
            channel.write_u8(THERE).await.expect("it reads");
            channel.flush().await.expect("it reads");
            channel
        }

        /// The same, and hears what it knows.
        async fn accepts(&mut self) -> ServerChannel {
            let mut channel = self.greets().await;
            Frame::read(&mut channel).await.expect("what it knows");
            self.last = Tables::default();
            channel
        }

        async fn says(&mut self, channel: &mut ServerChannel, wall: u64) {
            let (tables, steady) = known(&self.keeper, None).await.expect("memory");
            let frame = tables.since(&self.last, FORMAT, (wall, steady));
            self.last = tables;
            frame.write(channel).await.expect("it reads");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_primary_that_shakes_hands_and_hangs_does_not_end_the_acting() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let primarys = primarys(folders[0].path());
        let listen = ANY.parse().expect("an address");
        let (primary, listener) = Primary::bind(listen, &key(), primarys.clone(), None)
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(primary.serve(listener));
        let keeper = standbys(folders[1].path());
        let standby = standby(address, keeper.clone(), None);
        keeper.set_part(Part::Acting).await;
        let hangs = primarys.hang().await;
        assert!(standby.copy(&mut String::new()).await.is_err());
        assert_eq!(*keeper.part().borrow(), Part::Acting);
        drop(hangs);
        tokio::spawn(standby.serve());
        ends_as(Part::Following, &keeper).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_standby_that_began_to_act_while_it_took_a_copy_asks_anew() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let mut primary = Scripted::new(folders[0].path()).await;
        let keeper = standbys(folders[1].path());
        let standby = standby(primary.address(), keeper.clone(), None);
        let mut seen = standby.seen.subscribe();
        tokio::spawn(standby.serve());
        let mut channel = primary.accepts().await;
        let hangs = keeper.hang().await;
        primary.says(&mut channel, 7).await;
        is_gone(&mut seen).await;
        drop(hangs);
        // On the channel on which it acts nothing more is said.
        assert!(channel.read_u8().await.is_err());
        let mut channel = primary.accepts().await;
        primary.says(&mut channel, 7).await;
        assert_eq!(channel.read_u8().await.expect("an answer"), 0);
        ends_as(Part::Following, &keeper).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_standby_that_began_to_act_before_it_had_stopped_asks_anew() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let mut primary = Scripted::new(folders[0].path()).await;
        let keeper = standbys(folders[1].path());
        let standby = standby(primary.address(), keeper.clone(), None);
        let mut seen = standby.seen.subscribe();
        let hangs = keeper.hang().await;
        tokio::spawn(standby.serve());
        let mut channel = primary.greets().await;
        is_gone(&mut seen).await;
        drop(hangs);
        // It does not tell what it knows where it may act.
        assert!(channel.read_u8().await.is_err());
        let mut channel = primary.accepts().await;
        primary.says(&mut channel, 7).await;
        assert_eq!(channel.read_u8().await.expect("an answer"), 0);
        ends_as(Part::Following, &keeper).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_word_of_the_primary_says_what_its_clock_shows() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let mut primary = Scripted::new(folders[0].path()).await;
        let (dns, hears) = dns();
        let keeper = standbys(folders[1].path());
        tokio::spawn(standby(primary.address(), keeper, Some(dns)).serve());
        let mut channel = primary.accepts().await;
        // The second and the third say nothing else.
        for clock in [5_000, 9_000, 2_000] {
            primary.says(&mut channel, clock).await;
            assert_eq!(channel.read_u8().await.expect("an answer"), 0);
            let heard = hears.borrow().clock.expect("it was told").now();
            assert!((clock..clock + 60).contains(&heard), "{heard}");
        }
    }
}
