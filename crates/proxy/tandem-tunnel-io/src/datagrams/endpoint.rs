//! The two endpoints of a flow, each at its side: a program, and a server.
//!
//! Is not: the flow.
//!
//! Invariant: neither ever makes the flow wait; what has no room is lost.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nix::errno::Errno;
use tandem_daemon::places::Place;
use tandem_link::tunnel::{Ending, MAX_PAYLOAD};
use tokio::io::{Interest, Ready};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::answers::{Answers, Pair};

/// An endpoint of a flow.
pub(super) trait Endpoint: Send {
    /// Its next payload. It may be given up at any await point.
    ///
    /// # Errors
    /// None comes.
    fn next(&mut self) -> impl Future<Output = Result<Vec<u8>, Gone>> + Send;

    /// Gives it a payload.
    fn give(&mut self, payload: &[u8]);
}

/// Why an endpoint says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It has left.
    Left,
    /// A payload did not reach it, for this reason.
    Unreachable(Ending),
}

/// A payload of a client's, and as many places among those that wait as it has bytes.
pub(super) struct Payload {
    pub(super) bytes: Vec<u8>,
    pub(super) _room: Place<IpAddr>,
}

/// A program, and what it sends to one target.
pub(super) struct Program {
    pub(super) payloads: mpsc::Receiver<Payload>,
    pub(super) back: Back,
}

/// How answers get to a program.
pub(super) enum Back {
    /// It speaks SOCKS5.
    Socks {
        /// Where it sends to and receives.
        relay: Arc<UdpSocket>,
        address: SocketAddr,
        /// In front of each payload of this target's.
        header: Vec<u8>,
    },
    /// It takes them for the server's.
    Raw { answers: Arc<Answers>, pair: Pair },
}

impl Program {
    /// Tells it that its payloads do not arrive, if that can be said.
    pub(super) fn refuse(&self, why: Ending) {
        match &self.back {
            // It has no message for that.
            Back::Socks { .. } => {}
            Back::Raw { answers, pair } => answers.refuse(*pair, why),
        }
    }
}

impl Endpoint for Program {
    async fn next(&mut self) -> Result<Vec<u8>, Gone> {
        let payload = self.payloads.recv().await;
        payload.map(|payload| payload.bytes).ok_or(Gone::Left)
    }

    fn give(&mut self, payload: &[u8]) {
        match &self.back {
            Back::Socks {
                relay,
                address,
                header,
            } => {
                let datagram = [header, payload].concat();
                // A socket that is full loses it, as a network does.
                let _ = relay.try_send_to(&datagram, *address);
            }
            Back::Raw { answers, pair } => answers.give(*pair, payload),
        }
    }
}

/// A server, by a socket that is connected to it.
pub(super) struct Server {
    socket: UdpSocket,
    /// What became of the last payload.
    failed: Option<Ending>,
}

impl Server {
    pub(super) fn new(socket: UdpSocket) -> Self {
        Self {
            socket,
            failed: None,
        }
    }
}

impl Endpoint for Server {
    async fn next(&mut self) -> Result<Vec<u8>, Gone> {
        loop {
            if let Some(why) = self.failed.take() {
                return Err(Gone::Unreachable(why));
            }
            let ready = self
                .socket
                .ready(Interest::READABLE | Interest::ERROR)
                .await;
            match ready.and_then(|ready| received(&self.socket, ready)) {
                Ok(payload) => return Ok(payload),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.failed = unreachable(&error);
                    if self.failed.is_none() && !is_of_one_datagram(&error) {
                        tracing::debug!(%error, "a socket of a flow");
                        return Err(Gone::Left);
                    }
                }
            }
        }
    }

    fn give(&mut self, payload: &[u8]) {
        // What is said first became of an earlier payload, and this one has not left.
        if let Err(error) = self.socket.try_send(payload)
            && !may_be_full(&error)
        {
            self.failed = unreachable(&error).or(self.failed);
            let _ = self.socket.try_send(payload);
        }
    }
}

fn received(socket: &UdpSocket, ready: Ready) -> io::Result<Vec<u8>> {
    if ready.is_error() {
        // What comes from now on wakes anew.
        let _ = socket.try_io(Interest::ERROR, || {
            Err::<(), _>(ErrorKind::WouldBlock.into())
        });
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
    }
    let mut payload = Vec::with_capacity(MAX_PAYLOAD);
    socket.try_recv_buf(&mut payload)?;
    payload.shrink_to_fit();
    Ok(payload)
}

/// Whether an ICMP message was the answer to a datagram, or there is no way (RFC 1122, section
/// 4.1.3.3). UDP knows of no broken connection.
fn unreachable(error: &io::Error) -> Option<Ending> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(Ending::Refused),
        ErrorKind::HostUnreachable => Some(Ending::HostUnreachable),
        ErrorKind::NetworkUnreachable => Some(Ending::NetworkUnreachable),
        // Administratively prohibited, in IPv6 (`icmpv6_err_convert` in net/ipv6/icmp.c).
        ErrorKind::PermissionDenied => Some(Ending::NotAllowed),
        _ => None,
    }
}

fn may_be_full(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

/// Whether an ICMP message was the answer to a datagram, and others may arrive: it was too long for
/// the path, as QUIC tries on purpose, or the message says nothing that UDP knows
/// (`icmp_err_convert` in net/ipv4/icmp.c).
fn is_of_one_datagram(error: &io::Error) -> bool {
    let known = [
        Errno::EMSGSIZE,
        Errno::EPROTO,
        Errno::ENOPROTOOPT,
        Errno::EHOSTDOWN,
        Errno::ENONET,
    ];
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.is_some_and(|errno| known.contains(&errno))
}

/// Whether it says something of one datagram alone: nothing has come, or one did not arrive.
pub(super) fn may_pass(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock || unreachable(error).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_that_is_too_long_for_the_path_ends_no_flow() {
        for (errno, goes_on) in [
            (Errno::EMSGSIZE, true),
            (Errno::EPROTO, true),
            (Errno::ECONNREFUSED, false),
            (Errno::EBADF, false),
        ] {
            let error = io::Error::from(errno);
            assert_eq!(is_of_one_datagram(&error), goes_on, "{errno}");
        }
    }
}
