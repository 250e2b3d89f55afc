//! Records in sessions between all parties of this crate: what passes, and what is noticed.

use mctls::config::Right;
use mctls::party::ContextId;

use crate::endpoint;
use crate::error::{Breach, Check, Error, Malformed, Misuse, Policy};
use crate::middlebox;
use crate::protect::{seal, tag};
use crate::record::{ContentType, MAX_PAYLOAD_LEN, Record};
use crate::rehearsal::{Outcome, cast, entropy, records, run};
use crate::relay::Relay;
use crate::schedule::{context_keys, halves, wholes};
use crate::session::{Contexts, Event, Provenance};

use Right::{None as No, Read, Write};

fn record(bytes: &[u8]) -> Record {
    let all = records(bytes);
    assert_eq!(all.len(), 1);
    all[0].clone()
}

/// A session that nobody has disturbed.
struct Session {
    client: endpoint::Established,
    boxes: Vec<middlebox::Established>,
    server: endpoint::Established,
}

fn established(outcome: Outcome) -> Session {
    let boxes = outcome.boxes.into_iter();
    Session {
        client: outcome.client.expect("the client is ready"),
        boxes: boxes.map(|one| one.expect("it is ready")).collect(),
        server: outcome.server.expect("the server is ready"),
    }
}

fn session(rights: &[&[Right]]) -> Session {
    let outcome = run(cast(rights, rights), |crossing| vec![crossing]);
    established(outcome.expect("nobody disturbs it"))
}

impl Session {
    fn sent(&mut self, context: u8, data: &[u8]) -> Record {
        let mut out = Vec::new();
        let sent = self.client.sender.seal(ContextId(context), data, &mut out);
        sent.expect("as the test has it");
        record(&out)
    }
}

fn forwarded(relay: &mut Relay, passing: Record) -> Result<Record, Error> {
    let mut out = Vec::new();
    relay.receive(passing)?.forward(&mut out);
    Ok(record(&out))
}

fn replaced(relay: &mut Relay, passing: Record, data: &[u8]) -> Record {
    let mut out = Vec::new();
    let passing = relay.receive(passing).expect("a good record");
    passing.replace(data, &mut out).expect("a writer writes");
    record(&out)
}

#[test]
fn each_middlebox_gets_the_rights_that_both_ends_grant() {
    let rights: [&[Right]; 3] = [&[No, Read, Write], &[Write, No, Read], &[Read, Read, No]];
    let found = |session: &Session| {
        let of = |id: u8| {
            let boxes = session.boxes.iter();
            boxes
                .map(move |one| one.to_client.right(ContextId(id)))
                .collect::<Vec<_>>()
        };
        [of(1), of(2), of(3)]
    };
    assert_eq!(found(&session(&rights)), rights);
    let less: [&[Right]; 3] = [&[Write; 3], &[Read, Write, No], &[No, Read, Read]];
    let outcome = run(cast(&rights, &less), |crossing| vec![crossing]);
    let session = established(outcome.expect("nobody disturbs it"));
    assert_eq!(
        found(&session),
        [
            vec![No, Read, Write],
            vec![Read, No, No],
            vec![No, Read, No]
        ]
    );
}

