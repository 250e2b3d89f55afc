//! `tandem keytap relay`: keys from this machine's socket go to another machine.
//!
//! Is not: `receive`, the other end. Invariants: a key that comes while there is no channel, or
//! while the channel is behind, is dropped; a channel that is lost is opened again, less and less
//! often.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tandem_channel::{ClientChannel, Connector, End, Pin};
use tandem_daemon::runtime;
use tandem_daemon::service_manager::ServiceManager;
use tandem_key_socket::KeySocket;
use tandem_record_key::RecordKey;
use tokio::io::{AsyncReadExt as _, split};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::cli::RelayArgs;
use crate::counts::Counts;
use crate::failure::Failure;
use crate::frame;
use crate::pair::{PATIENCE, PROTOCOL, Pair, watch};

/// Keys that may wait for the channel: what comes in the moment in which one is being written.
const MAX_WAITING: usize = 64;

/// How long a key may take to leave. One that takes longer comes too late in any case.
const WRITING: Duration = Duration::from_secs(5);

/// Between two tries, from the first that fails on.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// What socket and channel share.
#[derive(Debug, Default)]
struct Shared {
    is_connected: AtomicBool,
    counts: Counts,
}

/// Relays until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: &RelayArgs) -> Result<(), Failure> {
    let pair = Pair::read(&arguments.key)?;
    let pin = Pin::to(pair.name(End::Server)?);
    let connector = Connector::new(PROTOCOL, &pair.own(End::Client)?, pin)?;
    let socket = KeySocket::bind(&arguments.socket).map_err(Failure::Socket)?;
    let is_over = runtime::asked_to_end()?;
    let shared = Arc::new(Shared::default());
    let (waiting, queue) = mpsc::channel(MAX_WAITING);
    let take = || take(&socket, &waiting, &shared);
    let manager = ServiceManager::of_environment();
    manager.ready("relaying keys");
    let ended = tokio::select! {
        () = is_over => Ok(()),
        failed = socket.each(take) => failed.map_err(Failure::Socket),
        never = keep_sending(&connector, arguments, queue, &shared) => match never {},
        () = shared.counts.keep_telling() => Ok(()),
    };
    manager.stopping();
    shared.counts.tell();
    ended
}

/// Takes keys that have come; whether these were all.
fn take(socket: &KeySocket, waiting: &mpsc::Sender<RecordKey>, shared: &Shared) -> bool {
    let taken = socket.take();
    shared.counts.malformed.add(taken.malformed);
    for key in taken.keys {
        let is_connected = shared.is_connected.load(Ordering::Relaxed);
        if !is_connected || waiting.try_send(key).is_err() {
            shared.counts.dropped.add(1);
        }
    }
    taken.is_all
}

async fn keep_sending(
    connector: &Connector,
    arguments: &RelayArgs,
    mut queue: mpsc::Receiver<RecordKey>,
    shared: &Shared,
) -> std::convert::Infallible {
    let to = arguments.to;
    let mut pause = FIRST_PAUSE;
    loop {
        match connect(connector, arguments).await {
            Ok(channel) => {
                pause = FIRST_PAUSE;
                shared.is_connected.store(true, Ordering::Relaxed);
                tracing::info!("keys go to {to}");
                let lost = send(channel, &mut queue, shared).await;
                shared.is_connected.store(false, Ordering::Relaxed);
                tracing::warn!("{to} is lost: {lost}");
                while queue.try_recv().is_ok() {
                    shared.counts.dropped.add(1);
                }
            }
            Err(error) if pause == FIRST_PAUSE => {
                tracing::warn!("{to} cannot be reached, and is tried again: {error}");
            }
            Err(error) => tracing::debug!("{to}: {error}"),
        }
        sleep(pause).await;
        pause = (2 * pause).min(MAX_PAUSE);
    }
}

async fn connect(connector: &Connector, arguments: &RelayArgs) -> io::Result<ClientChannel> {
    let connecting = async {
        let stream = TcpStream::connect(arguments.to).await?;
        watch(&stream)?;
        connector.open(stream).await
    };
    timeout(PATIENCE, connecting).await?
}

/// Sends until the channel is lost; why it is.
async fn send(
    channel: ClientChannel,
    queue: &mut mpsc::Receiver<RecordKey>,
    shared: &Shared,
) -> io::Error {
    let (mut from, mut to) = split(channel);
    let mut byte = [0];
    let mut heard = Box::pin(from.read(&mut byte));
    loop {
        tokio::select! {
            key = queue.recv() => {
                let Some(key) = key else {
                    return io::ErrorKind::BrokenPipe.into();
                };
                match timeout(WRITING, frame::write(&mut to, &key)).await {
                    Ok(Ok(())) => shared.counts.passed_on.add(1),
                    Ok(Err(error)) => return error,
                    Err(_) => return io::ErrorKind::TimedOut.into(),
                }
            }
            // It has nothing to say.
            heard = &mut heard => return match heard {
                Ok(0) => io::Error::new(io::ErrorKind::UnexpectedEof, "it has closed the channel"),
                Ok(_) => io::ErrorKind::InvalidData.into(),
                Err(error) => error,
            },
        }
    }
}
