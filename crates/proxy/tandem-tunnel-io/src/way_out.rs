//! The way out of the server side: a connection to a server, as itself or in the client's name.
//!
//! Is not: the decision whose address is used ([`WayOut`]), nor the rules that lead a server's
//! answers to a client's address back here (`return_path.rs`).
//!
//! Invariant: a connection has said who its client is before anybody else writes to it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use socket2::SockRef;
use tandem_tunnel::{Origin, WayOut};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::board::{Board, Tally};
use crate::own_addresses::is_own;

/// Connects.
pub(crate) struct Leaving {
    way: WayOut,
    board: Arc<Board>,
    mark: Option<u32>,
}

impl Leaving {
    pub(crate) fn new(way: WayOut, board: Arc<Board>) -> Self {
        Self {
            way,
            board,
            mark: None,
        }
    }

    /// The same, with this mark on every packet of connections as itself, and of datagrams
    /// (`SO_MARK`), which needs CAP_NET_ADMIN.
    pub(crate) fn marked(self, mark: Option<u32>) -> Self {
        Self { mark, ..self }
    }

    /// What is known of a client for whom the client side tells this address; to be asked once a
    /// connection, since it is counted.
    pub(crate) fn origin(&self, told: Option<SocketAddr>) -> Origin {
        let origin = match &self.way {
            WayOut::Own => return Origin::NotTold,
            WayOut::Client(networks) | WayOut::ProxyV2(networks) => networks.origin(told),
        };
        match origin {
            Origin::Client(_) => {}
            Origin::NotTold => self.board.count(Tally::ClientAddressesNotTold, 1),
            Origin::NotBelieved => {
                tracing::debug!(?told, "an address in none of --client-networks");
                self.board.count(Tally::ClientAddressesNotBelieved, 1);
            }
        }
        origin
    }

    /// Puts those addresses of a server first that the client's own address can connect to.
    pub(crate) fn sort(&self, servers: &mut [SocketAddr], origin: Origin) {
        match (&self.way, origin) {
            (WayOut::Client(_), Origin::Client(client)) => {
                servers.sort_by_key(|server| server.is_ipv4() != client.is_ipv4());
            }
            (WayOut::Own | WayOut::Client(_) | WayOut::ProxyV2(_), _) => {}
        }
    }

    /// A connection to `server`, for this client.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        origin: Origin,
    ) -> io::Result<TcpStream> {
        match (&self.way, origin) {
            // This machine's own answers to a client's address would leave for the client.
            (WayOut::Client(_), Origin::Client(client))
                if client.is_ipv4() == server.is_ipv4() && !is_own(server.ip()) =>
            {
                connect_from(client, server).await
            }
            (WayOut::Own | WayOut::Client(_), _) => self.connect_as_itself(server).await,
            (WayOut::ProxyV2(_), _) => {
                let mut stream = self.connect_as_itself(server).await?;
                stream.write_all(&origin.proxy_v2(server)).await?;
                Ok(stream)
            }
        }
    }

    /// A socket for datagrams to `server` and back, as this machine itself.
    ///
    /// # Errors
    /// The system's.
    pub(crate) async fn socket(&self, server: SocketAddr) -> io::Result<UdpSocket> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        if let Some(mark) = self.mark {
            SockRef::from(&socket).set_mark(mark)?;
        }
        socket.connect(server).await?;
        // Until the runtime knows that, it sends nothing without waiting.
        socket.writable().await?;
        Ok(socket)
    }

    async fn connect_as_itself(&self, server: SocketAddr) -> io::Result<TcpStream> {
        let Some(mark) = self.mark else {
            return TcpStream::connect(server).await;
        };
        let socket = match server {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        SockRef::from(&socket).set_mark(mark)?;
        socket.connect(server).await
    }
}

/// Connects from the client's address and port; from another port of this address where that one
/// is taken, or is kept for privileged programs.
async fn connect_from(client: SocketAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let connected = match bound(client) {
        Ok(socket) => socket.connect(server).await,
        Err(error) => Err(error),
    };
    match connected {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::AddrInUse
                    | io::ErrorKind::AddrNotAvailable
                    | io::ErrorKind::PermissionDenied
            ) =>
        {
            let socket = bound(SocketAddr::new(client.ip(), 0))?;
            socket.connect(server).await
        }
        connected => connected,
    }
}

