//! By which interface a connection of another machine would leave this one, asked of the kernel
//! (rtnetlink(7), `RTM_GETROUTE`: what `ip route get` asks).
//!
//! Is not: a copy of the routes, which would have to be kept up to date; nor for connections of
//! this machine's own programs.
//!
//! Rules of `ip rule` are followed by source, interface, protocol and ports; those by a packet's
//! mark are not, since the mark is not known here.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// `struct nlmsghdr`: length(4) type(2) flags(2) sequence(4) port(4).
const HEADER: usize = 16;
/// `struct rtmsg`: family(1) destination's prefix(1) source's prefix(1) TOS, table, protocol,
/// scope, type (1 each) flags(4).
const ROUTE: usize = 12;
/// `struct rtattr`: length(2) type(2).
const ATTRIBUTE: usize = 4;

/// `RTA_IP_PROTO`, `RTA_SPORT` and `RTA_DPORT` (include/uapi/linux/rtnetlink.h; since Linux 4.19).
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;

/// Bytes that the answer for one route may have; a tenth is usual.
const MAX_ANSWER: usize = 4096;

/// Where a packet comes from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    address: SocketAddr,
    interface: u32,
}

/// The number of the interface by which TCP from `client`, another machine, to `server` would be
/// forwarded.
///
/// # Errors
/// It would not be: there is no route, or this machine does not forward.
pub(super) fn forwarded(client: SocketAddr, server: SocketAddr) -> Result<u32, Errno> {
    // Which interface it came by, a TCP socket does not tell: it is taken for the one that leads
    // back, as the check of RFC 3704 takes it.
    let interface = match client {
        SocketAddr::V6(client) if client.scope_id() != 0 => client.scope_id(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => ask(&question(client, None))?,
    };
    let origin = Origin {
        address: client,
        interface,
    };
    ask(&question(server, Some(origin)))
}

fn ask(question: &[u8]) -> Result<u32, Errno> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    send(socket.as_raw_fd(), question, MsgFlags::empty())?;
    let mut bytes = [0; MAX_ANSWER];
    // The kernel has answered by the time that it has taken the question.
    let len = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT)?;
    interface(&bytes[..len])
}

/// The question for the route to `to`.
fn question(to: SocketAddr, from: Option<Origin>) -> Vec<u8> {
    let (family, bits) = match to {
        SocketAddr::V4(_) => (libc::AF_INET, 32),
        SocketAddr::V6(_) => (libc::AF_INET6, 128),
    };
    let from_bits = if from.is_some() { bits } else { 0 };
    let mut bytes = vec![0; HEADER];
    bytes.extend_from_slice(&[family as u8, bits, from_bits]);
    bytes.resize(HEADER + ROUTE, 0);
    put_address(&mut bytes, libc::RTA_DST, to.ip());
    if let Some(Origin { address, interface }) = from {
        put_address(&mut bytes, libc::RTA_SRC, address.ip());
        put(&mut bytes, libc::RTA_IIF, &interface.to_ne_bytes());
        put(&mut bytes, RTA_IP_PROTO, &[libc::IPPROTO_TCP as u8]);
        put(&mut bytes, RTA_SPORT, &address.port().to_be_bytes());
        put(&mut bytes, RTA_DPORT, &to.port().to_be_bytes());
    }
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes[4..6].copy_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes
}

fn put_address(bytes: &mut Vec<u8>, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => put(bytes, kind, &address.octets()),
        IpAddr::V6(address) => put(bytes, kind, &address.octets()),
    }
}

/// An attribute, filled up to a multiple of 4 bytes.
fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = (ATTRIBUTE + value.len()) as u16;
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The interface of the route in an answer.
fn interface(answer: &[u8]) -> Result<u32, Errno> {
    let kind = u16_at(answer, 4).ok_or(Errno::EBADMSG)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let code = u32_at(answer, HEADER).ok_or(Errno::EBADMSG)?;
        return Err(Errno::from_raw(code.cast_signed().wrapping_neg()));
    }
    let mut rest = answer.get(HEADER + ROUTE..).unwrap_or_default();
    while let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let len = usize::from(len);
        if kind == libc::RTA_OIF && len == ATTRIBUTE + 4 {
            return u32_at(rest, ATTRIBUTE).ok_or(Errno::EBADMSG);
        }
        // At least an attribute's own head, so that this ends.
        let step = len.max(ATTRIBUTE).next_multiple_of(4);
        rest = rest.get(step..).unwrap_or_default();
    }
    // No interface: a route that leads nowhere.
    Err(Errno::ENETUNREACH)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_loopback_address_is_the_loopback_interface() {
        let lo = nix::net::if_::if_nametoindex("lo").expect("it is always there");
        let to = SocketAddr::from(([127, 0, 0, 1], 443));
        assert_eq!(ask(&question(to, None)), Ok(lo));
    }

    #[test]
    fn an_answer_without_an_interface_is_an_error_wherever_it_is_cut() {
        let to = SocketAddr::from(([192, 0, 2, 1], 443));
        let mut answer = question(to, None);
        assert_eq!(interface(&answer), Err(Errno::ENETUNREACH));
        put(&mut answer, libc::RTA_OIF, &7_u32.to_ne_bytes());
        assert_eq!(interface(&answer), Ok(7));
        for cut in 0..answer.len() {
            assert!(interface(&answer[..cut]).is_err(), "cut at {cut}");
        }
        answer[4..6].copy_from_slice(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
        answer[HEADER..HEADER + 4].copy_from_slice(&(-libc::EHOSTUNREACH).to_ne_bytes());
        assert_eq!(interface(&answer), Err(Errno::EHOSTUNREACH));
    }
}
