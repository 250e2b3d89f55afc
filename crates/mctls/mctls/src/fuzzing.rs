//! What must hold for any bytes, called by the fuzz targets in `fuzz/` and by the replay of their
//! corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use std::collections::BTreeMap;

use crate::config::{Configuration, Context, Middlebox, PathMode, Right, Terms};
use crate::frame::{Frame, Frames, MAX_FRAME_LEN};
use crate::keys::{DirectionKeys, Holder};
use crate::message::{Decoder, Shares};
use crate::party::{ContextId, Direction, Endpoint, Position};
use crate::receiver::Receiver;
use crate::relay::Relay;
use crate::schedule::{LegSecret, SessionSecret, all_secrets, granted_secrets};
use crate::sender::Sender;
use crate::suite::Suite;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 3] = [
    ("mctls_messages", mctls_messages),
    ("mctls_frames", mctls_frames),
    ("mctls_records", mctls_records),
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
/// The first byte says what is tried, the second the shape of the session. Then: bytes of records,
/// each behind its length; or pairs of an offset and a value, by which a genuine record is changed.
///
/// # Panics
/// That does not hold.
pub fn mctls_records(data: &[u8]) {
    let [what, shape, rest @ ..] = data else {
        return;
    };
    let mut session = Fixed::new(*shape);
    match what % 2 {
        0 => {
            for record in rest.split(|byte| *byte == 0xff) {
                let _ = session.receiver.open(record);
                if let Ok(Some(passing)) = session.relay.receive(record) {
                    passing.forward(&mut Vec::new());
                }
            }
        }
        _ => session.change(rest),
    }
}

/// One direction of a session with fixed keys.
struct Fixed {
    sender: Sender,
    relay: Relay,
    receiver: Receiver,
}

impl Fixed {
    fn new(shape: u8) -> Self {
        const ONLY: Position = match Position::new(1) {
            Some(position) => position,
            None => unreachable!(),
        };
        let rights = [Right::None, Right::Read, Right::Write];
        let context = |id, shape: u8| Context {
            id: ContextId(id),
            purpose: String::new(),
            path: match shape & 4 {
                0 => PathMode::Off,
                _ => PathMode::Required,
            },
            rights: vec![rights[usize::from(shape & 3) % rights.len()]],
        };
        let middlebox = Middlebox {
            name: "box".into(),
            certificate: [0; 32],
        };
        let contexts = vec![context(1, shape), context(2, shape >> 3)];
        let terms = Terms::new([0; 32], vec![middlebox], contexts);
        let configuration = Configuration {
            suite: Suite::Aes128Gcm,
            terms: terms.expect("these terms are in bounds"),
        };
        let shares = Shares::new(2, &[7; Shares::random_len(2)]);
        let shares = shares.expect("the length is what it asks for");
        let (th, sid) = ([1; 32], [2; 32]);
        let all = all_secrets(&configuration.terms, &th, &shares, &shares);
        let granted = granted_secrets(&configuration.terms, ONLY, &all);
        let end = SessionSecret::new([3; 32]).end(&th);
        let leg = LegSecret::new([4; 32]).bind(&sid, &configuration, Endpoint::Server, ONLY);
        let author = leg.author(Direction::ToServer, &th);
        let keys = |secrets: &[_], holder| {
            DirectionKeys::new(&configuration, Direction::ToServer, th, secrets, holder)
        };
        let authors = BTreeMap::from([(ONLY, author.clone())]);
        let terms = configuration.terms.clone();
        Self {
            sender: Sender::new(keys(&all, Holder::Endpoint(&end))),
            relay: Relay::new(
                ONLY,
                terms.clone(),
                keys(&granted, Holder::Middlebox),
                author,
            ),
            receiver: Receiver::new(terms, keys(&all, Holder::Endpoint(&end)), authors),
        }
    }

    /// Sends a genuine record through the middlebox, changes it, and sees it refused.
    fn change(&mut self, changes: &[u8]) {
        let mut out = Vec::new();
        let sealed = self.sender.seal(ContextId(1), b"genuine", &mut out);
        assert!(sealed.is_ok(), "the context is there");
        let passed = self.relay.receive(&record(&out));
        let Ok(Some(passing)) = passed else {
            panic!("a genuine record passes");
        };
        out.clear();
        passing.forward(&mut out);
        let genuine = record(&out);
        let mut changed = genuine.clone();
        for change in changes.chunks_exact(2) {
            let at = usize::from(change[0]) % changed.len();
            changed[at] ^= change[1];
        }
        let opened = self.receiver.open(&changed);
        assert_eq!(
            opened.is_ok(),
            changed == genuine,
            "a changed record opened"
        );
    }
}

/// The record in one frame.
fn record(bytes: &[u8]) -> Vec<u8> {
    bytes
        .get(crate::frame::HEADER_LEN..)
        .unwrap_or_default()
        .to_vec()
}
