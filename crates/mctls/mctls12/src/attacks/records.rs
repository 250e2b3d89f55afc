//! Attacks on the records of an established session. The sequence numbers are not on the wire, so a
//! record at a wrong place looks like a forged one.

use std::sync::{Arc, Mutex};

use mctls::config::Right;
use mctls::party::{ContextId, Direction};

use super::{Act, Attack, ONE, TWO, Tamper, changed, original, script};
use crate::error::{Breach, Check};
use crate::hostile::Forgery;
use crate::record::ContentType;
use crate::rehearsal::Crossing;
use crate::relay::Passing;

use Right::{None as No, Read, Write};

const BLIND: [&[Right]; 2] = [&[No], &[No]];
const READER: [&[Right]; 2] = [&[Read], &[No]];
const WRITER: [&[Right]; 2] = [&[Write], &[No]];

/// How many records the client sends: its data, and the end.
const SENT: usize = super::SCRIPT.len() + 1;
const LAST: usize = SENT - 1;

pub(super) fn all() -> Vec<Attack> {
    let mut all = readers();
    all.extend(third_parties());
    all.extend(order());
    all.extend(contexts());
    all.extend(writers());
    all.extend(promises_end());
    all
}

/// Handles the client's records on a hop by their numbers, from 0.
fn records(
    hop: usize,
    mut handle: impl FnMut(usize, Crossing) -> Vec<Crossing> + Send + 'static,
) -> Tamper {
    let mut numbers = 0..;
    Box::new(move |crossing| {
        let is_record = match crossing.record.kind {
            ContentType::ApplicationData | ContentType::Alert => true,
            ContentType::ChangeCipherSpec | ContentType::Handshake => false,
        };
        if !is_record || (crossing.hop, crossing.direction) != (hop, Direction::ToServer) {
            return vec![crossing];
        }
        handle(numbers.next().unwrap_or(usize::MAX), crossing)
    })
}

/// Changes the first record on a hop.
fn first(hop: usize, change: fn(&mut Crossing)) -> Tamper {
    records(hop, move |number, mut crossing| {
        if number == 0 {
            change(&mut crossing);
        }
        vec![crossing]
    })
}

/// Keeps some records of the client's from going on.
fn dropped(hop: usize, numbers: &'static [usize]) -> Tamper {
    records(hop, move |number, crossing| {
        match numbers.contains(&number) {
            true => Vec::new(),
            false => vec![crossing],
        }
    })
}

const fn forgery(context: ContextId, data: &[u8]) -> Forgery<'_> {
    Forgery {
        context,
        data,
        iv: [5; 16],
        readers_xor: 0,
    }
}

/// Puts a forgery in the place of the first record.
fn in_its_place<'a>(
    passing: Passing<'a>,
    out: &mut Vec<u8>,
    forgery: Forgery<'_>,
) -> Option<Passing<'a>> {
    if passing.data() != Some(b"first") {
        return Some(passing);
    }
    passing.forge(forgery, out).expect("it may read");
    None
}

fn forge<'a>(passing: Passing<'a>, out: &mut Vec<u8>) -> Option<Passing<'a>> {
    in_its_place(passing, out, forgery(ONE, b"forged"))
}

fn readers() -> Vec<Attack> {
    let forges = Act::Overstep(forge);
    let caught = Check::WriterMac(ONE);
    vec![
        Attack::new("a reader writes", READER)
            .by(1, forges)
            .caught_by_server(caught),
        Attack::new("a reader writes to a writer", [&[Read, Write], &[No, No]])
            .by(1, forges)
            .caught_by_box(2, caught),
        // The paper, section 3.4: readers cannot detect illegal changes by other readers.
        Attack::new("a reader writes to a reader", [&[Read, Read], &[No, No]])
            .by(1, forges)
            .caught_by_server(caught)
            .also(|outcome| outcome.boxes[1].data.first() == Some(&(ONE, b"forged".to_vec()))),
    ]
}

