//! Records through a pair of middleboxes: what comes out, what crosses, what is held, and each
//! attack on the hop with the check that catches it.

use std::sync::Arc;

use super::history::{Own, print_of};
use super::seal::seal_holds;
use super::steps::{Copy, Step};
use super::{History, Hop, MAX_LISTED, Pair, VERSION};
use crate::config::{PathMode, Right};
use crate::error::{Breach, Check, Error, Malformed};
use crate::frame::{Frame, Frames, MAX_FRAME_LEN};
use crate::hostile::Forgery;
use crate::party::{Author, ContextId, Direction};
use crate::receiver::{Event, Provenance};
use crate::record::{HEADER_LEN, Header, MAX_PAYLOAD_LEN, Place};
use crate::suite::Suite;
use crate::testing::{CONTEXT, OTHER, Session, Setup, establish, noise, records};

use Right::{None as No, Read, Write};

const KEY: [u8; 32] = [0x77; 32];
const ROOM: usize = 16 << 20;

fn pair_with(name: &str, key: [u8; 32]) -> Arc<Pair> {
    let purposes = vec!["purpose 1".to_owned()];
    Arc::new(Pair::new(name.into(), key, purposes))
}

/// What two paired middleboxes hold over their sessions.
struct Both {
    pairs: [Arc<Pair>; 2],
    histories: [History; 2],
}

impl Both {
    fn new() -> Self {
        Self::with(ROOM)
    }

    fn with(capacity: usize) -> Self {
        Self {
            pairs: [
                pair_with("box-2.example", KEY),
                pair_with("box-1.example", KEY),
            ],
            histories: [History::new(capacity), History::new(capacity)],
        }
    }

    /// A session of its own number, with both ends of its hop, before anything is said.
    fn begin(&mut self, rights: &[&[Right]], number: u8) -> Through {
        self.begin_with(&Setup::new(rights, PathMode::Off), number)
    }

    fn begin_with(&mut self, setup: &Setup, number: u8) -> Through {
        let mut setup = setup.clone();
        setup.session = [number; 32];
        let session = establish(&setup);
        let mut hop = |at: usize| {
            let (pair, history) = (&self.pairs[at], &mut self.histories[at]);
            Hop::new(&session.boxes[at], pair, history).expect("they are neighbours")
        };
        let hops = [hop(0), hop(1)];
        Through { session, hops }
    }

    /// The same, and both ends have heard each other.
    fn open(&mut self, rights: &[&[Right]], number: u8) -> Through {
        let mut through = self.begin(rights, number);
        through.greet(self);
        through
    }

    fn close(&mut self, through: Through) {
        for (hop, history) in through.hops.into_iter().zip(&mut self.histories) {
            hop.close(history);
        }
    }
}

/// A session through a pair.
struct Through {
    session: Session,
    hops: [Hop; 2],
}

/// What the frames in these bytes are, and their bodies.
fn frames(bytes: &[u8]) -> Vec<(bool, Vec<u8>)> {
    let mut frames = Frames::new();
    let mut all = Vec::new();
    for piece in bytes.chunks(MAX_FRAME_LEN) {
        frames.push(piece).expect("drained");
        while let Some(frame) = frames.next().expect("frames") {
            match frame {
                Frame::Short(body) => all.push((true, body.to_vec())),
                Frame::Record(body) | Frame::Holds(body) => all.push((false, body.to_vec())),
                other => panic!("{other:?}"),
            }
        }
    }
    all
}

impl Through {
    fn said(&mut self, at: usize) -> Vec<u8> {
        let mut out = Vec::new();
        self.hops[at].greet(&mut out);
        frames(&out).remove(0).1
    }

    fn greet(&mut self, both: &mut Both) {
        for at in [0, 1] {
            let said = self.said(at);
            let heard = self.hops[1 - at].hear(&said, &mut both.histories[1 - at]);
            heard.expect("the pair's own");
        }
    }

    /// Frames of a record towards the server, as they cross between the two.
    fn shortened(&mut self, both: &mut Both, record: &[u8]) -> Vec<u8> {
        let relay = &mut self.session.boxes[0].to_server;
        let passing = relay.receive(record).expect("genuine").expect("whole");
        let mut out = Vec::new();
        let history = &mut both.histories[0];
        let done = passing.shorten(&mut self.hops[0], history, &mut out);
        done.expect("it has its keys");
        out
    }

