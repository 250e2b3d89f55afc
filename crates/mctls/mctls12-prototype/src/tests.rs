//! Sessions between all parties of this crate: what passes, and what is noticed.

use std::sync::Arc;

use mctls::config::Right;
use mctls::party::{ContextId, Direction, Endpoint};

use crate::endpoint::{self, Handshake};
use crate::error::{Breach, Check, Error, Misuse, Policy};
use crate::middlebox::{self, Hops};
use crate::protect::{seal, tag};
use crate::record::{ContentType, Incoming, Input, Record};
use crate::rehearsal::{Crossing, Failure, Outcome, cast, entropy, records, run, toy_key};
use crate::relay::Relay;
use crate::schedule::{context_keys, wholes};
use crate::session::{Event, Provenance};

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

/// A middlebox that may read has the cipher's key and that of the readers' MAC, and no more.
#[test]
fn a_readers_change_is_noticed_by_writers_and_endpoints_and_a_strangers_by_all() {
    let rights: [&[Right]; 1] = [&[Read, Write, Read]];
    let mut session = session(&rights);
    let sent = session.sent(1, b"data");
    // Client's and server's halves are known to the test as entropy(1) and (2).
    let slices = || [2].into_iter();
    let ours = crate::schedule::halves(&entropy(1), slices());
    let theirs = crate::schedule::halves(&entropy(2), slices());
    let keys = context_keys(&wholes(&ours, &theirs));
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

fn disturbed(rights: &[&[Right]], tamper: impl FnMut(Crossing) -> Vec<Crossing>) -> (usize, Error) {
    match run(cast(rights, rights), tamper) {
        Err(Failure { at, error }) => (at, error),
        Ok(_) => panic!("nobody notices"),
    }
}

/// Changes one byte of the last message of a type on a hop.
fn flip(
    hop: usize,
    direction: Direction,
    kind: u8,
    from_end: usize,
) -> impl FnMut(Crossing) -> Vec<Crossing> {
    move |mut crossing| {
        let is_it = (crossing.hop, crossing.direction) == (hop, direction)
            && crossing.record.kind == ContentType::Handshake
            && crossing.record.fragment.first() == Some(&kind);
        if is_it {
            let at = crossing.record.fragment.len() - from_end;
            crossing.record.fragment[at] ^= 1;
        }
        vec![crossing]
    }
}

#[test]
fn what_is_changed_in_the_handshake_is_noticed() {
    let rights: [&[Right]; 1] = [&[Read]];
    use Direction::{ToClient, ToServer};
    let first = mctls::party::Position::new(1).expect("a position");
    let material = Error::from(Check::KeyMaterial);
    let table: [(usize, Direction, u8, usize, usize, Error); 6] = [
        // A signature of the server, on the hop behind the middlebox.
        (1, ToClient, 12, 1, 0, Check::ServerSignature.into()),
        // The middlebox's own goes over hop 1 to the server.
        (
            1,
            ToServer,
            12,
            1,
            2,
            Check::MiddleboxSignature(first).into(),
        ),
        // The server's random value is under its signature.
        (1, ToClient, 2, 10, 0, Check::ServerSignature.into()),
        // A certificate that is another: the length of the chain is what is checked here.
        (1, ToClient, 11, 1, 0, Check::Finished.into()),
        // Ciphertext to the middlebox: its padding.
        (0, ToServer, 40, 1, 1, material),
        // The client's list, purpose of the only context.
        (1, ToServer, 1, 43, 2, Check::Finished.into()),
    ];
    for (hop, direction, kind, from_end, at, error) in table {
        let found = disturbed(&rights, flip(hop, direction, kind, from_end));
        let is_finished = error == Check::Finished.into();
        match is_finished {
            false => assert_eq!(found, (at, error), "{kind}"),
            // Different handshakes make different keys, which the record shows first.
            true => assert!(
                matches!(found.1, Error::Forged(_) | Error::Malformed(_)),
                "{kind}: {found:?}"
            ),
        }
    }
}

#[test]
fn a_middlebox_that_is_not_in_the_list_takes_no_part() {
    let mut cast = cast(&[&[Read]], &[&[Read]]);
    cast.boxes[0] = crate::middlebox::Middlebox::start(middlebox::Own {
        is_mine: Arc::new(|_| false),
        identity: crate::auth::Identity {
            chain: vec![vec![1]],
            key: Arc::new(crate::rehearsal::Toy),
        },
        entropy: entropy(9),
    });
    let failed = run(cast, |crossing| vec![crossing]).map(drop);
    let failed = failed.expect_err("not listed");
    assert_eq!((failed.at, failed.error), (1, Breach::NotListed.into()));
}

/// Each state takes what is due and nothing else, from any side, and does not panic.
#[test]
fn messages_at_the_wrong_time_are_refused() {
    let rights: [&[Right]; 1] = [&[Read]];
    let mut inputs = vec![Input::ChangeCipherSpec];
    let collected = run(cast(&rights, &rights), |crossing| {
        let mut bytes = Vec::new();
        crossing.record.write(&mut bytes);
        let mut incoming = Incoming::new();
        incoming.push(&bytes).expect("the first");
        match incoming.next() {
            Ok(Some(Input::Message(message))) if message[0] != 1 => {
                inputs.push(Input::Message(message));
            }
            Ok(_) | Err(_) => inputs.push(Input::Protected(crossing.record.clone())),
        }
        vec![crossing]
    });
    collected.expect("nobody disturbs it");
    assert!(inputs.len() > 12);
    for input in &inputs {
        for side in [Endpoint::Client, Endpoint::Server] {
            let middlebox = cast(&rights, &rights).boxes.remove(0);
            let taken = middlebox.handle(side, input.clone(), &mut Hops::default());
            assert!(taken.is_err());
        }
        let parties = cast(&rights, &rights);
        let taken = parties.server.handle(input.clone(), &mut Vec::new());
        assert!(taken.is_err());
        if !matches!(input, Input::Message(message) if message[0] == 2) {
            let taken = parties.client.handle(input.clone(), &mut Vec::new());
            assert!(taken.is_err());
        }
    }
}

#[test]
fn key_material_twice_or_for_nobody_is_refused() {
    let rights: [&[Right]; 1] = [&[Read]];
    for change in [
        |crossing: Crossing| vec![crossing.clone(), crossing],
        |mut crossing: Crossing| {
            crossing.record.fragment[4] = 77;
            vec![crossing]
        },
    ] {
        let (_, error) = disturbed(&rights, |crossing| {
            let is_it = crossing.hop == 1 && crossing.record.fragment.first() == Some(&40);
            match is_it && crossing.record.kind == ContentType::Handshake {
                true => change(crossing),
                false => vec![crossing],
            }
        });
        assert!(
            matches!(
                error,
                Error::Peer(Breach::KeyMaterial | Breach::Message(40))
            ),
            "{error}"
        );
    }
}

#[test]
fn a_server_that_does_not_want_a_session_refuses() {
    let mut parties = cast(&[&[]], &[&[]]);
    let identity = crate::auth::Identity {
        chain: vec![vec![1]],
        key: Arc::new(crate::rehearsal::Toy),
    };
    let verify = Arc::new(crate::rehearsal::Anybody);
    parties.server = Handshake::server(identity, verify, entropy(2), Arc::new(|_| None));
    let failed = run(parties, |crossing| vec![crossing]).map(drop);
    assert_eq!(failed.expect_err("refused").error, Policy::Refused.into());
}

#[test]
fn an_rsa_key_of_the_prototypes_length_seals_what_its_middleboxes_take() {
    let sealed = toy_key().seal(&[1; 32], &entropy(1), 3);
    assert_eq!(sealed.len(), 128);
}
