//! What must hold for any bytes, called by the fuzz targets in `fuzz/` and by the replay of their
//! corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use mctls::config::Right;
use mctls::party::ContextId;

use crate::message::Message;
use crate::record::{Incoming, Input, MAX_MESSAGE_LEN, MAX_RECORD_LEN, Record};
use crate::rehearsal::{Outcome, cast, records, run};
use crate::session::Event;

/// A function that checks the invariants of a parser or an engine on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 2] = [
    ("mctls12_prototype_messages", mctls12_prototype_messages),
    ("mctls12_prototype_session", mctls12_prototype_session),
];

/// What is read as messages, written and read again, is the same, however the bytes were cut; what
/// is held stays within its bounds.
///
/// # Panics
/// That does not hold.
pub fn mctls12_prototype_messages(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let mut incoming = Incoming::new();
    for chunk in rest.chunks(usize::from(first) + 1) {
        assert!(incoming.push(chunk).is_ok(), "drained input takes more");
        loop {
            match incoming.next() {
                Ok(Some(Input::Message(raw))) => {
                    assert!(raw.len() <= MAX_MESSAGE_LEN);
                    if let Ok(message) = Message::parse(&raw) {
                        let again = Message::parse(&message.to_bytes());
                        assert!(is_same(&message, again.as_ref().ok()), "written otherwise");
                    }
                }
                Ok(Some(Input::Protected(record))) => {
                    assert!(record.fragment.len() <= MAX_RECORD_LEN);
                }
                Ok(Some(Input::ChangeCipherSpec | Input::Alert(_))) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// A hello that cannot be answered is not written again as such.
fn is_same(message: &Message, again: Option<&Message>) -> bool {
    match message {
        Message::ClientHello(hello) if !hello.is_suitable => true,
        _ => again == Some(message),
    }
}

/// However the records of a session through a middlebox are changed on one hop, the endpoints
/// establish one and the same session, or none; and what arrives in it somebody has sent.
///
/// The first byte says on which hop; then four bytes a change: which record, how, where, with what.
///
/// # Panics
/// That does not hold.
pub fn mctls12_prototype_session(data: &[u8]) {
    const SENT: &[u8] = b"data that was sent";
    let Some((&what, changes)) = data.split_first() else {
        return;
    };
    let hop = usize::from(what & 1);
    let rights: [&[Right]; 3] = [&[Right::None], &[Right::Read], &[Right::Write]];
    let mut number: u8 = 0;
    let mut change = |record: &mut Record| {
        let mine = changes.chunks_exact(4).filter(|change| change[0] == number);
        for change in mine.take(4) {
            tamper(record, change[1], change[2], change[3]);
        }
        number = number.saturating_add(1);
    };
    let outcome = run(cast(&rights, &rights), |mut crossing| {
        if crossing.hop == hop {
            change(&mut crossing.record);
        }
        vec![crossing]
    });
    let Ok(Outcome {
        client: Some(mut client),
        boxes,
        server: Some(mut server),
    }) = outcome
    else {
        return;
    };
    assert!(client.list.contexts().len() == server.list.contexts().len());
    let Some(Some(mut middlebox)) = boxes.into_iter().next() else {
        return;
    };
    for id in (1..).take(rights.len()).map(ContextId) {
        let mut out = Vec::new();
        assert!(client.sender.seal(id, SENT, &mut out).is_ok(), "a context");
        let mut record = records(&out).remove(0);
        let mut passed = Vec::new();
        if hop == 0 {
            change(&mut record);
        }
        let Ok(passing) = middlebox.to_server.receive(record) else {
            return;
        };
        passing.forward(&mut passed);
        let mut record = records(&passed).remove(0);
        if hop == 1 {
            change(&mut record);
        }
        match server.receiver.open(&record) {
            Ok(Event::Data(delivery)) => assert_eq!(delivery.data, SENT, "nobody has sent it"),
            Ok(Event::Closed) | Err(_) => return,
        }
    }
}

/// Changes a record.
fn tamper(record: &mut Record, how: u8, at: u8, value: u8) {
    let fragment = &mut record.fragment;
    let at = usize::from(at) % fragment.len().max(1);
    match how & 7 {
        0 => fragment.insert(at, value),
        1 if !fragment.is_empty() => drop(fragment.remove(at)),
        2 => fragment.truncate(at),
        3 => record.slice = value,
        // Far behind: lengths are at the front, keys are not.
        4 => {
            let far = fragment.len().saturating_sub(at + 1);
            let byte = fragment.get_mut(far);
            byte.into_iter().for_each(|byte| *byte ^= value);
        }
        _ => {
            let byte = fragment.get_mut(at);
            byte.into_iter().for_each(|byte| *byte ^= value);
        }
    }
}
