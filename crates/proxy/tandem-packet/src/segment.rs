//! Edits of single segments: the proxies' option put on or taken off, a payload cut into segments
//! of the right size.
//!
//! Is not: a decision; callers know why. Invariant: it is the first option, its length a
//! multiple of four, so that taking it off leaves exactly the options that were there before it was
//! put on.

use tandem_link::inband::option::{EXPERIMENT_ID, OPTION_KIND, ProxyOption};
use tandem_wire::tcp::MAX_OPTIONS_LEN;
use tandem_wire::{Edit, Seq, TcpFlags, TcpOption, TcpPacket};

/// Smallest maximum segment size that packet mode works with, Linux's own least as a sender
/// (`TCP_MIN_MSS`). Below it a flight would be cut to dust at the wish of whoever sent the SYN.
const MIN_MSS: usize = 88;

/// Fewest bytes of payload that a segment among several is made for: what the smallest receiver
/// takes beside all options there may be. IP options or extension headers may leave less, and each
/// segment repeats those.
const MIN_SIZE: usize = MIN_MSS - MAX_OPTIONS_LEN;

/// The packet with `option` before its own options; `None` where option area or packet would be too
/// long.
pub(crate) fn with_proxy_option(
    packet: &TcpPacket<'_>,
    option: &[u8],
    mtu: usize,
) -> Option<Vec<u8>> {
    // A segment without payload may carry an option on the smallest link.
    if !packet.payload().is_empty() && packet.bytes().len() + option.len() > mtu {
        return None;
    }
    with_options(packet, &options_with(packet, option)?)
}

/// A segment without payload or flags beside ACK, from the place of `packet` but at `seq`, that
/// carries `option`.
pub(crate) fn lone_option(packet: &TcpPacket<'_>, seq: Seq, option: &[u8]) -> Option<Vec<u8>> {
    let edit = Edit {
        options: Some(&options_with(packet, option)?),
        seq: Some(seq),
        flags: Some(TcpFlags::ACK),
        payload: Some(&[]),
        ..Edit::default()
    };
    packet.rebuilt(&edit).ok()
}

/// The packet's options with `option` before them, if there is room.
fn options_with(packet: &TcpPacket<'_>, option: &[u8]) -> Option<Vec<u8>> {
    let options = [option, packet.options_bytes()].concat();
    (options.len() <= MAX_OPTIONS_LEN).then_some(options)
}

/// An option of the proxies at the front of the packet's options, not yet verified, and the options
/// without it.
pub(crate) fn proxy_option<'a>(packet: &TcpPacket<'a>) -> Option<(ProxyOption<'a>, &'a [u8])> {
    let options = packet.options_bytes();
    let [OPTION_KIND, length, high, low, ..] = *options else {
        return None;
    };
    if u16::from_be_bytes([high, low]) != EXPERIMENT_ID || length % 4 != 0 {
        return None;
    }
    let (option, rest) = options.split_at_checked(usize::from(length))?;
    Some((ProxyOption::parse(option.get(4..)?)?, rest))
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

/// The packet within the MTU: as it is, or as several that say the same together. As it is also
/// where its headers leave no room.
pub(crate) fn within(packet: &TcpPacket<'_>, mtu: usize) -> Vec<Vec<u8>> {
    if packet.bytes().len() <= mtu {
        return vec![packet.bytes().to_vec()];
    }
    let options = packet.options_bytes();
    let how = Cut {
        start: packet.seq(),
        options,
        mss: mtu.saturating_sub(packet.header_len() - options.len()),
    };
    let pieces = cut(packet, packet.payload(), how);
    if pieces.is_empty() {
        return vec![packet.bytes().to_vec()];
    }
    pieces
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

impl Cut<'_> {
    /// Payload bytes of each segment but the last.
    fn size(&self) -> usize {
        self.mss.saturating_sub(self.options.len()).max(1)
    }

    /// How many segments of a payload of `length` bytes a receiver that has acknowledged up to
    /// `acknowledged` has no use for; never the last, which makes it say again how far it is.
    pub(crate) fn useless(&self, length: usize, acknowledged: Seq) -> usize {
        let known = acknowledged.distance_from(self.start).max(0) as usize;
        (known / self.size()).min(length.saturating_sub(1) / self.size())
    }
}

/// The payload as whole packets, with the addresses, acknowledgement and window of `template`; PSH
/// on the last. All of it or nothing: none where one cannot be built, or where headers would leave
/// so little room that the payload becomes dust.
pub(crate) fn cut(template: &TcpPacket<'_>, payload: &[u8], how: Cut<'_>) -> Vec<Vec<u8>> {
    let size = how.size();
    if size < MIN_SIZE && size < payload.len() {
        return Vec::new();
    }
    let flags = template
        .flags()
        .without(TcpFlags::PSH)
        .without(TcpFlags::FIN);
    let last = payload.len().saturating_sub(1) / size;
    payload
        .chunks(size)
        .enumerate()
        .map(|(index, chunk)| {
            let edit = Edit {
                seq: Some(how.start.after(index * size)),
                flags: Some(if index == last {
                    flags.with(TcpFlags::PSH)
                } else {
                    flags
                }),
                options: Some(how.options),
                payload: Some(chunk),
                identification_ahead: u16::try_from(index).ok()?,
                ..Edit::default()
            };
            template.rebuilt(&edit).ok()
        })
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// Whether this is the server's SYN/ACK to the SYN of this number.
pub(crate) fn answers(packet: &TcpPacket<'_>, syn: Seq) -> bool {
    let wanted = TcpFlags::SYN.with(TcpFlags::ACK);
    packet.flags().contains(wanted) && packet.ack() == syn.wrapping_add(1)
}

/// What a SYN says of its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The largest segment that its sender takes.
    pub(crate) mss: usize,
    /// Whether it offers (SYN) or agrees to (SYN/ACK) timestamps.
    pub(crate) timestamps: bool,
    /// Whether it asks for what packet mode leaves alone: MD5 (RFC 2385), AO (RFC 5925), MPTCP
    /// (RFC 8684), Fast Open (RFC 7413), data, or segments smaller than any TCP sends.
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
        offer.foreign |= offer.mss < MIN_MSS;
        offer
    }
}

#[cfg(test)]
mod tests;
