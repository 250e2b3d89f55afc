//! The assembler against a plain model of a stream, and against its own limits.

use super::*;
use proptest::prelude::*;

#[test]
fn segments_in_any_order_make_one_stream() {
    let mut stream = Assembler::new(Seq(u32::MAX - 2), 100);
    assert_eq!(stream.insert(Seq(2), b"fgh"), Inserted::New);
    assert!(stream.has_gap());
    assert_eq!(stream.contiguous(), b"");
    assert_eq!(stream.insert(Seq(2), b"fg"), Inserted::Duplicate);
    assert_eq!(stream.insert(Seq(u32::MAX - 2), b"ab"), Inserted::New);
    assert_eq!(stream.contiguous(), b"ab");
    assert_eq!(stream.next_seq(), Seq(u32::MAX));
    assert_eq!(stream.insert(Seq(u32::MAX), b"cdef"), Inserted::New);
    assert_eq!(stream.contiguous(), b"abcdefgh".as_slice());
    assert!(!stream.has_gap());
    assert_eq!(stream.next_seq(), Seq(5));
    assert_eq!(stream.held(), 8);
}

#[test]
fn bytes_that_differ_are_a_conflict_and_change_nothing() {
    let mut stream = Assembler::new(Seq(0), 100);
    stream.insert(Seq(0), b"abcd");
    stream.insert(Seq(10), b"klm");
    assert_eq!(stream.insert(Seq(2), b"cXef"), Inserted::Conflict);
    assert_eq!(stream.insert(Seq(8), b"ijkX"), Inserted::Conflict);
    assert_eq!(stream.insert(Seq(4), b"efghijkX"), Inserted::Conflict);
    assert_eq!(stream.contiguous(), b"abcd");
    assert_eq!(stream.insert(Seq(3), b"defghij"), Inserted::New);
    assert_eq!(stream.contiguous(), b"abcdefghijklm");
}

#[test]
fn consuming_makes_room_and_forgets() {
    let mut stream = Assembler::new(Seq(0), 4);
    assert_eq!(stream.insert(Seq(0), b"abcde"), Inserted::OutOfBounds);
    assert_eq!(stream.insert(Seq(0), b"abcd"), Inserted::New);
    stream.consume(3);
    assert_eq!(
        (stream.contiguous(), stream.start_seq(), stream.next_seq()),
        (&b"d"[..], Seq(3), Seq(4))
    );
    assert_eq!(stream.insert(Seq(0), b"XXX"), Inserted::Duplicate);
    assert_eq!(stream.insert(Seq(1), b"XXdefg"), Inserted::New);
    assert_eq!(stream.contiguous(), b"defg");
    stream.consume(100);
    assert_eq!((stream.contiguous(), stream.next_seq()), (&b""[..], Seq(7)));
    assert_eq!(stream.insert(Seq(7), b""), Inserted::Duplicate);
}

#[test]
fn what_is_consumed_leaves_the_buffer_however_little_at_a_time() {
    let mut stream = Assembler::new(Seq(0), 1_000);
    stream.insert(Seq(0), &[7; 100]);
    for _ in 0..1_000 {
        assert_eq!(stream.insert(stream.next_seq(), &[7; 30]), Inserted::New);
        stream.consume(30);
        assert_eq!(stream.held(), 100);
        assert!(stream.buffer.len() <= 300, "{}", stream.buffer.len());
    }
}

#[test]
fn bytes_outside_the_limit_are_refused() {
    let mut stream = Assembler::new(Seq(1000), 50);
    assert_eq!(stream.insert(Seq(1049), b"x"), Inserted::New);
    assert_eq!(stream.insert(Seq(1050), b"x"), Inserted::OutOfBounds);
    assert_eq!(stream.insert(Seq(1049), b"xy"), Inserted::OutOfBounds);
    assert_eq!(stream.insert(Seq(990), b"old"), Inserted::Duplicate);
    assert_eq!(stream.held(), 1);
}

