//! `tandem keytap receive`: keys that come from another machine go to this machine's proxy.
//!
//! Is not: `relay`, the other end. Invariants: only who proves the pair's key hands in keys; what
//! the proxy does not take at once is dropped.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tandem_channel::{Acceptor, Admission, End, ServerChannel};
use tandem_daemon::service_manager::ServiceManager;
use tandem_daemon::{listener, runtime};
use tandem_key_socket::hand_in;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cli::ReceiveArgs;
use crate::counts::Counts;
use crate::failure::Failure;
use crate::frame;
use crate::pair::{PATIENCE, PROTOCOL, Pair, watch};

/// Channels at a time: machines with programs that share the key, and strangers that have not shown
/// yet that they do not.
const MAX_CHANNELS: usize = 64;

struct Receiver {
    acceptor: Acceptor,
    socket: PathBuf,
    counts: Counts,
}

/// Receives until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: &ReceiveArgs) -> Result<(), Failure> {
    let pair = Pair::read(&arguments.key)?;
    let admission = Admission::Listed(HashSet::from([pair.name(End::Client)?]));
    let receiver = Arc::new(Receiver {
        acceptor: Acceptor::new(PROTOCOL, &pair.own(End::Server)?, admission)?,
        socket: arguments.socket.clone(),
        counts: Counts::default(),
    });
    let is_over = runtime::asked_to_end()?;
    let listener = listener::listen("--listen", arguments.listen).await?;
    let manager = ServiceManager::of_environment();
    manager.ready("receiving keys");
    let serving = listener::serve(listener, MAX_CHANNELS, |stream| {
        serve(Arc::clone(&receiver), stream)
    });
    tokio::select! {
        () = is_over => {}
        () = serving => {}
        () = receiver.counts.keep_telling() => {}
    }
    manager.stopping();
    receiver.counts.tell();
    Ok(())
}

async fn serve(receiver: Arc<Receiver>, stream: TcpStream) {
    let Ok(peer) = stream.peer_addr() else {
        return;
    };
    match receiver.admit(stream).await {
        Ok(mut channel) => {
            tracing::info!("keys come from {peer}");
            match receiver.take(&mut channel).await {
                Ok(()) => tracing::info!("{peer} has closed its channel"),
                Err(error) => tracing::info!("{peer} is lost: {error}"),
            }
        }
        // Anybody can cause this.
        Err(error) => tracing::debug!("{peer}: {error}"),
    }
}

impl Receiver {
    /// A channel, for who proves the pair's key.
    async fn admit(&self, stream: TcpStream) -> io::Result<ServerChannel> {
        watch(&stream)?;
        timeout(PATIENCE, self.acceptor.open(stream, Arc::default())).await?
    }

    /// Takes keys to the channel's end.
    async fn take(&self, channel: &mut ServerChannel) -> io::Result<()> {
        while let Some(key) = frame::read(channel).await? {
            match hand_in(&self.socket, &key) {
                Ok(()) => self.counts.passed_on.add(1),
                Err(error) => {
                    tracing::debug!("{}: {error}", self.socket.display());
                    self.counts.dropped.add(1);
                }
            }
        }
        Ok(())
    }
}
