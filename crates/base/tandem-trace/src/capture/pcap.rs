//! The classic format: a header, then records.
//!
//! ```text
//! header  | magic 4 | major 2 | minor 2 | reserved 8 | snap length 4 | FCS and link type 4 |
//! record  | seconds 4 | micro- or nanoseconds 4 | captured 4 | original 4 | (8 more, "modified") | data |
//! ```
//!
//! A record header that cannot be is garbage: reading goes on at the next place where a record can
//! start, which is where two record headers in a row make sense. Nothing in the format marks a
//! record's start, so that is the best there is.
//!
//! Format: draft-ietf-opsawg-pcap; the "modified" magic is Kuznetzov's (24-byte record headers).

use std::io::Read;

use super::damaged::{cut, resynchronise};
use super::window::Window;
use super::{ByteOrder, Frame, MAX_FRAME, Sink};
use crate::damage::DamageLog;

const HEADER_LEN: usize = 24;
/// Offsets in the header of the link type field.
const LINK_TYPE_AT: usize = 20;
/// Records of a file found again after garbage lie within this many seconds of the last good one
/// (30 days).
const RESYNC_SECONDS: u32 = 30 * 24 * 3600;
/// The shortest frame that resynchronisation believes in: an IPv4 header, cooked or not, is longer.
const RESYNC_MIN_FRAME: usize = 20;

/// What the magic number says of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    order: ByteOrder,
    /// Fractions of a second in a time stamp.
    per_second: u32,
    record_header_len: usize,
}

impl Format {
    /// The format that starts so, if it is one of these.
    pub(super) fn of_magic(head: &[u8]) -> Option<Self> {
        let (order, per_second, record_header_len) = match head.first_chunk::<4>()? {
            [0xd4, 0xc3, 0xb2, 0xa1] => (ByteOrder::Little, 1_000_000, 16),
            [0xa1, 0xb2, 0xc3, 0xd4] => (ByteOrder::Big, 1_000_000, 16),
            [0x4d, 0x3c, 0xb2, 0xa1] => (ByteOrder::Little, 1_000_000_000, 16),
            [0xa1, 0xb2, 0x3c, 0x4d] => (ByteOrder::Big, 1_000_000_000, 16),
            [0x34, 0xcd, 0xb2, 0xa1] => (ByteOrder::Little, 1_000_000, 24),
            [0xa1, 0xb2, 0xcd, 0x34] => (ByteOrder::Big, 1_000_000, 24),
            _ => return None,
        };
        Some(Self {
            order,
            per_second,
            record_header_len,
        })
    }

    fn record(self, bytes: &[u8]) -> Option<RecordHeader> {
        Some(RecordHeader {
            seconds: self.order.u32(bytes, 0)?,
            fraction: self.order.u32(bytes, 4)?,
            captured: self.order.u32(bytes, 8)?,
            original: self.order.u32(bytes, 12)?,
        })
    }
}

/// The fields of a record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordHeader {
    seconds: u32,
    fraction: u32,
    captured: u32,
    original: u32,
}

impl RecordHeader {
    /// Whether a sound file can hold this. Fractions past the second are let through: some programs
    /// write nanoseconds where they announce microseconds.
    fn makes_sense(self) -> bool {
        let nothing = Self {
            seconds: 0,
            fraction: 0,
            captured: 0,
            original: 0,
        };
        self.captured as usize <= MAX_FRAME && self.captured <= self.original && self != nothing
    }

    /// Whether this may follow on a record of that time, whatever it says of its original length.
    fn may_follow(self, last: Option<u32>) -> bool {
        (RESYNC_MIN_FRAME..=MAX_FRAME).contains(&(self.captured as usize))
            && last.is_none_or(|last| self.seconds.abs_diff(last) <= RESYNC_SECONDS)
    }

    /// Whether this may be a record of the file that `last` (or nothing) was read from, judged
    /// after garbage.
    fn continues(self, format: Format, last: Option<u32>) -> bool {
        self.makes_sense()
            && self.may_follow(last)
            && self.fraction < format.per_second
            && self.original as usize <= MAX_FRAME
    }

    fn micros(self, format: Format) -> u64 {
        let fraction = u64::from(self.fraction) * 1_000_000 / u64::from(format.per_second);
        u64::from(self.seconds) * 1_000_000 + fraction
    }
}

/// Reads the whole file behind `window`, whose magic number was looked at.
pub(super) fn read<R: Read>(
    window: &mut Window<R>,
    format: Format,
    sink: &mut impl Sink,
    damage: &mut DamageLog,
) {
    let header = window.look(HEADER_LEN);
    let Some(link_field) = format.order.u32(header, LINK_TYPE_AT) else {
        cut(window, HEADER_LEN, damage);
        return;
    };
    // The upper bits tell whether frames end in a checksum, which ends up behind the IP packet's
    // length and is not read.
    let link_type = (link_field & 0xffff) as u16;
    window.take(HEADER_LEN);

    let mut last_seconds = None;
    loop {
        let bytes = window.look(format.record_header_len);
        if bytes.is_empty() {
            return;
        }
        let header = format
            .record(bytes)
            .filter(|_| bytes.len() >= format.record_header_len);
        let Some(header) = header else {
            cut(window, format.record_header_len, damage);
            return;
        };
        if !header.makes_sense() && !odd_but_framed(window, format, header, last_seconds) {
            // In sight: a candidate's whole frame and the header behind it.
            let ahead = MAX_FRAME + 2 * format.record_header_len;
            let starts = |bytes: &[u8], at| starts_record(bytes, at, format, last_seconds);
            resynchronise(window, ahead, starts, damage);
            continue;
        }
        let len = format.record_header_len + header.captured as usize;
        let raw_bytes = window.raw_bytes();
        let Some(record) = window.look(len).get(..len) else {
            cut(window, len, damage);
            return;
        };
        let data = record.get(format.record_header_len..).unwrap_or_default();
        let frame = Frame {
            link_type,
            micros: Some(header.micros(format)),
            original_len: data.len().max(header.original as usize),
            data,
        };
        sink.frame(frame, raw_bytes);
        last_seconds = Some(header.seconds);
        window.take(len);
    }
}