    fn restored(&mut self, both: &mut Both, body: &[u8]) -> Result<Vec<u8>, Error> {
        let relay = &mut self.session.boxes[1].to_server;
        self.hops[1].restore(relay, body, &mut both.histories[1])
    }

    /// Data of the client's to the server; how many bytes cross between the two, having seen that
    /// the same records come out as without a pair.
    fn carry(&mut self, both: &mut Both, context: ContextId, data: &[u8]) -> usize {
        let record = self.session.sealed(context, data);
        let crossing = self.shortened(both, &record);
        let mut out = Vec::new();
        for (is_short, body) in frames(&crossing) {
            let body = match is_short {
                true => self.restored(both, &body).expect("the pair's own"),
                false => body,
            };
            assert_eq!(body, record, "another record");
            let relay = &mut self.session.boxes[1].to_server;
            let passing = relay.receive(&body).expect("genuine").expect("whole");
            passing.forward(&mut out);
        }
        let Ok(Some(Event::Data(delivery))) = self.session.arrive(&records(&out)) else {
            panic!("nothing arrives");
        };
        assert_eq!(delivery.payload, data);
        assert_eq!(delivery.provenance, Provenance::Original);
        crossing.len()
    }

    /// What the server receives, instead of what was sealed, from a pair of which the first does
    /// as `lie` says with the steps.
    fn lied(&mut self, both: &mut Both, data: &[u8], lie: &[Step<'_>]) -> Result<Vec<u8>, Error> {
        let record = self.session.sealed(CONTEXT, data);
        let tag = record[record.len() - 16..].to_vec();
        self.sealed_steps(both, &record, tag, lie)
    }

    fn sealed_steps(
        &mut self,
        both: &mut Both,
        record: &[u8],
        tag: Vec<u8>,
        steps: &[Step<'_>],
    ) -> Result<Vec<u8>, Error> {
        let front = front(record);
        let header = header(0);
        let mut body = tag;
        steps.iter().for_each(|step| step.write(&mut body));
        let keys = &self.session.boxes[0].to_server.keys;
        let sealed = self.hops[0].sealing.seal(keys, header, front, body)?;
        self.restored(both, &[front, &sealed[..]].concat())
    }
}

const fn header(seq: u64) -> Header {
    Header {
        context: CONTEXT,
        author: Author::Endpoint,
        index: 0,
        place: Place::Last,
        seq,
    }
}

/// Header and writer's tag of a record that readers may see.
fn front(record: &[u8]) -> &[u8] {
    &record[..HEADER_LEN + 16]
}

const READERS: &[&[Right]] = &[&[Read, Read]];

#[test]
fn what_has_crossed_in_an_earlier_session_crosses_as_references() {
    for suite in Suite::ALL {
        let mut both = Both::new();
        let page = noise(200_000, 1);
        let mut setup = Setup::new(READERS, PathMode::Off);
        setup.suites = vec![suite];
        let mut costs = Vec::new();
        for number in [1, 2] {
            let mut through = both.begin_with(&setup, number);
            through.greet(&mut both);
            let pieces = page.chunks(MAX_PAYLOAD_LEN);
            let cost: usize = pieces
                .map(|piece| through.carry(&mut both, CONTEXT, piece))
                .sum();
            costs.push(cost);
            both.close(through);
        }
        // 13 records: 32 bytes of header, frame and tag; 16 more for each kind of evidence.
        assert!(costs[0] > 200_000 && costs[0] < 202_000, "{costs:?}");
        assert!(costs[1] < 13 * 100, "{costs:?}");
    }
}

#[test]
fn the_same_holds_for_every_division_of_rights_and_a_required_path() {
    let divisions: [&[Right]; 4] = [
        &[Read, Read],
        &[Write, Read],
        &[Read, Write],
        &[Write, Write],
    ];
    for (number, rights) in (1..).zip(divisions) {
        for path in [PathMode::Off, PathMode::Required] {
            let mut both = Both::new();
            let setup = Setup::new(&[rights, rights], path);
            let mut through = both.begin_with(&setup, number);
            through.greet(&mut both);
            // What comes out of the first without a pair.
            let mut twin = establish(&Setup {
                session: [number; 32],
                ..setup
            });
            for _ in 0..2 {
                let data = noise(9_000, 2);
                let record = through.session.sealed(CONTEXT, &data);
                let due = twin.forwarded(0, &record);
                let crossing = through.shortened(&mut both, &record);
                let (is_short, body) = frames(&crossing).remove(0);
                assert!(is_short);
                assert_eq!(through.restored(&mut both, &body), Ok(due));
            }
        }
    }
}

#[test]
fn a_group_that_a_writer_has_put_in_its_place_is_restored_part_by_part() {
    let mut both = Both::new();
    let mut through = both.open(&[&[Write, Read]], 1);
    let (first, second) = (noise(16_000, 1), noise(3_000, 2));
    let record = through.session.sealed(CONTEXT, b"data");
    let replaced = through
        .session
        .replaced(0, &record, &[&first, b"short", &second]);
    // The pair is behind a third that writes: let the first read what it has written itself.
    let mut reader = establish(&Setup {
        session: [1; 32],
        ..Setup::new(&[&[Write, Read]], PathMode::Off)
    });
    let relay = &mut reader.boxes[1].to_server;
    let mut out = Vec::new();
    for record in &replaced {
        if let Some(passing) = relay.receive(record).expect("genuine") {
            let relay = &*passing.relay;
            let text = passing.text.as_deref();
            let history = &mut both.histories[0];
            let hop = &mut through.hops[0];
            hop.write(relay, &passing.group, text, history, &mut out)
                .expect("it has its keys");
        }
    }
    let crossing = frames(&out);
    let kinds: Vec<bool> = crossing.iter().map(|(is_short, _)| *is_short).collect();
    assert_eq!(kinds, [true, false, true]);
    for ((is_short, body), due) in crossing.iter().zip(&replaced) {
        let record = match is_short {
            true => through.restored(&mut both, body).expect("the pair's own"),
            false => body.clone(),
        };
        assert_eq!(&record, due);
    }
}

#[test]
fn nothing_is_shortened_before_both_have_spoken_nor_where_one_may_not_read() {
    let mut both = Both::new();
    let mut through = both.begin(&[&[Read, Read], &[Read, No]], 1);
    let data = noise(4_000, 1);
    let is_short = |through: &mut Through, both: &mut Both, context| {
        let record = through.session.sealed(context, &data);
        let crossing = through.shortened(both, &record);
        frames(&crossing).remove(0).0
    };
    assert!(!is_short(&mut through, &mut both, CONTEXT));
    through.greet(&mut both);
    assert!(is_short(&mut through, &mut both, CONTEXT));
    assert!(!is_short(&mut through, &mut both, OTHER));
}

#[test]
fn only_neighbours_whose_names_are_there_once_are_a_pair() {
    let towards = |at: usize, boxes: &[Right], name: &str| {
        let session = establish(&Setup::new(&[boxes], PathMode::Off));
        let hop = Hop::new(
            &session.boxes[at],
            &pair_with(name, KEY),
            &mut History::new(ROOM),
        );
        hop.map(|hop| hop.towards())
    };
    let three = [Read, Read, Read];
    assert_eq!(
        towards(0, &three, "box-2.example"),
        Some(Direction::ToServer)
    );
    assert_eq!(
        towards(2, &three, "box-2.example"),
        Some(Direction::ToClient)
    );
    assert_eq!(towards(0, &three, "box-3.example"), None);
    assert_eq!(towards(0, &three, "box-1.example"), None);
    assert_eq!(towards(0, &three, "other.example"), None);
}

#[test]
fn one_end_that_has_started_anew_is_sent_everything() {
    let mut both = Both::new();
    let page = noise(16_000, 1);
    for (number, restarted) in [(1, None), (2, Some(1)), (3, Some(0)), (4, None)] {
        if let Some(at) = restarted {
            both.histories[at] = History::new(ROOM);
        }
        let mut through = both.open(READERS, number);
        let cost = through.carry(&mut both, CONTEXT, &page);
        assert_eq!(cost > 16_000, number != 4, "{number}: {cost}");
        both.close(through);
    }
}

#[test]
fn an_end_that_starts_anew_again_and_again_is_sent_references_once_it_stays() {
    let mut both = Both::new();
    let page = noise(16_000, 1);
    for number in 1..=9 {
        if number < 9 {
            both.histories[1] = History::new(ROOM);
        }
        let mut through = both.open(READERS, number);
        let cost = through.carry(&mut both, CONTEXT, &page);
        assert_eq!(cost > 16_000, number < 9, "{number}: {cost}");
        both.close(through);
    }
}

#[test]
fn what_has_come_is_not_referred_to_by_what_is_sent() {
    let mut history = History::new(ROOM);
    let scope = [1; 32];
    let mut held = history.open(scope, [[0; 8], [1; 8]]);
    let room = held.room();
    let chunk = noise(2_000, 1);
    let print = print_of(&scope, &chunk);
    history.keep(&mut held, Own::Came, room, &scope, &chunk);
    assert_eq!(history.places(&print).len(), 0);
    history.keep(&mut held, Own::Sent, room, &scope, &chunk);
    assert_eq!(history.places(&print).len(), 1);
}

#[test]
fn a_pair_of_a_later_version_is_sent_whole_records() {
    let mut both = Both::new();
    let mut through = both.begin(READERS, 1);
    through.hops[0].greet(&mut Vec::new());
    let other = &through.hops[1];
    let sealed = seal_holds(
        other.sealing.suite(),
        &other.pair.key,
        other.towards,
        other.place,
        &other.th,
        vec![VERSION + 1],
    );
    let heard = through.hops[0].hear(&sealed, &mut both.histories[0]);
    assert_eq!(heard, Ok(()));
    let record = through.session.sealed(CONTEXT, &noise(4_000, 1));
    let crossing = through.shortened(&mut both, &record);
    let (is_short, _) = frames(&crossing).remove(0);
    assert!(!is_short);
}

#[test]
fn what_was_cut_off_on_the_hop_is_not_referred_to() {
    let mut both = Both::new();
    let page = noise(60_000, 1);
    let mut through = both.open(READERS, 1);
    let pieces: Vec<&[u8]> = page.chunks(15_000).collect();
    through.carry(&mut both, CONTEXT, pieces[0]);
    for piece in &pieces[1..] {
        // It leaves the one and never comes to the other.
        let record = through.session.sealed(CONTEXT, piece);
        through.shortened(&mut both, &record);
    }
    both.close(through);
    let mut through = both.open(READERS, 2);
    let costs: Vec<usize> = pieces
        .iter()
        .map(|piece| through.carry(&mut both, CONTEXT, piece))
        .collect();
    assert!(costs[0] < 200, "{costs:?}");
    assert!(costs[1..].iter().all(|cost| *cost > 15_000), "{costs:?}");
}

#[test]
fn another_servers_sessions_are_not_referred_to() {
    let mut both = Both::new();
    let page = noise(16_000, 1);
    let mut through = both.open(READERS, 1);
    through.carry(&mut both, CONTEXT, &page);
    both.close(through);
    let mut through = both.begin(READERS, 2);
    let other = [9; 32];
    for (hop, history) in through.hops.iter_mut().zip(&mut both.histories) {
        let ids = [[0; 8], [1; 8]];
        let fresh = history.open(other, ids);
        history.close(std::mem::replace(&mut hop.held, fresh));
        hop.scope = other;
    }
    // The two ends have to agree about names.
    through.hops[1].held = {
        let history = &mut both.histories[1];
        history.open(other, [[1; 8], [2; 8]])
    };
    through.greet(&mut both);
    let cost = through.carry(&mut both, CONTEXT, &page);
    assert!(cost > 16_000, "{cost}");
}

// Attacks.

#[test]
fn a_short_record_changed_on_the_hop_is_refused() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    let record = through.session.sealed(CONTEXT, &noise(2_000, 1));
    let crossing = through.shortened(&mut both, &record);
    let (_, body) = frames(&crossing).remove(0);
    for at in 0..body.len() {
        let mut changed = body.clone();
        changed[at] ^= 1;
        let refused = through.restored(&mut both, &changed);
        assert!(refused.is_err(), "byte {at}");
    }
    for length in 0..body.len() {
        assert!(through.restored(&mut both, &body[..length]).is_err());
    }
    assert_eq!(through.restored(&mut both, &body), Ok(record));
}

#[test]
fn another_reader_without_the_pairs_key_can_say_nothing_on_the_hop() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    let mut stranger = through.hops[0].sealing_of([0x78; 32]);
    let record = through.session.sealed(CONTEXT, &noise(2_000, 1));
    let keys = &through.session.boxes[0].to_server.keys;
    let front = front(&record);
    let sealed = stranger
        .seal(keys, header(0), front, vec![0; 40])
        .expect("it may read");
    let refused = through.restored(&mut both, &[front, &sealed].concat());
    assert_eq!(refused, Err(Check::Pair.into()));
}

