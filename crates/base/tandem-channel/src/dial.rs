//! Connecting to somebody who has several addresses.
//!
//! Is not: the channel on the connection.
//!
//! Invariants: one address that does not answer leaves time for another; however many there are,
//! each that is tried has time for a slow round trip.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, ToSocketAddrs, lookup_host};
use tokio::time::{Instant, timeout};

/// The time is shared among so many addresses at most.
const MAX_SHARES: u32 = 4;
/// An address has this time at least, or half of all: a SYN that was lost is sent again after one
/// second (RFC 6298, section 2).
const ENOUGH: Duration = Duration::from_secs(3);

/// A TCP connection to the first address of this host that takes one, within this time.
///
/// # Errors
/// The host has no address, or none takes one; that of the last address then.
pub async fn dial(to: impl ToSocketAddrs, within: Duration) -> io::Result<TcpStream> {
    let end = Instant::now() + within;
    let addresses: Vec<SocketAddr> = timeout(within, lookup_host(to)).await??.collect();
    let left = end.saturating_duration_since(Instant::now());
    first_of(&addresses, left, TcpStream::connect).await
}

/// What comes of the first of these addresses with which this succeeds, within this time. Each has
/// its share of the time that is left, as long as any is.
///
/// # Errors
/// It succeeds with none: the error of the last.
pub async fn first_of<T, F>(
    addresses: &[SocketAddr],
    within: Duration,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let end = Instant::now() + within;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut untried = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let left = end.saturating_duration_since(Instant::now());
        let share = left / untried.clamp(1, MAX_SHARES);
        untried = untried.saturating_sub(1);
        let share = share.max(ENOUGH.min(within / 2)).min(left);
        match timeout(share, connect(*address)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    const ANY: &str = "127.0.0.1:0";

    /// An address at which nobody answers: its queue is full, so that the system drops what comes.
    async fn black_hole() -> (SocketAddr, impl Sized) {
        let socket = TcpSocket::new_v4().expect("a descriptor");
        socket
            .bind(ANY.parse().expect("an address"))
            .expect("loopback");
        let listener = socket.listen(1).expect("bound");
        let address = listener.local_addr().expect("bound");
        let mut held = Vec::new();
        while let Ok(stream) =
            timeout(Duration::from_millis(500), TcpStream::connect(address)).await
        {
            held.push(stream.expect("it listens"));
        }
        (address, (listener, held))
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        let (silent, _held) = black_hole().await;
        let listener = TcpListener::bind(ANY).await.expect("a free port");
        let there = listener.local_addr().expect("bound");
        let within = Duration::from_secs(6);
        let connected = timeout(within * 10, dial(&[silent, there][..], within)).await;
        let connected = connected.expect("in time").expect("one takes it");
        assert_eq!(connected.peer_addr().expect("connected"), there);
        let none = dial(&[silent][..], Duration::from_millis(50)).await;
        let error = none.expect_err("nobody answers");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    /// Which of so many is connected to in 2 s, if those before say nothing and it takes so long.
    async fn found(silent: usize, takes: Duration) -> io::Result<usize> {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let addresses: Vec<SocketAddr> = (0..).map(address).take(silent + 3).collect();
        let connect = |to: SocketAddr| async move {
            let index = usize::from(to.port());
            match index < silent {
                true => std::future::pending().await,
                false => tokio::time::sleep(takes).await,
            }
            Ok(index)
        };
        first_of(&addresses, Duration::from_secs(2), connect).await
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_leave_a_slow_round_trip_enough_time() {
        let slow = Duration::from_millis(900);
        assert_eq!(found(0, slow).await.ok(), Some(0));
        assert_eq!(found(1, slow).await.ok(), Some(1));
        let started = Instant::now();
        let error = found(100, slow).await.expect_err("nobody answers");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test]
    async fn a_host_without_addresses_and_one_that_refuses_are_errors() {
        let nobody = dial(&[][..], Duration::from_secs(1)).await;
        let error = nobody.expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let listener = TcpListener::bind(ANY).await.expect("a free port");
        let closed = listener.local_addr().expect("bound");
        drop(listener);
        let refused = dial(closed, Duration::from_secs(1)).await;
        let error = refused.expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
