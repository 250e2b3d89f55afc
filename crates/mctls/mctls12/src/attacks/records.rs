//! Attacks on the records of an established session.

use mctls::config::Right;
use mctls::party::ContextId;

use crate::error::{Breach, Check, Error};
use crate::protect::{Opened, Place, context_keys};
use crate::receiver::{Delivery, Event, Provenance};
use crate::record::{ContentType, Record};
use crate::testing::{Session, Setup, one};

use Right::{None as No, Read, Write};

const ONE: ContextId = ContextId(1);
const TWO: ContextId = ContextId(2);

fn session(rights: &[&[Right]]) -> Session {
    Setup::new(rights).session()
}

fn opened(session: &mut Session, record: &Record) -> Result<Delivery, Error> {
    match session.server.receiver.open(record)? {
        Event::Data(delivery) => Ok(delivery),
        Event::Closed => panic!("a record with data"),
    }
}

/// What a middlebox does that changes a record with whatever keys it has: it makes each MAC for
/// which it has the key, and keeps the others.
fn overstep(session: &Session, index: usize, record: &Record, seq: u64, data: &[u8]) -> Record {
    let keys = session.boxes[index].to_server.keys();
    let keys = &keys[&record.context];
    let was = keys.open(&record.fragment).expect("it may read");
    let place = Place {
        seq,
        kind: record.kind,
        context: record.context,
    };
    let writers = keys.writers.as_ref();
    let now = Opened {
        readers: place.mac(&keys.readers, data),
        writers: writers.map_or(was.writers, |key| place.mac(key, data)),
        endpoints: was.endpoints,
        data: data.to_vec(),
    };
    Record {
        fragment: keys.seal([5; 16], &now),
        ..record.clone()
    }
}

// Readers.

#[test]
fn a_reader_that_writes_is_caught_by_the_writers_mac_at_the_endpoint() {
    let mut session = session(&[&[Read]]);
    let record = session.sent(1, b"genuine");
    let forged = overstep(&session, 0, &record, 1, b"forged");
    let caught = Check::WriterMac(ONE);
    assert_eq!(opened(&mut session, &forged), Err(caught.into()));
}

#[test]
fn a_reader_that_writes_is_caught_by_the_writers_mac_at_the_next_writer() {
    let mut session = session(&[&[Read, Write]]);
    let record = session.sent(1, b"genuine");
    let forged = overstep(&session, 0, &record, 1, b"forged");
    let caught = session.forwarded(1, forged);
    assert_eq!(caught, Err(Check::WriterMac(ONE).into()));
}

/// The paper, section 3.4: readers cannot detect illegal changes by other readers.
#[test]
fn a_reader_that_writes_deceives_the_next_reader_and_is_caught_by_the_endpoint_only() {
    let mut session = session(&[&[Read, Read]]);
    let record = session.sent(1, b"genuine");
    let forged = overstep(&session, 0, &record, 1, b"forged");
    let relay = &mut session.boxes[1].to_server;
    let passing = relay
        .receive(forged.clone())
        .expect("nothing catches it here");
    assert_eq!(passing.data(), Some(&b"forged"[..]));
    passing.forward(&mut Vec::new());
    let caught = Check::WriterMac(ONE);
    assert_eq!(opened(&mut session, &forged), Err(caught.into()));
}

#[test]
fn a_reader_in_one_context_reads_nothing_of_another() {
    let session = session(&[&[Read], &[No]]);
    let keys = session.boxes[0].to_server.keys();
    assert!(keys.contains_key(&ONE) && !keys.contains_key(&TWO));
    assert!(keys[&ONE].writers.is_none());
}

// Third parties.

