//! Attacks on records: by somebody on a hop without a key, and by middleboxes beyond their rights.

use super::{FIRST, SECOND, setup};
use crate::config::{PathMode, Right};
use crate::error::{Breach, Check, Error};
use crate::frame::{write_group, write_record};
use crate::hostile::Forgery;
use crate::keys::Claim;
use crate::party::{Author, ContextId};
use crate::receiver::{Event, Provenance};
use crate::record::{Assembly, Group, HEADER_LEN, Stamp};
use crate::secret::TAG_LEN;
use crate::testing::{CONTEXT, OTHER, Session, Setup, establish, position, records};

use Right::{Read, Write};

fn caught(result: Result<Option<Event>, Error>, check: impl Into<Error>) {
    assert_eq!(result, Err(check.into()));
}

/// A record of the client's, as a dishonest middlebox makes it out of a genuine one.
fn forged(session: &mut Session, index: usize, record: &[u8], forgery: Forgery<'_>) -> Vec<u8> {
    let relay = &mut session.boxes[index].to_server;
    let mut passing = relay
        .receive(record)
        .expect("as the test has it")
        .expect("as the test has it");
    let mut out = Vec::new();
    passing
        .forge(forgery, &mut out)
        .expect("as the test has it");
    records(&out).remove(0)
}

const fn forgery(payload: &[u8], author: Author) -> Forgery<'_> {
    Forgery {
        context: CONTEXT,
        seq: 0,
        author,
        payload,
    }
}

// Records, by somebody without keys.

#[test]
fn a_record_that_is_dropped_repeated_or_out_of_order_is_missed() {
    let sequence = |expected, found| Breach::Sequence { expected, found };
    let cases: [(&[usize], Breach); 4] = [
        (&[1], sequence(0, 1)),
        (&[0, 0], sequence(1, 0)),
        (&[0, 2], sequence(1, 2)),
        (&[0, 1, 0], sequence(2, 0)),
    ];
    for (order, breach) in cases {
        let mut session = establish(&setup(&[&[Read]]));
        let sent: Vec<_> = (0..3).map(|_| session.sealed(CONTEXT, b"data")).collect();
        let arriving: Vec<_> = order.iter().map(|&at| sent[at].clone()).collect();
        caught(session.arrive(&arriving), breach);
        let mut session = establish(&setup(&[&[Read]]));
        let mut results = arriving.iter().map(|record| {
            let relay = &mut session.boxes[FIRST].to_server;
            relay.receive(record).map(drop)
        });
        assert_eq!(results.find_map(Result::err), Some(breach.into()));
    }
}

#[test]
fn a_record_of_another_session_does_not_open() {
    let mut other = setup(&[&[Read]]);
    other.session = [1; 32];
    let record = establish(&other).sealed(CONTEXT, b"data");
    let mut session = establish(&setup(&[&[Read]]));
    caught(session.arrive(&[record]), Check::Aead(CONTEXT));
}

#[test]
fn a_record_of_the_other_direction_does_not_open() {
    let mut session = establish(&setup(&[&[Read]]));
    let mut out = Vec::new();
    session
        .server
        .sender
        .seal(CONTEXT, b"data", &mut out)
        .expect("as the test has it");
    caught(session.arrive(&records(&out)), Check::Aead(CONTEXT));
}

#[test]
fn a_record_moved_to_another_context_does_not_open() {
    let mut session = establish(&setup(&[&[Read], &[Read]]));
    let mut record = session.sealed(CONTEXT, b"data");
    record[0] = OTHER.0;
    caught(session.arrive(&[record]), Check::Aead(OTHER));
    let mut session = establish(&setup(&[&[Read], &[Read]]));
    let mut record = session.sealed(CONTEXT, b"data");
    record[0] = 3;
    caught(session.arrive(&[record]), Breach::Context(ContextId(3)));
}

