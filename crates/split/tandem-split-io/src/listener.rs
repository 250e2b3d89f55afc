//! A port, and whoever comes to it: served so many at a time, the others wait in the system's
//! queue.
//!
//! Is not: what is said on a connection. Invariant: a listener that fails is tried again; one
//! connection's end is no other's.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::error::SplitIoError;

/// After the listener has failed, for lack of descriptors above all.
const BREATH: Duration = Duration::from_millis(100);

/// Listens for whoever is to be served, where `setting` says.
///
/// # Errors
/// The address is in use or none of this machine's.
pub async fn listen(
    setting: &'static str,
    address: SocketAddr,
) -> Result<TcpListener, SplitIoError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => SplitIoError::Busy { setting, address },
            _ => SplitIoError::Listen {
                setting,
                address,
                source,
            },
        })
}

/// Serves everybody who comes, at most so many at a time, for ever.
pub async fn serve<F>(listener: TcpListener, most: usize, each: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(most));
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
                tracing::warn!(%error, "no connection can be taken");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}
