//! The newer format: typed blocks that say their length at both ends.
//!
//! ```text
//! block  | type 4 | total length 4 | body, padded to 4 | total length 4 |
//! ```
//!
//! Read are section headers, interface descriptions and the three kinds of packet block; any other
//! block is passed over. Decryption secrets are passed over too: an estimate needs no key. Lengths
//! that cannot be, or that differ at the two ends, are garbage: reading goes on at the next block
//! of a known type whose lengths agree.
//!
//! Format: draft-ietf-opsawg-pcapng.

use std::io::Read;

use super::damaged::{cut, resynchronise};
use super::window::Window;
use super::{ByteOrder, Frame, MAX_FRAME, Sink};
use crate::damage::{Damage, DamageLog};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// The obsolete packet block, still found in old files.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// The highest type that resynchronisation believes in: the registry is dense below, and private
/// types are not needed.
const LAST_COMMON_TYPE: u32 = 10;

/// Magic number in a section header, written in the section's byte order.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Type and both lengths.
const MIN_BLOCK: usize = 12;
/// The longest block that is read: libpcap's limit too. A length above it is garbage.
const MAX_BLOCK: usize = 16 * 1024 * 1024;
/// The longest block that resynchronisation believes in: a full frame with options.
const MAX_RESYNC_BLOCK: usize = MAX_FRAME + 64 * 1024;
/// Interfaces told apart in one section; packets of further ones are passed over.
const MAX_INTERFACES: usize = 65_536;

const OPTION_END: u16 = 0;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;

/// Whether a file that starts so is in this format.
pub(super) fn is_magic(head: &[u8]) -> bool {
    ByteOrder::Little.u32(head, 0) == Some(SECTION_HEADER)
}

/// What an interface description says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface {
    link_type: u16,
    /// Zero: no limit.
    snap_length: u32,
    /// Time stamp units per second.
    per_second: u64,
    /// Seconds to add.
    offset: i64,
}

impl Interface {
    fn parse(order: ByteOrder, body: &[u8]) -> Option<Self> {
        let mut interface = Self {
            link_type: order.u16(body, 0)?,
            snap_length: order.u32(body, 4)?,
            per_second: 1_000_000,
            offset: 0,
        };
        let mut at = 8;
        while let (Some(code), Some(len)) = (order.u16(body, at), order.u16(body, at + 2)) {
            let value = body
                .get(at + 4..at + 4 + usize::from(len))
                .unwrap_or_default();
            match code {
                OPTION_END => break,
                OPTION_TIME_RESOLUTION => {
                    if let Some(&code) = value.first() {
                        interface.per_second = units_per_second(code)?;
                    }
                }
                OPTION_TIME_OFFSET => interface.offset = order.i64(value, 0).unwrap_or(0),
                _ => {}
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        Some(interface)
    }

    /// Microseconds since 1970, if at or after it.
    fn micros(&self, units: u64) -> Option<u64> {
        let micros = i128::from(units) * 1_000_000 / i128::from(self.per_second);
        u64::try_from(micros + i128::from(self.offset) * 1_000_000).ok()
    }
}

/// The value of `if_tsresol`: a negative power of ten, or of two where the high bit is set. None
/// where 64 bits do not hold it.
fn units_per_second(code: u8) -> Option<u64> {
    let exponent = u32::from(code & 0x7f);
    if code & 0x80 == 0 {
        10u64.checked_pow(exponent)
    } else {
        1u64.checked_shl(exponent)
    }
}

/// What is known of the section that is being read.
#[derive(Debug)]
struct Section {
    order: ByteOrder,
    /// An interface that cannot be read keeps its place in the numbering.
    interfaces: Vec<Option<Interface>>,
}

/// The first two fields of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockHeader {
    block_type: u32,
    len: usize,
    order: ByteOrder,
}

impl BlockHeader {
    /// Reads them; a section header brings its own byte order. None where bytes are missing or no
    /// byte order is told.
    fn parse(bytes: &[u8], order: ByteOrder) -> Option<Self> {
        let is_section = order.u32(bytes, 0)? == SECTION_HEADER;
        let order = if is_section {
            section_order(bytes)?
        } else {
            order
        };
        Some(Self {
            block_type: order.u32(bytes, 0)?,
            len: order.u32(bytes, 4)? as usize,
            order,
        })
    }

