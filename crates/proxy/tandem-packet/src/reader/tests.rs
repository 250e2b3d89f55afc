//! The reading side by itself: a frame from segments in any order, a miss for what it cannot
//! follow, bounded memory. Not here: the client-side proxy around it.

use super::*;
use std::sync::Arc;
use tandem_delta::{DeltaWriter, Encoding, Reference};
use tandem_wire::{SegmentRepr, TcpFlags};

const FLOW: FlowId = FlowId {
    client: Seq(5),
    server: Seq(u32::MAX - 100),
};

/// Holds one object.
struct One(Reference, Arc<[u8]>);

impl Source for One {
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
        (*reference == self.0).then(|| Arc::clone(&self.1))
    }
}

fn key() -> Key {
    Key::from_bytes([1; 32])
}

fn stored() -> One {
    One(Reference([7; 16]), (0..200u8).cycle().take(4_000).collect())
}

/// A flight at the start of the stream and its frame, with `fresh` literal bytes in it.
fn flight(fresh: usize) -> (Vec<u8>, Vec<u8>) {
    flight_with(&vec![b'f'; fresh])
}

/// The same with these literal bytes.
fn flight_with(literal: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let One(reference, object) = stored();
    let mut delta = DeltaWriter::new(Encoding::One);
    delta.add(literal);
    delta.copy(reference, 0, 4_000);
    let bytes = [literal, &object].concat();
    let start = FLOW.server.wrapping_add(1);
    let frame = frame::write(
        &key(),
        (FLOW, Version::ONE, Sender::Server),
        start,
        &delta.finish(),
        &bytes,
    )
    .expect("shorter");
    (bytes, frame)
}

fn segment(seq: Seq, payload: &[u8]) -> Vec<u8> {
    SegmentRepr {
        source: std::net::SocketAddr::from(([10, 0, 0, 2], 443)),
        destination: std::net::SocketAddr::from(([10, 0, 0, 1], 1)),
        seq,
        ack: Seq(6),
        flags: TcpFlags::ACK,
        window: 1,
        options: Vec::new(),
        payload: payload.to_vec(),
        hop_limit: 1,
    }
    .build()
}

fn take(reader: &mut Reader, seq: Seq, payload: &[u8]) -> Rebuilt {
    let packet = segment(seq, payload);
    let key = key();
    let origin = Origin {
        version: Version::ONE,
        key: &key,
        flow: FLOW,
        sender: Sender::Server,
    };
    let packet = TcpPacket::parse(&packet).expect("a segment");
    reader.segment(&packet, origin, &mut stored())
}

/// Where a frame for `bytes` begins: its end is the flight's end.
fn begin(bytes: &[u8], frame: &[u8]) -> Seq {
    let shift = bytes.len() - frame.len();
    FLOW.server.wrapping_add(1 + shift as u32)
}

#[test]
fn a_frame_is_put_together_from_segments_in_any_order_and_again() {
    let (bytes, frame) = flight(2_500);
    let at = begin(&bytes, &frame);
    let mut reader = Reader::default();
    let whole = Rebuilt::Flight(FLOW.server.wrapping_add(1), bytes);
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        for (index, piece) in order.into_iter().enumerate() {
            let start = piece * 1_000;
            let end = (start + 1_000).min(frame.len());
            let outcome = take(&mut reader, at.after(start), &frame[start..end]);
            let expected = if index == 2 {
                &whole
            } else {
                &Rebuilt::Incomplete
            };
            assert_eq!(outcome, *expected, "{order:?}");
        }
        assert_eq!(reader.footprint(), 0);
    }
    assert_eq!(take(&mut reader, at, &frame), whole, "all of it at once");
}

#[test]
fn what_is_not_held_or_was_changed_or_moved_is_a_miss() {
    let (bytes, mut frame) = flight(100);
    let at = begin(&bytes, &frame);
    let mut reader = Reader::default();
    assert_eq!(
        take(&mut reader, at.wrapping_add(1), &frame),
        Rebuilt::Miss(Miss::WrongKey)
    );
    assert_eq!(
        take(&mut reader, Seq(FLOW.server.0 - 9), &frame),
        Rebuilt::Miss(Miss::Malformed)
    );
    assert_eq!(
        take(&mut reader, at.wrapping_add(70_000), &frame),
        Rebuilt::Miss(Miss::Malformed)
    );
    let last = frame.len() - 1;
    frame[last] ^= 1;
    assert_eq!(take(&mut reader, at, &frame), Rebuilt::Miss(Miss::WrongKey));
}

#[test]
fn what_is_not_held_and_what_is_no_delta_are_misses_for_their_reasons() {
    let (bytes, frame) = flight(100);
    let at = begin(&bytes, &frame);
    let key = key();
    let origin = Origin {
        version: Version::ONE,
        key: &key,
        flow: FLOW,
        sender: Sender::Server,
    };
    let packet = segment(at, &frame);
    let packet = TcpPacket::parse(&packet).expect("a segment");
    let mut other = One(Reference([8; 16]), stored().1);
    let missed = Reader::default().segment(&packet, origin, &mut other);
    assert_eq!(missed, Rebuilt::Miss(Miss::NotHeld));
    let mut short = One(stored().0, stored().1[..3_999].into());
    let missed = Reader::default().segment(&packet, origin, &mut short);
    assert_eq!(missed, Rebuilt::Miss(Miss::Malformed));
}

/// Takes the start of a frame that never becomes whole, this far into the stream.
fn take_start(reader: &mut Reader, offset: u32, len: usize) -> Rebuilt {
    let mut piece = vec![0x11, 0xff, 0xff, 3, 0x80, 0x80, 2];
    piece.resize(len, 0);
    let start = FLOW.server.wrapping_add(1);
    take(reader, start.wrapping_add(offset), &piece)
}