/// A socket with an address that need not be this machine's (`IP_TRANSPARENT`, ip(7)).
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => {
            let socket = TcpSocket::new_v4()?;
            SockRef::from(&socket).set_ip_transparent_v4(true)?;
            socket
        }
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            SockRef::from(&socket).set_ip_transparent_v6(true)?;
            socket
        }
    };
    // A client may use one port for several servers.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tandem_tunnel::ClientNetworks;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::board::Facts;

    fn leaving(way: WayOut) -> Leaving {
        let facts = Facts {
            role: "server-side",
            link: String::new(),
        };
        Leaving::new(way, Board::new(facts))
    }

    fn networks() -> ClientNetworks {
        ClientNetworks::parse(["127.1.0.0/16"]).expect("a network")
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn a_header_comes_first_and_is_counted_where_it_names_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = listener.local_addr().expect("bound");
        let leaving = leaving(WayOut::ProxyV2(networks()));
        for (told, origin, counted) in [
            (
                Some(at("127.1.0.7:4000")),
                Origin::Client(at("127.1.0.7:4000")),
                [0, 0],
            ),
            (None, Origin::NotTold, [1, 0]),
            (Some(at("127.2.0.7:4000")), Origin::NotBelieved, [1, 1]),
        ] {
            assert_eq!(leaving.origin(told), origin);
            let mut stream = leaving.connect(server, origin).await.expect("it listens");
            stream.write_all(b"hello").await.expect("it is up");
            drop(stream);
            let (mut accepted, _) = listener.accept().await.expect("it came");
            let mut read = Vec::new();
            accepted.read_to_end(&mut read).await.expect("the end");
            let expected = [&origin.proxy_v2(server)[..], b"hello"].concat();
            assert_eq!(read, expected, "{told:?}");
            let counters = leaving.board.snapshot().counters;
            let names = ["client_addresses_not_told", "client_addresses_not_believed"];
            assert_eq!(names.map(|name| counters[name]), counted, "{told:?}");
        }
    }

    #[tokio::test]
    async fn a_server_sees_the_clients_address_and_its_port_where_that_is_free() {
        if !tandem_testkit::has_root_and(&[]) {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = listener.local_addr().expect("bound");
        let client = at("127.1.0.7:4000");
        let mut streams = Vec::new();
        // The second time by a port that the first one has.
        for expected in [Some(4000), None] {
            let stream = connect_from(client, server).await.expect("it listens");
            let (_, seen) = listener.accept().await.expect("it came");
            assert_eq!(seen.ip(), client.ip());
            match expected {
                Some(port) => assert_eq!(seen.port(), port),
                None => assert_ne!(seen.port(), 4000),
            }
            streams.push(stream);
        }
    }

    #[tokio::test]
    async fn a_server_that_the_clients_address_cannot_reach_is_called_as_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = listener.local_addr().expect("bound");
        let leaving = leaving(WayOut::Client(networks()));
        for origin in [
            Origin::NotTold,
            Origin::NotBelieved,
            Origin::Client(at("[fd00::7]:4000")),
            // The server is on this machine.
            Origin::Client(at("127.1.0.7:4000")),
        ] {
            let _stream = leaving.connect(server, origin).await.expect("it listens");
            let (_, seen) = listener.accept().await.expect("it came");
            assert_eq!(seen.ip(), server.ip(), "{origin:?}");
        }
    }

    #[test]
    fn addresses_that_the_client_can_reach_come_first_in_their_order() {
        let servers = ["[fd00::1]:443", "192.0.2.1:443", "192.0.2.2:443"].map(at);
        let [v6, first, second] = servers;
        let client = Origin::Client(at("127.1.0.7:4000"));
        for (way, origin, expected) in [
            (WayOut::Client(networks()), client, [first, second, v6]),
            (WayOut::Client(networks()), Origin::NotTold, servers),
            (WayOut::ProxyV2(networks()), client, servers),
        ] {
            let mut sorted = servers;
            leaving(way.clone()).sort(&mut sorted, origin);
            assert_eq!(sorted, expected, "{way:?} {origin:?}");
        }
    }
}
