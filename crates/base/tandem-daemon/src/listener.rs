//! A port and its connections: so many are served at a time and the others wait in the system's
//! queue ([`serve`]), or whoever has no place is sent away at once ([`serve_admitted`]).
//!
//! Is not: what is said on a connection, nor who has a place.
//!
//! Invariants: a listener that fails is tried again; connections end independently of each other.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::error::DaemonError;

/// After the listener has failed, for lack of descriptors above all.
const BREATH: Duration = Duration::from_millis(100);

/// Listens on `address`, which `setting` names.
///
/// # Errors
/// The address is in use or not one of this machine's.
pub async fn listen(
    setting: &'static str,
    address: SocketAddr,
) -> Result<TcpListener, DaemonError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| DaemonError::listening(setting, address, source))
}

/// Serves each connection, at most `max` at a time, for ever.
pub async fn serve<F>(listener: TcpListener, max: usize, each: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(max));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = each(stream);
                tokio::spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => breathe(error).await,
        }
    }
}

/// Serves those connections that `admit` makes something of, by the addresses from which they come,
/// for ever; the others are closed. Nobody waits for others to end.
pub async fn serve_admitted<F>(
    listener: TcpListener,
    admit: impl Fn(TcpStream, IpAddr) -> Option<F>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                if let Some(connection) = admit(stream, from.ip()) {
                    tokio::spawn(connection);
                }
            }
            Err(error) => breathe(error).await,
        }
    }
}

async fn breathe(error: io::Error) {
    tracing::warn!(%error, "no connection can be accepted");
    tokio::time::sleep(BREATH).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn who_is_not_admitted_is_closed_and_nobody_waits_for_it() {
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let listener = listen("listen", any).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let came = AtomicUsize::new(0);
        tokio::spawn(serve_admitted(listener, move |mut stream, from| {
            assert_eq!(from, any.ip());
            let is_even = came.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            is_even.then_some(async move {
                let _ = stream.write_all(b"x").await;
                // Held until the other end has gone.
                let _ = stream.read(&mut [0]).await;
            })
        }));
        let mut held = Vec::new();
        for expected in [1, 0, 1, 0, 1] {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            let mut said = [0];
            let len = stream.read(&mut said).await.expect("served, or closed");
            assert_eq!(len, expected);
            held.push(stream);
        }
    }
}