#[test]
fn what_a_middlebox_holds_is_believed_from_its_pair_alone_once_and_in_this_session() {
    let mut both = Both::new();
    let mut earlier = both.begin(READERS, 1);
    let replayed = earlier.said(0);
    let mut through = both.begin(READERS, 2);
    let history = &mut both.histories[1];
    let refused = through.hops[1].hear(&replayed, history);
    assert_eq!(refused, Err(Check::Pair.into()));
    let own = through.said(1);
    let refused = through.hops[1].hear(&own, &mut both.histories[1]);
    assert_eq!(refused, Err(Check::Pair.into()), "reflected");
    let said = through.said(0);
    let history = &mut both.histories[1];
    assert_eq!(through.hops[1].hear(&said, history), Ok(()));
    let again = Breach::Unexpected(0xb5);
    assert_eq!(through.hops[1].hear(&said, history), Err(again.into()));
    for garbage in [&b""[..], &[0; 15], &[0; 200]] {
        let mut other = both.begin(READERS, 3);
        let refused = other.hops[1].hear(garbage, &mut both.histories[1]);
        assert_eq!(refused, Err(Check::Pair.into()));
        both.close(other);
    }
}

#[test]
fn a_short_record_before_the_beginning_or_in_the_other_direction_is_refused() {
    let mut both = Both::new();
    let mut through = both.begin(READERS, 1);
    let unexpected = || Err(Breach::Unexpected(0xb4).into());
    assert_eq!(through.restored(&mut both, &[0; 60]), unexpected());
    through.greet(&mut both);
    let relay = &mut through.session.boxes[1].to_client;
    let refused = through.hops[1].restore(relay, &[0; 60], &mut both.histories[1]);
    assert_eq!(refused, unexpected());
}

