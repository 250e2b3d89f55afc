//! What must hold for the hop between two paired middleboxes.

use std::sync::Arc;

use super::records;
use crate::config::{Configuration, Context, Middlebox, PathMode, Right, Terms};
use crate::frame::{Frame, Frames, MAX_FRAME_LEN};
use crate::keys::{DirectionKeys, Holder};
use crate::message::Shares;
use crate::middlebox::Joined;
use crate::party::{ContextId, Direction, Endpoint, Position};
use crate::relay::Relay;
use crate::schedule::{LegSecret, SessionSecret, all_secrets, granted_secrets};
use crate::sender::Sender;
use crate::short::{History, Hop, Pair};
use crate::suite::Suite;

const NAMES: [&str; 2] = ["near", "far"];
const CONTEXT: ContextId = ContextId(1);

/// So little that what is held has to go.
const CAPACITY: usize = 1 << 17;

/// What a paired middlebox makes of any bytes is safe and bounded; what its pair shortens is
/// restored to the very record, over several sessions.
///
/// The first byte says what is tried. 0: bytes from anybody, in place of a beginning and of short
/// records, each behind a byte 0xff. 1: steps of a pair that lies. 2: data in sessions, four bytes
/// each: whether a session ends before it, what it is made of, how long it is, and what is changed
/// on the hop.
///
/// # Panics
/// That does not hold.
pub fn mctls_short(data: &[u8]) {
    let Some((what, rest)) = data.split_first() else {
        return;
    };
    let mut both = Both::new();
    let mut session = Session::new(&mut both, 1);
    match what % 3 {
        0 => {
            for (at, body) in rest.split(|byte| *byte == 0xff).enumerate() {
                if at == 0 {
                    let heard = session.hops[1].hear(body, &mut both.histories[1]);
                    assert!(heard.is_err(), "somebody else was heard");
                    session.greet(&mut both);
                }
                let restored = session.restore(&mut both, body);
                assert!(restored.is_err(), "somebody else's record was restored");
            }
        }
        1 => {
            session.greet(&mut both);
            session.hops[1].follow(rest, &mut both.histories[1]);
        }
        _ => {
            session.greet(&mut both);
            let mut number = 1;
            for step in rest.chunks_exact(4).take(64) {
                if step[0] & 1 == 1 {
                    session.close(&mut both);
                    number += 1;
                    session = Session::new(&mut both, number);
                    session.greet(&mut both);
                }
                if !session.carry(&mut both, step) {
                    break;
                }
            }
        }
    }
    session.close(&mut both);
    both.check();
}

/// What two middleboxes hold.
struct Both {
    pairs: [Arc<Pair>; 2],
    histories: [History; 2],
}

impl Both {
    fn new() -> Self {
        let pair = |at: usize| Pair::new(NAMES[1 - at].into(), [5; 32], vec![String::new()]);
        Self {
            pairs: [Arc::new(pair(0)), Arc::new(pair(1))],
            histories: [CAPACITY, CAPACITY * 2].map(History::new),
        }
    }

    fn check(&self) {
        for (history, factor) in self.histories.iter().zip([1, 2]) {
            assert!(history.taken() <= CAPACITY * factor, "memory is bounded");
        }
    }
}

/// A session through both.
struct Session {
    sender: Sender,
    boxes: [Joined; 2],
    hops: [Hop; 2],
}

