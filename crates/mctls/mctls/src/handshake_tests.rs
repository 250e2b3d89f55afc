//! Every path of the handshake's state machines: who may send what when, and what sessions come of
//! it.

use crate::config::{PathMode, Right, Terms};
use crate::endpoint::{Channel, too_early};
use crate::error::{Alert, Breach, Check, Error, Misuse, Policy};
use crate::message::{Message, Shares};
use crate::party::{ContextId, Endpoint};
use crate::receiver::{Delivery, Event, Provenance};
use crate::suite::Suite;
use crate::testing::{
    CONTEXT, Envelope, Failure, OTHER, Party, Session, Setup, establish, position, records, run,
};

use Right::{None as No, Read, Write};

/// Data both ways through every middlebox, and a close of both directions.
fn exchange(session: &mut Session, context: ContextId) {
    for endpoint in [Endpoint::Client, Endpoint::Server] {
        let mut bytes = Vec::new();
        let (from, to) = match endpoint {
            Endpoint::Client => (&mut session.client.sender, &mut session.server.receiver),
            Endpoint::Server => (&mut session.server.sender, &mut session.client.receiver),
        };
        from.seal(context, b"data", &mut bytes)
            .expect("as the test has it");
        from.close(&mut bytes).expect("as the test has it");
        let boxes: Vec<_> = match endpoint {
            Endpoint::Client => session.boxes.iter_mut().map(|b| &mut b.to_server).collect(),
            Endpoint::Server => {
                let boxes = session.boxes.iter_mut().rev();
                boxes.map(|b| &mut b.to_client).collect()
            }
        };
        for relay in boxes {
            let mut passed = Vec::new();
            let may_read = relay.right(context) != No;
            for record in records(&bytes) {
                let passing = relay
                    .receive(&record)
                    .expect("as the test has it")
                    .expect("as the test has it");
                let readable = passing.context() == context && may_read;
                assert_eq!(passing.text().is_some(), readable);
                passing.forward(&mut passed);
            }
            bytes = passed;
        }
        let arrived = records(&bytes);
        let Ok(Some(Event::Data(delivery))) = to.open(&arrived[0]) else {
            panic!("data");
        };
        assert_eq!(delivery.payload, b"data");
        assert_eq!(delivery.provenance, Provenance::Original);
        assert_eq!(to.finish(), Err(Breach::Truncated.into()));
        assert_eq!(to.open(&arrived[1]), Ok(Some(Event::Closed)));
        assert_eq!(to.finish(), Ok(()));
    }
}

#[test]
fn sessions_of_every_shape_carry_data_both_ways() {
    let shapes: [&[&[Right]]; 7] = [
        &[&[]],
        &[&[No]],
        &[&[Read]],
        &[&[Write]],
        &[&[Read, Write], &[No, Read]],
        &[&[Write, Read, Write]],
        &[&[Write; 16], &[Read; 16]],
    ];
    for shape in shapes {
        for path in [PathMode::Off, PathMode::Required] {
            for suite in Suite::ALL {
                let mut setup = Setup::new(shape, path);
                setup.suites = vec![suite];
                let mut session = establish(&setup);
                assert_eq!(session.client.configuration.suite, suite);
                exchange(&mut session, CONTEXT);
            }
        }
    }
}

#[test]
fn a_session_has_up_to_255_contexts_and_16_middleboxes() {
    let rights: Vec<&[Right]> = vec![&[Write; 16]; 255];
    let mut session = establish(&Setup::new(&rights, PathMode::Required));
    exchange(&mut session, ContextId(255));
}

#[test]
fn a_server_may_reduce_and_everyone_holds_to_it() {
    let mut setup = Setup::new(&[&[Write], &[Write]], PathMode::Off);
    let one = position(1);
    setup.reduced = setup
        .terms
        .clone()
        .reduced(one, CONTEXT, Read)
        .reduced(one, OTHER, No);
    let mut session = establish(&setup);
    assert_eq!(session.client.configuration.terms, setup.reduced);
    let relay = &session.boxes[0].to_server;
    assert_eq!([relay.right(CONTEXT), relay.right(OTHER)], [Read, No]);
    exchange(&mut session, CONTEXT);
}

