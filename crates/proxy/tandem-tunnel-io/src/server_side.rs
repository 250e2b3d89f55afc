//! The server side from start to end: what is taken in which order, a task for each tunnel and for
//! each stream in it, and giving everything back.
//!
//! Is not: what may be connected to, and how (`dial.rs`).
//!
//! Invariants: nobody without the pair's key gets as far as a stream; handshakes, tunnels and
//! connections are bounded in number; forged addresses keep out nobody who can show his own, and
//! no network takes up all handshakes of the others, nor do strangers those of client sides that
//! came from where they come now.

mod tunnels;

use std::collections::HashSet;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tandem_channel::KeyName;
use tandem_daemon::admin::AdminPort;
use tandem_daemon::door::{Door, Entry, Known};
use tandem_daemon::places::{Places, Share};
use tandem_daemon::runtime;
use tandem_daemon::service_manager::ServiceManager;
use tandem_daemon::signals::Signals;
use tandem_daemon::{DaemonError, listener};
use tandem_engine::{PeerId, Role};
use tandem_firewall::{RuleSet, privilege};
use tandem_link::tunnel::{DnsQuery, Ending, FlowOpen, RenewalQuery};
use tandem_tunnel::WayOut;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::admin;
use crate::board::{Facts, Tally};
use crate::config::{DnsServer, Renewals, ServerSide};
use crate::datagrams::FarFlows;
use crate::dial::Dialer;
use crate::dns::Resolver;
use crate::error::TunnelError;
use crate::line::Line;
use crate::relay_task::RelayTask;
use crate::renewals::Looks;
use crate::return_path::{self, ReturnPath};
use crate::shared::{Held, Keys, MAX_RELAYS, Shared};
use crate::signals::arrival;
use crate::transport::any::Any;
use crate::transport::{Lost, Receiving, Sending, Stream, Tunnel, quic, tcp};
use tunnels::Tunnels;

/// Handshakes over UDP of those who have not shown that they are where their packets say. Past this
/// number they are asked to, which costs them a round trip, and then have places of their own.
const MAX_UNKNOWN: usize = 16;

/// Handshakes at a time over TCP, and over UDP of those who have shown it. Nobody is known before
/// the end of one, and it may take minutes.
const MAX_HANDSHAKES: usize = 256;

