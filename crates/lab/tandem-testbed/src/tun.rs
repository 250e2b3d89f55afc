//! TUN devices: a network device whose other end is a descriptor. One packet a read, one packet a
//! write, no header before it.
//!
//! The device has no offloads, so the kernel hands over packets of at most the MTU with finished
//! checksums (it segments what comes from a veth in larger pieces). It is made in the calling
//! thread's namespace and goes when the descriptor is closed.
//!
//! Specification: Linux, Documentation/networking/tuntap.rst.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::LabError;

/// Where the kernel gives out devices.
const CLONE_DEVICE: &str = "/dev/net/tun";

/// Makes a device, or takes hold of one that nobody holds. Its descriptor does not block.
///
/// # Errors
/// `Kernel` where there are no TUN devices or the name is taken.
pub fn create(name: &str) -> Result<OwnedFd, LabError> {
    let kernel = |what| move |source| LabError::Kernel { what, source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(CLONE_DEVICE)
        .map_err(kernel("TUN devices (/dev/net/tun)"))?;
    let mut flags: libc::c_short = 0;
    for flag in [libc::IFF_TUN, libc::IFF_NO_PI] {
        flags |= libc::c_short::try_from(flag).map_err(|_| LabError::Kernel {
            what: "a TUN device's flags",
            source: io::ErrorKind::InvalidInput.into(),
        })?;
    }
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
    };
    if name.len() >= libc::IFNAMSIZ {
        return Err(LabError::usage(
            format!("device {name}"),
            "the name is too long",
        ));
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    // SAFETY: the descriptor is open, TUNSETIFF takes a pointer to an `ifreq`, and `request` is one
    // that lives until the call returns; the kernel writes nothing beyond it.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if answer < 0 {
        return Err(kernel("a TUN device")(io::Error::last_os_error()));
    }
    Ok(file.into())
}
