//! How a run of handshake messages is cut into records and padded, in a few bytes where it is done
//! as stacks do it.
//!
//! ```text
//! 0                                     a record for each message (OpenSSL)
//! 1                                     one record for all (RFC 8448)
//! 2 size(varint)                        as 0, and no record has more than size bytes
//! 3 size(varint)                        as 1, and no record has more than size bytes
//! 4 count(varint) record{count}         any other
//!     record = length * 2 (varint), or length * 2 + 1 (varint) padding(varint)
//! ```
//!
//! With 0 and 1, a record has at most 2^14 bytes (RFC 8446, section 5.1). Lengths are those of the
//! content, without type and padding.
//!
//! Is not: the messages, which whoever decodes a layout has. Invariants: a layout covers its
//! plaintext exactly, in [`MAX_RECORDS`] records at most, none of them empty (section 5.1: no
//! handshake record is) or longer than a record may be.

use tandem_delta::varint;
use tandem_wire::tls::ContentType;
use tandem_wire::tls::handshake::MAX_BODY_LEN;
use tandem_wire::tls::record::MAX_PLAINTEXT_LEN;
use tandem_wire::tls::stream::MessageReader;

use crate::record::{Opened, PROTECTION, Sealer};

/// Most records of a layout: a flight of 64 KiB in the shortest records that
/// `max_fragment_length` allows (RFC 6066, section 4) has 128.
pub const MAX_RECORDS: usize = 256;

const BY_MESSAGE: u8 = 0;
const TOGETHER: u8 = 1;
const BY_MESSAGE_OF_SIZE: u8 = 2;
const TOGETHER_OF_SIZE: u8 = 3;
const LISTED: u8 = 4;

/// The records of a run of handshake messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    records: Vec<Shape>,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    length: usize,
    padding: usize,
}

impl Layout {
    /// Adds the next record. `false`, and nothing added, where it holds no handshake bytes, or
    /// there are too many.
    #[must_use]
    pub fn push(&mut self, record: &Opened) -> bool {
        let fits = record.content_type == ContentType::Handshake
            && !record.content.is_empty()
            && self.records.len() < MAX_RECORDS;
        if fits {
            self.records.push(Shape {
                length: record.content.len(),
                padding: record.padding,
            });
        }
        fits
    }

    /// Appends the shortest encoding; `plaintext` is the content of all the records.
    pub fn encode(&self, plaintext: &[u8], out: &mut Vec<u8>) {
        let messages = messages(plaintext);
        let total = [plaintext.len()];
        let longest = self.records.iter().map(|record| record.length).max();
        let size = longest.unwrap_or(MAX_PLAINTEXT_LEN);
        for (kind, lengths, size) in [
            (BY_MESSAGE, &messages[..], MAX_PLAINTEXT_LEN),
            (TOGETHER, &total, MAX_PLAINTEXT_LEN),
            (BY_MESSAGE_OF_SIZE, &messages, size),
            (TOGETHER_OF_SIZE, &total, size),
        ] {
            if cut(lengths, size).as_ref() == Some(&self.records) {
                out.push(kind);
                match kind {
                    BY_MESSAGE_OF_SIZE | TOGETHER_OF_SIZE => write_number(out, size),
                    _ => {}
                }
                return;
            }
        }
        out.push(LISTED);
        write_number(out, self.records.len());
        for record in &self.records {
            let is_padded = usize::from(record.padding > 0);
            write_number(out, 2 * record.length + is_padded);
            if record.padding > 0 {
                write_number(out, record.padding);
            }
        }
    }

    /// Takes a layout off the front of `input`. `None` where there is none, or not one of this
    /// plaintext.
    #[must_use]
    pub fn decode(input: &mut &[u8], plaintext: &[u8]) -> Option<Self> {
        let (&kind, rest) = input.split_first()?;
        *input = rest;
        let total = [plaintext.len()];
        let records = match kind {
            BY_MESSAGE => cut(&messages(plaintext), MAX_PLAINTEXT_LEN)?,
            TOGETHER => cut(&total, MAX_PLAINTEXT_LEN)?,
            BY_MESSAGE_OF_SIZE => cut(&messages(plaintext), read_number(input)?)?,
            TOGETHER_OF_SIZE => cut(&total, read_number(input)?)?,
            LISTED => listed(input)?,
            _ => return None,
        };
        let covered: usize = records.iter().map(|record| record.length).sum();
        (covered == plaintext.len()).then_some(Self { records })
    }

