//! The frame that carries a delta in place of a flight: the payload of the segments that packet
//! mode rewrites.
//!
//! Is: delimiting, the keyed check over delta *and* rebuilt bytes. Is not: the delta's own encoding
//! (`tandem-delta`), nor the harmlessness of the segments (their timestamps, `tandem-packet`).
//!
//! ```text
//! +---------+---------------+----------------+-----------+-------------------+
//! | ver|typ | span (varint) | length (varint)| delta     | check (8 bytes)   |
//! +---------+---------------+----------------+-----------+-------------------+
//! ```
//!
//! `span` is the number of bytes that the frame stands for; the frame's last byte has the last
//! sequence number of the span. The check is one tag for two questions: did our partner send this,
//! and are these the bytes that it meant? It covers the first byte too, and a frame of another
//! version than the connection agreed on is none.
//!
//! Invariant: no byte of a rebuilt flight leaves before [`Frame::verify`] has said yes.

use tandem_delta::varint;
use tandem_wire::Seq;

use super::flow::FlowId;
use super::key::{Key, Label};
use super::version::Version;

/// Most bytes that a frame may stand for. A server's first flight is at most ten segments without
/// an acknowledgement (RFC 6928), 14,600 bytes; post-quantum chains reach 20 kB.
pub const MAX_SPAN: usize = 1 << 16;

/// Bytes of a frame around its delta, at most.
pub const MAX_OVERHEAD: usize = 1 + 3 + 3 + CHECK_LEN;

const CHECK_LEN: usize = 8;

/// Whose flight a frame stands for. A frame of one direction is none in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The server's first flight.
    Server,
    /// The client's flight after it, or its hello before it.
    Client,
}

impl Sender {
    /// The type in a frame's first byte.
    fn number(self) -> u8 {
        match self {
            Sender::Server => 1,
            Sender::Client => 2,
        }
    }
}

/// A frame whose outer form is right; its check is still to be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// How many bytes of the stream it stands for.
    pub span: usize,
    /// The delta that rebuilds them.
    pub delta: &'a [u8],
    head: u8,
    check: &'a [u8],
    /// Length of the whole frame in bytes.
    pub length: usize,
}

/// What a look at the front of a payload says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole frame stands at the front.
    Whole(Frame<'a>),
    /// It begins like a frame of `length` bytes, and is not all there. `None`: even the length is
    /// cut.
    Cut {
        /// Length of the whole frame, in bytes.
        length: Option<usize>,
    },
    /// Not a frame of the version and the sender that were asked for.
    No,
}

/// What the front of a frame says of its size, whether or not the rest of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of the stream that the frame stands for.
    pub span: usize,
    /// Length of the whole frame, in bytes; less than `span`.
    pub length: usize,
}

/// Writes the frame for `delta`, which rebuilds `bytes` at stream position `start` of the direction
/// from `sender`.
///
/// `None` where the frame would not be smaller than the bytes, or these are longer than
/// [`MAX_SPAN`].
pub fn write(
    key: &Key,
    (flow, version, sender): (FlowId, Version, Sender),
    start: Seq,
    delta: &[u8],
    bytes: &[u8],
) -> Option<Vec<u8>> {
    if bytes.len() > MAX_SPAN {
        return None;
    }
    let head = version.number() << 4 | sender.number();
    let mut frame = Vec::with_capacity(delta.len() + MAX_OVERHEAD);
    frame.push(head);
    varint::write(&mut frame, length(bytes));
    varint::write(&mut frame, length(delta));
    frame.extend_from_slice(delta);
    frame.extend_from_slice(&check(key, (flow, head), start, delta, bytes));
    (frame.len() < bytes.len()).then_some(frame)
}

/// The front of a frame, up to its delta.
enum Front<'a> {
    Read {
        head: u8,
        extent: Extent,
        /// Length of the delta.
        delta: usize,
        /// What follows the front.
        rest: &'a [u8],
    },
    /// It begins like one and is not all there.
    Cut,
    No,
}

