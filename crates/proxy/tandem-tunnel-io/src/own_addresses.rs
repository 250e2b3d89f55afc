//! The addresses that this machine has.
//!
//! Is not: what may be done with them.
//!
//! Invariant: none is remembered; interfaces come and go.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;

/// Whether this machine has this address. Where the system does not say, it may have it.
pub(crate) fn is_own(ip: IpAddr) -> bool {
    if ip.is_loopback() || ip.is_unspecified() {
        return true;
    }
    let Ok(interfaces) = getifaddrs() else {
        return true;
    };
    let mut addresses = interfaces.filter_map(|interface| interface.address);
    addresses.any(|address| match ip {
        IpAddr::V4(ip) => address.as_sockaddr_in().is_some_and(|own| own.ip() == ip),
        IpAddr::V6(ip) => address.as_sockaddr_in6().is_some_and(|own| own.ip() == ip),
    })
}
