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

/// What is on its way, in bytes, and how much the line holds without a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) in_flight: u64,
    pub(super) held: u64,
    pub(super) round_trip: Duration,
}

/// What a line holds that has carried so many bytes a second, as over QUIC
/// (`transport/fixed_rate.rs`): a quarter more, and two segments.
fn held(rate: u64, round_trip: Duration, segment: u64) -> u64 {
    let micros = round_trip.as_micros();
    let held = u128::from(rate) * micros / 1_000_000 * 5 / 4;
    u64::try_from(held)
        .unwrap_or(u64::MAX)
        .saturating_add(segment * 2)
}

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

    /// What is on its way; `None` where the kernel does not say.
    pub(super) fn flight(&self) -> Option<Flight> {
        let info = self.info()?;
        let segment = u64::from(info.tcpi_snd_mss);
        let shortest = Duration::from_micros(info.tcpi_min_rtt.into());
        Some(Flight {
            in_flight: u64::from(info.tcpi_unacked) * segment + u64::from(info.tcpi_notsent_bytes),
            held: held(info.tcpi_delivery_rate, shortest, segment),
            round_trip: Duration::from_micros(info.tcpi_rtt.into()),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_what_it_carries_in_a_round_trip_a_quarter_more_and_two_segments() {
        let round_trip = Duration::from_millis(600);
        assert_eq!(held(8_000, round_trip, 1_448), 6_000 + 2_896);
        assert_eq!(held(0, round_trip, 1_448), 2_896);
        // A kernel that knows no shortest round trip says the largest number.
        let longest = Duration::from_micros(u32::MAX.into());
        assert_eq!(held(u64::MAX, longest, 1_448), u64::MAX);
    }
}