/// Runs the server side that `config` describes, until SIGTERM, SIGINT or SIGHUP; then everything
/// is taken down and the result is `Ok`.
///
/// `ready` is called once, when the client side can connect. The calling thread gives up all
/// capabilities for good; where clients' addresses are used, all but CAP_NET_ADMIN and CAP_NET_RAW.
///
/// # Errors
/// What prevents the start, or the removal of rules.
pub fn run_server_side(config: ServerSide, ready: impl FnOnce()) -> Result<(), TunnelError> {
    let signals = Signals::catch()?;
    let manager = ServiceManager::of_environment();
    let admin = config
        .admin
        .map(|address| AdminPort::bind("--admin", address))
        .transpose()?;
    let socket = UdpSocket::bind(config.listen)
        .map_err(|source| DaemonError::listening("--listen", config.listen, source))?;
    let over_tcp = listen_over_tcp(&socket);
    let keys = Keys::open(config.handshake_keys.as_deref(), config.prefer, config.line)?;
    // The ports are bound. Clients' addresses, and rules, need two; the rest is out of reach for
    // the threads to come, the store's among them.
    match config.way_out {
        WayOut::Own | WayOut::ProxyV2(_) => privilege::keep_none()?,
        WayOut::Client(_) => privilege::keep_only_needed()?,
    }
    let facts = Facts {
        role: "server-side",
        link: config.listen.to_string(),
    };
    let shared = Shared::open(
        Role::ServerSide,
        Held {
            store: &config.store,
            authorities: config.authorities.as_deref(),
            renewals: Renewals::AtVisits,
            client_certificates: config.client_certificates,
            shared: config.shared_store,
        },
        config.handshakes,
        keys,
        facts,
    )?;
    if let Some(reason) = config.mode_reason {
        shared.board.note("mode_reason", reason.to_owned());
    }
    let address = admin.as_ref().map(AdminPort::address);
    let _server = admin
        .map(|port| admin::serve(port, Arc::clone(&shared.board)))
        .transpose()?;
    let return_path = match config.way_out {
        WayOut::Own | WayOut::ProxyV2(_) => None,
        WayOut::Client(_) => {
            let bound = socket.local_addr();
            let bound = bound.map_err(TunnelError::system("listening"))?;
            Some(ReturnPath::open(bound.port())?)
        }
    };
    let outcome = runtime::run(async {
        let board = Arc::clone(&shared.board);
        let dialer = Dialer::new(config.allowed, config.way_out, board);
        let share = share_of_each(&config.clients);
        let host = Host::new(dialer, config.dns_server, Arc::clone(&shared), share);
        let doors = Doors::open(
            config.key.bytes(),
            &config.clients,
            (socket, over_tcp),
            &config.line,
        )?;
        tracing::info!(
            role = "server-side",
            mode = "tunnel",
            mode_reason = config.mode_reason,
            listen = %config.listen,
            admin = address.map(tracing::field::display),
            "ready"
        );
        manager.ready(&format!("server-side on {}", config.listen));
        ready();
        let outcome = tokio::select! {
            asked = arrival(&signals) => asked,
            () = doors.accept(&host) => Ok(()),
            () = shared.upkeep(&manager) => Ok(()),
            ended = shared.keys() => ended,
        };
        manager.stopping();
        shared.end();
        shared.relays_ended().await;
        host.tunnels.farewell().await;
        doors.close().await;
        outcome
    });
    shared.close();
    let removed = return_path.map_or(Ok(()), ReturnPath::remove);
    outcome.and(removed)
}

/// What [`run_server_side`] would have the firewall do, as input for a shell, and what it would
/// take away at the end. Changes nothing.
///
/// # Errors
/// The firewall cannot be read.
pub fn dry_run_server_side(config: &ServerSide) -> Result<String, TunnelError> {
    match config.way_out {
        WayOut::Own | WayOut::ProxyV2(_) => {
            Ok("# Without --out client the server side sets no rules.\n".to_owned())
        }
        WayOut::Client(_) => return_path::describe(config.listen.port()),
    }
}

/// The rules of a server side that uses clients' addresses and listens on this port, for whoever
/// looks for them: the mark is not the one in force.
///
/// # Errors
/// None that is known.
pub fn server_side_rule_set(port: u16) -> Result<RuleSet, TunnelError> {
    return_path::rule_set(port)
}

/// The TCP port of the same number. Another service may have it: then there is UDP alone.
fn listen_over_tcp(socket: &UdpSocket) -> Option<TcpListener> {
    let bound = socket.local_addr().and_then(TcpListener::bind);
    match bound {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(
                "--listen: the TCP port cannot be used ({error}): client sides whose networks let \
                 no UDP through are not served; choose another port, or stop what has it"
            );
            None
        }
    }
}

/// Where client sides come.
pub(crate) struct Doors {
    udp: quic::Server,
    tcp: Option<TcpDoor>,
    /// How long a stranger's hello is awaited in a crowd.
    silence: Duration,
}

struct TcpDoor {
    server: tcp::Server,
    listener: TcpListener,
}

impl Doors {
    /// On these sockets, for the pair's client side and those with these names.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults, or a socket cannot be used.
    pub(crate) fn open(
        key: &[u8; 32],
        clients: &HashSet<KeyName>,
        (udp, tcp): (UdpSocket, Option<TcpListener>),
        line: &Line,
    ) -> Result<Self, TunnelError> {
        let expected = quic::expected(line);
        let server = tcp::Server::new(key, clients.clone(), line, &expected)?;
        Ok(Self {
            udp: quic::Server::admitting(key, clients.clone(), udp, line)?,
            tcp: tcp.map(|listener| TcpDoor { server, listener }),
            silence: expected.silence,
        })
    }

