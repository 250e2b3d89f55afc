//! The daemon: listens, serves, takes its settings anew when SIGHUP asks for it, until it is told
//! to end.
//!
//! Is not: what a connection does.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tandem_channel::{Acceptor, Admission, ChannelKey, KeyName};
use tandem_daemon::door::Door;
use tandem_daemon::listener::{listen, serve_admitted};
use tandem_daemon::places::{Places, Share};
use tandem_daemon::{DaemonError, admin, runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::PROTOCOL;
use crate::connection;
use crate::desk::Desk;
use crate::error::KeyServerError;
use crate::settings::Loaded;
use crate::signers;

/// Handshakes at a time; of one address an eighth, since workers of a web server start at once.
/// Those beyond try again.
const MAX_HANDSHAKES: usize = 512;
/// For a stranger's handshake in a crowd. It takes two round trips, and web servers are near.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections of one client: some for each of its processes, which share its key.
const MAX_OF_PEER: usize = 1_024;

/// How a key server is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients come.
    pub listen: SocketAddr,
    /// The settings file.
    pub config: PathBuf,
    /// Where metrics are shown, if anywhere.
    pub admin: Option<SocketAddr>,
}

/// Runs a key server until SIGTERM or SIGINT. `ready` is told where it listens, and its key.
///
/// # Errors
/// It cannot start: settings, keys, addresses.
pub async fn run(
    options: Options,
    ready: impl FnOnce(SocketAddr, KeyName),
) -> Result<(), KeyServerError> {
    protect();
    let end = runtime::asked_to_end()?;
    let loaded = Loaded::of_file(&options.config)?;
    let key = ChannelKey::kept_in(&loaded.channel_key)?;
    if loaded.rules.is_empty() {
        tracing::warn!("no [[allow]] in the settings: every request will be refused");
    }
    let desk = Arc::new(Desk::new(loaded)?);
    signers::start(&desk)?;
    let known = Arc::clone(&desk);
    let admission = Admission::If(Box::new(move |key| {
        known.loaded().peers.contains_key(&key.bytes())
    }));
    let acceptor = Acceptor::new(PROTOCOL, &key, admission)?;
    let listener = listen("--listen", options.listen).await?;
    let address = listener
        .local_addr()
        .map_err(|source| KeyServerError::System {
            what: "the address",
            source,
        })?;
    if let Some(at) = options.admin {
        admin::show("--admin", at, desk.numbers.all(), |_| None)?;
    }
    ready(address, key.name());

    let door = Door::new(MAX_HANDSHAKES, PATIENCE, Arc::default());
    let peers = Places::new(usize::MAX, Share::AtMost(MAX_OF_PEER));
    let shared = Arc::clone(&desk);
    let serving = serve_admitted(listener, move |stream, from| {
        let Some(place) = door.enter(from) else {
            shared.numbers.refused_connections.add(1);
            return None;
        };
        let (acceptor, desk) = (acceptor.clone(), Arc::clone(&shared));
        let peers = Arc::clone(&peers);
        Some(connection::serve(stream, acceptor, desk, peers, place))
    });
    runtime::unless(end, async {
        tokio::join!(serving, reloading(options.config, desk)).1
    })
    .await
    .unwrap_or(Ok(()))
}

/// Takes the settings anew at each SIGHUP. Where they are wrong, those before stay in force.
async fn reloading(config: PathBuf, desk: Arc<Desk>) -> Result<(), KeyServerError> {
    let mut hangups = signal(SignalKind::hangup()).map_err(|source| {
        KeyServerError::from(DaemonError::System {
            what: "signals",
            source,
        })
    })?;
    while hangups.recv().await.is_some() {
        match Loaded::of_file(&config).and_then(|loaded| desk.reload(loaded)) {
            Ok(()) => tracing::info!("the settings are taken anew"),
            Err(error) => {
                tracing::error!(%error, "the settings are not taken; those before stay in force");
            }
        }
    }
    Ok(())
}

/// Keeps keys out of core dumps and away from other processes of the same user (ptrace).
fn protect() {
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "the process may be dumped with its keys");
    }
}
