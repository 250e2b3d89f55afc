//! Attacks on the handshake by whoever is on the path.

use std::sync::Arc;

use mctls::config::Right;
use mctls::party::{ContextId, Direction, Endpoint, Position};

use crate::error::{Breach, Check, Error, Policy};
use crate::list::{Context, MiddleboxList, Place};
use crate::message::{Message, Mode, Recipient};
use crate::record::ContentType;
use crate::rehearsal::{Crossing, Failure};
use crate::testing::{Anybody, Session, Setup};

use Right::{None as No, Read, Write};

const TO_SERVER: Direction = Direction::ToServer;
const TO_CLIENT: Direction = Direction::ToClient;
const CLIENT: usize = 0;
const FIRST: usize = 1;
/// With one middlebox.
const SERVER: usize = 2;

fn position(number: u8) -> Position {
    Position::new(number).expect("as the test has it")
}

/// Changes the handshake messages that cross.
fn changed(mut crossing: Crossing, change: &mut impl FnMut(&Crossing, &mut Message)) -> Crossing {
    if crossing.record.kind == ContentType::Handshake
        && let Ok(mut message) = Message::parse(&crossing.record.fragment)
    {
        change(&crossing, &mut message);
        crossing.record.fragment = message.to_bytes();
    }
    crossing
}

fn failure(setup: &Setup, mut change: impl FnMut(&Crossing, &mut Message)) -> Failure {
    let result = setup.run(|crossing| vec![changed(crossing, &mut change)]);
    result.map(drop).expect_err("the attack is noticed")
}

/// The session that comes about although somebody has changed messages.
fn unnoticed(setup: &Setup, mut change: impl FnMut(&Crossing, &mut Message)) -> Session {
    let result = setup.run(|crossing| vec![changed(crossing, &mut change)]);
    Session::of(result.expect("nobody notices"))
}

fn other_list(
    list: &MiddleboxList,
    change: impl FnOnce(&mut Place, &mut Vec<Context>),
) -> MiddleboxList {
    let mut server = list.server().clone();
    let mut contexts = list.contexts().to_vec();
    change(&mut server, &mut contexts);
    MiddleboxList::new(server, list.middleboxes().to_vec(), contexts).expect("as the test has it")
}

// What the finished messages catch.

#[test]
fn a_hello_rewritten_towards_the_server_is_caught_by_the_finished_message() {
    let failed = failure(&Setup::new(&[&[Read]]), |crossing, message| {
        if let (1, Message::ClientHello(hello)) = (crossing.hop, message) {
            hello.list = other_list(&hello.list, |_, contexts| contexts[0].rights = vec![Write]);
        }
    });
    assert_eq!((failed.at, failed.error), (SERVER, Check::Finished.into()));
}

#[test]
fn key_material_changed_behind_its_middlebox_is_caught_by_the_finished_message() {
    for (hop, direction, at) in [(1, TO_SERVER, SERVER), (0, TO_CLIENT, CLIENT)] {
        let failed = failure(&Setup::new(&[&[Read]]), |crossing, message| {
            if let Message::KeyMaterial(material) = message
                && (crossing.hop, crossing.direction) == (hop, direction)
                && material.recipient != Recipient::OtherEndpoint
            {
                material.sealed[20] ^= 1;
            }
        });
        assert_eq!((failed.at, failed.error), (at, Check::Finished.into()));
    }
}

#[test]
fn a_middlebox_hello_replaced_towards_a_server_that_verifies_none_is_caught_by_the_finished_message()
 {
    let mut setup = Setup::new(&[&[Read]]);
    setup.server_verifies = Arc::new(Anybody);
    let failed = failure(&setup, |crossing, message| {
        if let (1, Message::MiddleboxHello(hello)) = (crossing.hop, message) {
            hello.random[0] ^= 1;
        }
    });
    // The middlebox has other keys with the server then; what the endpoints compare is their own.
    assert_eq!((failed.at, failed.error), (SERVER, Check::Finished.into()));
}

// What signatures and certificates catch.

#[test]
fn a_middleboxs_key_replaced_is_caught_by_its_signature() {
    for (hop, at) in [(0, CLIENT), (1, SERVER)] {
        let failed = failure(&Setup::new(&[&[Read]]), |crossing, message| {
            if let Message::MiddleboxHello(hello) = message
                && crossing.hop == hop
            {
                hello.signed.keys.client = hello.signed.keys.server;
            }
        });
        let caught = Check::MiddleboxSignature(position(1));
        assert_eq!((failed.at, failed.error), (at, caught.into()));
    }
}

