//! The two endpoints of a flow, each at its side: a program that speaks SOCKS5, and a server.
//!
//! Is not: the flow.
//!
//! Invariant: neither ever makes the flow wait; what has no room is lost.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use tandem_link::tunnel::MAX_PAYLOAD;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

/// An endpoint of a flow.
pub(super) trait Endpoint: Send {
    /// Its next payload; `None`: it has gone. It may be given up at any await point.
    fn next(&mut self) -> impl Future<Output = Option<Vec<u8>>> + Send;

    /// Gives it a payload.
    fn give(&self, payload: &[u8]);
}

/// A program that speaks SOCKS5, and what it sends to one target.
pub(super) struct Program {
    pub(super) payloads: mpsc::Receiver<Vec<u8>>,
    /// Where it sends to and receives.
    pub(super) relay: Arc<UdpSocket>,
    pub(super) address: SocketAddr,
    /// In front of each payload of this target's.
    pub(super) header: Vec<u8>,
}

impl Endpoint for Program {
    async fn next(&mut self) -> Option<Vec<u8>> {
        self.payloads.recv().await
    }

    fn give(&self, payload: &[u8]) {
        let datagram = [&self.header, payload].concat();
        // A socket that is full loses it, as a network does.
        let _ = self.relay.try_send_to(&datagram, self.address);
    }
}

/// A server, by a socket that is connected to it.
pub(super) struct Server(pub(super) UdpSocket);

impl Endpoint for Server {
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            self.0.readable().await.ok()?;
            match received(&self.0) {
                Ok(payload) => return Some(payload),
                Err(error) if may_pass(&error) => {}
                Err(error) => {
                    tracing::debug!(%error, "a socket of a flow");
                    return None;
                }
            }
        }
    }

    fn give(&self, payload: &[u8]) {
        let _ = self.0.try_send(payload);
    }
}

fn received(socket: &UdpSocket) -> io::Result<Vec<u8>> {
    let mut payload = Vec::with_capacity(MAX_PAYLOAD);
    socket.try_recv_buf(&mut payload)?;
    payload.shrink_to_fit();
    Ok(payload)
}

/// Whether it says something of one datagram alone: nothing has come, or an ICMP message was the
/// answer to one (RFC 1122, section 4.1.3.3). UDP knows of no broken connection.
pub(super) fn may_pass(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}
