//! The client side from start to end: what is taken in which order, a task for each TCP connection,
//! and giving everything back.
//!
//! Is not: how connections are taken in (`intake.rs`), nor when the tunnel is connected
//! (`keeper.rs`).
//!
//! Invariants: rules are the last thing that is set and the first that is taken away; a connection
//! that cannot be served is reset at once or in bounded time.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tandem_daemon::admin::AdminPort;
use tandem_daemon::runtime;
use tandem_daemon::service_manager::ServiceManager;
use tandem_daemon::signals::Signals;
use tandem_engine::Role;
use tandem_firewall::{RuleSet, privilege};
use tandem_link::tunnel::Open;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::admin;
use crate::board::{Facts, Tally};
use crate::config::{self, ClientAddresses, ClientSide, Renewals, WhenDown};
use crate::datagrams::{Associations, NearFlows, Queued, serve_queued};
use crate::detour::Detour;
use crate::dns::{Forwarder, Ports};
use crate::endpoint::Endpoint;
use crate::error::TunnelError;
use crate::intake::{self, Accepted, Came, Gate, Proxies, Taken, WaysIn};
use crate::keeper::{Keeper, Leased};
use crate::limits::{ClientLimits, Meter};
use crate::link_state::link_state;
use crate::relay_task::{Client, RelayTask};
use crate::renewals::ask_ahead;
use crate::shared::{Held, Keys, Shared};
use crate::signals::arrival;
use crate::spending::Spending;
use crate::transport::any::Any;
use crate::transport::{Tunnel, quic, tcp};

/// Connections that are taken in and not yet looked at; more wait in the system's queues.
const ARRIVING: usize = 64;

/// How long the end of the process waits for the rules to be taken away: two dozen runs of
/// `iptables` on a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the client side that `config` describes, until SIGTERM, SIGINT or SIGHUP; then everything
/// is taken down and the result is `Ok`.
///
/// `ready` is called once, when connections are taken in, whether or not the server side answers
/// yet. The calling thread gives up all capabilities for good; with a link, all but CAP_NET_ADMIN
/// and CAP_NET_RAW.
///
/// # Errors
/// What prevents the start, or ended the run; by then nothing is left in the firewall.
pub fn run_client_side(config: ClientSide, ready: impl FnOnce()) -> Result<(), TunnelError> {
    let signals = Signals::catch()?;
    let (link_up, link_down) = (Signals::link_up()?, Signals::link_down()?);
    let manager = ServiceManager::of_environment();
    let admin = config
        .admin
        .map(|address| AdminPort::bind("--admin", address))
        .transpose()?;
    let (key, expected) = (config.key.bytes(), quic::expected(&config.line));
    let (udp, tcp) = match config.server {
        None => (
            quic::Client::new(key, config.peer, &config.line)?,
            tcp::Client::new(key, config.peer, &config.line, &expected)?,
        ),
        Some(server) => (
            quic::Client::to(key, server, config.peer, &config.line)?,
            tcp::Client::to(key, server, (config.peer, &config.line), &expected)?,
        ),
    };
    let proxies = Proxies::bind(&config)?;
    let dns = config.dns.map(Ports::bind).transpose()?;
    let keys = Keys::open(config.handshake_keys.as_deref(), config.prefer, config.line)?;
    // The ports are bound. Setting and removing rules needs no more than two; the rest is out of
    // reach for the threads to come.
    match config.link {
        Some(_) => privilege::keep_only_needed()?,
        None => privilege::keep_none()?,
    }
    let facts = Facts {
        role: "client-side",
        link: config.peer.to_string(),
    };
    let shared = Shared::open(
        Role::ClientSide,
        Held {
            store: &config.store,
            authorities: config.authorities.as_deref(),
            renewals: config.renewals,
            client_certificates: config.client_certificates,
            shared: None,
        },
        config.handshakes,
        keys,
        facts,
    )?;
    let limits = ClientLimits::open(config.limits, &config.store);
    let spending = config
        .tariff
        .map(|tariff| Spending::open(tariff, &config.store, config.peer));
    if let Some(reason) = config.mode_reason {
        shared.board.note("mode_reason", reason.to_owned());
    }
    let address = admin.as_ref().map(AdminPort::address);
    let _server = admin
        .map(|port| admin::serve(port, Arc::clone(&shared.board)))
        .transpose()?;
    let outcome = runtime::run(async {
        let board = Arc::clone(&shared.board);
        let limited = limits.clone();
        let ways_in = WaysIn::open(proxies, config.link.as_ref(), config.rules, limited, board)?;
        let taking_in = || {
            tracing::info!(
                role = "client-side",
                mode = "tunnel",
                mode_reason = config.mode_reason,
                peer = %config.peer,
                admin = address.map(tracing::field::display),
                "ready"
            );
            manager.ready(&format!("client-side of {}", config.peer));
            ready();
        };
        if let Some(limits) = &limits {
            tokio::spawn(Arc::clone(limits).keep_on());
        }
        if let Some(spending) = &spending {
            let board = Arc::clone(&shared.board);
            tokio::spawn(Arc::clone(spending).keep_on(board, shared.clocks));
        }
        let (hooks, link) = link_state(Arc::clone(&shared.board));
        tokio::spawn(hooks.obey(link_up, link_down));
        let keeper = Keeper::<Any>::new(udp, tcp, link, Arc::clone(&shared.board));
        let detour = config.link.and_then(|link| match link.when_down {
            WhenDown::Pass => Some(Detour::new(expected.round_trip, Arc::clone(&shared.board))),
            WhenDown::Fail => None,
        });
        let outside = Outside {
            ways_in,
            addresses: config.client_addresses,
            renewals: config.renewals,
            dns,
            detour,
        };
        serve(keeper, outside, &shared, &signals, &manager, taking_in).await
    });
    shared.close();
    if let Some(limits) = limits {
        limits.keep();
    }
    if let Some(spending) = spending {
        spending.close(&shared.board, shared.clocks);
    }
    outcome
}