#[test]
fn no_bit_of_a_record_can_be_changed() {
    let shapes: [&[Right]; 3] = [&[Read], &[Write], &[Read, Write]];
    for shape in shapes {
        for path in [PathMode::Off, PathMode::Required] {
            let setup = Setup::new(&[shape], path);
            let mut session = establish(&setup);
            let mut record = session.sealed(CONTEXT, b"data");
            for index in 0..shape.len() {
                record = session.forwarded(index, &record);
            }
            for bit in 0..record.len() * 8 {
                let mut changed = record.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let mut fresh = establish(&setup);
                let result = fresh.arrive(&[changed]);
                assert!(
                    result.is_err(),
                    "bit {bit} of a record for {shape:?}, {path:?}"
                );
            }
            assert!(session.arrive(&[record]).is_ok());
        }
    }
}

#[test]
fn a_connection_that_is_cut_is_not_an_end() {
    let mut session = establish(&setup(&[&[Read]]));
    let record = session.sealed(CONTEXT, b"data");
    session.arrive(&[record]).expect("as the test has it");
    let finished = session.server.receiver.finish();
    assert_eq!(finished, Err(Breach::Truncated.into()));
}

#[test]
fn an_end_that_is_moved_forward_is_not_an_end() {
    let mut session = establish(&setup(&[&[Read]]));
    let _cut = session.sealed(CONTEXT, b"data");
    let mut out = Vec::new();
    session
        .client
        .sender
        .close(&mut out)
        .expect("as the test has it");
    let mut close = records(&out);
    let sequence = Breach::Sequence {
        expected: 0,
        found: 1,
    };
    caught(session.arrive(&close), sequence);
    let mut session = establish(&setup(&[&[Read]]));
    close[0][3..11].copy_from_slice(&[0; 8]);
    caught(session.arrive(&close), Check::Aead(ContextId::END_TO_END));
}

// Records, by a middlebox beyond its rights.

#[test]
fn a_middlebox_without_a_right_has_no_key() {
    let mut session = establish(&setup(&[&[Right::None]]));
    let record = session.sealed(CONTEXT, b"data");
    let relay = &mut session.boxes[FIRST].to_server;
    let mut passing = relay
        .receive(&record)
        .expect("as the test has it")
        .expect("as the test has it");
    assert_eq!(passing.text(), None);
    let forgery = forgery(b"forged", Author::Endpoint);
    assert!(passing.forge(forgery, &mut Vec::new()).is_err());
}

#[test]
fn a_reader_that_writes_has_no_writers_tag() {
    let shapes: [&[Right]; 2] = [&[Read], &[Read, Write]];
    for shape in shapes {
        let mut session = establish(&setup(&[shape]));
        let record = session.sealed(CONTEXT, b"data");
        let forgery = forgery(b"forged", Author::Endpoint);
        let record = forged(&mut session, FIRST, &record, forgery);
        caught(
            session.arrive(std::slice::from_ref(&record)),
            Check::WriterTag(CONTEXT),
        );
        if shape.len() > 1 {
            let relay = &mut session.boxes[SECOND].to_server;
            let refused = relay.receive(&record).map(drop);
            assert_eq!(refused, Err(Check::WriterTag(CONTEXT).into()));
        }
    }
}

/// In every shape of the tag: over the digest, and over the ciphertext. It stands in front of it.
#[test]
fn a_writers_tag_is_of_its_record_alone() {
    for shape in [&[Read][..], &[Read, Write]] {
        let setup = setup(&[shape, shape]);
        let tag = HEADER_LEN..HEADER_LEN + TAG_LEN;
        let others: [fn(&mut Session) -> Vec<u8>; 3] = [
            |session| session.sealed(OTHER, b"data"),
            |session| {
                let _first = session.sealed(CONTEXT, b"data");
                session.sealed(CONTEXT, b"data")
            },
            |session| {
                let mut out = Vec::new();
                let sealed = session.server.sender.seal(CONTEXT, b"data", &mut out);
                sealed.expect("as the test has it");
                records(&out).remove(0)
            },
        ];
        for other in others {
            let other = other(&mut establish(&setup));
            let mut session = establish(&setup);
            let mut record = session.sealed(CONTEXT, b"data");
            record[tag.clone()].copy_from_slice(&other[tag.clone()]);
            caught(session.arrive(&[record]), Check::WriterTag(CONTEXT));
        }
    }
}

