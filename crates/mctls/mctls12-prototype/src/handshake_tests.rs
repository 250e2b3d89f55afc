//! Handshakes between all parties of this crate, disturbed: what is noticed, and by whom.

use std::sync::Arc;

use mctls::config::Right::{self, Read};
use mctls::party::{Direction, Endpoint};

use crate::endpoint::Handshake;
use crate::error::{Breach, Check, Error, Policy};
use crate::message::{Message, SERVER_KEY_EXCHANGE};
use crate::middlebox::{self, Hops, Middlebox};
use crate::record::{ContentType, Incoming, Input};
use crate::rehearsal::{Crossing, Failure, Toy, cast, entropy, run, toy_key};

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
    cast.boxes[0] = Middlebox::start(middlebox::Own {
        is_mine: Arc::new(|_| false),
        identity: crate::auth::Identity {
            chain: vec![vec![1]],
            key: Arc::new(Toy),
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
    // The server's is the last of the client's: it shows what is missing.
    let dropped = disturbed(&rights, |crossing| {
        let is_it = crossing.hop == 1 && crossing.record.fragment.first() == Some(&40);
        match is_it && crossing.record.fragment[4] == 3 {
            true => vec![],
            false => vec![crossing],
        }
    });
    assert_eq!(dropped, (2, Breach::KeyMaterial.into()));
    // A middlebox is given its own twice.
    let mut first = None;
    let twice = disturbed(&rights, |mut crossing| {
        if crossing.hop == 0 && crossing.record.fragment.first() == Some(&40) {
            crossing.record = first.get_or_insert(crossing.record).clone();
        }
        vec![crossing]
    });
    assert_eq!(twice, (1, Breach::KeyMaterial.into()));
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
        key: Arc::new(Toy),
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

/// RFC 5246, section 7.4.3: client's random value, server's, parameters.
#[test]
fn the_signature_covers_both_random_values_and_the_ephemeral_key() {
    let (mut randoms, mut signed) = (Vec::new(), 0);
    let rights: [&[Right]; 1] = [&[Read]];
    let undisturbed = run(cast(&rights, &rights), |crossing| {
        let fragment = &crossing.record.fragment;
        match (crossing.hop, fragment.first()) {
            // ChangeCipherSpec is one byte.
            (0, Some(1 | 2)) if fragment.len() > 1 => randoms.extend_from_slice(&fragment[6..38]),
            (0, Some(&SERVER_KEY_EXCHANGE)) => {
                let Ok(Message::ServerKeyExchange(exchange)) = Message::parse(fragment) else {
                    panic!("its own message");
                };
                // Behind the parameters: two bytes for the algorithm, two of length, 128.
                let params = &fragment[4..fragment.len() - 132];
                let message = [&randoms, params].concat();
                assert!(toy_key().verifies(&message, &exchange.signature));
                signed += 1;
            }
            _ => {}
        }
        vec![crossing]
    });
    undisturbed.map(drop).expect("nobody disturbs it");
    assert_eq!(signed, 2);
}

#[test]
fn a_client_without_the_suite_is_refused() {
    let rights: [&[Right]; 1] = [&[]];
    let found = disturbed(&rights, |mut crossing| {
        if crossing.record.fragment.first() == Some(&1) {
            assert_eq!(crossing.record.fragment[39..43], [0, 2, 0, 0x67]);
            crossing.record.fragment[42] = 0x68;
        }
        vec![crossing]
    });
    assert_eq!(found, (1, Breach::Suite.into()));
}

#[test]
fn a_client_that_answers_before_it_has_heard_everybody_is_refused() {
    let rights: [&[Right]; 1] = [&[Read]];
    let mut parties = cast(&rights, &rights);
    let mut incoming = Incoming::new();
    incoming.push(&parties.opening).expect("the first");
    let hello = incoming.next().expect("good").expect("whole");
    let middlebox = parties.boxes.remove(0);
    let joined = middlebox.handle(Endpoint::Client, hello, &mut Hops::default());
    let Ok(middlebox::Progress::Handshake(middlebox)) = joined else {
        panic!("{joined:?}");
    };
    let early = Input::Message(Message::ClientKeyExchange(vec![2; 256]).to_bytes());
    let refused = middlebox.handle(Endpoint::Client, early, &mut Hops::default());
    assert_eq!(refused.map(drop), Err(Breach::Message(16).into()));
}