#[test]
fn a_pair_that_lies_about_the_data_is_caught_by_the_tag_it_carries() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    let refused = through.lied(&mut both, b"the data", &[Step::Add(b"a lie, a long one")]);
    assert_eq!(refused, Err(Check::Restored(CONTEXT).into()));
}

#[test]
fn a_pair_that_lies_about_the_tag_as_well_is_a_reader_that_writes() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    let record = through.session.sealed(CONTEXT, b"the data");
    let relay = &mut through.session.boxes[0].to_server;
    let forged = relay
        .keys
        .seal(header(0), b"a lie")
        .expect("it may read")
        .expect("it has the key");
    let tag = forged.sealed[5..].to_vec();
    let lie = [Step::Add(b"a lie")];
    let restored = through.sealed_steps(&mut both, &record, tag, &lie);
    let restored = restored.expect("a reader cannot tell");
    let refused = through.session.arrive(&[restored]);
    assert_eq!(refused, Err(Check::WriterTag(CONTEXT).into()));
}

#[test]
fn the_far_box_that_lies_is_a_reader_that_writes_too() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    let record = through.session.sealed(CONTEXT, &noise(2_000, 1));
    let crossing = through.shortened(&mut both, &record);
    let restored = through.restored(&mut both, &frames(&crossing)[0].1);
    let relay = &mut through.session.boxes[1].to_server;
    let restored = restored.expect("the pair's own");
    let passing = relay.receive(&restored);
    let mut passing = passing.expect("genuine").expect("whole");
    let forgery = Forgery {
        context: CONTEXT,
        seq: 0,
        author: Author::Endpoint,
        payload: b"a lie",
    };
    let mut out = Vec::new();
    passing.forge(forgery, &mut out).expect("it may read");
    let refused = through.session.arrive(&records(&out));
    assert_eq!(refused, Err(Check::WriterTag(CONTEXT).into()));
}