/// Whoever may read can seal under the same header again, but has no key for the tag.
#[test]
fn a_writers_tag_takes_the_key_of_writers() {
    for shape in [&[Read][..], &[Read, Write]] {
        let mut session = establish(&setup(&[shape]));
        let record = session.sealed(CONTEXT, b"data");
        let relay = &mut session.boxes[FIRST].to_server;
        let passing = relay.receive(&record).expect("as the test has it");
        let passing = passing.expect("as the test has it");
        let header = passing.group.parts[0].header;
        let claim = Claim::of(&passing.group);
        let keys = &mut passing.relay.keys;
        assert_eq!(keys.writer_tag(&claim), Ok(None));
        assert_eq!(keys.whole_tag(header, &record), Ok(None));
    }
}

#[test]
fn a_reader_that_forges_to_a_reader_is_caught_by_the_endpoint_only() {
    let mut session = establish(&setup(&[&[Read, Read]]));
    let record = session.sealed(CONTEXT, b"data");
    let forgery = forgery(b"forged", Author::Endpoint);
    let record = forged(&mut session, FIRST, &record, forgery);
    let record = session.forwarded(SECOND, &record);
    caught(session.arrive(&[record]), Check::WriterTag(CONTEXT));
}

#[test]
fn a_reader_that_passes_as_a_writer_has_no_writers_tag() {
    let mut session = establish(&setup(&[&[Write, Read]]));
    let record = session.sealed(CONTEXT, b"data");
    let record = session.forwarded(FIRST, &record);
    let forgery = forgery(b"forged", Author::Middlebox(position(1)));
    let record = forged(&mut session, SECOND, &record, forgery);
    caught(session.arrive(&[record]), Check::WriterTag(CONTEXT));
}

#[test]
fn a_reader_that_names_itself_as_the_author_may_not_write() {
    let mut session = establish(&setup(&[&[Write, Read]]));
    let record = session.sealed(CONTEXT, b"data");
    let record = session.forwarded(FIRST, &record);
    let forgery = forgery(b"forged", Author::Middlebox(position(2)));
    let record = forged(&mut session, SECOND, &record, forgery);
    caught(session.arrive(&[record]), Breach::Author(position(2)));
}

#[test]
fn a_writer_that_hides_has_no_endpoints_tag() {
    for path in [PathMode::Off, PathMode::Required] {
        let mut session = establish(&Setup::new(&[&[Write]], path));
        let record = session.sealed(CONTEXT, b"data");
        let forgery = forgery(b"forged", Author::Endpoint);
        let record = forged(&mut session, FIRST, &record, forgery);
        caught(session.arrive(&[record]), Check::EndpointTag(CONTEXT));
    }
}

#[test]
fn a_writer_that_blames_another_has_not_its_key() {
    let mut session = establish(&setup(&[&[Write, Write]]));
    let record = session.sealed(CONTEXT, b"data");
    let record = session.forwarded(FIRST, &record);
    let blamed = forgery(b"forged", Author::Middlebox(position(1)));
    let record = forged(&mut session, SECOND, &record, blamed);
    caught(session.arrive(&[record]), Check::AuthorTag(position(1)));
    let mut session = establish(&Setup::new(&[&[Write, Write]], PathMode::Required));
    let record = session.sealed(CONTEXT, b"data");
    let record = session.forwarded(FIRST, &record);
    let record = forged(&mut session, SECOND, &record, blamed);
    caught(session.arrive(&[record]), Check::EndpointTag(CONTEXT));
}

