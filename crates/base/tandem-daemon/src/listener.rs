//! A port and its connections: so many are served at a time and the others wait in the system's
//! queue ([`serve`], [`serve_shared`]), or whoever has no place is sent away at once
//! ([`serve_admitted`]).
//!
//! Is not: what is said on a connection, nor who has a place.
//!
//! Invariants: a listener that fails is tried again; connections end independently of each other.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt::Ipv6V6Only};
use tandem_wire::Network;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::error::DaemonError;
use crate::places::{Place, Places, Share};

/// Connections that wait in the system's queue.
const BACKLOG: u32 = 1024;

/// After the listener has failed, for lack of descriptors above all.
const BREATH: Duration = Duration::from_millis(100);

/// Listens on `address`, which `setting` names. `[::]` has IPv4, too; on a machine without IPv6 it
/// has IPv4 alone.
///
/// # Errors
/// The address is in use or not one of this machine's.
pub async fn listen(
    setting: &'static str,
    address: SocketAddr,
) -> Result<TcpListener, DaemonError> {
    listen_on(address, Stack::Both)
        .map_err(|source| DaemonError::listening(setting, address, source))
}

/// Listens on all of these, as [`listen`] does; but where another of them is an address of IPv4
/// with the same port, `[::]` has IPv6 alone. Must be called within a runtime.
///
/// # Errors
/// An address is in use or not one of this machine's.
pub fn listen_all(
    setting: &'static str,
    addresses: &[SocketAddr],
) -> Result<Vec<TcpListener>, DaemonError> {
    let listened = addresses.iter().map(|address| {
        let has_v4 = |other: &SocketAddr| other.is_ipv4() && other.port() == address.port();
        let stack = match addresses.iter().any(has_v4) {
            true => Stack::Own,
            false => Stack::Both,
        };
        listen_on(*address, stack)
            .map_err(|source| DaemonError::listening(setting, *address, source))
    });
    listened.collect()
}

/// Whose connections come to `[::]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stack {
    /// Those of IPv6 alone.
    Own,
    /// Those of IPv4, too.
    Both,
}

fn listen_on(address: SocketAddr, stack: Stack) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => match TcpSocket::new_v6() {
            Err(error)
                if error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32)
                    && stack == Stack::Both
                    && address.ip().is_unspecified() =>
            {
                tracing::info!(%address, "this machine has no IPv6: IPv4 alone is listened on");
                let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
                return listen_on(any, stack);
            }
            socket => {
                let socket = socket?;
                setsockopt(&socket, Ipv6V6Only, &(stack == Stack::Own))?;
                socket
            }
        },
    };
    // As it is restarted, its old connections may not have ended yet.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
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

    #[tokio::test]
    async fn any_address_of_ipv6_has_ipv4_too_unless_that_is_listened_on_by_itself() {
        let listen = |addresses: &[SocketAddr]| {
            let listeners = listen_all("--listen", addresses).expect("free ports");
            let bound = listeners.iter().map(|one| one.local_addr().expect("bound"));
            (bound.collect::<Vec<_>>(), listeners)
        };
        let socket = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let (bound, listeners) = listen(&[socket("[::]:0")]);
        let port = bound[0].port();
        for to in ["127.0.0.1", "::1"] {
            let to = SocketAddr::new(to.parse().expect("an address"), port);
            let _stream = TcpStream::connect(to).await.expect("it is listened on");
            let (_, from) = listeners[0].accept().await.expect("it is there");
            assert_eq!(from.ip().to_canonical(), to.ip());
        }
        drop(listeners);
        // Another test may take the port in between.
        let (any, listeners) = loop {
            let (bound, first) = listen(&[socket("0.0.0.0:0")]);
            let any = [bound[0], socket(&format!("[::]:{}", bound[0].port()))];
            drop(first);
            match listen_all("--listen", &any) {
                Err(DaemonError::Busy { .. }) => {}
                both => break (any, both.expect("free ports")),
            }
        };
        let port = any[0].port();
        for (to, listener) in ["127.0.0.1", "::1"].iter().zip(&listeners) {
            let to = SocketAddr::new(to.parse().expect("an address"), port);
            let _stream = TcpStream::connect(to).await.expect("it is listened on");
            let (_, from) = listener.accept().await.expect("it is there");
            assert_eq!(from.ip(), to.ip());
        }
        let busy = listen_all("--listen", &any);
        assert!(matches!(busy, Err(DaemonError::Busy { .. })), "{busy:?}");
    }

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
