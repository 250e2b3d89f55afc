//! The server side from start to end: what is taken in which order, a task for each tunnel and for
//! each stream in it, and giving everything back.
//!
//! Is not: what may be connected to, and how (`dial.rs`).
//!
//! Invariants: nobody without the pair's key gets as far as a stream; handshakes, tunnels and
//! connections are bounded in number; forged addresses take up half of the handshakes at most.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, PoisonError};

use tandem_daemon::DaemonError;
use tandem_daemon::admin::AdminPort;
use tandem_daemon::runtime;
use tandem_daemon::service_manager::ServiceManager;
use tandem_daemon::signals::Signals;
use tandem_engine::Role;
use tandem_firewall::privilege;
use tandem_link::tunnel::Ending;
use tandem_tunnel::WayOut;
use tokio::sync::Semaphore;

use crate::admin;
use crate::board::{Facts, Tally};
use crate::config::ServerSide;
use crate::dial::Dialer;
use crate::error::TunnelError;
use crate::relay_task::RelayTask;
use crate::return_path::{self, ReturnPath};
use crate::shared::Shared;
use crate::signals::asked_to_end;
use crate::transport::quic::{Arriving, Quic, Server};
use crate::transport::{Lost, Receiving, Sending, Stream, Tunnel as _};

/// Handshakes at a time; more are not answered, and come again. A handshake takes seconds on a thin
/// line, and nobody is known before its end.
const MAX_HANDSHAKES: usize = 32;
/// Handshakes of those who have not shown that they are where their packets say. Past this number
/// they are asked to, which costs them a round trip.
const MAX_UNKNOWN: usize = MAX_HANDSHAKES / 2;

/// Tunnels at a time. Each restart of the client side leaves one behind, which would end by itself
/// after a day; past this number the oldest is closed.
const MAX_TUNNELS: usize = 16;

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
    let shared = Shared::open(Role::ServerSide, &config.store, facts)?;
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
        let server = Server::new(config.key.bytes(), socket, &config.line)?;
        let dialer = Arc::new(Dialer::new(
            config.allowed,
            config.way_out,
            Arc::clone(&shared.board),
        ));
        tracing::info!(
            role = "server-side",
            listen = %config.listen,
            admin = address.map(tracing::field::display),
            "ready"
        );
        manager.ready(&format!("server-side on {}", config.listen));
        ready();
        let outcome = tokio::select! {
            asked = asked_to_end(&signals) => asked,
            () = accept(&server, &dialer, &shared) => Ok(()),
            () = shared.upkeep(&manager) => Ok(()),
        };
        manager.stopping();
        shared.end();
        shared.relays_ended().await;
        server.close().await;
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

/// Serves whoever has the key, until the server is closed.
pub(crate) async fn accept(server: &Server, dialer: &Arc<Dialer>, shared: &Arc<Shared>) {
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    let tunnels = Arc::new(Tunnels::default());
    while let Some(arriving) = server.accept().await {
        let going = MAX_HANDSHAKES - handshakes.available_permits();
        if going >= MAX_UNKNOWN && !arriving.has_shown_address() {
            arriving.ask_again();
            continue;
        }
        let Ok(handshake) = Arc::clone(&handshakes).try_acquire_owned() else {
            arriving.ignore();
            continue;
        };
        let (dialer, shared) = (Arc::clone(dialer), Arc::clone(shared));
        let tunnels = Arc::clone(&tunnels);
        tokio::spawn(async move {
            let completed = complete(arriving, &shared).await;
            drop(handshake);
            if let Some(tunnel) = completed {
                let _held = tunnels.hold(&tunnel);
                serve(&tunnel, &dialer, &shared).await;
            }
        });
    }
}

async fn complete(arriving: Arriving, shared: &Shared) -> Option<Quic> {
    match arriving.complete().await {
        Ok(tunnel) => Some(tunnel),
        Err(why) => {
            shared.board.count(Tally::TunnelsFailed, 1);
            // Anybody can cause this: it is counted, and not in the log by default.
            tracing::debug!("a tunnel did not come up: {why}");
            None
        }
    }
}

/// Serves the streams of one tunnel until it ends.
async fn serve(tunnel: &Quic, dialer: &Arc<Dialer>, shared: &Arc<Shared>) {
    let _shown = shared.board.tunnel(tunnel);
    tracing::info!("a tunnel is up");
    let why: Lost = loop {
        let mut stream = match tunnel.accept().await {
            Ok(stream) => stream,
            Err(why) => break why,
        };
        match shared.place() {
            Some(place) => {
                let (dialer, shared) = (Arc::clone(dialer), Arc::clone(shared));
                tokio::spawn(RelayTask::server_side(stream, dialer, shared, place).run());
            }
            None => refuse(&mut stream),
        }
    };
    tracing::info!("a tunnel is down: {why}");
}

fn refuse(stream: &mut Stream<impl Sending, impl Receiving>) {
    let code = Ending::Overloaded.code();
    stream.sending.reset(code);
    stream.receiving.stop(code);
}

/// The tunnels that are up, oldest first.
#[derive(Debug, Default)]
struct Tunnels(Mutex<VecDeque<Quic>>);

/// A tunnel's place among them, until it is dropped.
struct Held<'a> {
    tunnels: &'a Tunnels,
    tunnel: Quic,
}

impl Tunnels {
    fn hold(&self, tunnel: &Quic) -> Held<'_> {
        let mut tunnels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tunnels.push_back(tunnel.clone());
        if tunnels.len() > MAX_TUNNELS
            && let Some(oldest) = tunnels.pop_front()
        {
            tracing::warn!("there are more than {MAX_TUNNELS} tunnels; the oldest is closed");
            oldest.close();
        }
        Held {
            tunnels: self,
            tunnel: tunnel.clone(),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let tunnels = &self.tunnels.0;
        let mut tunnels = tunnels.lock().unwrap_or_else(PoisonError::into_inner);
        tunnels.retain(|tunnel| !tunnel.is(&self.tunnel));
    }
}
