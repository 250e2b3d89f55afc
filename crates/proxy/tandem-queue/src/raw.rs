//! Raw sockets that send whole IP packets.
//!
//! Is not: a builder of packets; what is sent is what it is given, but for the IPv4 header
//! checksum, which the kernel writes, and an identification of 0, for which it writes another.
//!
//! Invariants: every packet carries the mark, by which rules know it; sending never blocks.
//!
//! A socket of protocol `IPPROTO_RAW` takes the header from the caller, for IPv4 and IPv6 alike
//! (raw(7); `inet6_create` in net/ipv6/af_inet6.c), and receives nothing.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto,
    setsockopt, socket, sockopt,
};
use tandem_firewall::LinkName;

use crate::QueueError;

/// Bytes that may wait in a device's queue: a burst of rebuilt flights for several hundred flows.
const SEND_BUFFER: usize = 4 << 20;

/// Why a packet was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// It is no IP packet, or shorter than its header.
    NotIp,
    /// It is longer than the MTU of the interface it would leave by.
    TooLong,
    /// There is no route, or the device's queue is full, or anything else: the errno.
    Refused(Errno),
}

/// A socket for each version of IP.
#[derive(Debug)]
pub struct RawSockets {
    v4: OwnedFd,
    /// `None` where the kernel has no IPv6.
    v6: Option<OwnedFd>,
}

/// How the sockets route.
#[derive(Debug, Clone, Copy)]
pub enum Routing<'a> {
    /// By this interface.
    By(&'a LinkName),
    /// As the routes say.
    AsRouted,
}

impl RawSockets {
    /// Opens them; what they send has this mark.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or a socket is refused for another reason.
    pub fn open(routing: Routing<'_>, mark: u32) -> Result<Self, QueueError> {
        let failed = |errno: Errno| QueueError::RawSocket {
            source: errno.into(),
        };
        let v4 = raw_socket(AddressFamily::Inet, routing, mark).map_err(failed)?;
        let v6 = match raw_socket(AddressFamily::Inet6, routing, mark) {
            Ok(socket) => Some(socket),
            Err(Errno::EAFNOSUPPORT) => None,
            Err(errno) => return Err(failed(errno)),
        };
        Ok(Self { v4, v6 })
    }

    /// Sends one IP packet. A link-local address is looked for at the interface of this number,
    /// where it is not 0.
    ///
    /// # Errors
    /// It could not be sent; nothing else is affected.
    pub fn send(&self, packet: &[u8], interface: u32) -> Result<(), SendError> {
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent = match destination(packet).ok_or(SendError::NotIp)? {
            Destination::V4(address) => {
                let address = SockaddrIn::from(SocketAddrV4::new(address, 0));
                sendto(self.v4.as_raw_fd(), packet, &address, flags)
            }
            Destination::V6(address) => {
                let Some(socket) = &self.v6 else {
                    return Err(SendError::Refused(Errno::EAFNOSUPPORT));
                };
                let scope = if address.is_unicast_link_local() {
                    interface
                } else {
                    0
                };
                let address = SockaddrIn6::from(SocketAddrV6::new(address, 0, 0, scope));
                sendto(socket.as_raw_fd(), packet, &address, flags)
            }
        };
        match sent {
            Ok(_) => Ok(()),
            Err(Errno::EMSGSIZE) => Err(SendError::TooLong),
            Err(errno) => Err(SendError::Refused(errno)),
        }
    }
}

fn raw_socket(family: AddressFamily, routing: Routing<'_>, mark: u32) -> Result<OwnedFd, Errno> {
    let socket = socket(
        family,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::Raw,
    )?;
    setsockopt(&socket, sockopt::Mark, &mark)?;
    setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER)?;
    match routing {
        Routing::By(link) => {
            setsockopt(&socket, sockopt::BindToDevice, &link.as_str().into())?;
        }
        Routing::AsRouted => {}
    }
    Ok(socket)
}

enum Destination {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

/// Where an IP packet goes (RFC 791, section 3.1; RFC 8200, section 3).
fn destination(packet: &[u8]) -> Option<Destination> {
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 => {
            let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            Some(Destination::V4(octets.into()))
        }
        6 if packet.len() >= 40 => {
            let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            Some(Destination::V6(octets.into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_or_strange_packets_have_no_destination() {
        for packet in [&[][..], &[0x45; 19], &[0x60; 39], &[0x55; 60]] {
            assert!(destination(packet).is_none());
        }
        assert!(destination(&[0x45; 20]).is_some());
        assert!(destination(&[0x60; 40]).is_some());
    }
}