#[test]
fn a_server_that_adds_a_right_is_refused() {
    let setup = Setup::new(&[&[Read]], PathMode::Off);
    let more = Setup::new(&[&[Write]], PathMode::Off).terms;
    let failed = run(&setup, |mut envelope| {
        if let Message::Answer(answer) = &mut envelope.message {
            answer.configuration.terms = more.clone();
        }
        vec![envelope]
    });
    let at_client = Failure {
        at: Party::Client,
        error: Breach::NotReduced.into(),
    };
    assert_eq!(failed.expect_err("the test breaks it"), at_client);
    let mut own = setup;
    own.reduced = more;
    let at_server = Failure {
        at: Party::Server,
        error: Breach::NotReduced.into(),
    };
    assert_eq!(
        run(&own, |envelope| vec![envelope]).expect_err("the test breaks it"),
        at_server
    );
}

#[test]
fn a_server_cannot_take_a_middlebox_out_of_a_path_that_the_client_requires() {
    let mut setup = Setup::new(&[&[Read]], PathMode::Required);
    let one = position(1);
    setup.reduced = setup.terms.clone().reduced(one, CONTEXT, No);
    let stripped = Error::from(Breach::Stripped(one, CONTEXT));
    let failed = run(&setup, |envelope| vec![envelope]).expect_err("the test breaks it");
    assert_eq!((failed.at, failed.error), (Party::Server, stripped));
    // A server that does so all the same.
    let answered = setup.reduced.clone();
    setup.reduced = setup.terms.clone();
    let failed = run(&setup, |mut envelope| {
        if let Message::Answer(answer) = &mut envelope.message {
            answer.configuration.terms = answered.clone();
        }
        vec![envelope]
    });
    let failed = failed.expect_err("the test breaks it");
    assert_eq!((failed.at, failed.error), (Party::Client, stripped));
}

#[test]
fn a_client_gives_up_where_a_middlebox_is_left_less_than_it_makes_do_with() {
    let mut setup = Setup::new(&[&[Write]], PathMode::Off);
    setup.least = vec![vec![Read]];
    setup.reduced = setup.terms.clone().reduced(position(1), CONTEXT, Read);
    exchange(&mut establish(&setup), CONTEXT);
    setup.reduced = setup.terms.clone().reduced(position(1), CONTEXT, No);
    let failed = run(&setup, |envelope| vec![envelope]).expect_err("the test breaks it");
    let too_little = Policy::TooLittle(position(1), CONTEXT);
    assert_eq!(
        (failed.at, failed.error),
        (Party::Client, too_little.into())
    );
    assert_eq!(failed.error.alert(), Some(Alert::AccessDenied));
}

#[test]
fn a_refusal_ends_the_session_by_policy() {
    let setup = Setup::new(&[&[Read]], PathMode::Off);
    let failed = run(&setup, |envelope| {
        let message = match envelope.message {
            Message::Answer(_) => Message::Refusal,
            other => other,
        };
        vec![Envelope {
            message,
            ..envelope
        }]
    });
    assert_eq!(
        failed.expect_err("the test breaks it").error,
        Policy::Refused.into()
    );
}

#[test]
fn an_alert_names_who_ended_the_session() {
    let setup = Setup::new(&[&[Read]], PathMode::Off);
    let failed = run(&setup, |envelope| {
        let from_box = envelope.from == Party::Box(position(1)) && envelope.to == Party::Client;
        let message = match from_box {
            true => Message::Alert(Alert::Blocked),
            false => envelope.message,
        };
        vec![Envelope {
            message,
            ..envelope
        }]
    });
    let expected = Failure {
        at: Party::Client,
        error: Policy::MiddleboxAlert(position(1), Alert::Blocked).into(),
    };
    assert_eq!(failed.expect_err("the test breaks it"), expected);
}

#[test]
fn a_message_that_comes_again_is_refused_wherever_it_goes() {
    let setup = Setup::new(&[&[Read, Write]], PathMode::Off);
    let mut count = 0;
    run(&setup, |envelope| {
        count += 1;
        vec![envelope]
    })
    .expect("as the test has it");
    assert_eq!(
        count, 23,
        "offer, answer, bindings, 2 ready, 9 on each middlebox's legs"
    );
    for repeated in 0..count {
        let mut at = 0;
        let mut last = None;
        let result = run(&setup, |envelope| {
            let copies = if at == repeated { 2 } else { 1 };
            at += 1;
            if copies == 2 {
                last = Some(envelope.clone());
            }
            vec![envelope; copies]
        });
        let failure = result.expect_err("the test breaks it");
        let repeated = last.expect("as the test has it");
        assert_eq!(failure.at, repeated.to, "{repeated:?}");
        let refused = Error::Peer(Breach::Unexpected(repeated.message.kind()));
        assert_eq!(failure.error, refused, "{repeated:?}");
    }
}