#[test]
fn pieces_are_bounded_and_a_filled_hole_frees_them() {
    let mut stream = Assembler::new(Seq(0), 10_000);
    for index in 0..MAX_PENDING as u32 {
        assert_eq!(stream.insert(Seq(1 + index * 2), b"x"), Inserted::New);
    }
    assert_eq!(stream.insert(Seq(9_000), b"x"), Inserted::OutOfBounds);
    // What touches or overlaps a piece needs no new one.
    assert_eq!(stream.insert(Seq(2), b"x"), Inserted::New);
    assert_eq!(stream.insert(Seq(1), &[b'x'; 20]), Inserted::New);
    assert_eq!(stream.insert(Seq(0), b"x"), Inserted::New);
    assert_eq!(stream.contiguous().len(), 22);
    assert_eq!(stream.insert(Seq(9_000), b"x"), Inserted::New);
}

#[test]
fn one_byte_segments_in_reverse_need_little_work() {
    // A segment that is refused for want of room comes again, as TCP would send it.
    let mut stream = Assembler::new(Seq(0), 1 << 16);
    for at in (0..1_u32 << 16).rev() {
        stream.insert(Seq(at), &[at as u8]);
    }
    assert!(stream.held() >= MAX_PENDING);
    assert!(stream.pending.len() <= MAX_PENDING);
}

#[derive(Clone, Debug)]
struct Step {
    at: usize,
    len: usize,
    wrong: bool,
    consume: usize,
}

fn step() -> impl Strategy<Value = Step> {
    (
        0..200_usize,
        0..40_usize,
        proptest::bool::weighted(0.1),
        0..20_usize,
    )
        .prop_map(|(at, len, wrong, consume)| Step {
            at,
            len,
            wrong,
            consume,
        })
}

proptest! {
    /// The model: a byte is held or not; what is held never changes.
    #[test]
    fn behaves_as_a_map_of_bytes(start: u32, steps in proptest::collection::vec(step(), 0..80)) {
        let limit = 120;
        let start = Seq(start);
        let truth: Vec<u8> = (0..400_u16).map(|n| (n % 251) as u8).collect();
        let mut stream = Assembler::new(start, limit);
        let mut model: Vec<Option<u8>> = vec![None; 400];
        let mut consumed = 0;
        for Step { at, len, wrong, consume } in steps {
            let mut payload = truth[at..at + len].to_vec();
            if wrong {
                payload.iter_mut().for_each(|byte| *byte ^= 0x80);
            }
            let outcome = stream.insert(start.wrapping_add(at as u32), &payload);
            let visible = at.max(consumed)..(at + len).max(consumed);
            let expected = if visible.is_empty() {
                Inserted::Duplicate
            } else if visible.end > consumed + limit {
                Inserted::OutOfBounds
            } else if visible.clone().any(|n| model[n].is_some_and(|held| held != payload[n - at])) {
                Inserted::Conflict
            } else if visible.clone().all(|n| model[n].is_some()) {
                Inserted::Duplicate
            } else {
                visible.for_each(|n| model[n] = Some(payload[n - at]));
                Inserted::New
            };
            prop_assert_eq!(outcome, expected);
            let contiguous: Vec<u8> = model[consumed..].iter().map_while(|byte| *byte).collect();
            prop_assert_eq!(stream.contiguous(), &contiguous[..]);
            prop_assert_eq!(stream.held(), model[consumed..].iter().flatten().count());
            prop_assert_eq!(stream.has_gap(), model[consumed + contiguous.len()..].iter().any(Option::is_some));
            let consume = if contiguous.is_empty() { 0 } else { consume.min(contiguous.len()) };
            stream.consume(consume);
            consumed += consume;
            prop_assert_eq!(stream.start_seq(), start.wrapping_add(consumed as u32));
        }
    }

    #[test]
    fn no_sequence_of_segments_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzzing::stream_assembler(&bytes);
    }
}