#[test]
fn a_change_without_keys_is_caught_by_each_kind_of_party() {
    for rights in [Read, Write] {
        let mut session = session(&[&[rights]]);
        let mut record = session.sent(1, b"genuine");
        record.fragment[18] ^= 1;
        let caught = session.forwarded(0, record.clone());
        assert_eq!(caught, Err(Check::ReaderMac(ONE).into()));
        let caught = Check::ReaderMac(ONE);
        assert_eq!(opened(&mut session, &record), Err(caught.into()));
    }
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

// Order. The numbers are not on the wire, so each of these looks like a forged record.

fn three(session: &mut Session) -> [Record; 3] {
    [
        session.sent(1, b"first"),
        session.sent(2, b"second"),
        session.sent(1, b"third"),
    ]
}

fn caught_at(session: &mut Session, records: &[&Record]) -> Option<usize> {
    let mut results = records.iter().map(|record| opened(session, record));
    results.position(|result| matches!(result, Err(Error::Forged(Check::ReaderMac(_)))))
}

#[test]
fn dropped_repeated_and_swapped_records_are_caught_by_the_sequence_over_all_contexts() {
    for (order, at) in [
        (&[0, 1, 2][..], None),
        (&[1], Some(0)),
        (&[0, 2], Some(1)),
        (&[0, 0], Some(1)),
        (&[1, 0], Some(0)),
        (&[0, 1, 0], Some(2)),
    ] {
        let mut session = session(&[&[], &[]]);
        let records = three(&mut session);
        let sent: Vec<&Record> = order.iter().map(|&index| &records[index]).collect();
        assert_eq!(caught_at(&mut session, &sent), at, "{order:?}");
    }
}

#[test]
fn a_middlebox_that_may_read_catches_them_as_well() {
    let mut session = session(&[&[Read], &[No]]);
    let [_, second, third] = three(&mut session);
    session.forwarded(0, second).expect("it cannot read it");
    // It has counted one too few.
    let caught = session.forwarded(0, third);
    assert_eq!(caught, Err(Check::ReaderMac(ONE).into()));
}

#[test]
fn a_record_sent_back_is_caught_by_the_keys_of_its_direction() {
    let mut session = session(&[&[]]);
    let record = session.sent(1, b"genuine");
    let caught = session.client.receiver.open(&record);
    assert_eq!(caught, Err(Check::ReaderMac(ONE).into()));
}

#[test]
fn a_record_of_another_session_is_caught_by_its_keys() {
    let mut other = Setup::new(&[&[]]);
    other.seed = 77;
    let record = other.session().sent(1, b"genuine");
    let caught = Check::ReaderMac(ONE);
    assert_eq!(opened(&mut session(&[&[]]), &record), Err(caught.into()));
}

#[test]
fn a_tail_cut_off_is_caught_by_the_missing_close_notify() {
    let mut session = session(&[&[]]);
    let record = session.sent(1, b"genuine");
    opened(&mut session, &record).expect("it is genuine");
    let cut = session.server.receiver.finish();
    assert_eq!(cut, Err(Breach::Truncated.into()));
}

#[test]
fn a_close_notify_that_comes_too_early_is_caught_by_the_endpoints_mac() {
    let mut session = session(&[&[]]);
    session.sent(1, b"dropped");
    let mut out = Vec::new();
    session.client.sender.close(&mut out).expect("open");
    let caught = session.server.receiver.open(&one(&out));
    assert_eq!(caught, Err(Check::EndpointMac.into()));
}

// Contexts.

#[test]
fn a_record_moved_to_another_context_is_caught_by_that_contexts_keys() {
    let mut session = session(&[&[], &[]]);
    let mut record = session.sent(1, b"genuine");
    record.context = TWO;
    let caught = Check::ReaderMac(TWO);
    assert_eq!(opened(&mut session, &record), Err(caught.into()));
}

/// Whoever may write in two contexts can move data from one to the other. It counts as changed,
/// since the endpoints' MAC covers the context; without that it would count as original.
#[test]
fn data_moved_by_a_writer_of_both_contexts_counts_as_changed() {
    let mut session = session(&[&[Write], &[Write]]);
    let record = session.sent(1, b"genuine");
    let keys = session.boxes[0].to_server.keys();
    let was = keys[&ONE].open(&record.fragment).expect("it may read");
    let place = Place {
        seq: 1,
        kind: ContentType::ApplicationData,
        context: TWO,
    };
    let to = &keys[&TWO];
    let writers = to.writers.as_ref().expect("it may write");
    let moved = Opened {
        readers: place.mac(&to.readers, &was.data),
        writers: place.mac(writers, &was.data),
        ..was
    };
    let record = Record {
        context: TWO,
        fragment: to.seal([5; 16], &moved),
        ..record
    };
    let delivery = opened(&mut session, &record).expect("it may do that");
    assert_eq!(
        (delivery.context, delivery.data.as_slice()),
        (TWO, &b"genuine"[..])
    );
    assert_eq!(delivery.provenance, Provenance::Changed);
}

#[test]
fn context_0_is_the_endpoints_own() {
    let mut session = session(&[&[Write]]);
    let mut record = session.sent(1, b"genuine");
    record.context = ContextId::END_TO_END;
    let caught = Breach::Context(ContextId::END_TO_END);
    assert_eq!(opened(&mut session, &record), Err(caught.into()));
    record.kind = ContentType::Alert;
    let caught = session.server.receiver.open(&record);
    assert_eq!(caught, Err(Check::EndpointMac.into()));
}

// Writers.

#[test]
fn a_writer_that_keeps_the_readers_mac_deceives_readers_only() {
    let mut session = session(&[&[Write, Read]]);
    let record = session.sent(1, b"genuine");
    let record = session.replaced(0, record, b"changed");
    let keys = session.boxes[0].to_server.keys();
    let mut opened_record = keys[&ONE].open(&record.fragment).expect("it may read");
    opened_record.readers[0] ^= 1;
    let spoilt = Record {
        fragment: keys[&ONE].seal([5; 16], &opened_record),
        ..record
    };
    let caught = session.forwarded(1, spoilt.clone());
    assert_eq!(caught, Err(Check::ReaderMac(ONE).into()));
    // The paper has an endpoint check the writers' MAC and its own.
    assert!(opened(&mut session, &spoilt).is_ok());
}

/// The endpoints' MAC is passed on, so what is put back as it was counts as the endpoint's.
#[test]
fn data_that_a_writer_writes_again_as_it_was_counts_as_original() {
    let mut session = session(&[&[Write]]);
    let record = session.sent(1, b"genuine");
    let record = session.replaced(0, record, b"genuine");
    let delivery = opened(&mut session, &record).expect("a legal change");
    assert_eq!(delivery.provenance, Provenance::Original);
}

#[test]
fn which_writer_has_changed_a_record_nobody_can_tell() {
    let mut session = session(&[&[Write, Write]]);
    let record = session.sent(1, b"genuine");
    let by_first = session.replaced(0, record.clone(), b"changed");
    let by_first = session.forwarded(1, by_first).expect("a legal change");
    let by_second = overstep(&session, 1, &record, 1, b"changed");
    let first = opened(&mut session, &by_first);
    session.server.receiver.rewind();
    assert_eq!(first, opened(&mut session, &by_second));
}

#[test]
fn a_writer_that_adds_a_record_is_caught_by_the_next_genuine_one() {
    let mut session = session(&[&[Write]]);
    let record = session.sent(1, b"genuine");
    let added = overstep(&session, 0, &record, 1, b"added");
    assert!(opened(&mut session, &added).is_ok());
    let caught = Check::ReaderMac(ONE);
    assert_eq!(opened(&mut session, &record), Err(caught.into()));
}

// Where the promises end.

/// No middlebox proves that it has seen a record: a filter that is led around filters nothing.
#[test]
fn records_led_around_a_middlebox_arrive_and_nothing_catches_it() {
    let mut session = session(&[&[Read]]);
    for data in [b"first ", b"second"] {
        let record = session.sent(1, data);
        let delivery = opened(&mut session, &record).expect("nothing catches it");
        assert_eq!(delivery.provenance, Provenance::Original);
    }
}

/// A single record led around a middlebox is caught by it, if another comes its way.
#[test]
fn a_middlebox_that_was_led_around_once_notices_at_the_next_record() {
    let mut session = session(&[&[Read]]);
    session.sent(1, b"around it");
    let next = session.sent(1, b"through it");
    let caught = session.forwarded(0, next);
    assert_eq!(caught, Err(Check::ReaderMac(ONE).into()));
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