    /// Serves whoever has the key, until the doors are closed.
    pub(crate) async fn accept(&self, host: &Host) {
        tokio::select! {
            () = self.accept_udp(host) => {}
            () = self.accept_tcp(host) => {}
        }
    }

    /// Ends all connections over UDP and tells the other sides, as far as that is possible at once.
    pub(crate) async fn close(&self) {
        self.udp.close().await;
    }

    async fn accept_udp(&self, host: &Host) {
        let unknown = Arc::new(Semaphore::new(MAX_UNKNOWN));
        let door = host.door(self.silence);
        while let Some(arriving) = self.udp.accept().await {
            match arriving.shown_address() {
                None => match Arc::clone(&unknown).try_acquire_owned() {
                    Ok(place) => complete(arriving, Place::Unknown(place), host),
                    Err(_) => arriving.ask_again(),
                },
                Some(from) => match door.enter(from) {
                    Some(entry) => complete(arriving, Place::Shown(entry), host),
                    // It comes again.
                    None => arriving.ignore(),
                },
            }
        }
    }

    async fn accept_tcp(&self, host: &Host) {
        let Some(TcpDoor { server, listener }) = &self.tcp else {
            return std::future::pending().await;
        };
        let door = host.door(self.silence);
        let nonblocking = listener
            .try_clone()
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listening = match nonblocking.and_then(tokio::net::TcpListener::from_std) {
            Ok(listening) => listening,
            Err(error) => {
                tracing::error!(%error, "no tunnel over TCP can be accepted");
                return std::future::pending().await;
            }
        };
        listener::serve_admitted(listening, |stream, from| {
            let entry = door.enter(from)?;
            let (server, host) = (server.clone(), host.clone());
            Some(async move {
                let completed = server.complete_in(stream, &entry).await;
                drop(entry);
                host.take(completed.map(Any::from), from).await;
            })
        })
        .await;
    }
}

/// Completes a handshake over UDP, which holds this place meanwhile, and serves the tunnel.
fn complete(arriving: quic::Arriving, place: Place, host: &Host) {
    let (host, from) = (host.clone(), arriving.address());
    tokio::spawn(async move {
        let completed = match &place {
            Place::Unknown(_) => arriving.complete().await,
            Place::Shown(entry) => arriving.complete_in(entry).await,
        };
        drop(place);
        host.take(completed.map(Any::from), from).await;
    });
}

/// For a handshake over UDP.
enum Place {
    /// Of somebody who may be elsewhere.
    Unknown(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit),
    /// Of somebody who is where his packets say.
    Shown(Entry),
}

/// What serves the tunnels.
#[derive(Clone)]
pub(crate) struct Host {
    dialer: Arc<Dialer>,
    relays: Arc<Places<PeerId>>,
    resolver: Arc<Resolver>,
    flows: Arc<FarFlows>,
    looks: Arc<Looks>,
    shared: Arc<Shared>,
    tunnels: Arc<Tunnels<Any>>,
    /// From where client sides have come.
    known: Arc<Known>,
}

impl Host {
    /// With this share for each client side of what all have together.
    pub(crate) fn new(
        dialer: Dialer,
        dns_server: DnsServer,
        shared: Arc<Shared>,
        share: Share,
    ) -> Self {
        let dialer = Arc::new(dialer.shared_out(share));
        let resolver = Resolver::new(dns_server, Arc::clone(&shared.board), share);
        let flows = FarFlows::new(Arc::clone(&dialer), Arc::clone(&shared), share);
        let looks = Looks::new(Arc::clone(&dialer), Arc::clone(&shared), share);
        Self {
            dialer,
            relays: Places::new(MAX_RELAYS as usize, share),
            resolver: Arc::new(resolver),
            flows: Arc::new(flows),
            looks: Arc::new(looks),
            shared,
            tunnels: Arc::new(Tunnels::new()),
            known: Arc::default(),
        }
    }

