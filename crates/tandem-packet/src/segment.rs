//! Edits of single segments: a mark put on or taken off, a payload cut into segments of the right size.
//!
//! Is not: a decision; callers know why. Invariant: a mark is the first option, its length a multiple of four, so that
//! taking it off leaves exactly the options that were there before it was put on.

use tandem_link::mark::{EXPERIMENT_ID, Mark, OPTION_KIND};
use tandem_wire::{Edit, Seq, TcpFlags, TcpOption, TcpPacket, Timestamps};

/// Most bytes that TCP's data offset leaves for options (RFC 9293, section 3.1).
const MAX_OPTIONS: usize = 40;

/// The packet with `mark` before its own options; `None` where option area or packet would be too long.
pub(crate) fn with_mark(packet: &TcpPacket<'_>, mark: &[u8], mtu: usize) -> Option<Vec<u8>> {
    marked(packet, mark, None, mtu)
}

/// A segment without payload or flags beside ACK, at the place of `packet`, that carries `mark`.
pub(crate) fn lone_mark(
    packet: &TcpPacket<'_>,
    seq: Seq,
    mark: &[u8],
    mtu: usize,
) -> Option<Vec<u8>> {
    marked(packet, mark, Some(seq), mtu)
}

fn marked(
    packet: &TcpPacket<'_>,
    mark: &[u8],
    alone_at: Option<Seq>,
    mtu: usize,
) -> Option<Vec<u8>> {
    let options = packet.options_bytes();
    if mark.len() + options.len() > MAX_OPTIONS
        || packet.bytes().len() + mark.len() > mtu.max(packet.header_len() + mark.len())
    {
        return None;
    }
    let options = [mark, options].concat();
    let edit = Edit {
        options: Some(&options),
        seq: alone_at,
        flags: alone_at.map(|_| TcpFlags::ACK),
        payload: alone_at.map(|_| &[][..]),
        ..Edit::default()
    };
    packet.rebuilt(&edit).ok()
}

/// A mark at the front of the packet's options, not yet verified, and the options without it.
pub(crate) fn mark<'a>(packet: &TcpPacket<'a>) -> Option<(Mark<'a>, &'a [u8])> {
    let options = packet.options_bytes();
    let [OPTION_KIND, length, high, low, ..] = *options else {
        return None;
    };
    if u16::from_be_bytes([high, low]) != EXPERIMENT_ID || length % 4 != 0 {
        return None;
    }
    let (option, rest) = options.split_at_checked(usize::from(length))?;
    Some((Mark::parse(option.get(4..)?)?, rest))
}

/// The packet with other options.
pub(crate) fn with_options(packet: &TcpPacket<'_>, options: &[u8]) -> Option<Vec<u8>> {
    packet
        .rebuilt(&Edit {
            options: Some(options),
            ..Edit::default()
        })
        .ok()
}

/// The packet's options with other timestamps.
pub(crate) fn options_with(packet: &TcpPacket<'_>, timestamps: Timestamps) -> Vec<u8> {
    let mut options = packet.options_bytes().to_vec();
    // RFC 7323, section 3.2: kind 8, length 10, TSval, TSecr.
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        match kind {
            0 => break,
            1 => at += 1,
            8 if options.len() >= at + 10 => {
                options[at + 2..at + 6].copy_from_slice(&timestamps.value.to_be_bytes());
                options[at + 6..at + 10].copy_from_slice(&timestamps.echo.to_be_bytes());
                break;
            }
            _ => {
                at += options
                    .get(at + 1)
                    .map_or(MAX_OPTIONS, |length| usize::from(*length).max(2))
            }
        }
    }
    options
}

/// How a run of bytes is put into segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut<'a> {
    /// Sequence number of the first byte.
    pub(crate) start: Seq,
    /// The options of every segment.
    pub(crate) options: &'a [u8],
    /// The receiver's maximum segment size, options included (RFC 6691).
    pub(crate) mss: usize,
}

/// The payload as whole packets, with the addresses, acknowledgement and window of `template`; PSH on the last.
pub(crate) fn cut(template: &TcpPacket<'_>, payload: &[u8], how: Cut<'_>) -> Vec<Vec<u8>> {
    let size = how.mss.saturating_sub(how.options.len()).max(1);
    let flags = template
        .flags()
        .without(TcpFlags::PSH)
        .without(TcpFlags::FIN);
    let last = payload.len().saturating_sub(1) / size;
    payload
        .chunks(size)
        .enumerate()
        .filter_map(|(index, chunk)| {
            let edit = Edit {
                seq: Some(how.start.wrapping_add((index * size) as u32)),
                flags: Some(if index == last {
                    flags.with(TcpFlags::PSH)
                } else {
                    flags
                }),
                options: Some(how.options),
                payload: Some(chunk),
                ..Edit::default()
            };
            template.rebuilt(&edit).ok()
        })
        .collect()
}

/// What a SYN says of its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The largest segment that its sender takes.
    pub(crate) mss: usize,
    /// Whether it offers (SYN) or agrees to (SYN/ACK) timestamps.
    pub(crate) timestamps: bool,
    /// Whether it asks for what packet mode leaves alone: MD5 (RFC 2385), AO (RFC 5925), MPTCP (RFC 8684), Fast Open
    /// (RFC 7413).
    pub(crate) foreign: bool,
}

impl Offer {
    pub(crate) fn of(packet: &TcpPacket<'_>) -> Self {
        // RFC 9293, section 3.7.1: without the option, 536 for IPv4 and 1,220 for IPv6.
        let default = if packet.source().is_ipv4() {
            536
        } else {
            1_220
        };
        let mut offer = Self {
            mss: default,
            timestamps: false,
            foreign: !packet.payload().is_empty(),
        };
        for option in packet.options() {
            match option {
                TcpOption::MaximumSegmentSize(mss) => offer.mss = usize::from(mss),
                TcpOption::Timestamps(_) => offer.timestamps = true,
                TcpOption::Md5(_)
                | TcpOption::Authentication(_)
                | TcpOption::Multipath(_)
                | TcpOption::FastOpen(_) => {
                    offer.foreign = true;
                }
                TcpOption::Nop
                | TcpOption::EndOfList
                | TcpOption::WindowScale(_)
                | TcpOption::SackPermitted
                | TcpOption::Sack(_)
                | TcpOption::Experiment { .. }
                | TcpOption::Other { .. } => {}
            }
        }
        offer
    }
}
