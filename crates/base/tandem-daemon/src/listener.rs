//! A port and its connections: so many are served at a time and the others wait in the system's
//! queue ([`serve`], [`serve_shared`]), or whoever has no place is sent away at once
//! ([`serve_admitted`]).
//!
//! Is not: what is said on a connection, nor who has a place.
//!
//! Invariants: a listener that fails is tried again; connections end independently of each other.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    let networks = Networks::default();
    serve(listener, max, move |stream| {
        // Who has gone already has no address, and needs no place.
        let from = stream.peer_addr().ok();
        let place = from.and_then(|from| networks.take(from.ip(), of_one));
        let connection = place.map(|place| (each(stream), place));
        async move {
            if let Some((connection, _place)) = connection {
                connection.await;
            }
        }
    })
    .await;
}

/// The connections of each network.
#[derive(Clone, Default)]
struct Networks {
    /// How many; networks without any have no entry.
    counts: Arc<Mutex<HashMap<u128, usize>>>,
    /// Whether a refusal was logged.
    told: Arc<AtomicBool>,
}

impl Networks {
    fn take(&self, address: IpAddr, most: usize) -> Option<NetworkPlace> {
        let network = network(address);
        if let Some(network) = network {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(network).or_default();
            if *count >= most {
                if !self.told.swap(true, Ordering::Relaxed) {
                    tracing::warn!("a network has its {most} connections; more are closed");
                }
                return None;
            }
            *count += 1;
        }
        Some(NetworkPlace {
            networks: self.clone(),
            network,
        })
    }
}

/// A connection that counts for its network.
struct NetworkPlace {
    networks: Networks,
    network: Option<u128>,
}

impl Drop for NetworkPlace {
    fn drop(&mut self) {
        let Some(network) = self.network else {
            return;
        };
        let counts = self.networks.counts.lock();
        let mut counts = counts.unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&network);
            }
        }
    }
}

/// The first bits of an address, IPv4 mapped into IPv6; nothing for this machine's own.
fn network(address: IpAddr) -> Option<u128> {
    let address = address.to_canonical();
    if address.is_loopback() {
        return None;
    }
    let (bits, rest) = match address {
        IpAddr::V4(address) => (address.to_ipv6_mapped().to_bits(), 8),
        IpAddr::V6(address) => (address.to_bits(), 72),
    };
    Some(bits >> rest << rest)
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
        let networks = Networks::default();
        let take = |address: &str| networks.take(address.parse().expect("an address"), 2);
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
        let left = networks.counts.lock().expect("nobody panics with it");
        assert!(left.is_empty(), "{left:?}");
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