#[test]
fn a_writer_cannot_put_its_own_record_in_place_of_another_contexts() {
    let mut session = establish(&setup(&[&[Write], &[Right::None]]));
    let first = session.sealed(CONTEXT, b"data");
    let relay = &mut session.boxes[FIRST].to_server;
    let mut model = relay
        .receive(&first)
        .expect("as the test has it")
        .expect("as the test has it");
    let forgery = Forgery {
        context: CONTEXT,
        seq: 1,
        author: Author::Middlebox(position(1)),
        payload: b"in place of a record that it may not see",
    };
    let mut out = Vec::new();
    model.forge(forgery, &mut out).expect("as the test has it");
    session.arrive(&[first]).expect("as the test has it");
    caught(session.arrive(&records(&out)), Check::EndpointTag(CONTEXT));
}

#[test]
fn a_writer_cannot_bring_back_an_older_record() {
    let mut session = establish(&setup(&[&[Write]]));
    let old = session.sealed(CONTEXT, b"old");
    let _new = session.sealed(CONTEXT, b"new");
    let relay = &mut session.boxes[FIRST].to_server;
    let mut model = relay
        .receive(&old)
        .expect("as the test has it")
        .expect("as the test has it");
    let again = Forgery {
        seq: 1,
        ..forgery(b"old", Author::Middlebox(position(1)))
    };
    let mut out = Vec::new();
    model.forge(again, &mut out).expect("as the test has it");
    session.arrive(&[old]).expect("as the test has it");
    caught(session.arrive(&records(&out)), Check::EndpointTag(CONTEXT));
}

#[test]
fn a_record_is_sealed_and_taken_once_for_each_nonce() {
    let mut session = establish(&setup(&[&[Write]]));
    let record = session.sealed(CONTEXT, b"data");
    let changed = session.replaced(FIRST, &record, &[b"changed"]);
    // A writer that is handed the same record again refuses it, and has nothing to seal anew.
    let relay = &mut session.boxes[FIRST].to_server;
    let sequence = Breach::Sequence {
        expected: 1,
        found: 0,
    };
    assert_eq!(relay.receive(&record).map(drop), Err(sequence.into()));
    // One that seals twice all the same is caught by whoever gets both.
    let twice = [changed[0].clone(), changed[0].clone()];
    caught(session.arrive(&twice), sequence);
}

// The path.

#[test]
fn a_middlebox_that_is_skipped_is_missed_where_the_path_is_required() {
    for skipped in 0..3 {
        let mut session = establish(&Setup::new(&[&[Read, Write, Read]], PathMode::Required));
        let mut record = session.sealed(CONTEXT, b"data");
        let mut noticed = None;
        for index in (0..3).filter(|index| *index != skipped) {
            let relay = &mut session.boxes[index].to_server;
            match relay.receive(&record) {
                Ok(passing) => {
                    let mut out = Vec::new();
                    passing.expect("as the test has it").forward(&mut out);
                    record = records(&out).remove(0);
                }
                Err(error) => noticed = noticed.or(Some(error)),
            }
        }
        // The next middlebox notices, and if it says nothing, the endpoint does.
        let number = u8::try_from(skipped).expect("as the test has it") + 1;
        let missed = Check::PathSkipped(position(number));
        assert_eq!(noticed, (skipped < 2).then_some(missed.into()));
        caught(session.arrive(&[record]), missed);
    }
}

#[test]
fn a_middlebox_that_is_skipped_is_not_missed_where_no_path_is_required() {
    let mut session = establish(&setup(&[&[Read]]));
    let record = session.sealed(CONTEXT, b"data");
    let Ok(Some(Event::Data(delivery))) = session.arrive(&[record]) else {
        panic!("data");
    };
    assert_eq!(delivery.provenance, Provenance::Original);
    assert!(delivery.seen_by.is_empty());
}

#[test]
fn a_false_stamp_is_refused_and_its_middlebox_named() {
    let mut session = establish(&Setup::new(&[&[Read]], PathMode::Required));
    let record = session.sealed(CONTEXT, b"data");
    let mut stamped = session.forwarded(FIRST, &record);
    // Header, writer's tag, count, position, changed; then the stamp's tag.
    stamped[11 + 16 + 3] ^= 1;
    caught(session.arrive(&[stamped]), Check::PathStamp(position(1)));
}

