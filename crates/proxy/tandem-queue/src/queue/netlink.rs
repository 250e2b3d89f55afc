//! The netlink messages of the kernel's packet queue: building requests and verdicts, reading what
//! the kernel sends.
//!
//! Is not: a socket, see `queue.rs`; and not all of nfnetlink_queue, only what a proxy needs.
//!
//! Invariants: reading is bounded by the bytes at hand and never panics, whatever they hold;
//! attributes that are not known are skipped. Layouts: Linux, `include/uapi/linux/netlink.h`,
//! `nfnetlink.h` and `nfnetlink_queue.h`; headers are in the host's byte order, what
//! nfnetlink_queue adds is in network byte order.
//!
//! ```text
//! nlmsghdr  | length 4 | type 2 | flags 2 | sequence 4 | port 4 |
//! nfgenmsg  | family 1 | version 1 | queue number 2 |
//! attribute | length 2 | type 2 | value, padded to 4 | ...
//! ```

/// Length of `nlmsghdr`.
const HEADER_LEN: usize = 16;
/// Length of `nfgenmsg`.
const GENERIC_LEN: usize = 4;
/// Length of an attribute's header.
const ATTRIBUTE_LEN: usize = 4;

const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
const NLM_F_REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const NLM_F_ACK: u16 = libc::NLM_F_ACK as u16;
/// `NFNL_SUBSYS_QUEUE`: upper byte of the message type.
const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_QUEUE as u16) << 8;
const TYPE_PACKET: u16 = SUBSYSTEM | libc::NFQNL_MSG_PACKET as u16;
const TYPE_VERDICT: u16 = SUBSYSTEM | libc::NFQNL_MSG_VERDICT as u16;
const TYPE_CONFIG: u16 = SUBSYSTEM | libc::NFQNL_MSG_CONFIG as u16;
/// `NLA_TYPE_MASK`: the two upper bits of an attribute's type are flags.
const TYPE_MASK: u16 = 0x3fff;

/// The largest number of packet bytes that the kernel copies: an attribute's 16-bit length less its
/// header (`NFQNL_MAX_COPY_RANGE`, net/netfilter/nfnetlink_queue.c).
pub(super) const MAX_COPY: u32 = 0xffff - ATTRIBUTE_LEN as u32;

/// A setting of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// Take the queue for this socket.
    Bind,
    /// Copy whole packets, at most this many bytes.
    CopyPackets(u32),
    /// Packets that wait for a verdict at one time.
    MaxLength(u32),
    /// `NFQA_CFG_F_*` that are to be as in `values`, where `mask` has a bit.
    Flags { values: u32, mask: u32 },
}

/// What the kernel is told to do with a packet (`NF_*`, include/uapi/linux/netfilter.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// `NF_DROP`.
    Drop,
    /// `NF_ACCEPT`.
    Accept,
    /// `NF_REPEAT`: the hook that queued the packet is run again.
    Repeat,
}

impl Action {
    fn code(self) -> u32 {
        match self {
            Action::Drop => libc::NF_DROP as u32,
            Action::Accept => libc::NF_ACCEPT as u32,
            Action::Repeat => libc::NF_REPEAT as u32,
        }
    }
}

/// One message of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// A packet that waits for a verdict.
    Packet(PacketMessage<'a>),
    /// The answer to a request: 0, or an `errno` as a positive number.
    Acknowledgement(i32),
    /// Something of no concern here.
    Other,
}

/// A queued packet as the kernel tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PacketMessage<'a> {
    /// The name of the packet within its queue.
    pub(super) id: u32,
    /// The netfilter hook that queued it (`NF_INET_*`).
    pub(super) hook: u8,
    /// The packet's mark.
    pub(super) mark: u32,
    /// The IP packet, from its first byte.
    pub(super) payload: &'a [u8],
    /// Whether the payload is the whole packet.
    pub(super) extent: Extent,
}

/// How much of a packet was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Its beginning: it is longer than the copy range.
    Cut,
}

/// A verdict's packet does not fit an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PayloadTooLong;

