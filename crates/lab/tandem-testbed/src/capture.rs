//! Packets as the kernel sees them in one namespace, with the kernel's own timestamps.
//!
//! A packet socket without link-layer headers, on all interfaces. What a host sends is seen before
//! segmentation offload, so packets may be larger than the MTU and their checksums unfinished; what
//! it receives is as it came.
//!
//! Specification: packet(7), Linux Documentation/networking/timestamping.rst (SO_TIMESTAMPNS).

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
    recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use tandem_trace::{Moment, Seen};

use crate::error::LabError;
use crate::moment;
use crate::netns::Namespace;

/// The largest packet that segmentation offload makes.
const MAX_PACKET: usize = 65_536;

/// Room for packets that come while the thread does not run. Some thousand packets of a handshake's
/// size.
const SOCKET_BUFFER: usize = 8 << 20;

/// Packets kept between two calls of [`Capture::take`]; later ones are dropped, so that a bulk
/// transfer cannot fill the memory.
const LIMIT: usize = 20_000;

/// A capture under way, until dropped.
#[derive(Debug)]
pub struct Capture {
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Capture {
    /// Begins to capture in a namespace.
    ///
    /// # Errors
    /// `Kernel` where there are no packet sockets.
    pub fn start(namespace: &Namespace) -> Result<Self, LabError> {
        let socket = namespace.run(open)?;
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)
            .map(Arc::new)
            .map_err(|errno| kernel("an event descriptor", errno))?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn({
                let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
                move || read_all(&socket, &stop, &seen)
            })
            .map_err(|source| LabError::Kernel {
                what: "a thread",
                source,
            })?;
        Ok(Self {
            seen,
            stop,
            thread: Some(thread),
        })
    }

    /// The first packet since the last [`Capture::take`] that is so; it stays.
    pub fn first(&self, is_wanted: impl Fn(&Seen) -> bool) -> Option<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().find(|seen| is_wanted(seen)).cloned()
    }

    /// What was seen since the last call, in order.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Fails only where the counter is full, and then the thread wakes anyway.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("a capture's thread panicked");
        }
    }
}

fn open() -> Result<OwnedFd, LabError> {
    let unsupported = |errno| kernel("packet sockets (AF_PACKET)", errno);
    let socket = socket(
        AddressFamily::Packet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        SockProtocol::EthAll,
    )
    .map_err(unsupported)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(unsupported)?;
    setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER).map_err(unsupported)?;
    Ok(socket)
}

fn read_all(socket: &OwnedFd, stop: &EventFd, seen: &Mutex<Vec<Seen>>) {
    let mut buffer = vec![0; MAX_PACKET];
    loop {
        let mut descriptors = [
            PollFd::new(socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => {
                tracing::warn!(%errno, "a capture ended early");
                return;
            }
        }
        if descriptors[1].any().unwrap_or(true) {
            return;
        }
        while let Some(packet) = read_one(socket, &mut buffer) {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() < LIMIT {
                seen.push(packet);
            }
        }
    }
}

fn read_one(socket: &OwnedFd, buffer: &mut [u8]) -> Option<Seen> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let (length, at) = {
        let mut slices = [IoSliceMut::new(buffer)];
        let message = recvmsg::<LinkAddr>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT,
        )
        .ok()?;
        let stamp = message.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => {
                Some(Moment::from_duration(Duration::from(time)))
            }
            _ => None,
        });
        (message.bytes, stamp.unwrap_or_else(moment::now))
    };
    Some(Seen {
        at,
        packet: buffer.get(..length)?.to_vec(),
    })
}

fn kernel(what: &'static str, errno: Errno) -> LabError {
    LabError::Kernel {
        what,
        source: errno.into(),
    }
}
