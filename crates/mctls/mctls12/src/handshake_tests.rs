//! Handshakes that nobody disturbs, and the sessions that come out of them.

use mctls::config::Right;
use mctls::party::{ContextId, Endpoint};

use crate::endpoint::{Client, Server};
use crate::error::{Breach, Error, Malformed, Misuse, Policy};
use crate::message::Mode;
use crate::receiver::{Event, Provenance};
use crate::record::{Incoming, Input};
use crate::testing::{ByName, Session, Setup, entropy, identity, name, one};

use Right::{None as No, Read, Write};

fn both_modes(rights: &[&[Right]]) -> [Setup; 2] {
    [Mode::Contributory, Mode::ClientDistributes].map(|mode| Setup {
        mode,
        ..Setup::new(rights)
    })
}

fn right(session: &Session, index: usize, context: u8) -> Right {
    let id = ContextId(context);
    let [to_server, to_client] = [
        &session.boxes[index].to_server,
        &session.boxes[index].to_client,
    ]
    .map(|relay| relay.right(id));
    assert_eq!(to_server, to_client);
    to_server
}

#[test]
fn each_middlebox_gets_the_rights_that_both_ends_grant() {
    let rights: [&[Right]; 3] = [&[No, Read, Write], &[Write, No, Read], &[Read, Read, No]];
    for setup in both_modes(&rights) {
        let session = setup.session();
        assert_eq!(session.client.mode, setup.mode);
        assert_eq!(session.client.list, session.server.list);
        for (context, rights) in (1..).zip(&rights) {
            for (index, expected) in rights.iter().enumerate() {
                assert_eq!(right(&session, index, context), *expected);
            }
        }
    }
}

#[test]
fn a_session_without_middleboxes_works_as_well() {
    for setup in both_modes(&[&[], &[]]) {
        let mut session = setup.session();
        let record = session.sent(2, b"data");
        let event = session.server.receiver.open(&record);
        let Ok(Event::Data(delivery)) = event else {
            panic!("{event:?}");
        };
        assert_eq!(delivery.data, b"data");
        assert_eq!(delivery.context, ContextId(2));
    }
}

#[test]
fn the_largest_session_works() {
    let rights = vec![Write; 16];
    let setup = Setup::new(&vec![rights.as_slice(); 255]);
    let mut session = setup.session();
    for context in [1, 255] {
        let mut record = session.sent(context, &[7; 1 << 14]);
        for index in 0..16 {
            record = session.forwarded(index, record).expect("a good record");
        }
        let event = session.server.receiver.open(&record);
        assert!(matches!(event, Ok(Event::Data(delivery)) if delivery.data.len() == 1 << 14));
    }
}

#[test]
fn a_right_that_the_server_withholds_is_none_and_the_client_does_not_learn_of_it() {
    let mut setup = Setup::new(&[&[Write], &[Write], &[Read]]);
    setup.server_rights = vec![vec![No], vec![Read], vec![Write]];
    let session = setup.session();
    let found = [1, 2, 3].map(|context| right(&session, 0, context));
    // For more than the client grants, half a key is none.
    assert_eq!(found, [No, Read, Read]);
    let told = &session.client.list.contexts()[0].rights;
    assert_eq!(*told, [Write]);
}

#[test]
fn data_passes_both_ways_and_a_writers_change_is_told() {
    for setup in both_modes(&[&[Read, Write], &[No, No]]) {
        let mut session = setup.session();
        for (context, change) in [(1, None), (1, Some(&b"other"[..])), (2, None)] {
            let record = session.sent(context, b"data");
            let record = session.forwarded(0, record).expect("a good record");
            let record = match change {
                None => session.forwarded(1, record).expect("a good record"),
                Some(data) => session.replaced(1, record, data),
            };
            let event = session.server.receiver.open(&record);
            let Ok(Event::Data(delivery)) = event else {
                panic!("{event:?}");
            };
            assert_eq!(delivery.data, change.unwrap_or(b"data"));
            assert_eq!(
                delivery.provenance,
                match change {
                    None => Provenance::Original,
                    Some(_) => Provenance::Changed,
                }
            );
        }
        let mut out = Vec::new();
        let sent = session
            .server
            .sender
            .seal(ContextId(1), b"answer", &mut out);
        sent.expect("as the test has it");
        session.server.sender.close(&mut out).expect("open");
        let mut answers = crate::rehearsal::records(&out);
        for index in [1, 0] {
            let relay = &mut session.boxes[index].to_client;
            let mut out = Vec::new();
            for record in answers {
                let passing = relay.receive(record).expect("a good record");
                passing.forward(&mut out);
            }
            answers = crate::rehearsal::records(&out);
        }
        let events: Vec<_> = answers
            .iter()
            .map(|record| session.client.receiver.open(record))
            .collect();
        assert!(matches!(&events[0], Ok(Event::Data(delivery)) if delivery.data == b"answer"));
        assert_eq!(events[1], Ok(Event::Closed));
        assert_eq!(session.client.receiver.finish(), Ok(()));
    }
}