#[test]
fn data_passes_both_ways_and_a_writers_change_is_told() {
    let mut session = session(&[&[Read, Write], &[No, No]]);
    for (context, change) in [(1, None), (1, Some(&b"other"[..])), (2, None)] {
        let sent = session.sent(context, b"data");
        let sent = forwarded(&mut session.boxes[0].to_server, sent).expect("a good record");
        let writer = &mut session.boxes[1].to_server;
        let sent = match change {
            None => forwarded(writer, sent).expect("a good record"),
            Some(data) => replaced(writer, sent, data),
        };
        let Ok(Event::Data(delivery)) = session.server.receiver.open(&sent) else {
            panic!("it does not arrive");
        };
        assert_eq!(delivery.data, change.unwrap_or(b"data"));
        let provenance = match change {
            None => Provenance::Original,
            Some(_) => Provenance::Changed,
        };
        assert_eq!(delivery.provenance, provenance);
    }
    let mut out = Vec::new();
    let server = &mut session.server.sender;
    server
        .seal(ContextId(2), b"answer", &mut out)
        .expect("open");
    server.close(&mut out).expect("open");
    let again = server.seal(ContextId(2), b"more", &mut Vec::new());
    assert_eq!(again, Err(Misuse::Closed.into()));
    let mut events = Vec::new();
    for mut answer in records(&out) {
        for index in [1, 0] {
            let relay = &mut session.boxes[index].to_client;
            answer = forwarded(relay, answer).expect("a good record");
        }
        events.push(session.client.receiver.open(&answer));
    }
    assert!(matches!(&events[0], Ok(Event::Data(delivery)) if delivery.data == b"answer"));
    assert_eq!(events[1], Ok(Event::Closed));
    assert_eq!(session.client.receiver.finish(), Ok(()));
    let after = session.client.receiver.open(&records(&out)[0]);
    assert_eq!(after, Err(Breach::AfterClose.into()));
    let cut = session.server.receiver.finish();
    assert_eq!(cut, Err(Breach::Truncated.into()));
}

#[test]
fn a_middlebox_reads_and_writes_nothing_else_than_it_may() {
    let mut session = session(&[&[No], &[Read]]);
    for (context, seen) in [(1, None), (2, Some(&b"data"[..]))] {
        let sent = session.sent(context, b"data");
        let relay = &mut session.boxes[0].to_server;
        let passing = relay.receive(sent).expect("a good record");
        assert_eq!(passing.data().map(|(_, data)| data), seen);
        let refused = passing.replace(b"other", &mut Vec::new());
        assert_eq!(refused, Err(Misuse::NotWriter(ContextId(context)).into()));
    }
}

/// The keys of context 1: what both ends make their halves of is known here.
fn keys() -> Contexts {
    let halves = |seed| halves(&entropy(seed), [2].into_iter());
    context_keys(&wholes(&halves(1), &halves(2)))
}

#[test]
fn a_change_keeps_the_endpoints_mac() {
    let mut session = session(&[&[Write]]);
    let sent = session.sent(1, b"data");
    let changed = replaced(&mut session.boxes[0].to_server, sent.clone(), b"other");
    let [sent, changed] = [sent, changed].map(|one| keys()[&2].open(&one.fragment));
    let (sent, changed) = (sent.expect("its keys"), changed.expect("its keys"));
    assert_eq!(changed.data, b"other");
    assert_eq!(changed.endpoints, sent.endpoints);
    assert_ne!(changed.writers, sent.writers);
}

#[test]
fn a_record_with_more_data_than_one_holds_is_refused() {
    let mut session = session(&[&[Write]]);
    let (keys, kind) = (keys(), ContentType::ApplicationData);
    let data = [7; MAX_PAYLOAD_LEN + 1];
    let mac = tag(&keys[&2].readers, kind, &data);
    let record = Record {
        kind,
        slice: 2,
        fragment: seal(&keys[&2].cipher, [9; 16], &data, &[mac; 3]),
    };
    let (kind, length) = (kind.code(), data.len());
    let error = Error::from(Malformed::TooLong { kind, length });
    let relayed = forwarded(&mut session.boxes[0].to_server, record.clone());
    assert_eq!(relayed.map(drop), Err(error));
    assert_eq!(session.server.receiver.open(&record), Err(error));
}