/// Appends to `out` the request that makes `setting` so on queue `queue`, with an acknowledgement
/// asked for.
pub(super) fn put_setting(out: &mut Vec<u8>, queue: u16, setting: Setting) {
    let start = open(out, TYPE_CONFIG, NLM_F_REQUEST | NLM_F_ACK, queue);
    match setting {
        Setting::Bind => {
            // struct nfqnl_msg_config_cmd: command, padding, protocol family (unused since Linux
            // 3.8).
            put_attribute(
                out,
                libc::NFQA_CFG_CMD as u16,
                &[libc::NFQNL_CFG_CMD_BIND as u8, 0, 0, 0],
            );
        }
        Setting::CopyPackets(range) => {
            // struct nfqnl_msg_config_params: range in network byte order, mode; packed.
            let [a, b, c, d] = range.to_be_bytes();
            put_attribute(
                out,
                libc::NFQA_CFG_PARAMS as u16,
                &[a, b, c, d, libc::NFQNL_COPY_PACKET as u8],
            );
        }
        Setting::MaxLength(length) => {
            put_attribute(
                out,
                libc::NFQA_CFG_QUEUE_MAXLEN as u16,
                &length.to_be_bytes(),
            );
        }
        Setting::Flags { values, mask } => {
            put_attribute(out, libc::NFQA_CFG_FLAGS as u16, &values.to_be_bytes());
            put_attribute(out, libc::NFQA_CFG_MASK as u16, &mask.to_be_bytes());
        }
    }
    close(out, start);
}

/// Appends to `out` a verdict: no acknowledgement is asked for, the kernel answers only when it
/// fails.
///
/// # Errors
/// [`PayloadTooLong`] when `payload` has more than 65,531 bytes, an attribute's bound; nothing is
/// appended then.
pub(super) fn put_verdict(
    out: &mut Vec<u8>,
    queue: u16,
    id: u32,
    action: Action,
    mark: Option<u32>,
    payload: Option<&[u8]>,
) -> Result<(), PayloadTooLong> {
    if payload.is_some_and(|bytes| bytes.len() > MAX_COPY as usize) {
        return Err(PayloadTooLong);
    }
    let start = open(out, TYPE_VERDICT, NLM_F_REQUEST, queue);
    // struct nfqnl_msg_verdict_hdr: verdict, packet id.
    let mut header = [0; 8];
    header[..4].copy_from_slice(&action.code().to_be_bytes());
    header[4..].copy_from_slice(&id.to_be_bytes());
    put_attribute(out, libc::NFQA_VERDICT_HDR as u16, &header);
    if let Some(mark) = mark {
        put_attribute(out, libc::NFQA_MARK as u16, &mark.to_be_bytes());
    }
    if let Some(bytes) = payload {
        put_attribute(out, libc::NFQA_PAYLOAD as u16, bytes);
    }
    close(out, start);
    Ok(())
}

/// The messages in one datagram of the kernel; reading stops at the first that does not fit.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(field(rest, 0)?) as usize;
        let kind = u16::from_ne_bytes(field(rest, 4)?);
        let body = rest.get(HEADER_LEN..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some(match kind {
            NLMSG_ERROR => field(body, 0).map_or(Message::Other, |code| {
                Message::Acknowledgement(i32::from_ne_bytes(code).saturating_neg())
            }),
            TYPE_PACKET => packet(body).map_or(Message::Other, Message::Packet),
            _ => Message::Other,
        })
    })
}

fn packet(body: &[u8]) -> Option<PacketMessage<'_>> {
    let mut header = None;
    let mut mark = 0;
    let mut payload: &[u8] = &[];
    let mut extent = Extent::Whole;
    let mut rest = body.get(GENERIC_LEN..)?;
    while !rest.is_empty() {
        let length = usize::from(u16::from_ne_bytes(field(rest, 0)?));
        let kind = u16::from_ne_bytes(field(rest, 2)?) & TYPE_MASK;
        let value = rest.get(ATTRIBUTE_LEN..length)?;
        match i32::from(kind) {
            // struct nfqnl_msg_packet_hdr: packet id, protocol of the link layer, hook; packed.
            libc::NFQA_PACKET_HDR => {
                header = Some((u32::from_be_bytes(field(value, 0)?), *value.get(6)?));
            }
            libc::NFQA_MARK => mark = u32::from_be_bytes(field(value, 0)?),
            libc::NFQA_PAYLOAD => payload = value,
            libc::NFQA_CAP_LEN => extent = Extent::Cut,
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    let (id, hook) = header?;
    Some(PacketMessage {
        id,
        hook,
        mark,
        payload,
        extent,
    })
}

/// Starts a message and returns where it starts.
fn open(out: &mut Vec<u8>, kind: u16, flags: u16, queue: u16) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&flags.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[libc::AF_UNSPEC as u8, 0]);
    out.extend_from_slice(&queue.to_be_bytes());
    start
}

