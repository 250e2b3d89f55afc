//! Connections that do not go through the tunnel: connected with their server from here, bytes
//! untouched.
//!
//! Is not: the decision which those are (`gate.rs`, `redirect.rs`).
//!
//! Invariants: no more than [`MAX_PASSED_ON`] at a time; an endpoint sees an end of the stream only
//! where the other endpoint has sent it, and a reset otherwise.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::endpoint;

/// Connections that are passed on at one time, two descriptors each. Those beyond are reset.
const MAX_PASSED_ON: usize = 4096;

/// Passes connections on. Clones share the bound.
#[derive(Debug, Clone)]
pub(super) struct PassingOn {
    room: Arc<Semaphore>,
}

impl PassingOn {
    pub(super) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(MAX_PASSED_ON)),
        }
    }

    /// Connects `client` with the server that `connect` gives, in a task of its own. `first` is
    /// what has been read of the client.
    pub(super) fn start<E: fmt::Debug + Send>(
        &self,
        client: TcpStream,
        first: Vec<u8>,
        connect: impl Future<Output = Result<TcpStream, E>> + Send + 'static,
    ) {
        resets(&client, Some(Duration::ZERO));
        // Without a place it is dropped, and so reset.
        if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
            tokio::spawn(async move {
                match connect.await {
                    Ok(server) => pass_on(client, first, server).await,
                    Err(error) => tracing::debug!(?error, "a connection that is passed on fails"),
                }
                drop(place);
            });
        }
    }
}

async fn pass_on(mut client: TcpStream, first: Vec<u8>, mut server: TcpStream) {
    resets(&server, Some(Duration::ZERO));
    endpoint::prepare(&client);
    endpoint::prepare(&server);
    let both_ways = async {
        server.write_all(&first).await?;
        drop(first);
        tokio::io::copy_bidirectional(&mut client, &mut server).await?;
        io::Result::Ok(())
    };
    if both_ways.await.is_ok() {
        resets(&client, None);
        resets(&server, None);
    }
}

/// With a time of zero: has the other end see a reset when the connection is dropped.
fn resets(stream: &TcpStream, linger: Option<Duration>) {
    let _ = SockRef::from(stream).set_linger(linger);
}
