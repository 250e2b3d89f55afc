//! What must hold for any bytes, called by the fuzz targets in `fuzz/` and by the replay of their
//! corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use std::sync::Arc;

use mctls::config::Right;
use mctls::party::ContextId;

use crate::auth::{Identity, Party, Refusal, Scheme, Sign, Verify};
use crate::endpoint::{Client, Decision, Server};
use crate::error::Misuse;
use crate::exchange::Entropy;
use crate::list::{Context, MiddleboxList, Place};
use crate::message::{Message, Mode};
use crate::middlebox::{Middlebox, Own};
use crate::receiver::Event;
use crate::record::{Incoming, Input, MAX_MESSAGE_LEN, MAX_RECORD_LEN, Record};
use crate::rehearsal::{Cast, Outcome, records, run};

/// A function that checks the invariants of a parser or an engine on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 3] = [
    ("mctls12_messages", mctls12_messages),
    ("mctls12_handshake", mctls12_handshake),
    ("mctls12_records", mctls12_records),
];

/// What is read as messages, written and read again, is the same, however the bytes were cut; what
/// is held stays within its bounds.
///
/// # Panics
/// That does not hold.
pub fn mctls12_messages(data: &[u8]) {
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
                        assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
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

/// Signs nothing.
struct Nothing;

impl Sign for Nothing {
    fn scheme(&self) -> Scheme {
        Scheme::Ecdsa
    }

    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, Misuse> {
        Ok(vec![0; 4])
    }
}

/// Believes everybody.
#[derive(Clone, Copy, Debug)]
pub struct Anybody;

impl Verify for Anybody {
    fn verify(
        &self,
        _: Party<'_>,
        _: &[Vec<u8>],
        _: Scheme,
        _: &[u8],
        _: &[u8],
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A handshake through one middlebox, with fixed keys and without signatures.
fn cast(mode: Mode) -> (Cast, impl Fn(&MiddleboxList) -> Decision) {
    let place = |name: &str| Place {
        name: name.into(),
        address: "a:1".into(),
    };
    let context = |id, right| Context {
        id: ContextId(id),
        purpose: String::new(),
        rights: vec![right],
    };
    let contexts = vec![
        context(1, Right::None),
        context(2, Right::Read),
        context(3, Right::Write),
    ];
    let list = MiddleboxList::new(place("s"), vec![place("m")], contexts);
    let list = list.expect("this list is in bounds");
    let identity = || Identity {
        chain: vec![vec![1]],
        key: Arc::new(Nothing),
    };
    let entropy = |seed| Entropy::new(&[seed; Entropy::LEN]);
    let mut opening = Vec::new();
    let verify = Arc::new(Anybody);
    let client = Client::start(list, verify.clone(), entropy(1), &mut opening);
    let middlebox = Middlebox::start(Own {
        is_named: Arc::new(|name| name == "m"),
        identity: identity(),
        entropy: entropy(2),
    });
    let server = Server::start(identity(), verify, entropy(3));
    let cast = Cast {
        client: client.expect("a good key"),
        opening,
        boxes: vec![middlebox.expect("a good key")],
        server: server.expect("a good key"),
    };
    let decide = move |list: &MiddleboxList| Decision {
        mode,
        rights: list.rights(),
    };
    (cast, decide)
}

/// However the records of a handshake are changed, the endpoints establish one and the same
/// session, or none, even where no signature is verified.
///
/// The first byte says how the server decides and on which hop something happens. Then four bytes
/// a change: which record, how, where, with what.
///
/// # Panics
/// That does not hold.
pub fn mctls12_handshake(data: &[u8]) {
    let Some((&what, changes)) = data.split_first() else {
        return;
    };
    let mode = match what & 1 {
        0 => Mode::Contributory,
        _ => Mode::ClientDistributes,
    };
    let hop = usize::from(what >> 1 & 1);
    let (cast, decide) = cast(mode);
    let mut number: u8 = 0;
    let outcome = run(cast, decide, |crossing| {
        if crossing.hop != hop {
            return vec![crossing];
        }
        let mut all = vec![crossing];
        let mine = changes.chunks_exact(4).filter(|change| change[0] == number);
        for change in mine.take(4) {
            let [_, how, at, value] = *change else {
                continue;
            };
            for crossing in &mut all {
                tamper(&mut crossing.record, how, at, value);
            }
            if how & 0xc0 == 0xc0 {
                all.extend(all.first().cloned());
            }
        }
        number = number.saturating_add(1);
        all
    });
    if let Ok(Outcome {
        client: Some(client),
        server: Some(server),
        ..
    }) = outcome
    {
        assert_eq!(client.list, server.list);
        assert_eq!(client.suite, server.suite);
        assert_eq!(client.mode, server.mode);
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
        3 => record.context = ContextId(value),
        // Far behind: lengths are at the front, keys are not.
        4 => {
            let far = fragment.len().saturating_sub(at + 1);
            fragment
                .iter_mut()
                .skip(far)
                .take(1)
                .for_each(|byte| *byte ^= value);
        }
        _ => fragment
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte ^= value),
    }
}

/// Data that arrives as the other endpoint's own is the other endpoint's own, whatever was done to
/// the records on the way.
///
/// The first byte says on which hop; then three bytes a change, of one of three records.
///
/// # Panics
/// That does not hold.
pub fn mctls12_records(data: &[u8]) {
    let Some((&what, changes)) = data.split_first() else {
        return;
    };
    let (cast, decide) = cast(Mode::Contributory);
    let Ok(outcome) = run(cast, decide, |crossing| vec![crossing]) else {
        panic!("nobody disturbs it");
    };
    let [Some(mut client), Some(mut server)] = [outcome.client, outcome.server] else {
        panic!("nobody disturbs it");
    };
    let middlebox = outcome.boxes.into_iter().flatten().next();
    let Some(mut middlebox) = middlebox else {
        panic!("nobody disturbs it");
    };
    let genuine: [&[u8]; 3] = [b"first", b"second", b"third"];
    let mut out = Vec::new();
    for (context, data) in (1..).zip(genuine) {
        let sent = client.sender.seal(ContextId(context), data, &mut out);
        assert!(sent.is_ok(), "the context is there");
    }
    let mut sent = records(&out);
    if what & 1 == 0 {
        change_all(&mut sent, changes);
    }
    let mut passed = Vec::new();
    for record in sent {
        let Ok(passing) = middlebox.to_server.receive(record) else {
            return;
        };
        match (what & 2, passing.context()) {
            (2, ContextId(3)) => drop(passing.replace(b"other", &mut passed)),
            _ => passing.forward(&mut passed),
        }
    }
    let mut arrived = records(&passed);
    if what & 1 == 1 {
        change_all(&mut arrived, changes);
    }
    let mut due = (1..).zip(genuine);
    for record in arrived {
        let Ok(Event::Data(delivery)) = server.receiver.open(&record) else {
            return;
        };
        let Some((context, data)) = due.next() else {
            panic!("more arrives than was sent");
        };
        let is_original = delivery.provenance == crate::receiver::Provenance::Original;
        let is_same = (delivery.context, delivery.data.as_slice()) == (ContextId(context), data);
        let is_others = what & 2 == 2 && delivery.data == b"other";
        assert!(
            is_same || is_others && !is_original,
            "data that nobody sent"
        );
    }
}

fn change_all(records: &mut Vec<Record>, changes: &[u8]) {
    for change in changes.chunks_exact(3).take(16) {
        let [how, at, value] = *change else { continue };
        let count = records.len();
        let index = usize::from(how >> 5) % count.max(1);
        match how >> 3 & 3 {
            1 if count > 0 => drop(records.remove(index)),
            2 if count > 0 => records.swap(index, usize::from(at) % count),
            3 => records.extend(records.get(index).cloned()),
            _ => {
                if let Some(record) = records.get_mut(index) {
                    tamper(record, how, at, value);
                }
            }
        }
    }
}
