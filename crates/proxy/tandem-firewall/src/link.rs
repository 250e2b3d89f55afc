//! The link's interface: its name, and what the kernel knows of it.
//!
//! Is not: a check that it is up; it may come up later.
//!
//! Invariant: a [`LinkName`] can stand unquoted in a firewall rule and matches one interface only.

use std::fmt;
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::error::FirewallError;

/// The name of a network interface: 1 to 15 bytes (`IFNAMSIZ` less the final zero).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkName(String);

impl LinkName {
    /// Takes letters, digits and `. _ - @ :`; the first is a letter or digit.
    ///
    /// # Errors
    /// Any other name: `iptables` would read `+` at the end as "any that begins so", and blanks and
    /// quotes as its own.
    pub fn new(name: &str) -> Result<Self, FirewallError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@:".contains(&byte);
        let starts = name
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric());
        if starts && name.len() <= 15 && name.bytes().all(good) {
            Ok(Self(name.to_owned()))
        } else {
            Err(FirewallError::LinkName {
                problem: format!(
                    "`{}` is no interface name that can be used here: 1 to 15 letters, digits and . _ - @ :",
                    name.escape_debug()
                ),
            })
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number for it.
    pub index: u32,
    /// The longest IP packet that leaves by it, in bytes.
    pub mtu: usize,
}

impl Link {
    /// Finds the interface of this name.
    ///
    /// # Errors
    /// There is none, or the kernel cannot be asked.
    pub fn find(name: &LinkName) -> Result<Self, FirewallError> {
        let index = if_nametoindex(name.as_str()).map_err(|errno| match errno {
            Errno::ENODEV | Errno::ENXIO => FirewallError::NoSuchInterface {
                link: name.as_str().to_owned(),
            },
            other => FirewallError::system("looking up the interface of the link", other),
        })?;
        let mtu = mtu(name)
            .map_err(|errno| FirewallError::system("reading the MTU of the link", errno))?;
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
    fn link_names_that_rules_would_read_differently_are_refused() {
        for good in [
            "tun0",
            "eth0.100",
            "wg-a_b",
            "br@if7",
            "a",
            "abcdefghijklmno",
        ] {
            assert_eq!(LinkName::new(good).expect(good).as_str(), good);
        }
        for bad in [
            "",
            "eth+",
            "a b",
            "-x",
            "abcdefghijklmnop",
            "a/b",
            "a\"b",
            "a\nb",
            "!a",
            "é",
        ] {
            assert!(LinkName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_loopback_interface_is_found_and_others_are_not() {
        let link = Link::find(&LinkName::new("lo").expect("good")).expect("it is always there");
        assert!(link.index >= 1);
        assert!(link.mtu >= 1280);
        let missing =
            Link::find(&LinkName::new("tandem-none").expect("good")).expect_err("there is none");
        assert!(
            matches!(missing, FirewallError::NoSuchInterface { .. }),
            "{missing:?}"
        );
    }
}