    fn makes_sense(self) -> bool {
        (MIN_BLOCK..=MAX_BLOCK).contains(&self.len) && self.len.is_multiple_of(4)
    }
}

fn section_order(bytes: &[u8]) -> Option<ByteOrder> {
    [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| order.u32(bytes, 8) == Some(BYTE_ORDER_MAGIC))
}

/// Reads the whole file behind `window`, whose magic number was looked at.
pub(super) fn read<R: Read>(window: &mut Window<R>, sink: &mut impl Sink, damage: &mut DamageLog) {
    let mut section = Section {
        order: ByteOrder::Little,
        interfaces: Vec::new(),
    };
    loop {
        let at = window.offset();
        let present = window.look(MIN_BLOCK);
        if present.is_empty() {
            return;
        }
        if present.len() < MIN_BLOCK {
            cut(window, MIN_BLOCK, damage);
            return;
        }
        let Some(header) =
            BlockHeader::parse(present, section.order).filter(|header| header.makes_sense())
        else {
            pass_garbage(window, &section, damage);
            continue;
        };
        let raw_bytes = window.raw_bytes();
        let Some(block) = window.look(header.len).get(..header.len) else {
            cut(window, header.len, damage);
            return;
        };
        let len_again = header.order.u32(block, header.len - 4);
        if len_again.map(|len| len as usize) != Some(header.len) {
            pass_garbage(window, &section, damage);
            continue;
        }
        let body = block.get(8..header.len - 4).unwrap_or_default();
        match take_block(&mut section, header, body) {
            Ok(Some(frame)) => sink.frame(frame, raw_bytes),
            Ok(None) => {}
            Err(reason) => damage.file(Damage::BadBlock { at, reason }),
        }
        window.take(header.len);
    }
}

/// Learns from a block, or gets the frame out of it. The error says why it makes no sense.
fn take_block<'a>(
    section: &mut Section,
    header: BlockHeader,
    body: &'a [u8],
) -> Result<Option<Frame<'a>>, &'static str> {
    match header.block_type {
        SECTION_HEADER => {
            section.order = header.order;
            section.interfaces.clear();
            Ok(None)
        }
        INTERFACE_DESCRIPTION => {
            if section.interfaces.len() >= MAX_INTERFACES {
                return Err("more interfaces than are told apart");
            }
            let interface = Interface::parse(section.order, body);
            section.interfaces.push(interface);
            match interface {
                Some(_) => Ok(None),
                None => Err("an interface description with a field that cannot be"),
            }
        }
        PACKET => {
            let id = section.order.u16(body, 0).map(u32::from);
            enhanced(section, id, body).map(Some)
        }
        ENHANCED_PACKET => enhanced(section, section.order.u32(body, 0), body).map(Some),
        SIMPLE_PACKET => simple(section, body).map(Some),
        _ => Ok(None),
    }
}

fn interface(section: &Section, id: Option<u32>) -> Result<Interface, &'static str> {
    let id = id.ok_or("too short for its type")?;
    let entry = usize::try_from(id)
        .ok()
        .and_then(|id| section.interfaces.get(id));
    match entry {
        Some(Some(interface)) => Ok(*interface),
        Some(None) => Err("a packet of an interface whose description makes no sense"),
        None => Err("a packet of an interface that was not described"),
    }
}

/// An enhanced packet, or the obsolete packet block, which differs in the interface's number only.
fn enhanced<'a>(
    section: &Section,
    id: Option<u32>,
    body: &'a [u8],
) -> Result<Frame<'a>, &'static str> {
    let interface = interface(section, id)?;
    let field = |at| section.order.u32(body, at).ok_or("too short for its type");
    let units = u64::from(field(4)?) << 32 | u64::from(field(8)?);
    let captured = field(12)? as usize;
    let original = field(16)? as usize;
    if captured > MAX_FRAME {
        return Err("a packet longer than any link carries");
    }
    let data = body
        .get(20..20 + captured)
        .ok_or("a packet that does not fit its block")?;
    Ok(Frame {
        link_type: interface.link_type,
        micros: interface.micros(units),
        original_len: original.max(captured),
        data,
    })
}

