//! The C library's calls for which std takes a lock, or makes one call more.
//!
//! Is not: what is written or sent.
//!
//! Invariant: nothing here takes a lock. A program may fork while another of its threads holds one,
//! and in the child it stays locked for ever.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// Writes to standard error by one call: lines of several threads or processes do not mix.
pub(crate) fn write_to_stderr(text: &str) {
    // SAFETY: as many bytes are read as the text has. Nobody can be told that standard error is
    // closed.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// A socket for datagrams to a path, which never waits.
pub(crate) fn datagram_socket() -> io::Result<UnixDatagram> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: all arguments are numbers.
    let descriptor = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if descriptor == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it has just been opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into())
}