fn third_parties() -> Vec<Attack> {
    const fn change(crossing: &mut Crossing) {
        crossing.record.fragment.as_mut_slice()[18] ^= 1;
    }
    let caught = Check::ReaderMac(ONE);
    vec![
        Attack::new("a change before a reader", READER)
            .on_hops(first(0, change))
            .caught_by_box(1, caught),
        Attack::new("a change before a writer", WRITER)
            .on_hops(first(0, change))
            .caught_by_box(1, caught),
        Attack::new("a change before a middlebox that may not read", BLIND)
            .on_hops(first(0, change))
            .caught_by_server(caught),
        Attack::new("a change before the server", READER)
            .on_hops(first(1, change))
            .caught_by_server(caught),
        // IV, then data (5 bytes), MAC_readers, MAC_writers: the fourth block is MAC_writers alone,
        // and so is what the bit hits in the fifth. Readers do not look at it, so they are blamed.
        Attack::new("a change of MAC_writers", READER)
            .on_hops(first(0, |crossing| {
                crossing.record.fragment[16 + 3 * 16] ^= 1
            }))
            .caught_by_server(Check::WriterMac(ONE)),
        Attack {
            sessions: 2,
            ..Attack::new("a record of another session", BLIND)
        }
        .on_hops({
            let mut theirs = None;
            records(0, move |number, crossing| match number % SENT {
                0 => vec![theirs.get_or_insert(crossing).clone()],
                _ => vec![crossing],
            })
        })
        .caught_by_server(caught),
        Attack::new("a record sent back", BLIND)
            .on_hops(records(0, |number, crossing| {
                let back = (number == 0).then(|| Crossing {
                    direction: Direction::ToClient,
                    ..crossing.clone()
                });
                [Some(crossing), back].into_iter().flatten().collect()
            }))
            .caught_by_client(caught)
            .arrives(&script()),
    ]
}

/// The three records of data in another order.
fn ordered(order: &'static [usize]) -> Tamper {
    let mut held = Vec::new();
    records(1, move |number, crossing| {
        if number == LAST {
            return vec![crossing];
        }
        held.push(crossing);
        match held.len() {
            LAST => order.iter().map(|&index| held[index].clone()).collect(),
            _ => Vec::new(),
        }
    })
}

