//! The attacks in memory, and what no attack of the table can show.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use mctls::config::Right;
use mctls::party::Direction;

use super::{Act, Attack, ONE, Outcome, SCRIPT, Seen, TWO, all};
use crate::error::{Check, Error};
use crate::fuzzing::Anybody;
use crate::list::MiddleboxList;
use crate::protect::context_keys;
use crate::receiver::{Delivery, Event, Provenance};
use crate::record::Record;
use crate::rehearsal::{Crossing, Failure, records};
use crate::relay::Relay;
use crate::testing::{Session, Setup};

use Right::{None as No, Read};

#[test]
fn each_attack_is_caught_by_what_the_table_names() {
    let wrong: Vec<String> = all().into_iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is not as the attack has it.
fn wrong(mut attack: Attack) -> Option<String> {
    let mut outcome = Outcome::default();
    for seed in (1..).step_by(76).take(attack.sessions) {
        assert!(outcome.failures.is_empty(), "{}: {outcome:?}", attack.name);
        outcome = committed(&mut attack, seed);
    }
    attack.judge(&outcome).err()
}

fn committed(attack: &mut Attack, seed: u8) -> Outcome {
    let rights: Vec<&[Right]> = attack.rights.iter().map(Vec::as_slice).collect();
    let mut setup = Setup {
        server_rights: attack.server_rights.clone(),
        mode: attack.mode,
        seed,
        ..Setup::new(&rights)
    };
    if !attack.server_verifies {
        setup.server_verifies = Arc::new(Anybody);
    }
    match setup.run(&mut attack.tamper) {
        Ok(outcome) => talked(attack, Session::of(outcome)),
        Err(failure) => Outcome {
            failures: vec![failure],
            ..Outcome::default()
        },
    }
}

/// The client says what it has to say.
fn talked(attack: &mut Attack, mut session: Session) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.boxes.extend(session.boxes.iter().map(|one| Seen {
        server: one.list.server().name.clone(),
        data: Vec::new(),
    }));
    let mut sent = Vec::new();
    for (context, data) in SCRIPT {
        let sealed = session.client.sender.seal(context, data, &mut sent);
        sealed.expect("a context of the session");
    }
    session.client.sender.close(&mut sent).expect("open");
    let mut queue = VecDeque::new();
    let mut put = |queue: &mut VecDeque<Crossing>, hop, bytes: &[u8]| {
        for record in records(bytes) {
            let direction = Direction::ToServer;
            queue.extend((attack.tamper)(Crossing {
                hop,
                direction,
                record,
            }));
        }
    };
    put(&mut queue, 0, &sent);
    let server = session.boxes.len() + 1;
    let mut gone = BTreeSet::new();
    while let Some(crossing) = queue.pop_front() {
        let record = crossing.record;
        let at = match crossing.direction {
            Direction::ToServer => crossing.hop + 1,
            Direction::ToClient => crossing.hop,
        };
        if gone.contains(&at) {
            continue;
        }
        let taken = match at {
            0 => session.client.receiver.open(&record).map(drop),
            _ if at == server => session.server.receiver.open(&record).map(|event| {
                if let Event::Data(delivery) = event {
                    outcome.arrived.push(delivery);
                }
            }),
            _ => {
                let one = &mut session.boxes[at - 1];
                let (relay, seen) = (&mut one.to_server, &mut outcome.boxes[at - 1]);
                let passed = passed(attack.acts[at - 1], &one.list, relay, record, seen);
                passed.map(|bytes| put(&mut queue, at, &bytes))
            }
        };
        if let Err(error) = taken {
            outcome.failures.push(Failure { at, error });
            gone.insert(at);
        }
    }
    if let (false, Err(error)) = (gone.contains(&server), session.server.receiver.finish()) {
        outcome.failures.push(Failure { at: server, error });
    }
    outcome
}

/// A middlebox does what it does.
fn passed(
    act: Act,
    list: &MiddleboxList,
    relay: &mut Relay,
    record: Record,
    seen: &mut Seen,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let passing = relay.receive(record)?;
    let Some(data) = passing.data() else {
        passing.forward(&mut out);
        return Ok(out);
    };
    let context = list.context(passing.context());
    let context = context.expect("the list has all contexts");
    seen.data.push((context.id, data.to_vec()));
    match act {
        Act::Replace(purpose, data) if context.purpose == purpose => {
            passing.replace(data, &mut out)?;
        }
        Act::Forward | Act::Replace(..) => passing.forward(&mut out),
        Act::Overstep(overstep) => {
            if let Some(passing) = overstep(passing, &mut out) {
                passing.forward(&mut out);
            }
        }
    }
    Ok(out)
}

fn session(rights: &[&[Right]]) -> Session {
    Setup::new(rights).session()
}

fn opened(session: &mut Session, record: &Record) -> Result<Delivery, Error> {
    match session.server.receiver.open(record)? {
        Event::Data(delivery) => Ok(delivery),
        Event::Closed => panic!("a record with data"),
    }
}

#[test]
fn a_reader_in_one_context_reads_nothing_of_another() {
    let session = session(&[&[Read], &[No]]);
    let keys = session.boxes[0].to_server.keys();
    assert!(keys.contains_key(&ONE) && !keys.contains_key(&TWO));
    assert!(keys[&ONE].writers.is_none());
}

/// A change of the readers' MAC alone is caught by readers; endpoints do not look at it.
#[test]
fn no_change_anywhere_in_a_record_changes_data_unnoticed() {
    let mut session = session(&[&[]]);
    let record = session.sent(1, b"genuine");
    let mut seen = [0; 4];
    for at in 0..record.fragment.len() {
        let mut changed = record.clone();
        changed.fragment[at] ^= 1;
        session.server.receiver.rewind();
        let index = match opened(&mut session, &changed) {
            Err(Error::Forged(Check::ReaderMac(ONE))) => 0,
            Err(Error::Forged(Check::WriterMac(ONE))) => 1,
            Ok(delivery) => {
                assert_eq!(delivery.data, b"genuine");
                match delivery.provenance {
                    Provenance::Changed => 2,
                    Provenance::Original => 3,
                }
            }
            other => panic!("{at}: {other:?}"),
        };
        seen[index] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn one_endpoints_half_gives_no_key_of_the_session() {
    use crate::schedule::{Purpose, Randoms};
    use crate::secret::Secret;
    let mut session = session(&[&[No]]);
    let record = session.sent(1, b"genuine");
    let randoms = Randoms {
        client: crate::testing::entropy(1).random,
        server: crate::testing::entropy(2).random,
    };
    let own = crate::testing::entropy(1).secret;
    let half = crate::schedule::half(&own, Purpose::Read, ONE, &randoms);
    let guess = Secret::join(&half, &half);
    let wholes = [((ONE, Purpose::Read), guess)].into();
    let direction = mctls::party::Direction::ToServer;
    let keys = context_keys(&wholes, &randoms, direction);
    let opened = keys[&ONE].open(&record.fragment);
    assert!(opened.is_none_or(|opened| opened.data != b"genuine"));
}
