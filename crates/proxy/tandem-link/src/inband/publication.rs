//! The frame in which the server-side proxy publishes what clients' chains it holds.
//!
//! Is: delimiting, and the keyed check. Is not: the filter, whose bits pass as they are
//! (`tandem-engine` writes and reads them), nor
//! when it is published and how the segment is made harmless (`tandem-packet`). It stands for no
//! byte of the stream, and travels like a frame that does: in one segment with an old timestamp.
//!
//! ```text
//! +-------+-------------+---------------+----------------+-----------------+------+-----------------+
//! |ver|typ| fingerprint | rate (varint) | count (varint) | length (varint) | bits | check (8 bytes) |
//! +-------+-------------+---------------+----------------+-----------------+------+-----------------+
//! ```
//!
//! The fingerprint is of the holdings, all that is held (of which the filter may show the newest
//! part only): the XOR of the last four bytes of each chain's name. Nothing held is zero.
//! The client-side proxy says in its presence (`option`) which set it goes by, so nothing has to be
//! published where they agree; and since either side can put a chain in by itself, they agree for
//! as long as all that one learns passes the other.
//!
//! Invariants: a publication is believed in its own connection only; whoever does not know its
//! type, or the connection's version, has nothing but a segment that TCP discards.

use tandem_delta::varint;

use super::flow::FlowId;
use super::key::{Key, Label};
use super::version::Version;

/// The type in the first byte: those of [`Sender`](super::frame::Sender) are 1 and 2.
const TYPE: u8 = 3;

const CHECK_LEN: usize = 8;

/// Bytes around the filter's bits, at most.
pub const MAX_OVERHEAD: usize = 1 + size_of::<u32>() + 3 + 2 + 3 + CHECK_LEN;

/// What is published: a filter, which means nothing to this crate, and the fingerprint of what is
/// held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publication<'a> {
    /// The fingerprint of the set of all that is held, with which the filter is salted too.
    pub fingerprint: u32,
    /// How many references pass for held though they are not: one in so many.
    pub rate: u32,
    /// How many references the filter is over: at most one for each of its bits.
    pub count: usize,
    /// The filter's own encoding.
    pub bits: &'a [u8],
}

/// Writes a publication.
pub fn write(key: &Key, flow: FlowId, version: Version, said: &Publication<'_>) -> Vec<u8> {
    let mut frame = Vec::with_capacity(said.bits.len() + MAX_OVERHEAD);
    frame.push(head(version));
    frame.extend_from_slice(&said.fingerprint.to_be_bytes());
    varint::write(&mut frame, said.rate);
    for number in [said.count, said.bits.len()] {
        // A segment has room for some kilobytes: nothing is cut short.
        varint::write(&mut frame, u32::try_from(number).unwrap_or(u32::MAX));
    }
    frame.extend_from_slice(said.bits);
    let check: [u8; CHECK_LEN] = key.tag(Label::Publication, &[&flow.to_bytes(), &frame]);
    frame.extend_from_slice(&check);
    frame
}

/// What a payload says that is a publication as a whole; `None` where it is not one of this
/// version, made with this key for this connection.
pub fn read<'a>(
    key: &Key,
    flow: FlowId,
    version: Version,
    payload: &'a [u8],
) -> Option<Publication<'a>> {
    payload.first().filter(|first| **first == head(version))?;
    let (front, check) = payload.split_at_checked(payload.len().checked_sub(CHECK_LEN)?)?;
    key.verify(Label::Publication, &[&flow.to_bytes(), front], check)
        .then(|| parse(payload))?
}

/// What a payload says that has the form of a publication of any version, whoever made it.
pub fn parse(payload: &[u8]) -> Option<Publication<'_>> {
    let (&first, rest) = payload.split_first()?;
    Version::new(first >> 4).filter(|_| first & 0x0f == TYPE)?;
    let (fingerprint, mut rest) = rest.split_first_chunk()?;
    let rate = varint::read(&mut rest)?;
    let count = usize::try_from(varint::read(&mut rest)?).ok()?;
    let length = usize::try_from(varint::read(&mut rest)?).ok()?;
    if rest.len() != length.checked_add(CHECK_LEN)? || count > length.checked_mul(8)? {
        return None;
    }
    Some(Publication {
        fingerprint: u32::from_be_bytes(*fingerprint),
        rate,
        count,
        bits: &rest[..length],
    })
}

fn head(version: Version) -> u8 {
    version.number() << 4 | TYPE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_wire::Seq;

    const FLOW: FlowId = FlowId {
        client: Seq(7),
        server: Seq(9),
    };
    const ONE: Version = Version::ONE;

    fn key() -> Key {
        Key::from_bytes([3; 32])
    }

    #[test]
    fn a_publication_is_read_back_and_believed_in_its_own_connection_and_version_only() {
        for (count, bits) in [(0, &[][..]), (1, &[0x80]), (200, &[0x5a; 240])] {
            let said = Publication {
                fingerprint: 0xab00,
                rate: 256,
                count,
                bits,
            };
            let written = write(&key(), FLOW, ONE, &said);
            assert!(written.len() <= bits.len() + MAX_OVERHEAD);
            assert_eq!(read(&key(), FLOW, ONE, &written), Some(said));
            let other = FlowId {
                client: Seq(8),
                ..FLOW
            };
            assert_eq!(read(&key(), other, ONE, &written), None);
            assert_eq!(read(&Key::NONE, FLOW, ONE, &written), None);
            let two = Version::new(2).expect("a version");
            assert_eq!(read(&key(), FLOW, two, &written), None);
            for cut in 0..written.len() {
                assert_eq!(read(&key(), FLOW, ONE, &written[..cut]), None);
                assert_eq!(parse(&written[..cut]), None);
            }
            assert_eq!(
                read(&key(), FLOW, ONE, &[&written[..], &[0]].concat()),
                None
            );
        }
    }

    #[test]
    fn a_filter_over_more_references_than_it_has_bits_is_refused() {
        for (count, is_read) in [(0, true), (16, true), (17, false)] {
            let said = Publication {
                fingerprint: 1,
                rate: 2,
                count,
                bits: &[0; 2],
            };
            let written = write(&key(), FLOW, ONE, &said);
            assert_eq!(read(&key(), FLOW, ONE, &written).is_some(), is_read);
        }
    }

    #[test]
    fn what_is_of_another_type_or_of_no_version_has_not_the_form() {
        let said = Publication {
            fingerprint: 1,
            rate: 2,
            count: 3,
            bits: &[0; 2],
        };
        let mut written = write(&key(), FLOW, ONE, &said);
        for (head, has_form) in [(0x13, true), (0xf3, true), (0x11, false), (0x03, false)] {
            written[0] = head;
            assert_eq!(parse(&written).is_some(), has_form, "{head:x}");
        }
    }

    proptest! {
        #[test]
        fn any_payload_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(read(&key(), FLOW, ONE, &bytes), None);
        }
    }
}