    /// Bytes of the records, sealed.
    #[must_use]
    pub fn sealed_len(&self) -> usize {
        let records = self.records.iter();
        let plain = |record: &Shape| record.length + record.padding;
        records.map(|record| plain(record) + PROTECTION).sum()
    }

    /// The records of this plaintext. `None` where the layout is not of it.
    #[must_use]
    pub fn seal(&self, plaintext: &[u8], sealer: &mut Sealer) -> Option<Vec<u8>> {
        let (mut out, mut rest) = (Vec::new(), plaintext);
        for record in &self.records {
            let (content, after) = rest.split_at_checked(record.length)?;
            sealer.seal(ContentType::Handshake, content, record.padding, &mut out)?;
            rest = after;
        }
        rest.is_empty().then_some(out)
    }
}

/// The records of these lengths, each cut where it would be longer than `size`. `None` for a size
/// that no record has, and too many records.
fn cut(lengths: &[usize], size: usize) -> Option<Vec<Shape>> {
    if !(1..=MAX_PLAINTEXT_LEN).contains(&size) {
        return None;
    }
    let mut records = Vec::new();
    for &length in lengths {
        let mut rest = length;
        while rest > 0 {
            if records.len() == MAX_RECORDS {
                return None;
            }
            let length = rest.min(size);
            records.push(Shape { length, padding: 0 });
            rest -= length;
        }
    }
    Some(records)
}

fn listed(input: &mut &[u8]) -> Option<Vec<Shape>> {
    let count = read_number(input)?;
    if count > MAX_RECORDS {
        return None;
    }
    (0..count)
        .map(|_| {
            let number = read_number(input)?;
            let (length, is_padded) = (number / 2, number % 2 == 1);
            let padding = match is_padded {
                true => read_number(input)?,
                false => 0,
            };
            let plain = length.checked_add(padding)?;
            let is_record = length > 0 && plain <= MAX_PLAINTEXT_LEN;
            is_record.then_some(Shape { length, padding })
        })
        .collect()
}

/// Lengths of the messages of a plaintext, headers included; what is no whole message at its end
/// counts as one.
fn messages(plaintext: &[u8]) -> Vec<usize> {
    let mut reader = MessageReader::new(MAX_BODY_LEN);
    let (mut lengths, mut rest) = (Vec::new(), plaintext);
    while !rest.is_empty() {
        let length = match reader.read(rest) {
            Ok(Some(piece)) => piece.len,
            Ok(None) | Err(_) => rest.len(),
        };
        lengths.push(length);
        rest = &rest[length..];
    }
    lengths
}

fn write_number(out: &mut Vec<u8>, number: usize) {
    // Records, lengths and paddings are far below 2^32.
    varint::write(out, u32::try_from(number).unwrap_or(u32::MAX));
}

