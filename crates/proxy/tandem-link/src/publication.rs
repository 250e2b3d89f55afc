//! The frame in which the server-side proxy publishes what clients' chains it holds.
//!
//! Is: delimiting, and the keyed check. Is not: the filter's own encoding (`tandem-engine`), nor
//! when it is published and how the segment is made harmless (`tandem-packet`). It stands for no
//! byte of the stream, and travels like a frame that does: in one segment with an old timestamp.
//!
//! ```text
//! +---------+-----------+---------------+----------------+-----------------+------+-----------------+
//! | ver|typ | holdings  | rate (varint) | count (varint) | length (varint) | bits | check (8 bytes) |
//! +---------+-----------+---------------+----------------+-----------------+------+-----------------+
//! ```
//!
//! The holdings are four bytes that name the set of all that is held (of which the filter may show
//! the newest part only): the XOR of the last four bytes of each chain's name. Nothing held is
//! zero. The client-side proxy says in its presence (`option`) which set it goes by, so nothing has
//! to be published where they agree; and since either side can put a chain in by itself, they agree
//! for as long as all that one learns passes the other.
//!
//! Invariants: a publication is believed in its own connection only; whoever does not know its
//! type, or the connection's version, has nothing but a segment that TCP discards.

use tandem_delta::varint;
use tandem_engine::filter::{Filter, Holdings, Rate};

use crate::flow::FlowId;
use crate::key::{Key, Label};
use crate::version::Version;

/// The type in the first byte: those of [`Sender`](crate::frame::Sender) are 1 and 2.
const TYPE: u8 = 3;

const CHECK_LEN: usize = 8;

/// Bytes around the filter's bits, at most.
pub const MAX_OVERHEAD: usize = 1 + size_of::<Holdings>() + 3 + 2 + 3 + CHECK_LEN;

/// Writes the publication of `filter`, whose salt is the name of all that is held.
pub fn write(key: &Key, flow: FlowId, version: Version, filter: &Filter) -> Vec<u8> {
    let bits = filter.to_bytes();
    let mut frame = Vec::with_capacity(bits.len() + MAX_OVERHEAD);
    frame.push(head(version));
    frame.extend_from_slice(&filter.salt().to_be_bytes());
    varint::write(&mut frame, filter.rate().number());
    for number in [filter.count(), bits.len()] {
        // A filter of the most references has some kilobytes: nothing is cut short.
        varint::write(&mut frame, u32::try_from(number).unwrap_or(u32::MAX));
    }
    frame.extend_from_slice(&bits);
    let check: [u8; CHECK_LEN] = key.tag(Label::Publication, &[&flow.to_bytes(), &frame]);
    frame.extend_from_slice(&check);
    frame
}

/// The holdings and the filter in a payload that is a publication as a whole; `None` where it is
/// not one of this version, made with this key for this connection.
pub fn read(
    key: &Key,
    flow: FlowId,
    version: Version,
    payload: &[u8],
) -> Option<(Holdings, Filter)> {
    payload.first().filter(|first| **first == head(version))?;
    let (front, check) = payload.split_at_checked(payload.len().checked_sub(CHECK_LEN)?)?;
    key.verify(Label::Publication, &[&flow.to_bytes(), front], check)
        .then(|| parse(payload))?
}

/// What a payload says that has the form of a publication of any version, whoever made it.
pub fn parse(payload: &[u8]) -> Option<(Holdings, Filter)> {
    let (&first, rest) = payload.split_first()?;
    Version::new(first >> 4).filter(|_| first & 0x0f == TYPE)?;
    let (salt, mut rest) = rest.split_first_chunk::<4>()?;
    let salt = u32::from_be_bytes(*salt);
    let rate = Rate::one_in(varint::read(&mut rest)?)?;
    let count = varint::read(&mut rest)? as usize;
    let length = varint::read(&mut rest)? as usize;
    if rest.len() != length.checked_add(CHECK_LEN)? {
        return None;
    }
    let filter = Filter::parse(&rest[..length], count, salt, rate)?;
    Some((Holdings(salt), filter))
}

fn head(version: Version) -> u8 {
    version.number() << 4 | TYPE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_delta::Reference;
    use tandem_wire::Seq;

    const FLOW: FlowId = FlowId {
        client: Seq(7),
        server: Seq(9),
    };
    const ONE: Version = Version::ONE;

    fn key() -> Key {
        Key::from_bytes([3; 32])
    }

    fn filter(count: u8) -> Filter {
        let references = (0..count).map(|number| Reference([number; 16]));
        Filter::of(references, 0xab00 | u32::from(count), Rate::DEFAULT)
    }

    #[test]
    fn a_publication_is_read_back_and_believed_in_its_own_connection_and_version_only() {
        for count in [0, 1, 200] {
            let filter = filter(count);
            let written = write(&key(), FLOW, ONE, &filter);
            assert!(written.len() <= filter.to_bytes().len() + MAX_OVERHEAD);
            let holdings = Holdings(filter.salt());
            assert_eq!(read(&key(), FLOW, ONE, &written), Some((holdings, filter)));
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

    proptest! {
        #[test]
        fn any_payload_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(read(&key(), FLOW, ONE, &bytes), None);
        }
    }
}