#[test]
fn a_reference_to_what_is_not_held_is_refused() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    through.carry(&mut both, CONTEXT, &noise(16_000, 1));
    both.close(through);
    let cases = [
        (0, 0, 1),
        (1, 0, 1000),
        (1, u16::MAX, u16::MAX),
        (2, 0, 1),
        (u8::MAX, 0, 1),
    ];
    for (number, (volume, first, count)) in (2..).zip(cases) {
        let mut through = both.open(READERS, number);
        let copy = Copy {
            volume,
            first,
            count,
        };
        let refused = through.lied(&mut both, b"data", &[Step::Copy(copy)]);
        assert_eq!(refused, Err(Breach::NotHeld.into()), "{copy:?}");
        both.close(through);
    }
}

#[test]
fn a_short_record_does_not_become_longer_than_a_record() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    through.carry(&mut both, CONTEXT, &noise(16_000, 1));
    both.close(through);
    let mut through = both.open(READERS, 2);
    let all = Step::Copy(Copy {
        volume: 1,
        first: 0,
        count: 2,
    });
    let refused = through.lied(&mut both, b"data", &[all; 2_000]);
    assert_eq!(refused, Err(Breach::Expansion.into()));
    let mut through = both.open(READERS, 3);
    let half = [0; MAX_PAYLOAD_LEN / 2 + 1];
    let refused = through.lied(&mut both, b"data", &[Step::Add(&half); 2]);
    assert_eq!(refused, Err(Breach::Expansion.into()));
}