fn order() -> Vec<Attack> {
    let both = &script()[..2];
    let mut all = vec![
        Attack::new("nobody does anything", BLIND).arrives(&script()),
        // The middlebox has counted too few.
        Attack::new("records dropped before a reader", READER)
            .on_hops(dropped(0, &[0, 1]))
            .caught_by_box(1, Check::ReaderMac(ONE)),
        Attack::new("the end cut off", BLIND)
            .on_hops(dropped(1, &[LAST]))
            .caught_by_server(Breach::Truncated)
            .arrives(&script()),
        Attack::new("the last data and the end cut off", BLIND)
            .on_hops(dropped(1, &[2, LAST]))
            .caught_by_server(Breach::Truncated)
            .arrives(both),
        Attack::new("a close_notify too early", BLIND)
            .on_hops(dropped(1, &[2]))
            .caught_by_server(Check::EndpointMac)
            .arrives(both),
    ];
    let orders: [(&'static [usize], ContextId, &[_]); 5] = [
        (&[1], TWO, &[]),
        (&[0, 2], ONE, &both[..1]),
        (&[0, 0], ONE, &both[..1]),
        (&[1, 0], TWO, &[]),
        (&[0, 1, 0], ONE, both),
    ];
    all.extend(orders.map(|(order, context, arrives)| {
        Attack::new(format!("the order {order:?}"), BLIND)
            .on_hops(ordered(order))
            .caught_by_server(Check::ReaderMac(context))
            .arrives(arrives)
    }));
    all
}

fn contexts() -> Vec<Attack> {
    vec![
        Attack::new("a record in another context", BLIND)
            .on_hops(first(1, |crossing| crossing.record.context = TWO))
            .caught_by_server(Check::ReaderMac(TWO)),
        Attack::new(
            "a record in another context, before its reader",
            [&[No], &[Read]],
        )
        .on_hops(first(0, |crossing| crossing.record.context = TWO))
        .caught_by_box(1, Check::ReaderMac(TWO)),
        Attack::new("data in context 0", WRITER)
            .on_hops(first(1, |crossing| {
                crossing.record.context = ContextId::END_TO_END
            }))
            .caught_by_server(Breach::Context(ContextId::END_TO_END)),
        Attack::new("data as an alert of the endpoints", WRITER)
            .on_hops(first(1, |crossing| {
                crossing.record.context = ContextId::END_TO_END;
                crossing.record.kind = ContentType::Alert;
            }))
            .caught_by_server(Check::EndpointMac),
        // It counts as changed, since the endpoints' MAC covers the context; without that it would
        // count as original.
        Attack::new(
            "data moved by a writer of both contexts",
            [&[Write], &[Write]],
        )
        .by(
            1,
            Act::Overstep(|passing, out| in_its_place(passing, out, forgery(TWO, b"first"))),
        )
        .arrives(&[
            changed(TWO, b"first"),
            original(TWO, b"second"),
            original(ONE, b"third"),
        ]),
    ]
}

fn writers() -> Vec<Attack> {
    const TWO_WRITERS: [&[Right]; 2] = [&[Write, Write], &[No, No]];
    const AS_CHANGED: Act = Act::Replace("purpose 1", b"changed");
    let by_somebody = [
        changed(ONE, b"changed"),
        original(TWO, b"second"),
        changed(ONE, b"changed"),
    ];
    let once = [
        changed(ONE, b"forged"),
        original(TWO, b"second"),
        original(ONE, b"third"),
    ];
    let spoils = Act::Overstep(|passing, out| {
        let spoilt = Forgery {
            readers_xor: 1,
            ..forgery(ONE, b"forged")
        };
        in_its_place(passing, out, spoilt)
    });
    let wire: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let watched = Arc::clone(&wire);
    vec![
        Attack::new(
            "a writer spoils MAC_readers before a reader",
            [&[Write, Read], &[No, No]],
        )
        .by(1, spoils)
        .caught_by_box(2, Check::ReaderMac(ONE)),
        // The paper has an endpoint check the writers' MAC and its own.
        Attack::new("a writer spoils MAC_readers before the server", WRITER)
            .by(1, spoils)
            .arrives(&once),
        // The endpoints' MAC is passed on, so what is put back as it was counts as the endpoint's.
        Attack::new("a writer writes data again as it was", WRITER)
            .by(1, Act::Replace("purpose 1", b"first"))
            .arrives(&[
                original(ONE, b"first"),
                original(TWO, b"second"),
                changed(ONE, b"first"),
            ]),
        // Which of the two it was, nobody can tell.
        Attack::new("the first of two writers changes data", TWO_WRITERS)
            .by(1, AS_CHANGED)
            .arrives(&by_somebody),
        Attack::new("the second of two writers changes data", TWO_WRITERS)
            .by(2, AS_CHANGED)
            .arrives(&by_somebody),
        Attack::new("a writer adds a record", WRITER)
            .by(
                1,
                Act::Overstep(|passing, out| {
                    if passing.data() == Some(b"first") {
                        let added = passing.forge(forgery(ONE, b"forged"), out);
                        added.expect("it may write");
                    }
                    Some(passing)
                }),
            )
            .caught_by_server(Check::ReaderMac(ONE))
            .arrives(&once[..1]),
        // Whoever listens behind it sees which records begin alike.
        Attack::new("a writer uses an IV again", WRITER)
            .by(
                1,
                Act::Overstep(|passing, out| {
                    let same = passing.forge(forgery(ONE, b"the same sixteen bytes"), out);
                    same.expect("it may write");
                    None
                }),
            )
            .on_hops(records(1, move |_, crossing| {
                let mut watched = watched.lock().expect("nobody panics with it");
                watched.push(crossing.record.fragment[..32].to_vec());
                vec![crossing]
            }))
            .arrives(&[
                changed(ONE, b"the same sixteen bytes"),
                original(TWO, b"second"),
                changed(ONE, b"the same sixteen bytes"),
            ])
            .also(move |_| {
                let wire = wire.lock().expect("nobody panics with it");
                wire[0] == wire[2]
            }),
    ]
}

/// No middlebox proves that it has seen a record: a filter that is led around filters nothing.
fn promises_end() -> Vec<Attack> {
    vec![
        Attack::new("all records led around a middlebox", READER)
            .on_hops(records(0, |_, crossing| {
                vec![Crossing { hop: 1, ..crossing }]
            }))
            .arrives(&script())
            .also(|outcome| outcome.boxes[0].data.is_empty()),
        // It notices at the next that it may read.
        Attack::new("one record led around a middlebox", READER)
            .on_hops(first(0, |crossing| crossing.hop = 1))
            .caught_by_box(1, Check::ReaderMac(ONE))
            .arrives(&script()[..2])
            .also(|outcome| outcome.boxes[0].data.is_empty()),
    ]
}
