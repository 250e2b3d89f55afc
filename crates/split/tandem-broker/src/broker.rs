//! The broker: everything of it put together, from its configuration to its ports.
//!
//! Is not: a decision of its own.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::door::BROKER;
use tandem_barnraising::certificate_policy::Safeguard;
use tandem_barnraising::{PublicKey, SiteUri};
use tandem_channel::{Acceptor, Admission, ChannelKey};
use tandem_daemon::admin::{self, Page};
use tandem_daemon::listener;
use tandem_daemon::metrics::Number;
use tandem_split_io::SplitIoError;
use tandem_split_io::tls::client::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Config, Pair};
use crate::database::{Database, Standing};
use crate::door::Door;
use crate::error::BrokerError;
use crate::keeper::{Keeper, Published, Snapshot};
use crate::look::Looker;
use crate::names::Names;
use crate::page;
use crate::pair;
use crate::pair::primary::Primary;
use crate::pair::standby::Standby;
use crate::pair_status::Shown;

/// How often it is seen to that silent members are forgotten and what they told is written down.
const TICK: Duration = Duration::from_secs(2);

/// A broker that listens, and does not answer yet.
#[derive(Debug)]
pub struct Broker {
    listener: TcpListener,
    door: Door,
    looker: Looker,
    keeper: Keeper,
    names: Option<Names>,
    uri: Option<SiteUri>,
    safeguard: Safeguard,
    at_risk: Number,
    pair: Option<PairEnd>,
}

/// The end of the channel between two brokers of the site.
#[derive(Debug)]
enum PairEnd {
    Primary(Primary, TcpListener),
    /// With the address at which volunteers come while it acts.
    Standby(Standby, SocketAddr),
}

impl PairEnd {
    fn shown(&self) -> &Shown {
        match self {
            Self::Primary(primary, _) => &primary.shown,
            Self::Standby(standby, _) => &standby.shown,
        }
    }
}

/// The URI that volunteers are given. The broker's key is made if there is none yet.
///
/// # Errors
/// The configuration does not say under which address the broker is found, or the key cannot be
/// read or made.
pub fn uri(config: &Config) -> Result<SiteUri, BrokerError> {
    let key = channel_key(config)?;
    config.uri(config.listen.port(), PublicKey(key.name().bytes()))
}

/// What the zone above the site's has to show, so that the name is signed. The zone's key is made
/// if there is none yet.
///
/// # Errors
/// The configuration has no name server, or the key cannot be read or made.
pub fn ds(config: &Config) -> Result<String, BrokerError> {
    let Some(settings) = &config.dns else {
        return Err(BrokerError::setting(
            "dns",
            "is missing: this broker is no name server",
        ));
    };
    pair::require_keys(config)?;
    make_state(&config.state)?;
    Ok(tandem_broker_dns::ds(&config.site, settings)?)
}

impl Broker {
    /// Opens the database and listens. Must be called within a runtime.
    ///
    /// A broker with a name server withholds volunteers from a public name until it knows that none
    /// of them can get a certificate. Without one, who calls has to see to that before it serves.
    ///
    /// # Errors
    /// Whatever is wrong with the configuration or what it names.
    pub async fn bind(config: &Config) -> Result<Self, BrokerError> {
        let key = channel_key(config)?;
        let client = Client::new(config.site.as_str(), &config.look.roots)?;
        let (database, kept) = Database::open(&config.state.join("broker.sqlite"), &config.site)?;
        let listener = listener::listen("listen", config.listen)
            .await
            .map_err(SplitIoError::from)?;
        let system = |source: std::io::Error| SplitIoError::System {
            what: "the channel",
            source,
        };
        let address = listener.local_addr().map_err(system)?;
        let port = address.port();
        let acceptor = Acceptor::new(BROKER, &key, Admission::Any).map_err(SplitIoError::from)?;
        let uri = config.uri(port, PublicKey(key.name().bytes())).ok();
        let knows = kept.is_known();
        let keeper = Keeper::new(config, key.clone(), database, kept);
        let mut names = Names::bind(config, keeper.published(), keeper.accepted()).await?;
        let pair = match &config.pair {
            None => None,
            Some(pair) => {
                let dns = names.as_mut().map(|names| names.pair(pair::lead(pair)));
                let dns = dns.transpose()?;
                let keeper = keeper.clone();
                Some(match pair {
                    Pair::Primary { listen } => {
                        let (primary, listener) = Primary::bind(*listen, &key, keeper, dns).await?;
                        PairEnd::Primary(primary, listener)
                    }
                    Pair::Standby { primary } => {
                        let standby = Standby::new(primary, &key, keeper, dns, knows)?;
                        PairEnd::Standby(standby, address)
                    }
                })
            }
        };
        let at_risk = Number::gauge(
            "tandem_broker_certificates_at_risk",
            "Whether volunteers may obtain certificates for the site's name, as the operator accepts",
        );
        at_risk.set(u64::from(config.safeguard == Safeguard::Waived));
        Ok(Self {
            listener,
            door: Door {
                acceptor,
                keeper: keeper.clone(),
                rate: config.roster.rate,
            },
            looker: Looker::new(client, config.site.as_str(), config.look.clone()),
            keeper,
            names,
            uri,
            safeguard: config.safeguard,
            at_risk,
            pair,
        })
    }

