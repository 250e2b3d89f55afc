//! What must hold for any input of this crate: one function for each parser and engine, called by
//! the fuzz targets in `fuzz/` and by the replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use std::ops::Range;
use std::sync::Arc;

use crate::clear::ClearWriter;
use crate::cut::{Cut, Cutter, End, Extent, NamedBy, PIECE_LEN};
use crate::error::Error;
use crate::message::{
    Channel, Decoder, Encodings, Greeting, MAX_MESSAGE_LEN, Message, PROTOCOL_VERSION, Read, Side,
};
use crate::object::{CHUNK_LEN, List};
use crate::open::Opener;
use crate::payload::Payload;
use crate::splice::{Limits, Splicer};
use crate::suite::{RecordType, Suite};
use crate::want::Want;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 6] = [
    ("split_message", split_message),
    ("split_decoder", split_decoder),
    ("split_splicer", split_splicer),
    ("split_clear", split_clear),
    ("split_open", split_open),
    ("split_cut", split_cut),
];

/// The front of a stream: a message written again is the same bytes, and every cut of it says so.
pub fn split_message(data: &[u8]) {
    let (message, length) = match Message::read(data) {
        Ok(Read::Whole(message, length)) => (message, length),
        Ok(Read::Cut { length }) => {
            assert!(length.is_none_or(|length| length > data.len() && length <= MAX_MESSAGE_LEN));
            return;
        }
        Err(error) => {
            // What is no message does not become one by growing.
            assert_eq!(Message::read(&[data, &[0; 9]].concat()), Err(error));
            return;
        }
    };
    assert!(length <= data.len() && length <= MAX_MESSAGE_LEN);
    let is_later =
        matches!(message, Message::Greeting(greeting) if greeting.version > PROTOCOL_VERSION);
    let mut again = Vec::new();
    message.write(&mut again);
    if !is_later {
        assert_eq!(again, data[..length]);
    }
    assert_eq!(Message::read(&again), Ok(Read::Whole(message, again.len())));
    for cut in 0..length {
        match Message::read(&data[..cut]) {
            Ok(Read::Cut { length: said }) => assert!(said.is_none_or(|said| said == length)),
            other => panic!("cut at {cut} it is {other:?}"),
        }
    }
}

/// A stream: the first byte says who writes; however it is cut, the same messages come, and the
/// same error.
pub fn split_decoder(data: &[u8]) {
    let Some((&first, stream)) = data.split_first() else {
        return;
    };
    let side = match first % 3 {
        0 => Side::Client,
        1 => Side::Volunteer,
        _ => Side::Origin,
    };
    let whole = decoded(side, stream, stream.len().max(1));
    for cut in [1, 7, usize::from(first) + 1] {
        assert_eq!(decoded(side, stream, cut), whole);
    }
}

/// The messages of a stream that comes in pieces of `cut` bytes, written again, and how it ended.
fn decoded(side: Side, stream: &[u8], cut: usize) -> (Vec<u8>, Result<(), Error>) {
    let mut decoder = Decoder::new(side);
    let mut messages = Vec::new();
    for mut piece in stream.chunks(cut) {
        while !piece.is_empty() {
            let taken = decoder.push(piece);
            piece = &piece[taken..];
            loop {
                match decoder.next_message() {
                    Ok(Some(message)) => message.write(&mut messages),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(decoder.next_message(), Err(error));
                        return (messages, Err(error));
                    }
                }
            }
        }
    }
    (messages, Ok(()))
}

/// What an origin may write behind its greeting: memory stays bounded, every want is answered or
/// lost, no order of calls breaks anything.
pub fn split_splicer(data: &[u8]) {
    let limits = Limits {
        queue_bytes: 4_096,
        payloads_ahead: 3,
    };
    let all = Encodings::DEFAULT.and(Encodings::SHA1);
    let mut splicer = Splicer::new(all, limits);
    let mut stream = Vec::new();
    Greeting::new(Channel::Connection, all).write(&mut stream);
    stream.extend_from_slice(data);
    let object = [0x6f; 20_000];
    let list = Arc::new(List::of(&object).expect("short"));
    let (mut at, mut out, mut calls) = (0, Vec::new(), 0);
    // What was wanted only while records were written: new keys leave no bytes, and may make room
    // for a record that wants something.
    let mut wanted = None;
    loop {
        let before = (at, out.len());
        calls += 1;
        assert!(calls <= 4 * stream.len() + 64);
        at += splicer
            .push(&stream[at..stream.len().min(at + 61)])
            .unwrap_or(0);
        while let Some(want) = wanted.take().or_else(|| splicer.poll_want()) {
            // Of what may be wanted, this volunteer has one object and the empty payload.
            match want {
                Want::Payload(name) => {
                    let known = [&object[..0], &object[..16_384], &object[16_384..]];
                    match known.into_iter().find(|bytes| name.names(bytes)) {
                        Some(bytes) => {
                            let payload = Payload::check(name, bytes).expect("it names them");
                            assert!(splicer.give(&payload));
                        }
                        None => splicer.missing(want),
                    }
                }
                Want::List { object, .. } if object == list.name() => {
                    assert!(splicer.give_list(&list));
                }
                Want::List { .. } => splicer.missing(want),
            }
        }
        let until = out.len() + 1_000;
        let written = splicer.write_records(&mut out, until, || [0x49; 16]);
        assert!(out.len() < until + 2 * MAX_MESSAGE_LEN);
        if let Err(error) = written {
            let again = splicer.write_records(&mut out, usize::MAX, || [0x49; 16]);
            assert_eq!(again, Err(error));
            assert!(splicer.push(&stream[at..]).is_err() && !splicer.has_room());
            return;
        }
        wanted = splicer.poll_want();
        if before == (at, out.len()) && wanted.is_none() {
            assert!(at == stream.len(), "it takes no more and writes no more");
            return;
        }
    }
}

