//! Raw sockets that send whole IP packets past the queue: over the link, or towards the near
//! endpoint, forwarded or local.
//!
//! Is not: a builder of packets; what is sent is what it is given, but for the IPv4 header
//! checksum, which the kernel writes again.
//!
//! Invariants: every packet carries the injection mark, by which the rules let it pass the queue
//! and, towards the near endpoint, connection tracking; sending never blocks.
//!
//! A socket of protocol `IPPROTO_RAW` takes the header from the caller, for IPv4 and IPv6 alike
//! (raw(7); `inet6_create` in net/ipv6/af_inet6.c), and receives nothing.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto,
    setsockopt, socket, sockopt,
};
use tandem_packet::Direction;

use crate::config::LinkName;
use crate::error::IoError;

/// Bytes that may wait in a device's queue: a burst of rebuilt flights for several hundred flows.
const SEND_BUFFER: usize = 4 << 20;

/// Why a packet was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectError {
    /// It is no IP packet, or shorter than its header.
    NotIp,
    /// It is longer than the MTU of the interface it would leave by.
    TooLong,
    /// There is no route, or the device's queue is full, or anything else: the errno.
    Refused(Errno),
}

/// The sockets.
#[derive(Debug)]
pub(crate) struct Injector {
    to_link: Pair,
    from_link: Pair,
    link: LinkName,
    link_index: u32,
    mark: u32,
}

#[derive(Debug)]
struct Pair {
    v4: OwnedFd,
    /// `None` where the kernel has no IPv6.
    v6: Option<OwnedFd>,
}

/// How a socket routes.
#[derive(Debug, Clone, Copy)]
enum Routing<'a> {
    /// By this interface.
    By(&'a LinkName),
    /// As the routes say.
    AsRouted,
}

impl Injector {
    /// Opens the sockets: packets to the link leave by it whatever the routes say, the others by
    /// the routes.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or a socket is refused for another reason.
    pub(crate) fn open(link: &LinkName, link_index: u32, mark: u32) -> Result<Self, IoError> {
        Ok(Self {
            to_link: Pair::open(Routing::By(link), mark)?,
            from_link: Pair::open(Routing::AsRouted, mark)?,
            link: link.clone(),
            link_index,
            mark,
        })
    }

    /// Sends one IP packet.
    ///
    /// # Errors
    /// It could not be sent; nothing else is affected.
    pub(crate) fn send(&mut self, direction: Direction, packet: &[u8]) -> Result<(), InjectError> {
        match direction {
            Direction::FromLink => self.from_link.send(packet, self.link_index),
            Direction::ToLink => {
                match self.to_link.send(packet, self.link_index) {
                    Err(InjectError::Refused(
                        Errno::ENODEV | Errno::ENXIO | Errno::ENETUNREACH,
                    )) if self.follow() => self.to_link.send(packet, self.link_index),
                    other => other,
                }
            }
        }
    }

    /// Binds to the interface that has the link's name by now: tunnels and modems come and go.
    /// `false` if it is still the same, or there is none.
    fn follow(&mut self) -> bool {
        match if_nametoindex(self.link.as_str()) {
            Ok(index) if index != self.link_index => {
                match Pair::open(Routing::By(&self.link), self.mark) {
                    Ok(pair) => {
                        self.to_link = pair;
                        self.link_index = index;
                        true
                    }
                    Err(error) => {
                        tracing::debug!("the link is back, but {error}");
                        false
                    }
                }
            }
            Ok(_) | Err(_) => false,
        }
    }
}

impl Pair {
    fn open(routing: Routing<'_>, mark: u32) -> Result<Self, IoError> {
        let v4 = raw_socket(AddressFamily::Inet, routing, mark)
            .map_err(|errno| IoError::system("opening a raw IPv4 socket", errno))?;
        let v6 = match raw_socket(AddressFamily::Inet6, routing, mark) {
            Ok(socket) => Some(socket),
            Err(Errno::EAFNOSUPPORT) => None,
            Err(errno) => return Err(IoError::system("opening a raw IPv6 socket", errno)),
        };
        Ok(Self { v4, v6 })
    }

    fn send(&self, packet: &[u8], link_index: u32) -> Result<(), InjectError> {
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent = match destination(packet).ok_or(InjectError::NotIp)? {
            Destination::V4(address) => {
                let address = SockaddrIn::from(SocketAddrV4::new(address, 0));
                sendto(self.v4.as_raw_fd(), packet, &address, flags)
            }
            Destination::V6(address) => {
                let Some(socket) = &self.v6 else {
                    return Err(InjectError::Refused(Errno::EAFNOSUPPORT));
                };
                // A link-local address is known on one interface only, and packets that cross the
                // link know that one.
                let scope = if address.is_unicast_link_local() {
                    link_index
                } else {
                    0
                };
                let address = SockaddrIn6::from(SocketAddrV6::new(address, 0, 0, scope));
                sendto(socket.as_raw_fd(), packet, &address, flags)
            }
        };
        match sent {
            Ok(_) => Ok(()),
            Err(Errno::EMSGSIZE) => Err(InjectError::TooLong),
            Err(errno) => Err(InjectError::Refused(errno)),
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