/// Whether a record that breaks the format's rules is framed all the same: some programs write an
/// original length of zero, and the next record starts where it should.
fn odd_but_framed<R: Read>(
    window: &mut Window<R>,
    format: Format,
    header: RecordHeader,
    last_seconds: Option<u32>,
) -> bool {
    let captured = header.captured as usize;
    if captured == 0 || captured > MAX_FRAME {
        return false;
    }
    let next_at = format.record_header_len + captured;
    let bytes = window.look(next_at + format.record_header_len);
    bytes.len() == next_at
        || bytes
            .get(next_at..)
            .and_then(|next| format.record(next))
            .is_some_and(|next| next.may_follow(last_seconds.or(Some(header.seconds))))
}

/// Whether a record starts at `candidate`: its header makes sense and so does the next one, or the
/// file ends with it.
fn starts_record(bytes: &[u8], candidate: usize, format: Format, last: Option<u32>) -> bool {
    let header_at = |at: usize| bytes.get(at..).and_then(|bytes| format.record(bytes));
    let Some(header) = header_at(candidate).filter(|header| header.continues(format, last)) else {
        return false;
    };
    let next_at = candidate + format.record_header_len + header.captured as usize;
    bytes.len() == next_at
        || header_at(next_at).is_some_and(|next| next.continues(format, Some(header.seconds)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_all;
    use super::*;
    use crate::damage::Damage;

    fn header(link_type: u32) -> Vec<u8> {
        let mut bytes = vec![
            0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0,
        ];
        bytes.extend(link_type.to_le_bytes());
        bytes
    }

    fn record(seconds: u32, original: u32, data: &[u8]) -> Vec<u8> {
        let captured = u32::try_from(data.len()).expect("the test's own input");
        let mut bytes = Vec::new();
        for field in [seconds, 7, captured, original] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(data);
        bytes
    }

    #[test]
    fn records_are_read_in_either_byte_order_and_resolution() {
        let mut little = header(1 | 0x5000_0000);
        little.extend(record(100, 60, &[1; 20]));
        let (frames, damage) = read_all(&little);
        assert_eq!(frames, [(1, Some(100_000_007), 60, vec![1; 20])]);
        assert_eq!(damage, []);

        let mut big = vec![
            0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 101,
        ];
        for field in [100u32, 7_999, 1, 1] {
            big.extend(field.to_be_bytes());
        }
        big.push(9);
        assert_eq!(
            read_all(&big),
            (vec![(101, Some(100_000_007), 1, vec![9])], vec![])
        );

        let mut modified = vec![0x34, 0xcd, 0xb2, 0xa1];
        modified.extend(&header(1)[4..]);
        let mut long = record(100, 2, &[5, 6]);
        long.splice(16..16, [0; 8]);
        modified.extend(long);
        assert_eq!(
            read_all(&modified),
            (vec![(1, Some(100_000_007), 2, vec![5, 6])], vec![])
        );
    }

    #[test]
    fn a_cut_file_gives_what_it_holds() {
        let mut whole = header(1);
        whole.extend(record(100, 30, &[1; 30]));
        let first = whole.len();
        whole.extend(record(101, 30, &[2; 30]));
        for len in 4..whole.len() {
            let (frames, damage) = read_all(&whole[..len]);
            assert_eq!(frames.len(), usize::from(len >= first), "cut at {len}");
            if len == HEADER_LEN || len == first {
                assert_eq!(damage, [], "cut between records");
            } else {
                assert!(
                    matches!(damage[..], [Damage::Cut { .. }]),
                    "cut at {len}: {damage:?}"
                );
            }
        }
    }

    #[test]
    fn garbage_between_records_is_passed_over() {
        let mut file = header(1);
        file.extend(record(100, 30, &[1; 30]));
        let at = file.len() as u64;
        file.extend([0xff; 37]);
        file.extend(record(101, 30, &[2; 30]));
        file.extend(record(102, 30, &[3; 30]));
        let (frames, damage) = read_all(&file);
        assert_eq!(frames.len(), 3);
        assert_eq!(damage, [Damage::Garbage { at, skipped: 37 }]);
    }

    #[test]
    fn zeros_at_the_end_are_garbage_and_not_empty_frames() {
        let mut file = header(1);
        file.extend(record(100, 30, &[1; 30]));
        let at = file.len() as u64;
        file.extend(vec![0; 300_000]);
        let (frames, damage) = read_all(&file);
        assert_eq!(frames.len(), 1);
        assert_eq!(
            damage,
            [Damage::Garbage {
                at,
                skipped: 300_000
            }]
        );
    }

    #[test]
    fn a_record_that_lies_about_its_original_length_is_still_a_record() {
        let mut file = header(1);
        file.extend(record(100, 0, &[1; 30]));
        file.extend(record(101, 0, &[2; 30]));
        let (frames, damage) = read_all(&file);
        assert_eq!(frames.len(), 2);
        assert_eq!(frames[0].2, 30);
        assert_eq!(damage, []);
    }
}