/// A middlebox that may read has the cipher's key and that of the readers' MAC, and no more.
#[test]
fn a_readers_change_is_noticed_by_writers_and_endpoints_and_a_strangers_by_all() {
    let rights: [&[Right]; 1] = [&[Read, Write, Read]];
    let mut session = session(&rights);
    let sent = session.sent(1, b"data");
    let keys = keys();
    let opened = keys[&2].open(&sent.fragment).expect("its keys");
    let kind = ContentType::ApplicationData;
    let mine = tag(&keys[&2].readers, kind, b"evil");
    let macs = [mine, opened.writers, opened.endpoints];
    let forged = Record {
        fragment: seal(&keys[&2].cipher, [9; 16], b"evil", &macs),
        ..sent.clone()
    };
    let caught = Error::from(Check::WriterMac(ContextId(1)));
    let writer = forwarded(&mut session.boxes[1].to_server, forged.clone());
    assert_eq!(writer.map(drop), Err(caught));
    // Another reader cannot tell.
    assert!(forwarded(&mut session.boxes[2].to_server, forged.clone()).is_ok());
    assert_eq!(session.server.receiver.open(&forged), Err(caught));
    let mut broken = sent;
    broken.fragment[16] ^= 1;
    let caught = Error::from(Check::ReaderMac(ContextId(1)));
    let reader = forwarded(&mut session.boxes[0].to_server, broken.clone());
    assert_eq!(reader.map(drop), Err(caught));
    assert_eq!(session.server.receiver.open(&broken), Err(caught));
}

/// What the warning says: nobody notices. If this fails, the format has become another.
#[test]
fn records_can_be_repeated_dropped_and_sent_back() {
    let mut session = session(&[&[]]);
    let first = session.sent(1, b"first");
    let second = session.sent(1, b"second");
    for sent in [&second, &second, &first] {
        let event = session.server.receiver.open(sent);
        let Ok(Event::Data(delivery)) = event else {
            panic!("{event:?}");
        };
        assert_eq!(delivery.provenance, Provenance::Original);
    }
    // Sent back, it passes for a middlebox's change.
    let event = session.client.receiver.open(&first);
    let Ok(Event::Data(delivery)) = event else {
        panic!("{event:?}");
    };
    assert_eq!(delivery.provenance, Provenance::Changed);
}

#[test]
fn a_record_without_a_place_is_refused() {
    let mut session = session(&[&[Read]]);
    let sent = session.sent(1, b"data");
    let table = [
        (
            ContentType::ApplicationData,
            3,
            Error::from(Breach::Slice(3)),
        ),
        (ContentType::ApplicationData, 1, Breach::Slice(1).into()),
        (ContentType::ApplicationData, 0, Breach::Slice(0).into()),
        (ContentType::Handshake, 2, Breach::Record(22).into()),
        (ContentType::Alert, 2, Breach::Record(21).into()),
        (ContentType::ChangeCipherSpec, 2, Breach::Record(20).into()),
    ];
    for (kind, slice, error) in table {
        let moved = Record {
            kind,
            slice,
            ..sent.clone()
        };
        let relayed = forwarded(&mut session.boxes[0].to_server, moved.clone());
        assert_eq!(relayed.map(drop), Err(error));
        assert_eq!(session.server.receiver.open(&moved), Err(error));
    }
    let mut out = Vec::new();
    session.client.sender.abort(80, &mut out).expect("open");
    let ended = session.server.receiver.open(&record(&out));
    assert_eq!(ended, Err(Policy::Alert(80).into()));
}

#[test]
fn the_largest_session_works() {
    let rights = vec![[Write; 16].as_slice(); 120];
    let mut session = session(&rights);
    let mut sent = session.sent(120, &[7; 1 << 14]);
    for one in &mut session.boxes {
        sent = forwarded(&mut one.to_server, sent).expect("a good record");
    }
    let event = session.server.receiver.open(&sent);
    assert!(matches!(event, Ok(Event::Data(delivery)) if delivery.data.len() == 1 << 14));
    let long = session
        .client
        .sender
        .seal(ContextId(1), &[0; (1 << 14) + 1], &mut Vec::new());
    assert_eq!(long, Err(Misuse::PayloadLength((1 << 14) + 1).into()));
}