#[test]
fn steps_that_cannot_be_are_refused() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    let refused = through.lied(&mut both, b"data", &[Step::Add(b"")]);
    assert_eq!(refused, Err(Malformed::Step(0).into()));
}

#[test]
fn a_short_record_that_is_replayed_is_out_of_order() {
    let mut both = Both::new();
    let mut through = both.open(READERS, 1);
    let record = through.session.sealed(CONTEXT, &noise(2_000, 1));
    let crossing = through.shortened(&mut both, &record);
    let (_, body) = frames(&crossing).remove(0);
    for due in [true, false] {
        let restored = through
            .restored(&mut both, &body)
            .expect("its key is right");
        let relay = &mut through.session.boxes[1].to_server;
        assert_eq!(relay.receive(&restored).is_ok(), due);
    }
}

#[test]
fn two_hops_of_one_pairs_key_have_no_key_in_common() {
    let four = [Read, Read, Read, Read];
    let session = establish(&Setup::new(&[&four], PathMode::Off));
    let mut history = History::new(ROOM);
    let mut said = |at: usize, name: &str| {
        let hop = Hop::new(&session.boxes[at], &pair_with(name, KEY), &mut history);
        let mut out = Vec::new();
        hop.expect("they are neighbours").greet(&mut out);
        out
    };
    assert_ne!(said(0, "box-2.example"), said(2, "box-4.example"));
}

#[test]
fn memory_is_bounded_whatever_crosses_and_however_many_sessions_there_are() {
    let capacity = 1 << 20;
    let mut both = Both::with(capacity);
    let within = |both: &Both| {
        let mut taken = both.histories.iter().map(History::taken);
        assert!(taken.all(|taken| taken <= capacity));
    };
    let mut open = Vec::new();
    for number in 1..=60 {
        let mut through = both.open(READERS, number);
        for seed in 0..6 {
            let data = noise(16_000, u64::from(number) * 100 + seed);
            through.carry(&mut both, CONTEXT, &data);
            within(&both);
        }
        // A half of them stays open for long.
        if number % 2 == 0 {
            open.push(through);
        } else {
            both.close(through);
        }
        if number == 40 {
            open.drain(..).for_each(|through| both.close(through));
        }
    }
    open.into_iter().for_each(|through| both.close(through));
    let mut through = both.open(READERS, 61);
    let fresh = noise(16_000, 7);
    assert!(through.carry(&mut both, CONTEXT, &fresh) > 16_000);
    assert!(
        through.carry(&mut both, CONTEXT, &fresh) < 200,
        "room again"
    );
    both.close(through);
    within(&both);
}

#[test]
fn a_session_names_few_volumes_and_those_used_last() {
    let mut both = Both::new();
    for number in 1..=80 {
        let mut through = both.open(READERS, number);
        through.carry(&mut both, CONTEXT, &noise(1_000, number.into()));
        both.close(through);
    }
    let mut through = both.open(READERS, 81);
    assert_eq!(through.hops[1].held.listed().len(), MAX_LISTED);
    assert!(through.carry(&mut both, CONTEXT, &noise(1_000, 80)) < 200);
    assert!(through.carry(&mut both, CONTEXT, &noise(1_000, 1)) > 1_000);
    both.close(through);
}

#[test]
fn a_small_peer_is_not_asked_for_more_than_it_has_room_for() {
    let mut both = Both::new();
    both.histories[1] = History::new(200_000);
    let mut through = both.open(READERS, 1);
    let page = noise(100_000, 1);
    for piece in page.chunks(10_000) {
        through.carry(&mut both, CONTEXT, piece);
    }
    // The beginning is held, what came when there was no more room is not.
    assert!(through.carry(&mut both, CONTEXT, &page[..10_000]) < 8_000);
    assert!(through.carry(&mut both, CONTEXT, &page[90_000..]) > 10_000);
    assert!(both.histories[1].taken() <= 200_000);
}