impl<'a> Frame<'a> {
    /// What a frame of this version and `sender`'s that begins with `payload` says of its size;
    /// `None` where it does not begin like one, or not even that much of it is there.
    pub fn extent(payload: &[u8], version: Version, sender: Sender) -> Option<Extent> {
        match Frame::front(payload, version, sender) {
            Front::Read { extent, .. } => Some(extent),
            Front::Cut | Front::No => None,
        }
    }

    fn front(payload: &'a [u8], version: Version, sender: Sender) -> Front<'a> {
        let Some((&head, mut rest)) = payload.split_first() else {
            return Front::Cut;
        };
        if head != version.number() << 4 | sender.number() {
            return Front::No;
        }
        let (Some(span), Some(delta)) = (varint::read(&mut rest), varint::read(&mut rest)) else {
            return if payload.len() < MAX_OVERHEAD {
                Front::Cut
            } else {
                Front::No
            };
        };
        let (span, delta) = (span as usize, delta as usize);
        let front = payload.len() - rest.len();
        let length = front.saturating_add(delta).saturating_add(CHECK_LEN);
        if span > MAX_SPAN || length >= span {
            return Front::No;
        }
        Front::Read {
            head,
            extent: Extent { span, length },
            delta,
            rest,
        }
    }

    /// Looks for a frame of this version and `sender`'s at the front of `payload`.
    pub fn parse(payload: &'a [u8], version: Version, sender: Sender) -> Parsed<'a> {
        let (head, extent, length, rest) = match Self::front(payload, version, sender) {
            Front::Read {
                head,
                extent,
                delta,
                rest,
            } => (head, extent, delta, rest),
            Front::Cut => return Parsed::Cut { length: None },
            Front::No => return Parsed::No,
        };
        match (rest.get(..length), rest.get(length..length + CHECK_LEN)) {
            (Some(delta), Some(check)) => Parsed::Whole(Frame {
                span: extent.span,
                delta,
                head,
                check,
                length: extent.length,
            }),
            _ => Parsed::Cut {
                length: Some(extent.length),
            },
        }
    }

    /// Whether our partner wrote this frame for `bytes` at `start` of this connection.
    pub fn verify(&self, key: &Key, flow: FlowId, start: Seq, bytes: &[u8]) -> bool {
        let delta_len = length(self.delta).to_be_bytes();
        let start = start.0.to_be_bytes();
        key.verify(
            Label::Frame,
            &[
                &[self.head],
                &flow.to_bytes(),
                &start,
                &delta_len,
                self.delta,
                bytes,
            ],
            self.check,
        )
    }
}

/// As it is written. Nothing that crosses is longer than [`MAX_SPAN`], so that none is cut short.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn check(
    key: &Key,
    (flow, head): (FlowId, u8),
    start: Seq,
    delta: &[u8],
    bytes: &[u8],
) -> [u8; CHECK_LEN] {
    let delta_len = length(delta).to_be_bytes();
    key.tag(
        Label::Frame,
        &[
            &[head],
            &flow.to_bytes(),
            &start.0.to_be_bytes(),
            &delta_len,
            delta,
            bytes,
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FLOW: FlowId = FlowId {
        client: Seq(7),
        server: Seq(9),
    };
    const START: Seq = Seq(10);
    const ONE: Version = Version::ONE;
    const SERVER: Sender = Sender::Server;

    fn key() -> Key {
        Key::from_bytes([3; 32])
    }

    #[test]
    fn a_frame_stands_for_as_many_bytes_as_it_may_and_no_more() {
        for (span, fits) in [(MAX_SPAN, true), (MAX_SPAN + 1, false)] {
            let bytes = vec![b'x'; span];
            let written = write(&key(), (FLOW, ONE, SERVER), START, b"delta", &bytes);
            assert_eq!(written.is_some(), fits, "{span}");
            let mut front = vec![ONE.number() << 4 | SERVER.number()];
            varint::write(&mut front, length(&bytes));
            varint::write(&mut front, 5);
            assert_eq!(Frame::extent(&front, ONE, SERVER).is_some(), fits, "{span}");
        }
    }

    #[test]
    fn a_front_that_does_not_end_is_cut_until_it_is_longer_than_any() {
        let mut front = vec![0x80; MAX_OVERHEAD];
        front[0] = ONE.number() << 4 | SERVER.number();
        let shorter = &front[..MAX_OVERHEAD - 1];
        assert_eq!(Frame::parse(&front, ONE, SERVER), Parsed::No);
        let cut = Parsed::Cut { length: None };
        assert_eq!(Frame::parse(shorter, ONE, SERVER), cut);
    }

    #[test]
    fn a_frame_is_read_back_and_believed_only_for_its_bytes_and_place() {
        let bytes = [b'x'; 500];
        let written =
            write(&key(), (FLOW, ONE, SERVER), START, b"the delta", &bytes).expect("smaller");
        let Parsed::Whole(frame) = Frame::parse(&written, ONE, SERVER) else {
            panic!("whole")
        };
        assert_eq!(
            (frame.span, frame.delta, frame.length),
            (500, &b"the delta"[..], written.len())
        );
        assert!(frame.verify(&key(), FLOW, START, &bytes));
        assert!(!frame.verify(&key(), FLOW, Seq(11), &bytes));
        assert!(!frame.verify(&Key::NONE, FLOW, START, &bytes));
        assert!(!frame.verify(
            &key(),
            FlowId {
                client: Seq(8),
                ..FLOW
            },
            START,
            &bytes
        ));
        assert!(!frame.verify(&key(), FLOW, START, &[b'y'; 500]));
    }

    #[test]
    fn a_frame_that_saves_nothing_is_not_written() {
        assert_eq!(
            write(&key(), (FLOW, ONE, SERVER), START, &[0; 100], &[0; 111]),
            None
        );
        assert!(write(&key(), (FLOW, ONE, SERVER), START, &[0; 100], &[0; 112]).is_some());
    }

    #[test]
    fn a_cut_frame_says_how_long_it_will_be() {
        let written =
            write(&key(), (FLOW, ONE, SERVER), START, &[1; 300], &[b'x'; 500]).expect("smaller");
        for cut in 0..written.len() {
            match Frame::parse(&written[..cut], ONE, SERVER) {
                Parsed::Cut { length } => {
                    assert!(length.is_none_or(|length| length == written.len()));
                    let extent = Frame::extent(&written[..cut], ONE, SERVER);
                    assert_eq!(extent.map(|extent| extent.length), length);
                    assert!(extent.is_none_or(|extent| extent.span == 500));
                }
                other => panic!("{cut}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_frame_of_another_version_is_none_and_cannot_be_made_one() {
        let two = Version::new(2).expect("a version");
        let bytes = [b'x'; 500];
        let mut written =
            write(&key(), (FLOW, two, SERVER), START, b"the delta", &bytes).expect("smaller");
        assert_eq!(Frame::parse(&written, ONE, SERVER), Parsed::No);
        written[0] = written[0] & 0x0f | 1 << 4;
        let Parsed::Whole(frame) = Frame::parse(&written, ONE, SERVER) else {
            panic!("whole")
        };
        assert!(!frame.verify(&key(), FLOW, START, &bytes));
    }

    #[test]
    fn a_frame_of_one_direction_is_none_in_the_other_and_cannot_be_made_one() {
        let bytes = [b'x'; 500];
        let whose = (FLOW, ONE, SERVER);
        let mut written = write(&key(), whose, START, b"the delta", &bytes).expect("smaller");
        assert_eq!(Frame::parse(&written, ONE, Sender::Client), Parsed::No);
        written[0] ^= 1 ^ 2;
        let Parsed::Whole(frame) = Frame::parse(&written, ONE, Sender::Client) else {
            panic!("whole")
        };
        assert!(!frame.verify(&key(), FLOW, START, &bytes));
    }

    #[test]
    fn tls_is_not_a_frame() {
        assert_eq!(
            Frame::parse(&[0x16, 3, 3, 0, 50, 2, 0, 0], ONE, SERVER),
            Parsed::No
        );
    }

    proptest! {
        #[test]
        fn any_payload_is_refused_or_unbelieved(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Parsed::Whole(frame) = Frame::parse(&bytes, ONE, SERVER) {
                prop_assert!(frame.length <= bytes.len());
                prop_assert!(!frame.verify(&key(), FLOW, START, &bytes));
            }
        }
    }
}