#[test]
fn a_middlebox_hello_of_another_session_is_caught_by_its_signature() {
    let mut other = Setup::new(&[&[Read]]);
    other.seed = 77;
    let mut theirs = None;
    unnoticed(&other, |_, message| {
        if let Message::MiddleboxHello(hello) = message {
            theirs = Some(hello.clone());
        }
    });
    let theirs = theirs.expect("it has passed");
    // The certificate is another, too: test parties make new keys each time.
    let failed = failure(&Setup::new(&[&[Read]]), |_, message| {
        if let Message::MiddleboxHello(hello) = message {
            *hello = theirs.clone();
        }
    });
    let caught = Check::MiddleboxSignature(position(1));
    assert_eq!((failed.at, failed.error), (CLIENT, caught.into()));
}

#[test]
fn a_servers_key_replaced_is_caught_by_its_signature() {
    let failed = failure(&Setup::new(&[&[]]), |_, message| {
        if let Message::ServerHello(hello) = message {
            hello.random[0] ^= 1;
        }
    });
    assert_eq!(
        (failed.at, failed.error),
        (CLIENT, Check::ServerSignature.into())
    );
}

#[test]
fn a_middlebox_of_another_name_is_caught_by_its_certificate() {
    let setup = Setup::new(&[&[Read]]);
    let failed = failure(&setup, |_, message| {
        if let Message::MiddleboxHello(hello) = message {
            hello.chain[0][0] ^= 1;
        }
    });
    let caught = Policy::MiddleboxCertificate(position(1));
    assert_eq!((failed.at, failed.error), (CLIENT, caught.into()));
}

// Key material.

#[test]
fn key_material_changed_on_its_way_is_caught_by_its_mac() {
    for (sender, direction) in [(Endpoint::Client, TO_SERVER), (Endpoint::Server, TO_CLIENT)] {
        let hop = if direction == TO_SERVER { 0 } else { 1 };
        let failed = failure(&Setup::new(&[&[Read]]), |crossing, message| {
            if let Message::KeyMaterial(material) = message
                && (crossing.hop, crossing.direction) == (hop, direction)
            {
                material.sealed[20] ^= 1;
            }
        });
        assert_eq!(
            (failed.at, failed.error),
            (FIRST, Check::KeyMaterial(sender).into())
        );
    }
}

#[test]
fn halves_changed_between_the_endpoints_are_caught_by_their_mac() {
    let failed = failure(&Setup::new(&[&[Read]]), |crossing, message| {
        if let (1, Message::KeyMaterial(material)) = (crossing.hop, message)
            && material.recipient == Recipient::OtherEndpoint
        {
            material.sealed[20] ^= 1;
        }
    });
    let caught = Check::KeyMaterial(Endpoint::Client);
    assert_eq!((failed.at, failed.error), (SERVER, caught.into()));
}

#[test]
fn key_material_moved_to_another_middlebox_is_caught_by_its_mac() {
    let failed = failure(&Setup::new(&[&[Read, Write]]), |crossing, message| {
        if let (0, Message::KeyMaterial(material)) = (crossing.hop, message) {
            material.recipient = match material.recipient {
                Recipient::Middlebox(one) => Recipient::Middlebox(position(3 - one.number())),
                Recipient::OtherEndpoint => Recipient::OtherEndpoint,
            };
        }
    });
    assert_eq!(failed.error, Check::KeyMaterial(Endpoint::Client).into());
}

#[test]
fn key_material_of_another_session_is_caught_by_its_mac() {
    let mut other = Setup::new(&[&[Write]]);
    other.seed = 77;
    let mut theirs = Vec::new();
    unnoticed(&other, |crossing, message| {
        if let (0, TO_SERVER, Message::KeyMaterial(material)) =
            (crossing.hop, crossing.direction, message)
        {
            theirs.push(material.clone());
        }
    });
    let mut theirs = theirs.into_iter();
    let failed = failure(&Setup::new(&[&[Write]]), |crossing, message| {
        if let (0, TO_SERVER, Message::KeyMaterial(material)) =
            (crossing.hop, crossing.direction, message)
        {
            *material = theirs.next().expect("as many");
        }
    });
    let caught = Check::KeyMaterial(Endpoint::Client);
    assert_eq!((failed.at, failed.error), (FIRST, caught.into()));
}

// Downgrades.

#[test]
fn a_mode_changed_on_the_way_leaves_the_server_without_its_halves() {
    let failed = failure(&Setup::new(&[&[Read]]), |crossing, message| {
        if let (1, Message::ServerHello(hello)) = (crossing.hop, message) {
            hello.mode = Mode::ClientDistributes;
        }
    });
    assert_eq!(
        (failed.at, failed.error),
        (SERVER, Breach::Record(20).into())
    );
}