#[test]
fn a_message_from_the_wrong_party_is_refused() {
    let setup = Setup::new(&[&[Read]], PathMode::Off);
    let mut count = 0;
    run(&setup, |envelope| {
        count += 1;
        vec![envelope]
    })
    .expect("as the test has it");
    for wrong in 0..count {
        let mut at = 0;
        let result = run(&setup, |mut envelope| {
            if at == wrong {
                envelope.from = match (envelope.from, envelope.to) {
                    (Party::Client, Party::Box(_)) => Party::Server,
                    (Party::Server, Party::Box(_)) => Party::Client,
                    (Party::Client | Party::Server, _) => Party::Box(position(1)),
                    (Party::Box(_), Party::Client) => Party::Server,
                    (Party::Box(_), _) => Party::Client,
                };
            }
            at += 1;
            vec![envelope]
        });
        let error = result.expect_err("the test breaks it").error;
        assert!(
            matches!(error, Error::Peer(_) | Error::Forged(_)),
            "{error}"
        );
    }
}

#[test]
fn no_proof_but_the_right_one_is_taken() {
    let setup = Setup::new(&[&[Read]], PathMode::Off);
    let with = |change: fn(&mut Message)| {
        let failed = run(&setup, |mut envelope| {
            change(&mut envelope.message);
            vec![envelope]
        });
        failed.expect_err("the test breaks it").error
    };
    let confirm = with(|message| {
        if let Message::Confirm(proof) = message {
            proof[0] ^= 1;
        }
    });
    assert_eq!(confirm, Check::Confirm(position(1)).into());
    let ready = with(|message| {
        if let Message::Ready(proof) = message {
            proof[0] ^= 1;
        }
    });
    assert_eq!(ready, Check::Ready.into());
    let leg_ready = with(|message| {
        if let Message::LegReady(proof) = message {
            proof[0] ^= 1;
        }
    });
    assert_eq!(leg_ready, Check::Transcript.into());
    let bind = with(|message| {
        if let Message::Bind(digest) = message {
            digest[0] ^= 1;
        }
    });
    assert_eq!(bind, Check::LegBinding(position(1)).into());
}

#[test]
fn endpoints_with_other_legs_or_shares_than_the_terms_are_told_so() {
    let setup = Setup::new(&[&[Read]], PathMode::Off);
    let terms = |boxes: &[Right]| -> Terms { Setup::new(&[boxes], PathMode::Off).terms };
    let mut wrong = setup.clone();
    wrong.reduced = terms(&[Read, Read]);
    let error = run(&wrong, |envelope| vec![envelope])
        .expect_err("the test breaks it")
        .error;
    assert_eq!(error, Breach::NotReduced.into());
    let count = Misuse::Count {
        expected: 64,
        found: 63,
    };
    assert_eq!(Shares::new(1, &[0; 63]).map(drop), Err(count));
}

#[test]
fn a_closed_direction_takes_nothing_more() {
    let mut session = establish(&Setup::new(&[&[Read]], PathMode::Off));
    let mut out = Vec::new();
    let sender = &mut session.client.sender;
    let long = vec![0; 16385];
    let refused = sender.seal(CONTEXT, &long, &mut out);
    assert_eq!(refused, Err(Misuse::PayloadLength(16385).into()));
    let unknown = sender.seal(ContextId(9), b"", &mut out);
    assert_eq!(unknown, Err(Misuse::Context(ContextId(9)).into()));
    let own = sender.seal(ContextId::END_TO_END, b"", &mut out);
    assert_eq!(own, Err(Misuse::Context(ContextId::END_TO_END).into()));
    sender.close(&mut out).expect("as the test has it");
    assert_eq!(sender.close(&mut out), Err(Misuse::Closed.into()));
    assert_eq!(
        sender.seal(CONTEXT, b"", &mut out),
        Err(Misuse::Closed.into())
    );
    let records = records(&out);
    assert_eq!(records.len(), 1);
    assert_eq!(session.arrive(&records), Ok(Some(Event::Closed)));
    let after = session.arrive(&records);
    assert_eq!(after, Err(Breach::AfterClose.into()));
}

#[test]
fn an_alert_of_the_other_endpoint_is_told_and_stays() {
    let mut session = establish(&Setup::new(&[&[Read]], PathMode::Off));
    let mut out = Vec::new();
    session
        .client
        .sender
        .alert(Alert::Internal, &mut out)
        .expect("as the test has it");
    let records = records(&out);
    let told = Err(Policy::PeerAlert(Alert::Internal).into());
    assert_eq!(session.arrive(&records), told);
    assert_eq!(session.arrive(&records), told);
    assert_eq!(session.server.receiver.finish(), told.map(drop));
}