    /// What volunteers are given; none if the configuration does not say under which address the
    /// broker is found.
    #[must_use]
    pub fn uri(&self) -> Option<&SiteUri> {
        self.uri.as_ref()
    }

    /// The DS record that the zone's parent has to show, if the broker is the site's name server.
    #[must_use]
    pub fn ds(&self) -> Option<&str> {
        self.names.as_ref().map(Names::ds)
    }

    /// Where it listens, the port in numbers.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where browsers are to be sent, now and whenever that changes.
    #[must_use]
    pub fn published(&self) -> watch::Receiver<Arc<Published>> {
        self.keeper.published()
    }

    /// What is counted.
    #[must_use]
    pub fn numbers(&self) -> Vec<Number> {
        let mut numbers = self.keeper.numbers().all();
        numbers.extend(self.names.iter().flat_map(Names::numbers));
        numbers.push(self.at_risk.clone());
        numbers.extend(self.pair.iter().flat_map(|pair| pair.shown().numbers()));
        numbers
    }

    /// Shows the page, and `/status.json`, `/metrics`, `/healthz`, until the process ends. Where,
    /// the port in numbers.
    ///
    /// # Errors
    /// The address is in use or none of this machine's.
    pub fn show(&self, address: SocketAddr) -> Result<SocketAddr, BrokerError> {
        let (keeper, safeguard) = (self.keeper.clone(), self.safeguard);
        let pair = self.pair.as_ref().map(|pair| pair.shown().clone());
        let snapshot = move || Snapshot {
            pair: pair.as_ref().map(Shown::status),
            ..keeper.snapshot()
        };
        let pages = move |path: &str| match path {
            "/" => Some(Page::new(
                "text/html; charset=utf-8",
                page::html(&snapshot(), safeguard),
            )),
            "/status.json" => Some(Page::new(
                "application/json",
                page::json(&snapshot(), safeguard),
            )),
            _ => None,
        };
        let shown = admin::show("admin", address, self.numbers(), pages);
        Ok(shown.map_err(SplitIoError::from)?)
    }

    /// Serves for ever.
    pub async fn serve(self) {
        let door = match self.pair {
            Some(PairEnd::Standby(standby, address)) => {
                // Nobody comes here while it follows.
                drop(self.listener);
                let mut knows = standby.knows();
                tokio::spawn(standby.serve());
                // Without a copy there is nothing to answer by.
                let _ = knows.wait_for(|knows| *knows).await;
                Err(address)
            }
            Some(PairEnd::Primary(primary, listener)) => {
                tokio::spawn(primary.clone().serve(listener));
                primary.first().await;
                Ok(self.listener)
            }
            None => Ok(self.listener),
        };
        for standing in [Standing::Healthy, Standing::Unproven] {
            tokio::spawn(self.looker.clone().watch(self.keeper.clone(), standing));
        }
        tokio::spawn(self.looker.watch_reported(self.keeper.clone()));
        tokio::spawn(tick(self.keeper));
        if let Some(names) = self.names {
            tokio::spawn(names.serve());
        }
        match door {
            Ok(listener) => self.door.serve(listener).await,
            Err(address) => self.door.serve_unless_following(address).await,
        }
    }
}

async fn tick(keeper: Keeper) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        keeper.tick().await;
    }
}

fn channel_key(config: &Config) -> Result<ChannelKey, BrokerError> {
    pair::require_keys(config)?;
    make_state(&config.state)?;
    let key = ChannelKey::kept_in(&config.state.join("key"));
    Ok(key.map_err(SplitIoError::from)?)
}

fn make_state(state: &Path) -> Result<(), SplitIoError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)
        .map_err(|source| SplitIoError::File {
            path: state.to_owned(),
            source,
        })
}
