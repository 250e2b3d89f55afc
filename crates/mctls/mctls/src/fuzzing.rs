//! What must hold for any bytes, called by the fuzz targets in `fuzz/` and by the replay of their
//! corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

mod short;

use std::collections::BTreeMap;

use crate::config::{Configuration, Context, Middlebox, PathMode, Right, Terms};
use crate::frame::{Frame, Frames, MAX_FRAME_LEN};
use crate::keys::{DirectionKeys, Holder};
use crate::message::{Decoder, Shares};
use crate::party::{ContextId, Direction, Endpoint, Position};
use crate::receiver::{Event, Provenance, Receiver};
use crate::relay::Relay;
use crate::schedule::{LegSecret, SessionSecret, all_secrets, granted_secrets};
use crate::sender::Sender;
use crate::suite::Suite;
pub use short::mctls_short;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 4] = [
    ("mctls_messages", mctls_messages),
    ("mctls_frames", mctls_frames),
    ("mctls_records", mctls_records),
    ("mctls_short", mctls_short),
];

/// What is read as messages is written again as the same bytes, however it was cut.
///
/// # Panics
/// That does not hold.
pub fn mctls_messages(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let mut decoder = Decoder::new();
    let mut again = Vec::new();
    for chunk in rest.chunks(usize::from(first) + 1) {
        if decoder.push(chunk).is_err() {
            return;
        }
        loop {
            match decoder.next() {
                Ok(Some(message)) => message.write(&mut again),
                Ok(None) => break,
                Err(_) => return,
            }
            assert!(rest.starts_with(&again), "written otherwise than read");
        }
    }
}

/// What is read as frames is written again as the same bytes, and little is held.
///
/// # Panics
/// That does not hold.
pub fn mctls_frames(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let chunk = usize::from(first) + 1;
    let mut frames = Frames::new();
    let mut again = Vec::new();
    for piece in rest.chunks(chunk) {
        assert!(frames.push(piece).is_ok(), "drained frames take more");
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    frame.write(&mut again);
                    if let Frame::Leg(leg) = frame {
                        let back = leg.passed_on().and_then(|next| next.brought_back());
                        assert!(back.is_none_or(|back| back == leg));
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
            assert!(rest.starts_with(&again), "written otherwise than read");
        }
        assert!(rest.len() - again.len() <= rest.len().max(MAX_FRAME_LEN));
    }
}

/// A record that was changed anywhere does not open, at an endpoint; any bytes are safe, at an
/// endpoint and at a middlebox.
///
/// The first byte says what is tried; the second and third what two middleboxes may do in two
/// contexts; the fourth what they do with a record, and on which hop it is changed. Then: bytes of
/// records, each behind a byte 0xff; or changes of a genuine record, three bytes each.
///
/// # Panics
/// That does not hold.
pub fn mctls_records(data: &[u8]) {
    let [what, shape, other, plan, rest @ ..] = data else {
        return;
    };
    let mut session = Fixed::new(*shape, *other);
    match what % 2 {
        0 => {
            for record in rest.split(|byte| *byte == 0xff) {
                let _ = session.receiver.open(record);
                for relay in &mut session.relays {
                    if let Ok(Some(passing)) = relay.receive(record) {
                        passing.forward(&mut Vec::new());
                    }
                }
            }
        }
        _ => session.change(*plan, rest),
    }
}

/// What the middleboxes put in place of data, in as many parts.
const REPLACEMENTS: [[&[u8]; 2]; 2] = [
    [b"by the first, ", b"twice"],
    [b"by the second, ", b"twice"],
];

/// One direction of a session with fixed keys.
struct Fixed {
    terms: Terms,
    sender: Sender,
    relays: [Relay; 2],
    receiver: Receiver,
}

/// What a middlebox does with a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Forward,
    /// Puts so many parts in its place.
    Replace(usize),
}

impl Fixed {
    fn new(shape: u8, other: u8) -> Self {
        const BOTH: [Position; 2] = match (Position::new(1), Position::new(2)) {
            (Some(one), Some(two)) => [one, two],
            _ => unreachable!(),
        };
        let rights = [Right::None, Right::Read, Right::Write];
        let right = |bits: u8| rights[usize::from(bits & 3) % rights.len()];
        let context = |id, shape: u8| Context {
            id: ContextId(id),
            purpose: String::new(),
            path: match shape & 0x10 {
                0 => PathMode::Off,
                _ => PathMode::Required,
            },
            rights: vec![right(shape), right(shape >> 2)],
        };
        let middlebox = Middlebox {
            name: "box".into(),
            certificate: [0; 32],
        };
        let contexts = vec![context(1, shape), context(2, other)];
        let terms = Terms::new([0; 32], vec![middlebox; 2], contexts);
        let terms = terms.expect("these terms are in bounds");
        let configuration = Configuration {
            suite: Suite::Aes128Gcm,
            terms: terms.clone(),
        };
        let shares = Shares::new(2, &[7; Shares::random_len(2)]);
        let shares = shares.expect("the length is what it asks for");
        let (th, sid) = ([1; 32], [2; 32]);
        let all = all_secrets(&terms, &th, &shares, &shares);
        let end = SessionSecret::new([3; 32]).end(&th);
        let keys = |secrets: &[_], holder| {
            DirectionKeys::new(&configuration, Direction::ToServer, th, secrets, holder)
        };
        let author = |position: Position| {
            let leg = LegSecret::new([3 + position.number(); 32]);
            leg.bind(&sid, Endpoint::Server, position)
                .author(Direction::ToServer, &th)
        };
        let relay = |position| {
            let granted = granted_secrets(&terms, position, &all);
            let keys = keys(&granted, Holder::Middlebox);
            Relay::new(position, terms.clone(), keys, author(position))
        };
        let authors = BTreeMap::from(BOTH.map(|position| (position, author(position))));
        let end_keys = || keys(&all, Holder::Endpoint(&end));
        Self {
            sender: Sender::new(end_keys()),
            relays: BOTH.map(relay),
            receiver: Receiver::new(terms.clone(), end_keys(), authors),
            terms,
        }
    }