#[test]
fn a_writer_may_replace_delete_and_add_and_is_named() {
    const EMPTY: [&[u8]; 8] = [b""; 8];
    for path in [PathMode::Off, PathMode::Required] {
        let mut session = establish(&Setup::new(&[&[Write, Read, Write]], path));
        let cases: [&[&[u8]]; 4] = [&[b"other"], &[b""], &[b"one", b"two", b"three"], &EMPTY];
        for parts in cases {
            let record = session.sealed(CONTEXT, b"original");
            let changed = session.replaced(0, &record, parts);
            assert_eq!(changed.len(), parts.len());
            let mut arrived = Ok(None);
            let mut seen = Vec::new();
            for record in changed {
                let mut bytes = Vec::new();
                crate::frame::write_record(&mut bytes, &record);
                for index in 1..3 {
                    let relay = &mut session.boxes[index].to_server;
                    let mut next = Vec::new();
                    for record in records(&bytes) {
                        if let Some(passing) = relay.receive(&record).expect("as the test has it") {
                            seen.extend(passing.text().map(<[u8]>::to_vec));
                            passing.forward(&mut next);
                        }
                    }
                    bytes = next;
                }
                let last = records(&bytes);
                if !last.is_empty() {
                    arrived = session.arrive(&last);
                }
            }
            let Ok(Some(Event::Data(delivery))) = arrived else {
                panic!("{arrived:?}");
            };
            let expected = parts.concat();
            assert_eq!(seen, [expected.clone(), expected.clone()]);
            assert_eq!(delivery.payload, expected);
            assert_eq!(
                delivery.provenance,
                Provenance::ChangedBy(vec![position(1)])
            );
            assert_eq!(delivery.is_deletion(), expected.is_empty());
            let all = [position(1), position(2), position(3)];
            match path {
                PathMode::Off => assert!(delivery.seen_by.is_empty()),
                PathMode::Required => assert_eq!(delivery.seen_by, all),
            }
        }
    }
}

#[test]
fn where_the_path_is_required_every_change_is_named_in_order() {
    let mut session = establish(&Setup::new(&[&[Write, Read, Write]], PathMode::Required));
    let record = session.sealed(CONTEXT, b"original");
    let once = session.replaced(0, &record, &[b"first"]).remove(0);
    let read = session.forwarded(1, &once);
    let twice = session.replaced(2, &read, &[b"second"]);
    let Ok(Some(Event::Data(Delivery {
        provenance,
        payload,
        ..
    }))) = session.arrive(&twice)
    else {
        panic!("data");
    };
    assert_eq!(payload, b"second");
    assert_eq!(
        provenance,
        Provenance::ChangedBy(vec![position(1), position(3)])
    );
}

#[test]
fn a_middlebox_without_the_right_cannot_replace() {
    for context in [CONTEXT, OTHER] {
        let mut session = establish(&Setup::new(&[&[Read], &[No]], PathMode::Off));
        let record = session.sealed(context, b"data");
        let relay = &mut session.boxes[0].to_server;
        let passing = relay
            .receive(&record)
            .expect("as the test has it")
            .expect("as the test has it");
        let not_writer = Err(Misuse::NotWriter(context).into());
        let refused = passing.replace(&[b""], &mut Vec::new());
        assert_eq!(refused, not_writer);
        assert_eq!(relay.receive(&record).map(drop), not_writer, "it stays");
    }
}

#[test]
fn a_replacement_has_one_to_eight_parts() {
    for (count, fits) in [(0, false), (1, true), (8, true), (9, false)] {
        let mut session = establish(&Setup::new(&[&[Write]], PathMode::Off));
        let record = session.sealed(CONTEXT, b"data");
        let relay = &mut session.boxes[0].to_server;
        let passing = relay
            .receive(&record)
            .expect("as the test has it")
            .expect("as the test has it");
        let parts: Vec<&[u8]> = vec![b"part"; count];
        let replaced = passing.replace(&parts, &mut Vec::new());
        let expected = if fits {
            Ok(())
        } else {
            Err(Misuse::Parts(count).into())
        };
        assert_eq!(replaced, expected);
    }
}

#[test]
fn keys_change_with_the_sequence_number_and_both_sides_follow() {
    use crate::keys::EPOCH_RECORDS;
    let mut session = establish(&Setup::new(&[&[Read]], PathMode::Off));
    session.client.sender.skip_to(EPOCH_RECORDS - 1);
    session.server.receiver.skip_to(EPOCH_RECORDS - 1);
    for _ in 0..2 {
        let record = session.sealed(CONTEXT, b"data");
        let arrived = session.arrive(&[record]);
        assert!(matches!(arrived, Ok(Some(Event::Data(_)))), "{arrived:?}");
    }
}

