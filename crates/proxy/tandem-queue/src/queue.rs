//! The kernel's packet queue (nfnetlink_queue): packets out of it in batches, verdicts back in
//! batches.
//!
//! Is not: a decision on any packet, nor the rules that fill the queue.
//!
//! Invariants: what becomes of packets when the queue overflows is for its owner to say
//! ([`Overflow`]), and when nobody reads it for the rule (`--queue-bypass`); verdicts reach the
//! kernel in the order in which they are given; an overflow is counted, never fatal; packets are at
//! most the MTU of their interface long, with valid checksums, as long as `OFFLOAD` is
//! `Offload::Segmented`.

mod netlink;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    setsockopt, socket, sockopt,
};

use tandem_firewall::LinkName;

use crate::QueueError;
use netlink::{Action, Message, Setting};

pub use netlink::Extent;

/// How super-packets of the network card's offloads reach user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offload {
    /// Cut into packets of at most the MTU with valid checksums: what the packet engine takes.
    Segmented,
    /// As they are, up to 65 kB with unfinished checksums (`NFQA_CFG_F_GSO`): four times the
    /// throughput.
    #[expect(dead_code, reason = "for the day the engine finishes checksums")]
    Whole,
}

/// The one place to change when the engine takes super-packets.
const OFFLOAD: Offload = Offload::Segmented;

/// Receive buffer of the netlink socket: the packets that wait to be read. A packet of 1,500 bytes
/// takes about 4 kB of it (the kernel's `truesize`) and the kernel doubles what is asked for, so
/// this is room for about 4,000.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Packets that wait to be read or for their verdict, at one time: more than the receive buffer
/// takes, so that the buffer overflows first, which the packets' numbers show; the kernel does not
/// say when the queue's length does.
const MAX_LENGTH: u32 = 1 << 16;

/// Packets taken out of the socket by one system call.
pub const BATCH: usize = 32;

/// Bytes for one message: the longest packet, and its attributes (about 150 bytes).
const SLOT: usize = (1 << 16) + 1024;

/// Bytes of verdicts gathered before they are sent regardless.
const VERDICT_BYTES: usize = 1 << 16;

/// Send buffer of the netlink socket: the bound of one datagram of verdicts, at most
/// [`VERDICT_BYTES`] and one verdict more.
const SEND_BUFFER: usize = 1 << 18;

/// The netfilter hook at which a packet was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Arrived, for this machine.
    Input,
    /// Arrived, for another machine.
    Forward,
    /// About to leave.
    Postrouting,
    /// A hook that no rule of Tandem's queues at.
    Other,
}

/// What becomes of packets for which the queue has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// They go on, as if they had been accepted (`NFQA_CFG_F_FAIL_OPEN`).
    Passes,
    /// They go no further: what the kernel does by itself.
    Drops,
}

/// One packet that waits for its verdict.
#[derive(Debug, Clone, Copy)]
pub struct QueuedPacket<'a> {
    /// Its name within the queue.
    pub id: u32,
    /// Where it was queued.
    pub hook: Hook,
    /// Its mark.
    pub mark: u32,
    /// The IP packet.
    pub bytes: &'a [u8],
    /// Whether that is all of it.
    pub extent: Extent,
}

/// A verdict in the kernel's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelVerdict<'a> {
    /// It goes on as it is.
    Accept,
    /// These bytes go on in its place.
    Replace(&'a [u8]),
    /// It goes no further.
    Drop,
    /// Runs the hook again, the packet carrying this mark.
    RepeatMarked(u32),
}

/// What [`PacketQueue::receive`] met.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Packets handed over.
    pub packets: usize,
    /// Times the socket said that its buffer had overflowed.
    pub overflows: u64,
    /// Packets that were not seen because of that (gaps in the packets' numbers).
    pub unseen: u64,
    /// Verdicts that the kernel refused.
    pub refused_verdicts: u64,
}