    /// Sends a genuine record through the middleboxes, changes it on one hop, and sees it refused.
    fn change(&mut self, plan: u8, changes: &[u8]) {
        let mut out = Vec::new();
        let sealed = self.sender.seal(ContextId(1), b"genuine", &mut out);
        assert!(sealed.is_ok(), "the context is there");
        let mut passed = records(&out);
        let deeds = [plan, plan >> 2].map(|bits| match bits & 3 {
            2 => Deed::Replace(1),
            3 => Deed::Replace(2),
            _ => Deed::Forward,
        });
        let between = plan & 0x10 != 0;
        let mut changed = false;
        let mut done = [Deed::Forward; 2];
        for (index, deed) in deeds.into_iter().enumerate() {
            let Some(next) = self.pass(index, deed, &passed, &mut done[index]) else {
                assert!(changed, "a genuine record passes");
                return;
            };
            passed = next;
            if between == (index == 0) {
                changed = tamper(&mut passed, changes);
            }
        }
        let mut opened = Ok(None);
        for record in &passed {
            opened = self.receiver.open(record);
        }
        match opened {
            Ok(Some(Event::Data(delivery))) if !changed => {
                let context = self.terms.context(ContextId(1));
                let path = context.map_or(PathMode::Off, |context| context.path);
                assert_eq!(delivery.provenance, provenance(&done, path));
            }
            // Whoever replaces a record answers for it from there on, in its own name.
            Ok(Some(Event::Data(delivery))) => {
                assert!(between, "a changed record opened");
                let Deed::Replace(parts) = done[1] else {
                    panic!("a changed record opened");
                };
                assert_eq!(delivery.payload, REPLACEMENTS[1][..parts].concat());
            }
            Ok(Some(Event::Closed) | None) | Err(_) => assert!(changed, "a genuine record opens"),
        }
    }

    /// Takes records through a middlebox, which does as it is told as far as it may.
    fn pass(
        &mut self,
        index: usize,
        deed: Deed,
        records_in: &[Vec<u8>],
        done: &mut Deed,
    ) -> Option<Vec<Vec<u8>>> {
        let relay = &mut self.relays[index];
        let mut out = Vec::new();
        for record in records_in {
            let Some(passing) = relay.receive(record).ok()? else {
                continue;
            };
            let right = passing.terms().map(|context| context.rights[index]);
            match (deed, right) {
                (Deed::Replace(parts), Some(Right::Write)) => {
                    *done = deed;
                    let parts = &REPLACEMENTS[index][..parts];
                    assert!(passing.replace(parts, &mut out).is_ok(), "a writer writes");
                }
                (Deed::Replace(_) | Deed::Forward, _) => passing.forward(&mut out),
            }
        }
        Some(records(&out))
    }
}

/// Who is to be named for what was done.
fn provenance(done: &[Deed; 2], path: PathMode) -> Provenance {
    let deeds = (1..).zip(done);
    let changed = deeds.filter(|(_, deed)| matches!(deed, Deed::Replace(_)));
    let mut by: Vec<_> = changed.filter_map(|(at, _)| Position::new(at)).collect();
    if let (PathMode::Off, Some(last)) = (path, by.last().copied()) {
        by = vec![last];
    }
    match by.is_empty() {
        true => Provenance::Original,
        false => Provenance::ChangedBy(by),
    }
}

/// Changes records: three bytes say how, where and with what. Whether they are others then.
fn tamper(records: &mut [Vec<u8>], changes: &[u8]) -> bool {
    let genuine = records.to_vec();
    for change in changes.chunks_exact(3) {
        let [how, at, value] = [change[0], change[1], change[2]];
        let count = records.len().max(1);
        let Some(record) = records.get_mut(usize::from(how >> 3) % count) else {
            return false;
        };
        let at = usize::from(at) % record.len().max(1);
        match how & 7 {
            0 => record.insert(at, value),
            1 if !record.is_empty() => drop(record.remove(at)),
            // A tag or a digest that stands elsewhere in it.
            2 | 3 => {
                let length = if how & 1 == 0 { 16 } else { 32 };
                let from = usize::from(value) % record.len().max(1);
                let copied: Vec<u8> = record.iter().skip(from).take(length).copied().collect();
                drop(record.splice(at..at, copied));
            }
            4 => {
                let end = (at + usize::from(value)).min(record.len());
                drop(record.drain(at..end));
            }
            _ => record
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= value),
        }
    }
    genuine != records
}

/// The records in a stream of frames.
fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut frames = Frames::new();
    for piece in bytes.chunks(MAX_FRAME_LEN) {
        assert!(frames.push(piece).is_ok(), "drained frames take more");
        while let Ok(Some(Frame::Record(record))) = frames.next() {
            records.push(record.to_vec());
        }
    }
    records
}