/// A stamp that says "seen" is made to say "changed", with the digest that it has seen: no key is
/// needed for that, only 32 bytes more. Nobody is to be charged with a change by it.
#[test]
fn a_stamp_of_what_was_seen_is_no_stamp_of_a_change() {
    for rights in [[Read, Write], [Write, Write]] {
        let mut session = establish(&Setup::new(&[&rights], PathMode::Required));
        let mut group = changed_by_second(&mut session);
        assert_eq!(group.evidence.stamps[FIRST].changed, None);
        group.evidence.stamps[FIRST].changed = group.evidence.origin;
        let records = written(&session, &group);
        caught(session.arrive(&records), Check::PathStamp(position(1)));
    }
}

#[test]
fn a_change_that_changes_nothing_is_refused_even_with_its_tag() {
    let mut session = establish(&Setup::new(&[&[Write, Write]], PathMode::Required));
    let mut group = changed_by_second(&mut session);
    let claim = Claim::of(&group);
    let one = session.boxes[FIRST].to_server.author.clone();
    group.evidence.stamps[FIRST].changed = Some(claim.origin);
    group.evidence.stamps[FIRST].tag = claim.stamp(&one, &claim.origin, Some(&claim.origin));
    let records = written(&session, &group);
    caught(session.arrive(&records), Check::PathStamp(position(1)));
}

#[test]
fn a_middlebox_takes_nothing_after_an_error() {
    let mut session = establish(&setup(&[&[Read]]));
    let sent: Vec<_> = (0..2).map(|_| session.sealed(CONTEXT, b"data")).collect();
    let relay = &mut session.boxes[FIRST].to_server;
    let sequence = Breach::Sequence {
        expected: 0,
        found: 1,
    };
    for record in [&sent[1], &sent[0]] {
        assert_eq!(relay.receive(record).map(drop), Err(sequence.into()));
    }
}

#[test]
fn a_stamp_too_many_is_refused_by_the_next_middlebox() {
    let mut session = establish(&Setup::new(&[&[Read, Read]], PathMode::Required));
    let record = session.sealed(CONTEXT, b"data");
    let stamped = session.forwarded(FIRST, &record);
    let terms = session.server.configuration.terms.clone();
    let group = Assembly::default().push(&stamped, |id| terms.context(id));
    let mut group = group.expect("a record").expect("a whole group");
    let stamp = group.evidence.stamps[FIRST];
    group.evidence.stamps.push(stamp);
    let records = written(&session, &group);
    let relay = &mut session.boxes[SECOND].to_server;
    let refused = relay.receive(&records[0]).map(drop);
    assert_eq!(refused, Err(Check::PathStamp(position(1)).into()));
}

#[test]
fn a_stamp_of_another_record_is_refused() {
    let mut session = establish(&Setup::new(&[&[Read]], PathMode::Required));
    let stamps = 11 + 16..11 + 16 + 19;
    let sent: Vec<_> = (0..2).map(|_| session.sealed(CONTEXT, b"data")).collect();
    let first = session.forwarded(FIRST, &sent[0]);
    let mut second = session.forwarded(FIRST, &sent[1]);
    second[stamps.clone()].copy_from_slice(&first[stamps]);
    caught(
        session.arrive(&[first, second]),
        Check::PathStamp(position(1)),
    );
}

#[test]
fn a_group_cannot_be_mixed_from_two_authors_or_contexts() {
    let both = setup(&[&[Write, Write], &[Write, Write]]);
    let parts = |context, index| {
        let mut session = establish(&both);
        let record = session.sealed(context, b"data");
        session.replaced(index, &record, &[b"one", b"two"])
    };
    let first = parts(CONTEXT, FIRST).remove(0);
    for other in [parts(CONTEXT, SECOND), parts(OTHER, FIRST)] {
        let mut session = establish(&both);
        caught(
            session.arrive(&[first.clone(), other[1].clone()]),
            Breach::Part,
        );
    }
}