/// What [`run_client_side`] would have the firewall do, as input for a shell, and what it would
/// take away at the end. Changes nothing.
///
/// # Errors
/// The link's name is invalid, or the firewall cannot be read.
pub fn dry_run_client_side(config: &ClientSide) -> Result<String, TunnelError> {
    match &config.link {
        Some(link) => intake::describe(link, intake::own(&config.rules, link)),
        None => Ok("# Without --link no rules are set.\n".to_owned()),
    }
}

/// The rules that [`run_client_side`] sets for `link`, but for the port that they lead to and the
/// mark, which each start chooses.
///
/// # Errors
/// The link's name is invalid.
pub fn rule_set(link: &config::Link) -> Result<RuleSet, TunnelError> {
    intake::rule_set(link)
}

/// What comes in, and what is told of it.
struct Outside {
    ways_in: WaysIn,
    addresses: ClientAddresses,
    renewals: Renewals,
    dns: Option<Ports>,
    detour: Option<Detour>,
}

async fn serve<T: Tunnel>(
    (keeper, keep): (Keeper<T>, impl Future<Output = ()> + Send + 'static),
    Outside {
        mut ways_in,
        addresses,
        renewals,
        dns,
        detour,
    }: Outside,
    shared: &Arc<Shared>,
    signals: &Signals,
    manager: &ServiceManager,
    ready: impl FnOnce(),
) -> Result<(), TunnelError> {
    let keeper = Arc::new(keeper);
    tokio::spawn(keep);
    if let Some(detour) = detour.clone() {
        tokio::spawn(detour.watch(Arc::clone(&keeper)));
    }
    match renewals {
        Renewals::Ahead => {
            tokio::spawn(ask_ahead(Arc::clone(&keeper), Arc::clone(shared)));
        }
        Renewals::AtVisits => {}
    }
    let (accepted, mut arriving) = mpsc::channel(ARRIVING);
    let over = {
        let shared = Arc::clone(shared);
        async move { shared.over().await }
    };
    let gate = ways_in.gate();
    let flows = NearFlows::new(Arc::clone(&keeper), Arc::clone(&gate), Arc::clone(shared));
    let datagrams = take(ways_in.take_datagrams(), Arc::clone(&flows), detour.clone());
    let mut ways_in = tokio::spawn(ways_in.run(accepted, over));
    ready();
    let associations = Associations::new(flows);
    let relays = async {
        while let Some(taken) = arriving.recv().await {
            match taken {
                Taken::Connection(accepted) => {
                    admit(accepted, addresses, &gate, &keeper, detour.as_ref(), shared);
                }
                Taken::Association(association) => associations.admit(association),
            }
        }
        // The ways in have ended, which is looked at beside this.
        std::future::pending().await
    };
    let outcome = tokio::select! {
        asked = arrival(signals) => asked,
        ended = &mut ways_in => ways_in_ended(ended),
        () = relays => Ok(()),
        ended = answer(dns, &keeper, shared) => ended,
        ended = datagrams => ended,
        () = shared.upkeep(manager) => Ok(()),
        ended = shared.keys() => ended,
    };
    manager.stopping();
    shared.end();
    let removed = taken_down(ways_in).await;
    shared.relays_ended().await;
    if let Some(tunnel) = keeper.now() {
        tunnel.farewell().await;
    }
    outcome.and(removed)
}

/// Takes UDP that would leave by the link, for ever, if that is wanted.
async fn take<T: Tunnel>(
    queued: Option<Queued>,
    flows: Arc<NearFlows<T>>,
    detour: Option<Detour>,
) -> Result<(), TunnelError> {
    match queued {
        Some(queued) => serve_queued(flows, queued, detour).await,
        None => pending().await,
    }
}

/// Answers DNS, for ever, if that is wanted.
async fn answer<T: Tunnel>(
    ports: Option<Ports>,
    keeper: &Arc<Keeper<T>>,
    shared: &Arc<Shared>,
) -> Result<(), TunnelError> {
    match ports {
        Some(ports) => {
            let forwarder = Forwarder::new(Arc::clone(keeper), Arc::clone(shared));
            ports.serve(forwarder).await
        }
        None => std::future::pending().await,
    }
}

/// A task for a connection that was taken in; one too many is reset.
pub(crate) fn admit<T: Tunnel>(
    accepted: Accepted,
    addresses: ClientAddresses,
    gate: &Arc<Gate>,
    keeper: &Arc<Keeper<T>>,
    detour: Option<&Detour>,
    shared: &Arc<Shared>,
) {
    tracing::debug!(client = %accepted.client, target = ?accepted.target, "taken in");
    let Some(place) = shared.place() else {
        drop(Endpoint::new(accepted.stream));
        return;
    };
    let since = Instant::now();
    let (gate, keeper, shared) = (Arc::clone(gate), Arc::clone(keeper), Arc::clone(shared));
    let detour = match accepted.came {
        Came::Redirected => detour.cloned(),
        // Its program has chosen the tunnel, and names are for the other side.
        Came::Asking => None,
    };
    tokio::spawn(async move {
        let Some(accepted) = gate.pass(accepted).await else {
            return;
        };
        let opened = tokio::select! {
            biased;
            () = shared.over() => {
                drop(Endpoint::new(accepted.stream));
                return;
            }
            () = Detour::open_of(detour.as_ref()) => None,
            opened = keeper.stream() => opened,
        };
        match (opened, detour) {
            (Some(Leased { stream, lease }), _) => {
                let meter = gate.meter(accepted.client.ip());
                let measured = keeper.now().map(|tunnel| tunnel.counts().round_trip);
                let measured = measured.filter(|round_trip| !round_trip.is_zero());
                let keys = shared.offers_keys_at(measured);
                let client = Client {
                    keys,
                    ..client(accepted, meter, addresses, since)
                };
                RelayTask::client_side(client, stream, shared, place)
                    .run()
                    .await;
                drop(lease);
            }
            (None, Some(_)) => gate.pass_without_tunnel(accepted),
            // The client sees a reset, as of a network that rejects.
            (None, None) => {
                shared.board.count(Tally::RelaysWithoutTunnel, 1);
                drop(Endpoint::new(accepted.stream));
            }
        }
    });
}

/// What the relay is told of a client.
fn client(
    accepted: Accepted,
    meter: Option<Meter>,
    addresses: ClientAddresses,
    since: Instant,
) -> Client {
    let open = Open::to(accepted.target);
    Client {
        address: accepted.client.ip().to_canonical(),
        keys: None,
        endpoint: Endpoint::new(accepted.stream),
        open: match addresses {
            ClientAddresses::Kept => open,
            ClientAddresses::Told => open.of_client(accepted.client),
        },
        first: accepted.first,
        meter,
        since,
    }
}

type WaysInEnded = Result<Result<(), TunnelError>, tokio::task::JoinError>;

/// By themselves, which they should not.
fn ways_in_ended(ended: WaysInEnded) -> Result<(), TunnelError> {
    let failed = TunnelError::system("taking connections in");
    match ended {
        Ok(Ok(())) => Err(failed(std::io::Error::other("it ended"))),
        Ok(Err(error)) => Err(error),
        Err(panic) => Err(failed(std::io::Error::other(panic))),
    }
}

async fn taken_down(ways_in: JoinHandle<Result<(), TunnelError>>) -> Result<(), TunnelError> {
    if ways_in.is_finished() {
        // That has been said.
        return Ok(());
    }
    match timeout(PATIENCE, ways_in).await {
        Ok(Ok(removed)) => removed,
        Ok(Err(panic)) => Err(TunnelError::system("taking connections in")(
            std::io::Error::other(panic),
        )),
        Err(_) => Err(TunnelError::system("removing the firewall's rules")(
            std::io::ErrorKind::TimedOut.into(),
        )),
    }
}