/// The number of the queue of a daemon in this role on this link: FNV-1a, 32 bit (RFC 9923), into
/// the range 16,384 to 32,767, away from the small numbers that are chosen by hand.
#[must_use]
pub fn number_for(role: &str, link: &LinkName) -> u16 {
    let hash = role
        .bytes()
        .chain([b'-'])
        .chain(link.as_str().bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
    let folded = (hash ^ (hash >> 14)) & 0x3fff;
    0x4000 | u16::try_from(folded).unwrap_or(0)
}

/// A queue bound to this process. Dropping it unbinds it; the kernel drops the packets that still
/// wait then.
#[derive(Debug)]
pub struct PacketQueue {
    socket: OwnedFd,
    last_id: Option<u32>,
    batch: Batch,
    verdicts: VerdictWriter,
}

/// Where verdicts go: apart from the queue's reading half, so that a packet can be answered while
/// its batch is read.
#[derive(Debug)]
pub struct VerdictWriter {
    socket: OwnedFd,
    number: u16,
    gathered: Vec<u8>,
}

impl PacketQueue {
    /// Takes queue `number`, for packets of both IP versions.
    ///
    /// # Errors
    /// The queue is another program's, or the kernel has none.
    pub fn bind(number: u16, overflow: Overflow) -> Result<Self, QueueError> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )
        .map_err(|errno| QueueError::NoPacketQueue {
            source: errno.into(),
        })?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(failed("binding its socket"))?;
        setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER)
            .map_err(failed("setting its buffer"))?;
        setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER)
            .map_err(failed("setting its buffer"))?;
        match set(&socket, number, Setting::Bind) {
            Ok(()) => {}
            // The kernel answers EPERM for a queue of another socket and EBUSY for one bound twice;
            // capabilities are checked before.
            Err(Errno::EPERM | Errno::EBUSY) => {
                return Err(QueueError::QueueBusy { queue: number });
            }
            Err(errno @ (Errno::EINVAL | Errno::EOPNOTSUPP)) => {
                return Err(QueueError::NoPacketQueue {
                    source: errno.into(),
                });
            }
            Err(errno) => return Err(failed("binding")(errno)),
        }
        let fail_open = libc::NFQA_CFG_F_FAIL_OPEN as u32;
        let gso = libc::NFQA_CFG_F_GSO as u32;
        let on_overflow = match overflow {
            Overflow::Passes => fail_open,
            Overflow::Drops => 0,
        };
        for setting in [
            Setting::CopyPackets(netlink::MAX_COPY),
            Setting::MaxLength(MAX_LENGTH),
            Setting::Flags {
                values: match OFFLOAD {
                    Offload::Segmented => on_overflow,
                    Offload::Whole => on_overflow | gso,
                },
                mask: fail_open | gso,
            },
        ] {
            set(&socket, number, setting).map_err(failed("being configured"))?;
        }
        Ok(Self {
            verdicts: VerdictWriter {
                socket: socket.try_clone().map_err(|source| QueueError::Queue {
                    doing: "opening",
                    source,
                })?,
                number,
                gathered: Vec::with_capacity(VERDICT_BYTES + SLOT),
            },
            socket,
            last_id: None,
            batch: Batch::new(),
        })
    }

    /// Hands over the packets that wait, at most one batch, without blocking.
    ///
    /// `each` gets the verdict writer too, so that it can answer at once.
    ///
    /// # Errors
    /// The socket failed; an overflow is not a failure.
    pub fn receive(
        &mut self,
        mut each: impl FnMut(QueuedPacket<'_>, &mut VerdictWriter),
    ) -> Result<Received, QueueError> {
        let mut received = Received::default();
        let count = match self.batch.fill(self.socket.as_fd()) {
            Ok(count) => count,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(received),
            Err(Errno::ENOBUFS) => {
                received.overflows = 1;
                return Ok(received);
            }
            Err(errno) => return Err(failed("reading")(errno)),
        };
        for slot in 0..count {
            for message in netlink::messages(self.batch.message(slot)) {
                match message {
                    Message::Packet(packet) => {
                        let expected = self.last_id.map_or(packet.id, |last| last.wrapping_add(1));
                        received.unseen += u64::from(packet.id.wrapping_sub(expected));
                        self.last_id = Some(packet.id);
                        received.packets += 1;
                        let packet = QueuedPacket {
                            id: packet.id,
                            hook: hook(packet.hook),
                            mark: packet.mark,
                            bytes: packet.payload,
                            extent: packet.extent,
                        };
                        each(packet, &mut self.verdicts);
                    }
                    Message::Acknowledgement(0) | Message::Other => {}
                    Message::Acknowledgement(_) => received.refused_verdicts += 1,
                }
            }
        }
        Ok(received)
    }

    /// Where verdicts go.
    pub fn verdicts(&mut self) -> &mut VerdictWriter {
        &mut self.verdicts
    }
}

