//! The TCP socket beneath a tunnel: what is set on it, and what the kernel counts of it (tcp(7)).
//!
//! Is not: what is read from it or written to it.
//!
//! Invariant: no keep-alive; at rest nothing is sent.

use std::mem::{MaybeUninit, size_of};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::time::Duration;
use std::{io, ptr};

use socket2::{SockRef, Socket};
use tokio::net::TcpStream;

use crate::transport::Counts;

/// A second descriptor of a connection's socket.
#[derive(Debug)]
pub(super) struct Watched(Socket);

impl Watched {
    /// Of this connection, on which the kernel is to hold about so many bytes that it has not sent
    /// yet: what waits there can no longer be passed by what is urgent.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(super) fn of(stream: &TcpStream, unsent: usize) -> io::Result<Self> {
        let socket = SockRef::from(stream);
        let unsent = u32::try_from(unsent).unwrap_or(u32::MAX);
        // Without it the order is worse, and nothing else.
        let _ = socket.set_tcp_notsent_lowat(unsent);
        Ok(Self(socket.try_clone()?))
    }

    /// Ends the connection in both directions.
    pub(super) fn shut_down(&self) {
        // It fails only where it has ended.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// What it has carried; nothing where the kernel does not say.
    pub(super) fn counts(&self) -> Counts {
        let Some(info) = self.info() else {
            return Counts::default();
        };
        Counts {
            sent_bytes: info.tcpi_bytes_sent,
            sent_datagrams: info.tcpi_segs_out.into(),
            received_bytes: info.tcpi_bytes_received,
            received_datagrams: info.tcpi_segs_in.into(),
            lost_packets: info.tcpi_total_retrans.into(),
            round_trip: Duration::from_micros(info.tcpi_rtt.into()),
        }
    }

    fn info(&self) -> Option<libc::tcp_info> {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut len = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
        // SAFETY: the kernel writes at most `len` bytes to `info`, which has as many, and its
        // length to `len`; both outlive the call.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                ptr::from_mut(&mut len),
            )
        };
        // SAFETY: it consists of integers, for which any bytes are a value; those that an older
        // kernel did not write are zero.
        (result == 0).then(|| unsafe { info.assume_init() })
    }
}
