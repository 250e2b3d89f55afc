//! A port and its connections: so many are served at a time and the others wait in the system's
//! queue ([`serve`], [`serve_shared`]), or whoever has no place is sent away at once
//! ([`serve_admitted`]).
//!
//! Is not: what is said on a connection, nor who has a place.
//!
//! Invariants: a listener that fails is tried again; connections end independently of each other.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tandem_wire::Network;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::error::DaemonError;
use crate::places::{Place, Places, Share};

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

/// The same, with at most `of_one` connections of one network at a time: an IPv4 /24, or an IPv6
/// /56, which is what one household gets. Its others are closed at once. This machine's own
/// connections count for no network.
pub async fn serve_shared<F>(
    listener: TcpListener,
    max: usize,
    of_one: usize,
    each: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let networks = Places::new(max, Share::AtMost(of_one));
    let told = AtomicBool::new(false);
    serve(listener, max, move |stream| {
        // Who has gone already has no address, and needs no place.
        let from = stream.peer_addr().ok();
        let place = from.and_then(|from| place(&networks, from.ip()));
        if from.is_some() && place.is_none() && !told.swap(true, Ordering::Relaxed) {
            tracing::warn!("a network has its {of_one} connections; more are closed");
        }
        let connection = place.map(|place| (each(stream), place));
        async move {
            if let Some((connection, _place)) = connection {
                connection.await;
            }
        }
    })
    .await;
}

/// A place among those of its network; this machine's own connections need none.
fn place(networks: &Arc<Places<Network>>, from: IpAddr) -> Option<Option<Place<Network>>> {
    match from.to_canonical().is_loopback() {
        true => Some(None),
        false => networks.take(Network::household(from)).map(Some),
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

    #[test]
    fn a_network_has_so_many_places_and_gets_them_back() {
        let networks = Places::new(100, Share::AtMost(2));
        let take = |address: &str| place(&networks, address.parse().expect("an address"));
        let held = [take("192.0.2.1"), take("::ffff:192.0.2.200")];
        assert!(held.iter().all(Option::is_some));
        assert!(take("192.0.2.7").is_none(), "the same /24");
        let others = [take("192.0.3.7"), take("2001:db8:0:ff::1")];
        assert!(others.iter().all(Option::is_some));
        let more = [take("2001:db8:0:1::1"), take("2001:db8:0:100::1")];
        assert!(
            more.iter().all(Option::is_some),
            "the second of a /56, and another's"
        );
        assert!(take("2001:db8:0:2::1").is_none(), "the same /56");
        let own: Vec<_> = (0..9).map(|_| take("127.0.0.1")).collect();
        assert!(own.iter().all(Option::is_some));
        drop(held);
        assert!(take("192.0.2.7").is_some());
        drop((others, more, own));
        assert!(networks.is_empty());
    }

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