#[test]
fn the_last_sequence_number_is_the_last_of_the_last_epoch() {
    use crate::keys::SEQ_LIMIT;
    let mut session = establish(&Setup::new(&[&[Read]], PathMode::Off));
    session.client.sender.skip_to(SEQ_LIMIT - 1);
    session.server.receiver.skip_to(SEQ_LIMIT - 1);
    let record = session.sealed(CONTEXT, b"data");
    let arrived = session.arrive(&[record]);
    assert!(matches!(arrived, Ok(Some(Event::Data(_)))), "{arrived:?}");
    let mut out = Vec::new();
    let spent = Err(Misuse::SequenceSpent.into());
    assert_eq!(session.client.sender.seal(CONTEXT, b"", &mut out), spent);
    assert!(out.is_empty());
}

#[test]
fn a_closing_record_has_its_own_number() {
    let mut session = establish(&Setup::new(&[&[Read]], PathMode::Off));
    let mut out = Vec::new();
    let wrong = [1, 0, 0, 0, 0, 0, 0, 0, 7];
    session
        .client
        .sender
        .control(&wrong, &mut out)
        .expect("open");
    let refused = session.arrive(&records(&out));
    assert_eq!(refused, Err(Breach::Final.into()));
}

#[test]
fn an_alert_that_comes_before_its_time_is_told_as_one() {
    let alert = Message::Alert(Alert::Blocked);
    let one = position(1);
    let cases = [
        (Channel::EndToEnd, Policy::PeerAlert(Alert::Blocked)),
        (
            Channel::Leg(one),
            Policy::MiddleboxAlert(one, Alert::Blocked),
        ),
    ];
    for (from, told) in cases {
        assert_eq!(too_early(from, &alert), told.into());
        let other = too_early(from, &Message::Refusal);
        assert_eq!(other, Breach::Unexpected(Message::Refusal.kind()).into());
    }
}

#[test]
fn an_alert_with_an_unknown_number_ends_the_session_all_the_same() {
    let mut session = establish(&Setup::new(&[&[Read]], PathMode::Off));
    let mut out = Vec::new();
    session
        .client
        .sender
        .control(&[2, 1], &mut out)
        .expect("open");
    let told = session.arrive(&records(&out));
    assert_eq!(told, Err(Policy::PeerAlert(Alert::Other(1)).into()));
}

#[test]
fn what_is_said_in_context_0_has_a_known_form() {
    for payload in [&[][..], &[9], &[1, 0], &[2], &[2, 80, 0]] {
        let mut session = establish(&Setup::new(&[&[Read]], PathMode::Off));
        let mut out = Vec::new();
        session
            .client
            .sender
            .control(payload, &mut out)
            .expect("open");
        let refused = session.arrive(&records(&out));
        assert!(matches!(refused, Err(Error::Malformed(_))), "{payload:?}");
    }
}

/// The server's keys, which come upon `bind`, find the client's there.
#[test]
fn a_middlebox_says_nothing_before_it_has_the_clients_keys() {
    let mut said = Vec::new();
    run(&Setup::new(&[&[Read]], PathMode::Off), |envelope| {
        said.push((envelope.from, envelope.message.clone()));
        vec![envelope]
    })
    .expect("as the test has it");
    let of_client = said.into_iter().filter(|(from, _)| *from == Party::Client);
    let mut to_box = of_client.map(|(_, message)| message).skip(1);
    let secret = |endpoint| crate::testing::leg_secret(endpoint, 0);
    let waiting = crate::middlebox::Middlebox {
        client: secret(Endpoint::Client),
        server: secret(Endpoint::Server),
        certificate: crate::testing::certificate(0),
        server_certificate: crate::testing::SERVER_CERTIFICATE,
    };
    let mut next = || to_box.next().expect("as the test has it");
    let bound = waiting.handle(Endpoint::Client, next());
    let bound = bound.expect("as the test has it");
    let mut replies = Vec::new();
    let keys = next();
    assert!(matches!(keys, Message::OwnKeys(_)));
    bound
        .handle(Endpoint::Client, keys, &mut replies)
        .expect("as the test has it");
    let kinds: Vec<u8> = replies.iter().map(|reply| reply.message.kind()).collect();
    assert_eq!(kinds, [17, 17]);
}