impl Session {
    fn new(both: &mut Both, number: u8) -> Self {
        let middlebox = |at: usize| Middlebox {
            name: NAMES[at].into(),
            certificate: [0; 32],
        };
        let context = Context {
            id: CONTEXT,
            purpose: String::new(),
            path: PathMode::Off,
            rights: vec![Right::Read; 2],
        };
        let terms = Terms::new([0; 32], vec![middlebox(0), middlebox(1)], vec![context]);
        let terms = terms.expect("these terms are in bounds");
        let configuration = Configuration {
            suite: Suite::Aes128Gcm,
            terms: terms.clone(),
        };
        let shares = Shares::new(1, &[7; Shares::random_len(1)]);
        let shares = shares.expect("the length is what it asks for");
        let (th, sid) = ([number; 32], [2; 32]);
        let all = all_secrets(&terms, &th, &shares, &shares);
        let end = SessionSecret::new([3; 32]).end(&th);
        let keys = |direction, secrets: &[_], holder| {
            DirectionKeys::new(&configuration, direction, th, secrets, holder)
        };
        let joined = |position| {
            let relay = |direction: Direction| {
                let granted = granted_secrets(&terms, position, &all);
                let author = LegSecret::new([4; 32])
                    .bind(&sid, Endpoint::Server, position)
                    .author(direction, &th);
                let keys = keys(direction, &granted, Holder::Middlebox);
                Relay::new(position, terms.clone(), keys, author)
            };
            Joined {
                configuration: configuration.clone(),
                position,
                to_server: relay(Direction::ToServer),
                to_client: relay(Direction::ToClient),
            }
        };
        let mut positions = Position::all(2);
        let boxes = [0, 1].map(|_| joined(positions.next().expect("there are two")));
        let mut hop = |at: usize| {
            let hop = Hop::new(&boxes[at], &both.pairs[at], &mut both.histories[at]);
            hop.expect("they are neighbours")
        };
        let hops = [hop(0), hop(1)];
        let end_keys = keys(Direction::ToServer, &all, Holder::Endpoint(&end));
        Self {
            sender: Sender::new(end_keys),
            boxes,
            hops,
        }
    }

    fn greet(&mut self, both: &mut Both) {
        for at in [0, 1] {
            let mut out = Vec::new();
            self.hops[at].greet(&mut out);
            let mut frames = Frames::new();
            assert!(frames.push(&out).is_ok(), "one frame");
            let Ok(Some(Frame::Holds(body))) = frames.next() else {
                panic!("a beginning");
            };
            let heard = self.hops[1 - at].hear(body, &mut both.histories[1 - at]);
            assert!(heard.is_ok(), "the pair is heard");
        }
    }

    fn restore(&mut self, both: &mut Both, body: &[u8]) -> Result<Vec<u8>, crate::Error> {
        let relay = &mut self.boxes[1].to_server;
        self.hops[1].restore(relay, body, &mut both.histories[1])
    }

    /// Whether the session goes on.
    fn carry(&mut self, both: &mut Both, step: &[u8]) -> bool {
        let [_, content, length, change] = step else {
            return false;
        };
        let payload = payload(*content, usize::from(*length) * 64);
        let mut sealed = Vec::new();
        let done = self.sender.seal(CONTEXT, &payload, &mut sealed);
        assert!(done.is_ok(), "the context is there");
        let record = records(&sealed).remove(0);
        let relay = &mut self.boxes[0].to_server;
        let Ok(Some(passing)) = relay.receive(&record) else {
            panic!("a genuine record passes");
        };
        let mut out = Vec::new();
        let shortened = passing.shorten(&mut self.hops[0], &mut both.histories[0], &mut out);
        assert!(shortened.is_ok() && out.len() <= MAX_FRAME_LEN);
        let mut frames = Frames::new();
        assert!(frames.push(&out).is_ok(), "one frame");
        let restored = match frames.next() {
            Ok(Some(Frame::Record(same))) => same.to_vec(),
            Ok(Some(Frame::Short(body))) => {
                if *change > 0 {
                    let mut changed = body.to_vec();
                    let at = usize::from(*change) * 31 % changed.len().max(1);
                    changed[at] ^= *change;
                    assert!(self.restore(both, &changed).is_err(), "a change was taken");
                }
                let restored = self.restore(both, body);
                restored.expect("what the pair shortens is restored")
            }
            _ => panic!("a record"),
        };
        assert_eq!(restored, record, "another record");
        both.check();
        let passed = self.boxes[1].to_server.receive(&restored);
        passed.is_ok_and(|passing| passing.is_some())
    }

    fn close(self, both: &mut Both) {
        for (hop, history) in self.hops.into_iter().zip(&mut both.histories) {
            hop.close(history);
        }
    }
}

/// Data that begins and repeats itself in ways that the content's number chooses.
fn payload(content: u8, length: usize) -> Vec<u8> {
    let mut state = u64::from(content & 0x0f) + 1;
    let byte = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    };
    let skip = usize::from(content >> 4) * 97;
    std::iter::repeat_with(byte)
        .skip(skip)
        .take(length)
        .collect()
}
