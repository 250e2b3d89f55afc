//! A port and its connections: so many are served at a time, the others wait in the system's queue.
//!
//! Is not: what is said on a connection.
//!
//! Invariants: a listener that fails is tried again; connections end independently of each other.

use std::future::Future;
use std::net::SocketAddr;
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
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}