/// What a server writes in clear: the messages hold the same handshake, and a splicer makes records
/// of the same content of them.
pub fn split_clear(data: &[u8]) {
    let mut whole = Vec::new();
    let at_once = ClearWriter::new(Encodings::DEFAULT).push(&mut whole, data);
    let mut pieces = Vec::new();
    let mut writer = ClearWriter::new(Encodings::DEFAULT);
    let mut published = Vec::new();
    for piece in data.chunks(5) {
        match writer.push(&mut pieces, piece) {
            Ok(written) => {
                published.extend(written.published);
                if written.changed_cipher_spec {
                    break;
                }
            }
            Err(error) => {
                assert_eq!(at_once, Err(error));
                return;
            }
        }
    }
    let Ok(at_once) = at_once else {
        panic!("it fails at once only");
    };
    assert_eq!((&pieces, &published), (&whole, &at_once.published));
    let mut content = Vec::new();
    let mut rest = whole.as_slice();
    while !rest.is_empty() {
        let Ok(Read::Whole(message, length)) = Message::read(rest) else {
            panic!("no message");
        };
        match message {
            Message::Verbatim(record) => {
                content.push((record.record_type(), record.fragment().to_vec()));
            }
            Message::Stub(stub) => {
                let payload = published.remove(0);
                assert_eq!(stub.id(), crate::message::Id::Named(payload.name()));
                content.push((stub.record_type(), payload.bytes().to_vec()));
            }
            Message::KeyExpose(_)
            | Message::Greeting(_)
            | Message::Miss(_)
            | Message::Found(_)
            | Message::ListPart(_)
            | Message::Absent(_)
            | Message::Progress(_) => panic!("not in clear"),
        }
        rest = &rest[length..];
    }
    let mut came = Vec::new();
    let mut rest = &data[..at_once.taken];
    while let Ok(Read::Whole(Message::Verbatim(record), length)) = Message::read(rest) {
        came.push((record.record_type(), record.fragment().to_vec()));
        rest = &rest[length..];
    }
    let (left, came) = (joined(content), joined(came));
    // Handshake bytes that wait for the end of their message have not left yet.
    assert!(came.len() - left.len() <= 1);
    for ((left_type, left), (came_type, came)) in left.iter().zip(&came) {
        assert!(left_type == came_type && came.starts_with(left));
    }
}

/// Handshake records that follow on each other, as one; others, and what is empty, as they are.
fn joined(records: Vec<(RecordType, Vec<u8>)>) -> Vec<(RecordType, Vec<u8>)> {
    let mut all: Vec<(RecordType, Vec<u8>)> = Vec::new();
    for (record_type, bytes) in records {
        match all.last_mut() {
            Some((RecordType::Handshake, open)) if record_type == RecordType::Handshake => {
                open.extend(bytes);
            }
            _ if bytes.is_empty() && record_type == RecordType::Handshake => {}
            _ => all.push((record_type, bytes)),
        }
    }
    all
}

/// A client's record: the first byte says the suite; nothing opens without the key.
pub fn split_open(data: &[u8]) {
    let Some((&first, fragment)) = data.split_first() else {
        return;
    };
    let suite = Suite::ALL[usize::from(first) % Suite::ALL.len()];
    let (mac_key, key) = (vec![1; suite.mac_len()], vec![2; suite.key_len()]);
    let mut opener = Opener::tls12(suite, &mac_key, &key, 0)
        .or_else(|_| Opener::tls13(suite, &mac_key, &mac_key, 0))
        .expect("keys of the suite");
    let mut fragment = fragment.to_vec();
    let opened = opener.open(RecordType::ApplicationData, &mut fragment);
    assert!(
        opened.is_err()
            && opener
                .open(RecordType::ApplicationData, &mut fragment)
                .is_err()
    );
}