fn simple<'a>(section: &Section, body: &'a [u8]) -> Result<Frame<'a>, &'static str> {
    let interface = interface(section, Some(0))?;
    let original = section.order.u32(body, 0).ok_or("too short for its type")? as usize;
    let padded = body.get(4..).unwrap_or_default();
    let limit = match interface.snap_length {
        0 => usize::MAX,
        limit => limit as usize,
    };
    let data = padded.get(..original.min(limit)).unwrap_or(padded);
    if data.len() > MAX_FRAME {
        return Err("a packet longer than any link carries");
    }
    Ok(Frame {
        link_type: interface.link_type,
        micros: None,
        original_len: original.max(data.len()),
        data,
    })
}

/// Passes over bytes up to the next block of a known type whose lengths agree, or to the end.
fn pass_garbage<R: Read>(window: &mut Window<R>, section: &Section, damage: &mut DamageLog) {
    let starts = |bytes: &[u8], at| starts_block(bytes, at, section.order);
    resynchronise(window, MAX_RESYNC_BLOCK, starts, damage);
}

fn starts_block(bytes: &[u8], candidate: usize, order: ByteOrder) -> bool {
    let bytes = bytes.get(candidate..).unwrap_or_default();
    let Some(header) = BlockHeader::parse(bytes, order) else {
        return false;
    };
    let is_common = (INTERFACE_DESCRIPTION..=LAST_COMMON_TYPE).contains(&header.block_type);
    (is_common || header.block_type == SECTION_HEADER)
        && header.makes_sense()
        && header.len <= MAX_RESYNC_BLOCK
        && header.order.u32(bytes, header.len - 4) == u32::try_from(header.len).ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_all;
    use super::*;

    /// Writes blocks in one byte order.
    struct Writer(ByteOrder, Vec<u8>);

    impl Writer {
        fn u16(&self, value: u16) -> [u8; 2] {
            match self.0 {
                ByteOrder::Little => value.to_le_bytes(),
                ByteOrder::Big => value.to_be_bytes(),
            }
        }

        fn u32(&self, value: u32) -> [u8; 4] {
            match self.0 {
                ByteOrder::Little => value.to_le_bytes(),
                ByteOrder::Big => value.to_be_bytes(),
            }
        }

        fn block(mut self, block_type: u32, body: &[u8]) -> Self {
            let len =
                u32::try_from(body.len().next_multiple_of(4) + 12).expect("the test's own input");
            self.1.extend(self.u32(block_type));
            self.1.extend(self.u32(len));
            self.1.extend(body);
            self.1
                .extend(vec![0; body.len().next_multiple_of(4) - body.len()]);
            self.1.extend(self.u32(len));
            self
        }

        fn section(self) -> Self {
            let mut body = self.u32(BYTE_ORDER_MAGIC).to_vec();
            body.extend(self.u16(1));
            body.extend(self.u16(0));
            body.extend([0xff; 8]);
            self.block(SECTION_HEADER, &body)
        }

        fn interface(self, link_type: u16, options: &[(u16, &[u8])]) -> Self {
            let mut body = self.u16(link_type).to_vec();
            body.extend([0; 6]);
            for (code, value) in options {
                body.extend(self.u16(*code));
                body.extend(self.u16(u16::try_from(value.len()).expect("the test's own input")));
                body.extend(*value);
                body.resize(body.len().next_multiple_of(4), 0);
            }
            self.block(INTERFACE_DESCRIPTION, &body)
        }

        fn packet(self, interface: u32, units: u64, original: u32, data: &[u8]) -> Self {
            let mut body = self.u32(interface).to_vec();
            body.extend(self.u32((units >> 32) as u32));
            body.extend(self.u32(units as u32));
            body.extend(self.u32(u32::try_from(data.len()).expect("the test's own input")));
            body.extend(self.u32(original));
            body.extend(data);
            self.block(ENHANCED_PACKET, &body)
        }
    }

    #[test]
    fn sections_interfaces_and_packets_in_either_byte_order() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let offset: [u8; 8] = match order {
                ByteOrder::Little => 5i64.to_le_bytes(),
                ByteOrder::Big => 5i64.to_be_bytes(),
            };
            let file = Writer(order, Vec::new())
                .section()
                .interface(1, &[])
                .interface(101, &[(9, &[9]), (14, &offset), (0, &[])])
                .interface(276, &[(9, &[0x80 | 10])])
                .block(0x0bad, &[1, 2, 3])
                .packet(0, 2_000_003, 60, &[1; 21])
                .packet(1, 2_000_003_999, 3, &[2; 3])
                .packet(2, 1024 + 512, 1, &[3])
                .1;
            let (frames, damage) = read_all(&file);
            assert_eq!(damage, []);
            assert_eq!(
                frames,
                [
                    (1, Some(2_000_003), 60, vec![1; 21]),
                    (101, Some(7_000_003), 3, vec![2; 3]),
                    (276, Some(1_500_000), 1, vec![3]),
                ]
            );
        }
    }

    #[test]
    fn a_new_section_forgets_interfaces_and_may_turn_the_byte_order() {
        let first = Writer(ByteOrder::Little, Vec::new())
            .section()
            .interface(1, &[])
            .packet(0, 1, 1, &[1])
            .1;
        let at = first.len() as u64;
        let second = Writer(ByteOrder::Big, first).section();
        let bad_at = second.1.len() as u64;
        let file = second
            .packet(0, 2, 1, &[2])
            .interface(101, &[])
            .packet(0, 3, 1, &[3])
            .1;
        let (frames, damage) = read_all(&file);
        assert_eq!(
            frames,
            [(1, Some(1), 1, vec![1]), (101, Some(3), 1, vec![3])]
        );
        assert!(bad_at > at);
        assert_eq!(
            damage,
            [Damage::BadBlock {
                at: bad_at,
                reason: "a packet of an interface that was not described"
            }]
        );
    }

    #[test]
    fn simple_and_obsolete_packet_blocks() {
        let writer = Writer(ByteOrder::Little, Vec::new())
            .section()
            .interface(1, &[]);
        let mut simple = writer.u32(6).to_vec();
        simple.extend([4; 6]);
        let mut obsolete = writer.u16(0).to_vec();
        obsolete.extend(writer.u16(3));
        for field in [0, 9, 2, 2] {
            obsolete.extend(writer.u32(field));
        }
        obsolete.extend([5, 5]);
        let file = writer
            .block(SIMPLE_PACKET, &simple)
            .block(PACKET, &obsolete)
            .1;
        let (frames, damage) = read_all(&file);
        assert_eq!(
            frames,
            [(1, None, 6, vec![4; 6]), (1, Some(9), 2, vec![5, 5])]
        );
        assert_eq!(damage, []);
    }

    #[test]
    fn garbage_and_broken_trailers_are_passed_over() {
        let mut file = Writer(ByteOrder::Little, Vec::new())
            .section()
            .interface(1, &[])
            .packet(0, 1, 4, &[1; 4]);
        let broken = file.1.len();
        file = file.packet(0, 2, 4, &[2; 4]);
        let end = file.1.len();
        file.1[end - 1] = 7;
        file.1.extend([0xee; 5]);
        let file = file.packet(0, 3, 4, &[3; 4]).1;
        let (frames, damage) = read_all(&file);
        assert_eq!(frames.len(), 2);
        let skipped = (end - broken + 5) as u64;
        assert_eq!(
            damage,
            [Damage::Garbage {
                at: broken as u64,
                skipped
            }]
        );
    }

    #[test]
    fn a_file_cut_anywhere_gives_what_it_holds() {
        let file = Writer(ByteOrder::Little, Vec::new())
            .section()
            .interface(1, &[(9, &[6])])
            .packet(0, 1, 4, &[1; 4])
            .packet(0, 2, 4, &[2; 4])
            .1;
        let boundaries = [28, 56, 92, 128];
        assert_eq!(file.len(), 128);
        for len in 8..file.len() {
            let (frames, damage) = read_all(&file[..len]);
            assert_eq!(frames.len(), usize::from(len >= 92), "cut at {len}");
            if boundaries.contains(&len) {
                assert_eq!(damage, [], "cut at {len}");
            } else {
                assert!(
                    matches!(damage[..], [Damage::Cut { .. }]),
                    "cut at {len}: {damage:?}"
                );
            }
        }
    }

    #[test]
    fn time_resolutions_that_64_bits_do_not_hold_are_refused() {
        assert_eq!(units_per_second(6), Some(1_000_000));
        assert_eq!(units_per_second(0x80), Some(1));
        assert_eq!(units_per_second(20), None);
        assert_eq!(units_per_second(0x80 | 64), None);
    }
}