fn read_number(input: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint::read(input)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(length: usize) -> Vec<u8> {
        let mut message = vec![11, 0];
        message.extend_from_slice(&((length - 4) as u16).to_be_bytes());
        message.resize(length, 0x5a);
        message
    }

    fn plaintext(lengths: &[usize]) -> Vec<u8> {
        lengths.iter().flat_map(|length| message(*length)).collect()
    }

    fn layout(records: &[(usize, usize)]) -> Layout {
        let records = records.iter();
        Layout {
            records: records
                .map(|&(length, padding)| Shape { length, padding })
                .collect(),
        }
    }

    fn encoded(layout: &Layout, plaintext: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        layout.encode(plaintext, &mut out);
        let mut input = &out[..];
        assert_eq!(Layout::decode(&mut input, plaintext).as_ref(), Some(layout));
        assert!(input.is_empty());
        out
    }

    #[test]
    fn layouts_of_real_stacks_take_a_byte_or_a_few() {
        let flight = plaintext(&[40, 2_900, 264, 36]);
        for (records, bytes) in [
            (&[(40, 0), (2_900, 0), (264, 0), (36, 0)][..], &[0][..]),
            (&[(3_240, 0)], &[1]),
            (
                &[(40, 0), (2_000, 0), (900, 0), (264, 0), (36, 0)],
                &[2, 0xd0, 0x0f],
            ),
            (&[(2_000, 0), (1_240, 0)], &[3, 0xd0, 0x0f]),
            (&[(3_204, 0), (36, 0)], &[3, 0x84, 0x19]),
            (&[(3_000, 0), (240, 0)], &[3, 0xb8, 0x17]),
            (
                &[(2_000, 0), (1_204, 0), (36, 0)],
                &[4, 3, 0xa0, 0x1f, 0xe8, 0x12, 72],
            ),
            (&[(3_204, 6), (36, 0)], &[4, 2, 0x89, 0x32, 6, 72]),
        ] {
            assert_eq!(encoded(&layout(records), &flight), bytes, "{records:?}");
        }
    }

    #[test]
    fn a_long_message_is_cut_at_the_longest_record_without_being_told() {
        let flight = plaintext(&[40, 20_000]);
        let apart = [(40, 0), (16_384, 0), (3_616, 0)];
        assert_eq!(encoded(&layout(&apart), &flight), [0]);
        let together = [(16_384, 0), (3_656, 0)];
        assert_eq!(encoded(&layout(&together), &flight), [1]);
    }

    #[test]
    fn what_does_not_cover_its_plaintext_or_is_beyond_the_bounds_is_refused() {
        let flight = plaintext(&[40, 100]);
        let long = plaintext(&[40, 20_000]);
        for (bytes, flight) in [
            (&[][..], &flight),
            (&[5], &flight),
            (&[2], &flight),
            (&[2, 0], &flight),
            // A size of 16,385.
            (&[3, 0x81, 0x80, 0x01], &flight),
            // 139 bytes of 140; a record of none; a padding that is too long; too few records.
            (&[4, 1, 0x96, 0x02], &flight),
            (&[4, 2, 0, 0x98, 0x02], &flight),
            (&[4, 1, 0x99, 0x02, 0x80, 0x80, 0x01], &flight),
            (&[4, 2, 0x98, 0x02], &flight),
            // 257 records.
            (&[4, 0x81, 0x02], &flight),
            (&[3, 1], &long),
        ] {
            assert_eq!(Layout::decode(&mut &bytes[..], flight), None, "{bytes:x?}");
        }
        assert!(Layout::decode(&mut &[4, 1, 0x98, 0x02][..], &flight).is_some());
    }

    #[test]
    fn a_record_of_another_type_and_an_empty_one_are_in_no_layout() {
        let mut layout = Layout::default();
        let mut record = Opened {
            content_type: ContentType::Alert,
            content: vec![2, 40],
            padding: 0,
        };
        assert!(!layout.push(&record));
        record.content_type = ContentType::Handshake;
        record.content.clear();
        assert!(!layout.push(&record));
        record.content = vec![20];
        for _ in 0..MAX_RECORDS {
            assert!(layout.push(&record));
        }
        assert!(!layout.push(&record));
    }

    proptest! {
        #[test]
        fn any_layout_comes_back(
            messages in proptest::collection::vec(4_usize..900, 0..6),
            cuts in proptest::collection::vec((1_usize..700, 0_usize..40), 0..12),
        ) {
            let flight = plaintext(&messages);
            let (mut records, mut left) = (Vec::new(), flight.len());
            for (length, padding) in cuts {
                let length = length.min(left);
                if length > 0 {
                    records.push((length, padding));
                }
                left -= length;
            }
            if left > 0 {
                records.push((left, 0));
            }
            encoded(&layout(&records), &flight);
        }

        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            crate::fuzzing::seal_layout(&bytes);
        }
    }
}