#[test]
fn a_middlebox_reads_nothing_else_than_it_may() {
    let mut session = Setup::new(&[&[No], &[Read]]).session();
    for (context, seen) in [(1, None), (2, Some(&b"data"[..]))] {
        let record = session.sent(context, b"data");
        let relay = &mut session.boxes[0].to_server;
        let passing = relay.receive(record).expect("a good record");
        assert_eq!(passing.data(), seen);
        let refused = passing.replace(b"other", &mut Vec::new());
        let id = ContextId(context);
        assert_eq!(refused, Err(Misuse::NotWriter(id).into()));
    }
}

#[test]
fn nothing_follows_the_end() {
    let mut session = Setup::new(&[&[]]).session();
    let mut out = Vec::new();
    session.client.sender.close(&mut out).expect("open");
    assert_eq!(
        session.server.receiver.finish(),
        Err(Breach::Truncated.into())
    );
    let closed = session.server.receiver.open(&one(&out));
    assert_eq!(closed, Ok(Event::Closed));
    let again = session.client.sender.seal(ContextId(1), b"x", &mut out);
    assert_eq!(again, Err(Misuse::Closed.into()));
    let after = session.server.receiver.open(&one(&out));
    assert_eq!(after, Err(Breach::AfterClose.into()));
}

#[test]
fn an_alert_ends_the_session() {
    let mut session = Setup::new(&[&[]]).session();
    let mut out = Vec::new();
    session.client.sender.alert(80, &mut out).expect("open");
    let ended = session.server.receiver.open(&one(&out));
    assert_eq!(ended, Err(Policy::Alert(80).into()));
}

#[test]
fn a_middlebox_that_is_not_in_the_list_takes_no_part() {
    let mut setup = Setup::new(&[&[Read]]);
    setup.names = vec!["other".into()];
    let failed = setup
        .run(|crossing| vec![crossing])
        .expect_err("not listed");
    assert_eq!((failed.at, failed.error), (1, Breach::NotListed.into()));
}

#[test]
fn a_middlebox_without_the_key_of_its_name_is_refused() {
    let mut setup = Setup::new(&[&[Read, Read]]);
    // Both believe that they are the first: the client hears the first twice.
    setup.names = vec![name(1), name(1)];
    let failed = setup
        .run(|crossing| vec![crossing])
        .expect_err("two firsts");
    let Error::Peer(Breach::Order { .. }) = failed.error else {
        panic!("{}", failed.error);
    };
}

/// Each state takes what is due and nothing else, from any side, and does not panic.
#[test]
fn messages_at_the_wrong_time_are_refused() {
    let mut records = Vec::new();
    let setup = Setup::new(&[&[Read]]);
    setup
        .run(|crossing| {
            records.push(crossing.record.clone());
            vec![crossing]
        })
        .expect("nobody disturbs it");
    let mut inputs = vec![Input::ChangeCipherSpec];
    for record in records {
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        let mut incoming = Incoming::new();
        incoming.push(&bytes).expect("the first");
        match incoming.next() {
            Ok(Some(Input::Message(message))) if message[0] != 1 => {
                inputs.push(Input::Message(message));
            }
            Ok(_) | Err(_) => inputs.push(Input::Protected(record)),
        }
    }
    assert!(inputs.len() > 12);
    for input in &inputs {
        let verify = std::sync::Arc::new(ByName);
        let server = Server::start(identity("server"), verify, entropy(1)).expect("good");
        assert!(server.handle(input.clone(), &mut Vec::new()).is_err());
        let own = crate::middlebox::Own {
            is_named: std::sync::Arc::new(|one| one == name(1)),
            identity: identity(&name(1)),
            entropy: entropy(2),
        };
        for side in [Endpoint::Client, Endpoint::Server] {
            let middlebox = crate::middlebox::Middlebox::start(own.clone()).expect("good");
            let taken = middlebox.handle(side, input.clone(), &mut Default::default());
            assert!(taken.is_err());
        }
        if matches!(input, Input::Message(message) if message[0] == 2) {
            continue;
        }
        let verify = std::sync::Arc::new(ByName);
        let client = Client::start(setup.list(), verify, entropy(3), &mut Vec::new());
        let client = client.expect("good");
        assert!(client.handle(input.clone(), &mut Vec::new()).is_err());
    }
}

#[test]
fn a_server_without_a_suite_in_common_refuses() {
    use crate::message::{ClientHello, Message};
    let hello = Message::ClientHello(ClientHello {
        random: [1; 32],
        suites: vec![0x0067],
        list: Setup::new(&[&[]]).list(),
    });
    let verify = std::sync::Arc::new(ByName);
    let server = Server::start(identity("server"), verify, entropy(1)).expect("good");
    let refused = server.handle(Input::Message(hello.to_bytes()), &mut Vec::new());
    assert_eq!(refused.map(drop), Err(Breach::Suite(0xc023).into()));
}

#[test]
fn what_is_no_message_is_refused() {
    let verify = std::sync::Arc::new(ByName);
    let server = Server::start(identity("server"), verify, entropy(1)).expect("good");
    let refused = server.handle(Input::Message(vec![99, 0, 0, 0]), &mut Vec::new());
    assert_eq!(refused.map(drop), Err(Malformed::MessageType(99).into()));
}