#[test]
fn a_record_by_a_middlebox_that_comes_later_is_refused() {
    let setup = setup(&[&[Read, Write]]);
    let mut session = establish(&setup);
    let record = session.sealed(CONTEXT, b"data");
    let changed = session.replaced(SECOND, &record, &[b"changed"]).remove(0);
    let relay = &mut establish(&setup).boxes[FIRST].to_server;
    let refused = relay.receive(&changed).map(drop);
    assert_eq!(refused, Err(Breach::Author(position(2)).into()));
}

/// A record of the client's that both middleboxes have passed on, the second with other words, as a
/// group whose evidence a test then falsifies.
fn changed_by_second(session: &mut Session) -> Group {
    let record = session.sealed(CONTEXT, b"data");
    let seen = session.forwarded(FIRST, &record);
    let changed = session.replaced(SECOND, &seen, &[b"changed"]).remove(0);
    let terms = session.server.configuration.terms.clone();
    let group = Assembly::default().push(&changed, |id| terms.context(id));
    group.expect("a record").expect("a whole group")
}

fn written(session: &Session, group: &Group) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let context = session.server.configuration.terms.context(group.context);
    write_group(&mut out, group, context);
    records(&out)
}

#[test]
fn a_stamp_too_many_is_refused() {
    let mut session = establish(&Setup::new(&[&[Read, Write]], PathMode::Required));
    let mut group = changed_by_second(&mut session);
    let last = group.evidence.stamps[SECOND];
    group.evidence.stamps.push(last);
    let records = written(&session, &group);
    caught(session.arrive(&records), Check::EndpointTag(CONTEXT));
}

#[test]
fn a_reader_is_not_named_as_the_author_of_a_change_even_if_a_writer_helps() {
    let mut session = establish(&Setup::new(&[&[Read, Write]], PathMode::Required));
    let mut group = changed_by_second(&mut session);
    let claim = Claim::of(&group);
    let [one, two] = [FIRST, SECOND].map(|index| session.boxes[index].to_server.author.clone());
    let pretended = [7; 32];
    group.evidence.stamps[FIRST].changed = Some(pretended);
    group.evidence.stamps[FIRST].tag = claim.stamp(&one, &claim.origin, Some(&pretended));
    group.evidence.stamps[SECOND].tag = claim.stamp(&two, &pretended, Some(&claim.digest));
    let records = written(&session, &group);
    caught(session.arrive(&records), Breach::Author(position(1)));
}

#[test]
fn a_writer_that_changes_what_another_changed_and_stamps_it_as_seen_is_refused() {
    let mut session = establish(&Setup::new(&[&[Write, Write]], PathMode::Required));
    let record = session.sealed(CONTEXT, b"data");
    let changed = session.replaced(FIRST, &record, &[b"first"]).remove(0);
    let relay = &mut session.boxes[SECOND].to_server;
    let passing = relay
        .receive(&changed)
        .expect("a record")
        .expect("a whole group");
    let mut group = passing.group.clone();
    let seen = Claim::of(&group);
    let header = group.parts[0].header;
    let part = relay.keys.seal(header, b"other").expect("a key");
    group.parts = part.into_iter().collect();
    group.evidence.stamps.push(Stamp {
        position: position(2),
        changed: None,
        tag: seen.stamp(&relay.author, &seen.digest, None),
    });
    let records = written(&session, &group);
    caught(session.arrive(&records), Check::EndpointTag(CONTEXT));
}

#[test]
fn a_reader_cannot_take_the_last_part_of_a_group() {
    let mut session = establish(&setup(&[&[Write, Read]]));
    let record = session.sealed(CONTEXT, b"data");
    let parts = session.replaced(FIRST, &record, &[b"one", b"two"]);
    let mut bytes = Vec::new();
    write_record(&mut bytes, &parts[1]);
    caught(session.arrive(&records(&bytes)), Breach::Part);
}