impl VerdictWriter {
    /// Gives packet `id` its verdict; it reaches the kernel by the next [`Self::flush`] at the
    /// latest.
    ///
    /// # Errors
    /// As [`Self::flush`]; and a replacement longer than the kernel takes is refused, with the
    /// packet still owed its verdict.
    pub fn verdict(&mut self, id: u32, verdict: KernelVerdict<'_>) -> Result<(), VerdictError> {
        let (action, mark, payload) = match verdict {
            KernelVerdict::Accept => (Action::Accept, None, None),
            KernelVerdict::Replace(bytes) => (Action::Accept, None, Some(bytes)),
            KernelVerdict::Drop => (Action::Drop, None, None),
            KernelVerdict::RepeatMarked(mark) => (Action::Repeat, Some(mark), None),
        };
        netlink::put_verdict(&mut self.gathered, self.number, id, action, mark, payload)
            .map_err(|netlink::PayloadTooLong| VerdictError::TooLong)?;
        if self.gathered.len() >= VERDICT_BYTES {
            self.flush().map_err(VerdictError::Queue)?;
        }
        Ok(())
    }

    /// Sends the verdicts that were gathered.
    ///
    /// # Errors
    /// The socket failed.
    pub fn flush(&mut self) -> Result<(), QueueError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut tries = 0;
        let sent = loop {
            match send(self.socket.as_raw_fd(), &self.gathered, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                // Nothing of it has reached the kernel: short of memory for a moment.
                Err(Errno::ENOBUFS | Errno::ENOMEM | Errno::EAGAIN) if tries < 3 => tries += 1,
                other => break other,
            }
        };
        self.gathered.clear();
        sent.map(drop).map_err(failed("giving verdicts"))
    }
}

impl AsFd for PacketQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for PacketQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Why a verdict was not given.
#[derive(Debug)]
pub enum VerdictError {
    /// The replacement is longer than the kernel takes.
    TooLong,
    /// The queue failed.
    Queue(QueueError),
}

/// Sends one setting and waits for the kernel's answer; before the rules are there, so nothing else
/// arrives.
fn set(socket: &OwnedFd, queue: u16, setting: Setting) -> Result<(), Errno> {
    let mut request = Vec::with_capacity(64);
    netlink::put_setting(&mut request, queue, setting);
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut answer = vec![0; SLOT];
    loop {
        let length = match recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()) {
            Ok(length) => length,
            Err(Errno::EINTR | Errno::ENOBUFS) => continue,
            Err(errno) => return Err(errno),
        };
        for message in netlink::messages(&answer[..length]) {
            match message {
                Message::Acknowledgement(0) => return Ok(()),
                Message::Acknowledgement(code) => return Err(Errno::from_raw(code)),
                Message::Packet(_) | Message::Other => {}
            }
        }
    }
}

fn failed(doing: &'static str) -> impl FnOnce(Errno) -> QueueError {
    move |errno| QueueError::Queue {
        doing,
        source: io::Error::from(errno),
    }
}

/// `NF_INET_*` (include/uapi/linux/netfilter.h).
fn hook(number: u8) -> Hook {
    match i32::from(number) {
        libc::NF_INET_LOCAL_IN => Hook::Input,
        libc::NF_INET_FORWARD => Hook::Forward,
        libc::NF_INET_POST_ROUTING => Hook::Postrouting,
        _ => Hook::Other,
    }
}

/// Room for one batch of messages. Pages that no message reaches are never touched.
#[derive(Debug)]
struct Batch {
    bytes: Vec<u8>,
    lengths: [usize; BATCH],
}

impl Batch {
    fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * SLOT],
            lengths: [0; BATCH],
        }
    }

    /// Takes the messages that wait, without blocking.
    fn fill(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let mut slots = self.bytes.chunks_exact_mut(SLOT);
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|_| {
            let slot = slots.next().unwrap_or_default();
            libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: slot.len(),
            }
        });
        // SAFETY: `mmsghdr` holds integers and pointers only, for which all zeroes are a value: no
        // address, no control data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (header, vector) in headers.iter_mut().zip(&mut vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header points to one vector of `vectors`, each vector to a distinct slot of
        // `self.bytes` of the length given; all of them outlive the call and nothing else
        // uses them meanwhile. No timeout is passed.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(Errno::result(received)?)
            .unwrap_or(0)
            .min(BATCH);
        for (length, header) in self.lengths.iter_mut().zip(&headers[..count]) {
            *length = (header.msg_len as usize).min(SLOT);
        }
        Ok(count)
    }

    /// The bytes of the message in `slot` of the last batch.
    fn message(&self, slot: usize) -> &[u8] {
        let start = slot * SLOT;
        &self.bytes[start..start + self.lengths[slot]]
    }
}