#[test]
fn pieces_that_overlap_take_no_more_memory_than_one_frame() {
    let mut reader = Reader::default();
    let full = frame::MAX_SPAN / 20_000;
    for index in 0..full {
        let outcome = take_start(&mut reader, index as u32, 20_000);
        assert_eq!(outcome, Rebuilt::Incomplete);
        assert_eq!(reader.footprint(), (index + 1) * 20_000);
    }
    // The same place again replaces what was there.
    assert_eq!(take_start(&mut reader, 0, 20_000), Rebuilt::Incomplete);
    assert_eq!(reader.footprint(), full * 20_000);
    let outcome = take_start(&mut reader, full as u32, 20_000);
    assert_eq!(
        outcome,
        Rebuilt::Miss(Miss::Malformed),
        "one more is too many"
    );
    assert_eq!(reader.footprint(), 0);
}

#[test]
fn small_pieces_are_bounded_by_number() {
    let mut reader = Reader::default();
    for index in 0..MAX_PIECES as u32 {
        let outcome = take_start(&mut reader, index * 10, 10);
        assert_eq!(outcome, Rebuilt::Incomplete, "{index}");
    }
    let outcome = take_start(&mut reader, MAX_PIECES as u32 * 10, 10);
    assert_eq!(outcome, Rebuilt::Miss(Miss::Malformed));
    assert_eq!(reader.footprint(), 0);
}

#[test]
fn a_piece_beyond_the_longest_frame_is_refused_and_not_kept() {
    let furthest = frame::MAX_SPAN as u32 - 1_000;
    let mut reader = Reader::default();
    let outcome = take_start(&mut reader, furthest, 1_000);
    assert_eq!(
        outcome,
        Rebuilt::Incomplete,
        "it ends where a frame may end"
    );
    let mut reader = Reader::default();
    for offset in [furthest + 1, 70_000, i32::MAX as u32, u32::MAX] {
        assert_eq!(
            take_start(&mut reader, offset, 1_000),
            Rebuilt::Miss(Miss::Malformed)
        );
        assert_eq!(reader.footprint(), 0, "{offset}");
    }
}

#[test]
fn a_piece_that_looks_like_a_frame_is_still_a_piece() {
    let (_, mut inner) = flight(10);
    *inner.last_mut().expect("a check") ^= 1;
    let literal = [&[b'f'; 300][..], &inner].concat();
    let (bytes, frame) = flight_with(&literal);
    let at = frame
        .windows(inner.len())
        .position(|window| window == inner)
        .expect("it is literal");
    let begin = begin(&bytes, &frame);
    let mut reader = Reader::default();
    assert_eq!(take(&mut reader, begin, &frame[..at]), Rebuilt::Incomplete);
    let rest = begin.after(at);
    let rebuilt = take(&mut reader, rest, &frame[at..]);
    assert_eq!(rebuilt, Rebuilt::Flight(FLOW.server.wrapping_add(1), bytes));
}

fn take_of_any_age(reader: &mut Reader, next: Seq, seq: Seq, payload: &[u8]) -> Option<Rebuilt> {
    let packet = segment(seq, payload);
    let key = key();
    let origin = Origin {
        version: Version::ONE,
        key: &key,
        flow: FLOW,
        sender: Sender::Server,
    };
    let packet = TcpPacket::parse(&packet).expect("a segment");
    reader.of_any_age(&packet, next, origin, &mut stored())
}

#[test]
fn without_its_timestamp_a_frame_is_told_by_its_check_or_by_its_place() {
    let (bytes, frame) = flight(2_500);
    let at = begin(&bytes, &frame);
    let start = FLOW.server.wrapping_add(1);
    let whole = Some(Rebuilt::Flight(start, bytes));
    let mut reader = Reader::default();
    // Whole, at first and as a late copy.
    for next in [start, at.after(frame.len())] {
        assert_eq!(take_of_any_age(&mut reader, next, at, &frame), whole);
    }
    // In pieces.
    let (front, rest) = frame.split_at(1_000);
    let behind = at.wrapping_add(1_000);
    let first = take_of_any_age(&mut reader, start, at, front);
    assert_eq!(first, Some(Rebuilt::Incomplete));
    assert_eq!(take_of_any_age(&mut reader, start, behind, rest), whole);
    // Damaged in its place, it is a frame that cannot be followed; elsewhere it is data.
    let mut damaged = frame.clone();
    *damaged.last_mut().expect("a check") ^= 1;
    let miss = take_of_any_age(&mut reader, start, at, &damaged);
    assert_eq!(miss, Some(Rebuilt::Miss(Miss::WrongKey)));
    let elsewhere = take_of_any_age(&mut Reader::default(), start, at.wrapping_add(1), &damaged);
    assert_eq!(elsewhere, None);
}

#[test]
fn bytes_that_look_like_a_frame_by_chance_are_lost_once() {
    let (bytes, frame) = flight(2_500);
    let at = begin(&bytes, &frame);
    let start = FLOW.server.wrapping_add(1);
    let mut reader = Reader::default();
    let looks = &frame[..500];
    assert!(take_of_any_age(&mut reader, start, at, looks).is_some());
    let behind = at.wrapping_add(500);
    assert!(take_of_any_age(&mut reader, start, behind, b"after it").is_some());
    // The gap is filled.
    for next in [start.wrapping_add(1_448), at] {
        assert_eq!(take_of_any_age(&mut reader, next, at, looks), None);
        assert_eq!(
            take_of_any_age(&mut reader, next, behind, b"after it"),
            None
        );
    }
}
