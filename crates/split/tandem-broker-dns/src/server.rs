//! The sockets: one task for each UDP socket, one for each TCP connection.
//!
//! Is not: what is answered ([`crate::reply`]).
//!
//! Invariants: a UDP query costs a bounded time and no memory that stays; TCP connections are
//! bounded in all and for each network, and end when they are idle (RFC 7766, section 6.2).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tandem_barnraising::uri;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::Answers;
use crate::copied::{Lead, Other};
use crate::error::DnsError;
use crate::keeper::{Changing, Keeper, unix_time};
use crate::limit::{Limit, Verdict};
use crate::places::{Place, Places};
use crate::powerdns::PowerDns;
use crate::reply::{Transport, cut, reply};
use crate::settings::Settings;
use crate::zone::Zone;

/// Longest query that is read over UDP; what is longer does not parse. Queries have some fifty
/// bytes, padded ones up to 512.
const QUERY_MOST: usize = 2048;

/// Queries on one connection.
const QUERIES_EACH: usize = 256;

/// A name server for one zone, that has its sockets.
pub struct Dns {
    keeper: Keeper,
    sockets: Vec<(UdpSocket, TcpListener)>,
    addresses: Vec<SocketAddr>,
    powerdns: Option<PowerDns>,
    ds: String,
}

impl Dns {
    /// Makes the zone, and the key if there is none, and listens. Needs a tokio runtime.
    ///
    /// # Errors
    /// A setting is wrong, a file cannot be read or made, or an address not be listened on.
    pub async fn bind(
        site: &uri::Name,
        settings: &Settings,
        answers: watch::Receiver<Arc<Answers>>,
    ) -> Result<Self, DnsError> {
        let shape = settings.shape(site)?;
        let keys = settings.zone_keys(unix_time())?;
        let ds = keys.ds(&shape.zone)?;
        let changing = Changing {
            keys,
            lifetime: settings.key_lifetime(),
            look: settings.look(),
        };
        let keeper = Keeper::new(shape, changing, settings.challenge.clone(), answers)?;
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for address in &settings.listen {
            let pair = listen(*address).await.map_err(|source| DnsError::Listen {
                address: *address,
                source,
            })?;
            addresses.push(pair.0.local_addr().unwrap_or(*address));
            sockets.push(pair);
        }
        let powerdns = match &settings.powerdns {
            Some(path) => Some(PowerDns::bind(path, keeper.zone())?),
            None => None,
        };
        Ok(Self {
            keeper,
            sockets,
            addresses,
            powerdns,
            ds,
        })
    }

    /// The DS record that the zone's parent, by way of the registrar, has to show: a line of a zone
    /// file.
    #[must_use]
    pub fn ds(&self) -> &str {
        &self.ds
    }

    /// As one of two name servers of the zone.
    ///
    /// # Errors
    /// The files of the keys cannot be read.
    pub fn pair(&mut self, lead: Lead) -> Result<Other, DnsError> {
        self.keeper.pair(lead)
    }

    /// Where it answers.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Answers for ever; dropping the future ends it, and all that belongs to it.
    pub async fn serve(mut self) {
        // What has been heard since it was made is in the first answer.
        self.keeper.catch_up();
        let shared = Arc::new(Shared {
            zone: self.keeper.zone(),
            limit: Mutex::default(),
            started: Instant::now(),
            places: Arc::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(self.keeper.run());
        for (udp, tcp) in self.sockets {
            tasks.spawn(serve_udp(udp, Arc::clone(&shared)));
            tasks.spawn(serve_tcp(tcp, Arc::clone(&shared)));
        }
        if let Some(powerdns) = self.powerdns {
            tasks.spawn(powerdns.serve());
        }
        while let Some(ended) = tasks.join_next().await {
            // None of them ends by itself.
            if let Err(error) = ended {
                tracing::error!(%error, "a part of the name server has ended");
            }
        }
    }
}

/// Both sockets of an address, with the same port also where any will do.
async fn listen(address: SocketAddr) -> std::io::Result<(UdpSocket, TcpListener)> {
    let mut tries = 0;
    loop {
        let tcp = TcpListener::bind(address).await?;
        match UdpSocket::bind(tcp.local_addr()?).await {
            Ok(udp) => return Ok((udp, tcp)),
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && address.port() == 0 && tries < 20 =>
            {
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What all tasks have in common.
struct Shared {
    zone: watch::Receiver<Arc<Zone>>,
    limit: Mutex<Limit>,
    started: Instant,
    places: Arc<Places>,
}

impl Shared {
    fn reply(&self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let zone = Arc::clone(&self.zone.borrow());
        reply(&zone, query, transport)
    }

    fn udp(&self, query: &[u8], from: IpAddr) -> Option<Vec<u8>> {
        let answer = self.reply(query, Transport::Udp)?;
        let now = self.started.elapsed();
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        match limit.verdict(from, answer.len(), now) {
            Verdict::Answer => Some(answer),
            Verdict::Cut => cut(query),
            Verdict::Drop => None,
        }
    }
}

async fn serve_udp(socket: UdpSocket, shared: Arc<Shared>) {
    let mut query = [0; QUERY_MOST];
    loop {
        match socket.recv_from(&mut query).await {
            Ok((length, from)) => {
                if let Some(answer) = shared.udp(&query[..length], from.ip())
                    && let Err(error) = socket.send_to(&answer, from).await
                {
                    tracing::debug!(%from, %error, "an answer could not be sent");
                }
            }
            Err(error) => pause("receive a query", &error).await,
        }
    }
}

async fn serve_tcp(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    if let Some(place) = shared.places.take(from.ip()) {
                        connections.spawn(serve_connection(stream, place, Arc::clone(&shared)));
                    }
                }
                Err(error) => pause("accept a connection", &error).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A system that is short of something gets it back sooner if nobody asks in a loop.
async fn pause(what: &'static str, error: &std::io::Error) {
    tracing::warn!(what, %error, "for a moment this cannot be done");
    sleep(Duration::from_millis(100)).await;
}

async fn serve_connection(mut stream: TcpStream, place: Place, shared: Arc<Shared>) {
    for _ in 0..QUERIES_EACH {
        let exchange = timeout(place.patience(), exchange(&mut stream, &shared));
        tokio::select! {
            exchanged = exchange => match exchanged {
                Ok(Ok(())) => {}
                // It has gone, has said nothing for long, or has asked what is not answered.
                Ok(Err(_)) | Err(_) => return,
            },
            () = place.lost() => return,
        }
    }
}

/// One query and its answer, each behind its length (RFC 1035, section 4.2.2).
async fn exchange(stream: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let length = stream.read_u16().await?;
    let mut query = vec![0; usize::from(length)];
    stream.read_exact(&mut query).await?;
    let answer = shared
        .reply(&query, Transport::Tcp)
        .ok_or(ErrorKind::InvalidData)?;
    let length = u16::try_from(answer.len()).map_err(|_| ErrorKind::InvalidData)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], &answer].concat())
        .await
}
