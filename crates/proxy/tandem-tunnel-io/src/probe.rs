//! Finding out whether the server side can be reached, and if not, why: a small packet, then one
//! handshake over UDP, and where that gets no answer, one over TCP.
//!
//! Is not: a part of a daemon. Nothing is kept, and the connection is closed at once.
//!
//! Invariants: bounded in time; what crosses the line is bounded by [`MAX_COST`].

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::IpMtu;
use tandem_channel::KeyName;
use tandem_daemon::runtime;
use tandem_link::inband::Key;
use tokio::time::timeout;

use crate::error::TunnelError;
use crate::line::Line;
use crate::transport::{Connect as _, Counts, Lost, Tunnel as _, quic, tcp};

/// Bytes of IP that a probe costs at most, both ways together: where nobody answers, the first
/// two datagrams of a handshake, of 1,260 and 1,228 bytes, are sent five times. One over TCP is
/// 4 kB.
pub const MAX_COST: usize = 17_000;

/// Bytes of the IP packets that a path over IPv4 has to carry: a datagram of QUIC (RFC 9000,
/// section 14) with its headers. The tunnel sends some of 1,260, and does without where they get
/// lost.
pub const PACKET: usize = 1_228;

/// How long the answer to a small packet may take: a round trip by two satellites.
const SMALL_PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of a small packet: enough that a QUIC server answers it with a reset (RFC 9000, section
/// 10.3), which is shorter by one.
const SMALL: usize = 60;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The server side answered and has the same key. So packets of [`PACKET`] bytes pass.
    Yes {
        /// The round trip, as the handshake measured it.
        round_trip: Duration,
        /// UDP payload that was sent and received.
        bytes: u64,
    },
    /// The server side has the same key, and answers over TCP alone.
    OverTcp {
        /// The round trip, as TCP measured it.
        round_trip: Duration,
    },
    /// Somebody answered who does not have this key, or speaks another version.
    Refused(String),
    /// The other machine is there, and says that nobody listens on this port.
    NobodyListens,
    /// Small packets are answered, those of the handshake are not.
    OnlySmall,
    /// Nothing came back.
    Silence,
    /// Nothing can be sent.
    Unusable(String),
}

/// Tries to reach the server side at `peer`: with a small packet, then with a handshake over UDP,
/// then with one over TCP. Where nobody answers it takes 43 s, and longer if the line is stated to
/// be thin. `server`: the name of the server side's key, where it is not the pair's.
///
/// # Errors
/// The TLS library or the runtime refuses to start.
pub fn reach(
    key: &Key,
    server: Option<KeyName>,
    peer: SocketAddr,
    line: &Line,
) -> Result<Reached, TunnelError> {
    // Nobody need wait a minute for what the other machine says at once.
    let alone = small(peer).unwrap_or_else(|error| Reached::Unusable(error.to_string()));
    let is_pointless = matches!(alone, Reached::NobodyListens | Reached::Unusable(_));
    runtime::run(async {
        let (key, expected) = (key.bytes(), quic::expected(line));
        let (client, by_tcp) = match server {
            None => (
                quic::Client::new(key, peer, line)?,
                tcp::Client::new(key, peer, line, &expected)?,
            ),
            Some(server) => (
                quic::Client::to(key, server, peer, line)?,
                tcp::Client::to(key, server, (peer, line), &expected)?,
            ),
        };
        let by_udp = if is_pointless {
            Err(Lost::Silent)
        } else {
            client.probe().await
        };
        Ok(match by_udp {
            Ok(tunnel) => {
                let Counts {
                    round_trip,
                    sent_bytes,
                    received_bytes,
                    ..
                } = tunnel.counts();
                tunnel.farewell().await;
                Reached::Yes {
                    round_trip,
                    bytes: sent_bytes + received_bytes,
                }
            }
            Err(Lost::Refused(reason)) => Reached::Refused(reason),
            Err(Lost::Unusable(reason)) => Reached::Unusable(reason),
            Err(Lost::ByPeer) => Reached::Refused("it shuts down".to_owned()),
            Err(
                Lost::Silent
                | Lost::Restarted
                | Lost::Here
                | Lost::Unreachable(_)
                | Lost::Foreign(_),
            ) => match timeout(client.probe_patience(), by_tcp.connect()).await {
                Ok(Ok(tunnel)) => {
                    let Counts { round_trip, .. } = tunnel.counts();
                    tunnel.farewell().await;
                    Reached::OverTcp { round_trip }
                }
                Ok(Err(_)) | Err(_) => alone,
            },
        })
    })
}

/// Sends one small packet, which a server side answers whatever its key is.
fn small(peer: SocketAddr) -> io::Result<Reached> {
    let socket = connected(peer)?;
    let mut packet = [0; SMALL];
    getrandom::fill(&mut packet).map_err(|error| io::Error::other(error.to_string()))?;
    // A short header (RFC 9000, section 17.3): of a connection that nobody knows.
    packet[0] = 0x40 | (packet[0] & 0x3f);
    socket.send(&packet)?;
    let deadline = Instant::now() + SMALL_PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Reached::Silence);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut packet) {
            Ok(_) => return Ok(Reached::OnlySmall),
            Err(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => return Ok(Reached::NobodyListens),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(Reached::Silence),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}

/// The longest IP packet that leaves towards `peer`, as the kernel knows it now; `None` over IPv6,
/// every path of which carries 1,280 bytes (RFC 8200, section 5). Sends nothing.
///
/// # Errors
/// There is no route.
pub fn path_mtu(peer: SocketAddr) -> io::Result<Option<usize>> {
    let socket = connected(peer)?;
    match peer {
        SocketAddr::V4(_) => {
            let mtu = getsockopt(&socket, IpMtu)?;
            Ok(usize::try_from(mtu).ok())
        }
        SocketAddr::V6(_) => Ok(None),
    }
}

fn connected(peer: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(peer)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_where_nobody_listens_is_told_from_silence() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let peer = socket.local_addr().expect("bound");
        assert_eq!(small(peer).expect("it can be sent"), Reached::Silence);
        drop(socket);
        assert_eq!(small(peer).expect("it can be sent"), Reached::NobodyListens);
    }

    #[test]
    fn the_path_of_the_loopback_interface_is_long_enough() {
        let peer = "127.0.0.1:9".parse().expect("an address");
        let mtu = path_mtu(peer).expect("it is always there");
        assert!(mtu.is_some_and(|mtu| mtu >= PACKET), "{mtu:?}");
    }
}
