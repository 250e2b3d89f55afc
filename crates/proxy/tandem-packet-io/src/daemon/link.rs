//! The link's interface as the kernel knows it.
//!
//! Is not: a check that it is up; it may come up later.

use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::config::LinkName;
use crate::error::IoError;

/// An interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    /// The kernel's number for it.
    pub(super) index: u32,
    /// The longest IP packet that leaves by it, in bytes.
    pub(super) mtu: usize,
}

impl Link {
    pub(super) fn find(name: &LinkName) -> Result<Self, IoError> {
        let index = if_nametoindex(name.as_str()).map_err(|errno| match errno {
            Errno::ENODEV | Errno::ENXIO => IoError::NoSuchInterface {
                link: name.as_str().to_owned(),
            },
            other => IoError::system("looking up the interface of the link", other),
        })?;
        let mtu =
            mtu(name).map_err(|errno| IoError::system("reading the MTU of the link", errno))?;
        Ok(Self { index, mtu })
    }
}

/// `SIOCGIFMTU` (netdevice(7)).
fn mtu(name: &LinkName) -> Result<usize, Errno> {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: `ifreq` is a byte array and a union of integers, addresses and pointers, for all of
    // which zeroes are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // A link's name has at most 15 bytes, so that a zero always follows.
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .zip(name.as_str().bytes().take(15))
    {
        *to = from as libc::c_char;
    }
    // SAFETY: the call reads the name, which ends with a zero, and writes `ifru_mtu`; `request`
    // outlives it.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &mut request) };
    Errno::result(result)?;
    // SAFETY: the call succeeded, so this member of the union is the one that was written.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_and_others_are_not() {
        let link = Link::find(&LinkName::new("lo").expect("good")).expect("it is always there");
        assert!(link.index >= 1);
        assert!(link.mtu >= 1280);
        let missing =
            Link::find(&LinkName::new("tandem-none").expect("good")).expect_err("there is none");
        assert!(
            matches!(missing, IoError::NoSuchInterface { .. }),
            "{missing:?}"
        );
    }
}