/// Writes the length of the message that starts at `start` and ends at the end of `out`.
fn close(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

fn put_attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = ATTRIBUTE_LEN + value.len();
    out.extend_from_slice(&(length as u16).to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(out.len() + aligned(length) - length, 0);
}

/// `NLA_ALIGN` and `NLMSG_ALIGN`: the next multiple of 4.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_packet(id: u32, hook: u8, mark: Option<u32>, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let start = open(&mut out, TYPE_PACKET, 0, 7);
        let [a, b, c, d] = id.to_be_bytes();
        put_attribute(
            &mut out,
            libc::NFQA_PACKET_HDR as u16,
            &[a, b, c, d, 8, 0, hook],
        );
        if let Some(mark) = mark {
            put_attribute(&mut out, libc::NFQA_MARK as u16, &mark.to_be_bytes());
        }
        put_attribute(
            &mut out,
            libc::NFQA_IFINDEX_OUTDEV as u16,
            &9_u32.to_be_bytes(),
        );
        put_attribute(&mut out, libc::NFQA_PAYLOAD as u16, payload);
        close(&mut out, start);
        out
    }

    #[test]
    fn packets_and_acknowledgements_are_read_from_one_datagram() {
        let mut datagram = kernel_packet(0x0102_0304, 4, Some(0xaabb), b"hello");
        datagram.resize(aligned(datagram.len()), 0);
        let mut second = kernel_packet(5, 1, None, &[]);
        datagram.append(&mut second);
        let start = datagram.len();
        datagram.extend_from_slice(&[0; HEADER_LEN]);
        datagram[start + 4..start + 6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        datagram.extend_from_slice(&(-libc::EBUSY).to_ne_bytes());
        datagram.extend_from_slice(&[0; HEADER_LEN]);
        close(&mut datagram, start);
        let all: Vec<_> = messages(&datagram).collect();
        assert_eq!(
            all,
            [
                Message::Packet(PacketMessage {
                    id: 0x0102_0304,
                    hook: 4,
                    mark: 0xaabb,
                    payload: b"hello",
                    extent: Extent::Whole
                }),
                Message::Packet(PacketMessage {
                    id: 5,
                    hook: 1,
                    mark: 0,
                    payload: &[],
                    extent: Extent::Whole
                }),
                Message::Acknowledgement(libc::EBUSY),
            ]
        );
    }

    #[test]
    fn every_cut_of_a_datagram_is_read_without_panic() {
        let datagram = kernel_packet(1, 2, Some(3), b"0123456789");
        for end in 0..datagram.len() {
            for message in messages(&datagram[..end]) {
                assert_eq!(message, Message::Other, "cut at {end}");
            }
        }
        for at in 0..datagram.len() {
            let mut broken = datagram.clone();
            broken[at] = 0xff;
            assert!(messages(&broken).count() <= 1);
            broken[at] = 0;
            assert!(messages(&broken).count() <= 1);
        }
    }

    #[test]
    fn verdicts_have_the_layout_of_the_kernel() {
        let mut out = Vec::new();
        put_verdict(
            &mut out,
            0x1234,
            7,
            Action::Repeat,
            Some(0x0100_0000),
            Some(b"abc"),
        )
        .expect("three bytes fit");
        assert_eq!(out.len(), HEADER_LEN + GENERIC_LEN + 12 + 8 + 8);
        assert_eq!(u32::from_ne_bytes(field(&out, 0).expect("long enough")), 48);
        assert_eq!(out[16..20], [0, 0, 0x12, 0x34]);
        assert_eq!(out[24..32], [0, 0, 0, 4, 0, 0, 0, 7]);
        assert_eq!(out[36..40], [1, 0, 0, 0]);
        assert_eq!(&out[44..48], b"abc\0");
        let before = out.clone();
        let long = vec![0; 65_532];
        assert_eq!(
            put_verdict(&mut out, 1, 8, Action::Accept, None, Some(&long)),
            Err(PayloadTooLong)
        );
        assert_eq!(out, before);
    }
}