#[test]
fn a_suite_that_does_not_fit_the_signature_is_refused() {
    for suite in [0x0067, 0xc027] {
        let failed = failure(&Setup::new(&[&[]]), |_, message| {
            if let Message::ServerHello(hello) = message {
                hello.suite = suite;
            }
        });
        assert_eq!(
            (failed.at, failed.error),
            (CLIENT, Breach::Suite(suite).into())
        );
    }
}

#[test]
fn an_offer_of_suites_cut_down_is_caught_by_the_finished_message() {
    let failed = failure(&Setup::new(&[&[]]), |_, message| {
        if let Message::ClientHello(hello) = message {
            hello.suites.truncate(1);
        }
    });
    assert_eq!((failed.at, failed.error), (1, Check::Finished.into()));
}

// Where the promises end.

/// Bhargavan et al. 2018: a middlebox does not know in which session it is. Whoever is on both of
/// its hops rewrites the list on one and writes it back on the other.
#[test]
fn a_middlebox_is_confused_about_server_and_contexts_and_nothing_catches_it() {
    let setup = Setup::new(&[&[Write], &[Write]]);
    let genuine = setup.list();
    let mut session = unnoticed(&setup, |crossing, message| {
        if let Message::ClientHello(hello) = message {
            hello.list = match crossing.hop {
                0 => other_list(&genuine, |server, contexts| {
                    server.name = "elsewhere".into();
                    let (left, right) = contexts.split_at_mut(1);
                    std::mem::swap(&mut left[0].purpose, &mut right[0].purpose);
                }),
                _ => genuine.clone(),
            };
        }
    });
    let believed = &session.boxes[0].list;
    assert_eq!(believed.server().name, "elsewhere");
    let purpose = |list: &MiddleboxList| list.contexts()[0].purpose.clone();
    assert_eq!(purpose(believed), "purpose 2");
    assert_eq!(purpose(&session.server.list), "purpose 1");
    // It changes what it takes for the second context's data, and that counts as a legal change.
    let record = session.sent(1, b"genuine");
    let record = session.replaced(0, record, b"changed by mistake");
    let event = session.server.receiver.open(&record).expect("accepted");
    let crate::receiver::Event::Data(delivery) = event else {
        panic!("{event:?}");
    };
    assert_eq!(delivery.data, b"changed by mistake");
    assert_eq!(delivery.provenance, crate::receiver::Provenance::Changed);
}

/// The same attacker tells a middlebox of other rights than it has: it believes that it may read,
/// and may write. What it can do is what it has keys for, so nothing is gained by it here.
#[test]
fn a_middlebox_is_told_of_other_rights_and_has_those_of_its_keys() {
    let setup = Setup::new(&[&[Write]]);
    let genuine = setup.list();
    let session = unnoticed(&setup, |crossing, message| {
        if let Message::ClientHello(hello) = message {
            hello.list = match crossing.hop {
                0 => other_list(&genuine, |_, contexts| contexts[0].rights = vec![No]),
                _ => genuine.clone(),
            };
        }
    });
    assert_eq!(session.boxes[0].list.contexts()[0].rights, [No]);
    assert_eq!(session.boxes[0].to_server.right(ContextId(1)), Write);
}

/// The paper, section 3.6: where the client distributes keys, the server agrees to nothing.
#[test]
fn a_grant_of_the_client_alone_holds_where_it_distributes_keys_and_nothing_catches_it() {
    let mut setup = Setup::new(&[&[Write]]);
    setup.server_rights = vec![vec![No]];
    let right = |setup: &Setup| setup.session().boxes[0].to_server.right(ContextId(1));
    assert_eq!(right(&setup), No);
    setup.mode = Mode::ClientDistributes;
    assert_eq!(right(&setup), Write);
}

/// The paper, section 3.5: no finished message is for a middlebox. Here it keeps a wrong one from
/// nobody: it forwards what the endpoints then refuse.
#[test]
fn a_finished_message_that_is_false_passes_each_middlebox() {
    let setup = Setup::new(&[&[Read]]);
    let result = setup.run(|mut crossing| {
        let record = &mut crossing.record;
        let is_finished = record.kind == ContentType::Handshake
            && Message::parse(&record.fragment).is_err()
            && crossing.hop == 0;
        if is_finished {
            record.fragment[20] ^= 1;
        }
        vec![crossing]
    });
    let failed = result.map(drop).expect_err("the server refuses it");
    assert_eq!(
        (failed.at, failed.error),
        (SERVER, Error::Forged(Check::EndpointMac))
    );
}