    fn door(&self, silence: Duration) -> Arc<Door> {
        Door::new(MAX_HANDSHAKES, silence, Arc::clone(&self.known))
    }

    /// Serves a tunnel that has come from there, if it has come up, until it ends.
    async fn take(&self, completed: Result<Any, Lost>, from: IpAddr) {
        match completed {
            Ok(tunnel) => {
                let peer = peer_of(&tunnel);
                self.known.note(peer.0, from);
                let _held = self.tunnels.hold(&tunnel, peer);
                self.shared.recall(peer).await;
                self.serve(&tunnel, peer).await;
            }
            Err(why) => {
                self.shared.board.count(Tally::TunnelsFailed, 1);
                // Anybody can cause this: it is counted, and neither in the log by default nor in
                // the status.
                tracing::debug!("a tunnel did not come up: {why}");
            }
        }
    }

    /// Serves the streams of one tunnel until it ends.
    async fn serve(&self, tunnel: &Any, peer: PeerId) {
        let _shown = self.shared.board.tunnel(tunnel);
        let over = tunnel.over();
        tracing::info!("a tunnel is up, over {over}");
        let why: Lost = loop {
            let stream = match tunnel.accept().await {
                Ok(stream) => stream,
                Err(why) => break why,
            };
            let host = self.clone();
            tokio::spawn(async move { host.serve_stream(stream, peer).await });
        };
        tracing::info!("a tunnel over {over} is down: {why}");
        self.shared.board.tunnel_ended(&why);
    }

    /// Serves one stream: its first bytes say whether it is a DNS question, a flow of UDP, a
    /// question after a renewed chain or a TCP connection.
    async fn serve_stream<S: Sending, R: Receiving>(self, mut stream: Stream<S, R>, peer: PeerId) {
        let until = Instant::now() + self.shared.opening();
        let first = tokio::select! {
            first = timeout_at(until, stream.receiving.read()) => first,
            () = self.shared.over() => return refuse(&mut stream, Ending::ShuttingDown),
        };
        let Ok(first) = first else {
            return refuse(&mut stream, Ending::TimedOut);
        };
        let first = match first {
            Ok(Some(begun)) if DnsQuery::begins(&begun) => {
                return self.resolver.serve((stream, peer), &begun).await;
            }
            Ok(Some(begun)) if FlowOpen::begins(&begun) => {
                return self.flows.serve((stream, peer), begun, until).await;
            }
            Ok(Some(begun)) if RenewalQuery::begins(&begun) => {
                return self.looks.serve((stream, peer), &begun).await;
            }
            first => first,
        };
        match self.shared.place_of(peer, &self.relays) {
            Some(place) => {
                let (opened, first) = ((stream, peer), (first, until));
                let task = RelayTask::server_side(opened, first, self.dialer, self.shared, place);
                task.run().await;
            }
            None => refuse(&mut stream, Ending::Overloaded),
        }
    }
}

/// What each client side may have of what all share. The pair's alone may have all.
fn share_of_each(clients: &HashSet<KeyName>) -> Share {
    match clients.is_empty() {
        true => Share::All,
        false => Share::AsManyAsFree,
    }
}

/// Whose tunnel it is. A client side has a key of its own, or the pair's, which several may have.
fn peer_of(tunnel: &Any) -> PeerId {
    let holder = tunnel.holder();
    holder.map_or(PeerId::OTHER_END, |key| PeerId(key.bytes()))
}

fn refuse(stream: &mut Stream<impl Sending, impl Receiving>, ending: Ending) {
    let code = ending.code();
    stream.sending.reset(code);
    stream.receiving.stop(code);
}