/// Where a body is cut: the first byte says whether it ends where its file does, eight bytes say
/// where it begins, and each three bytes how many more bytes of it come; none are a pause. All of
/// it goes out once and in order, and what is whole of a piece of the file is named as that piece.
pub fn split_cut(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let Some((begin, rest)) = rest.split_first_chunk::<8>() else {
        return;
    };
    let extent = Extent {
        first: u64::from_be_bytes(*begin),
        end: if first.is_multiple_of(2) {
            End::OfFile
        } else {
            End::Elsewhere
        },
    };
    let (steps, _) = rest.as_chunks::<3>();
    let arrivals: Vec<usize> = steps
        .iter()
        .map(|&[high, middle, low]| u32::from_be_bytes([0, high, middle, low]) as usize)
        .collect();
    let cuts = cut_up(extent, &arrivals);
    let len = arrivals.iter().sum();
    check_cuts(extent, len, &cuts);
    if !arrivals.contains(&0) {
        assert_eq!(cuts, cut_up(extent, &[len]), "cut by how it came");
    }
}

/// A cut, by where in the file it is.
#[derive(Debug, PartialEq, Eq)]
struct Placed {
    at: Range<u128>,
    named_by: NamedBy,
    /// Whether it is one before its time, for a pause.
    is_early: bool,
}

/// How a body is cut that comes so many bytes at a time.
fn cut_up(extent: Extent, arrivals: &[usize]) -> Vec<Placed> {
    let mut cutter = Cutter::new(extent);
    let (mut waiting, mut gone, mut cuts) = (0, u128::from(extent.first), Vec::new());
    let mut place = |cut: Cut, waiting: &mut usize, is_early| {
        assert!(cut.len > 0 && cut.len <= PIECE_LEN && cut.len <= *waiting);
        *waiting -= cut.len;
        let at = gone..gone + cut.len as u128;
        gone = at.end;
        cuts.push(Placed {
            at,
            named_by: cut.named_by,
            is_early,
        });
    };
    for &arrived in arrivals {
        waiting += arrived;
        while let Some(cut) = cutter.cut(waiting) {
            place(cut, &mut waiting, false);
        }
        assert!(waiting < PIECE_LEN, "more waits than a piece");
        if arrived == 0 {
            let nothing_waits = waiting == 0;
            let cut = cutter.cut_early(waiting);
            assert_eq!(cut.is_none(), nothing_waits);
            if let Some(cut) = cut {
                place(cut, &mut waiting, true);
            }
        }
    }
    if let Some(cut) = cutter.cut_rest(waiting) {
        place(cut, &mut waiting, false);
    }
    assert_eq!(waiting, 0, "some of it stays");
    cuts
}

/// Holds that the cuts of a body of `len` bytes are what [`crate::cut`] says.
fn check_cuts(extent: Extent, len: usize, cuts: &[Placed]) {
    let (piece_len, chunk_len) = (PIECE_LEN as u128, CHUNK_LEN as u128);
    let begin = u128::from(extent.first);
    let body = begin..begin + len as u128;
    let mut gone = body.start;
    for (number, cut) in cuts.iter().enumerate() {
        let Range { start, end } = cut.at;
        assert_eq!(start, gone, "not in order");
        gone = end;
        let is_last = number + 1 == cuts.len();
        // Behind a cut that is no chunk's end nothing is cut but the rest of that chunk.
        assert!(start % chunk_len == 0 || end - start <= chunk_len - start % chunk_len);
        let may_end_anywhere = if cut.is_early {
            end - start < chunk_len
        } else {
            is_last
        };
        assert!(end % chunk_len == 0 || may_end_anywhere);
        let ends_piece = end % piece_len == 0 || (is_last && extent.end == End::OfFile);
        let is_piece = start % piece_len == 0 && ends_piece && !cut.is_early;
        assert_eq!(cut.named_by == NamedBy::Object, is_piece, "{cut:?}");
    }
    assert_eq!(gone, body.end, "not all of it");

    // Every piece that is whole in the body, and in which nobody paused, is one object.
    let early: Vec<&Range<u128>> = cuts
        .iter()
        .filter(|cut| cut.is_early)
        .map(|cut| &cut.at)
        .collect();
    let mut objects = cuts
        .iter()
        .filter(|cut| cut.named_by == NamedBy::Object)
        .map(|cut| cut.at.clone());
    let mut start = body.start.next_multiple_of(piece_len);
    while start < body.end {
        let piece = start..body.end.min(start + piece_len);
        start = piece.end;
        let is_whole = piece.end % piece_len == 0 || extent.end == End::OfFile;
        let is_paused_in = early
            .iter()
            .any(|early| early.start < piece.end && piece.start < early.end);
        if is_whole && !is_paused_in {
            assert_eq!(objects.next(), Some(piece));
        }
    }
    assert_eq!(objects.next(), None);
}
