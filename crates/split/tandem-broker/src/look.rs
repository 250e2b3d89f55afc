//! Looks at volunteers: a real GET of the site through each, as a browser would, with the
//! certificate checked.
//!
//! Is not: what follows of a look ([`crate::keeper`]).
//!
//! What the answer's status is counts for nothing: a volunteer cannot make one up. An answer that
//! is whole and vouched for by the site's certificate is good; whether the server behind the origin
//! is well is for the origin to watch.
//!
//! Invariants: those that browsers are sent to are looked at in their own turn, however many others
//! there are; so many in a turn, by network (`tandem_barnraising::roster`), and so many at a time;
//! none takes longer than its time.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tandem_barnraising::PublicKey;
use tandem_barnraising::shares::LOOKS_UNPROVEN;
use tandem_split_io::tls::client::Client;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::config;
use crate::database::Standing;
use crate::keeper::{Keeper, Look};

/// Looks at a time, of one turn: all of those at members that are not well.
const AT_A_TIME: usize = LOOKS_UNPROVEN;
/// Bytes of a body that are looked at: enough for some records.
const ENOUGH: usize = 256 << 10;

/// See above.
#[derive(Debug, Clone)]
pub(crate) struct Looker {
    client: Client,
    site: Arc<str>,
    settings: Arc<config::Look>,
}

impl Looker {
    pub(crate) fn new(client: Client, site: &str, settings: config::Look) -> Self {
        Self {
            client,
            site: site.into(),
            settings: Arc::new(settings),
        }
    }

    /// Looks at members of this standing in turn, for ever.
    pub(crate) async fn watch(self, keeper: Keeper, standing: Standing) {
        let mut turns = interval(self.settings.every);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let room = Arc::new(Semaphore::new(AT_A_TIME));
        loop {
            turns.tick().await;
            let mut looks = JoinSet::new();
            for member in keeper.looks(standing).await {
                let (looker, keeper, room) = (self.clone(), keeper.clone(), Arc::clone(&room));
                looks.spawn(async move {
                    let Ok(_permit) = room.acquire_owned().await else {
                        return;
                    };
                    looker.look(&keeper, member.key, member.address).await;
                });
            }
            while looks.join_next().await.is_some() {}
        }
    }

    async fn look(&self, keeper: &Keeper, key: PublicKey, address: IpAddr) {
        let start = Instant::now();
        let result = match timeout(self.settings.timeout, self.fetch(address)).await {
            Ok(Ok(status)) => Ok(status),
            Ok(Err(error)) => Err(chain(&*error)),
            Err(_) => {
                let seconds = self.settings.timeout.as_secs();
                Err(format!("no whole answer in {seconds} s"))
            }
        };
        let took = start.elapsed();
        keeper.note(key, Look { result, took }).await;
    }

    async fn fetch(&self, address: IpAddr) -> Result<u16, Box<dyn Error + Send + Sync>> {
        let stream = TcpStream::connect(SocketAddr::new(address, self.settings.port)).await?;
        let tls = self.client.open(stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        // It ends with this look, also where that runs out of time.
        let mut carrying = JoinSet::new();
        carrying.spawn(connection);
        let request = hyper::Request::get(self.settings.path.as_str())
            .header("Host", &*self.site)
            .header("User-Agent", "tandem-broker")
            .header("Connection", "close")
            .body(Empty::<Bytes>::new())?;
        let mut response = sender.send_request(request).await?;
        let mut length = 0;
        while let Some(frame) = response.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
            if length >= ENOUGH {
                break;
            }
        }
        Ok(response.status().as_u16())
    }
}

/// An error with its causes, in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text += ": ";
            text += &said;
        }
        cause = error.source();
    }
    text
}
