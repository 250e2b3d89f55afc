//! The standby's end: it copies what the primary knows, and acts while that is gone.
//!
//! Is not: what acting is (`keeper/pair.rs`).
//!
//! Invariants: it stops acting before it tells the primary what it knows, so that nobody joins in
//! between; a primary that was silent for too long is told anew, on another connection; what it
//! copies is whole, or it is not taken.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tandem_broker_dns::copied::{Heard, Other};
use tandem_channel::{ChannelKey, Connector, Pin, dial};
use tandem_split_io::SplitIoError;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{GONE, PAIR, PATIENCE, check_format, known, read_zone};
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

    fn hear(&self, change: impl FnOnce(&mut Heard)) {
        if let Some(dns) = &self.dns {
            dns.heard.send_modify(|heard| change(Arc::make_mut(heard)));
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
        // From here on the primary takes those who come.
        self.keeper.set_part(Part::Following).await;
        self.shown.set_acting(false);
        self.seen.send_replace(Seen::At(Instant::now()));
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
            if matches!(*self.seen.borrow(), Seen::Gone) {
                return Err(malformed("it was silent for too long, and is asked anew"));
            }
            check_format(&frame)?;
            let ahead = frame
                .wall
                .cast_signed()
                .saturating_sub(wall().0.cast_signed());
            let steady = frame.steady;
            if tables.apply(frame)? {
                let copied = read_zone(&tables)?;
                let taken = self.keeper.take(tables.clone(), steady, Who::Primary);
                taken.await.map_err(io::Error::other)?;
                self.hear(|heard| {
                    *heard = Heard {
                        copied,
                        ahead,
                        is_there: true,
                    };
                });
            }
            self.shown.set_ahead(ahead);
            channel.write_u8(0).await?;
            channel.flush().await?;
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
