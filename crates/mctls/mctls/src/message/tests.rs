//! Messages are read as they were written, in any pieces, and nothing else is read.

use super::*;
use crate::config::{Context, Middlebox, PathMode, Right};
use crate::party::ContextId;

fn configuration() -> Configuration {
    let middlebox = Middlebox {
        name: "filter".into(),
        certificate: [1; 32],
    };
    let context = Context {
        id: ContextId(1),
        purpose: "request headers".into(),
        path: PathMode::Required,
        rights: vec![Right::Read],
    };
    Configuration {
        suite: Suite::Aes128Gcm,
        terms: Terms::new([2; 32], vec![middlebox], vec![context]).expect("as the test has it"),
    }
}

fn all() -> Vec<Message> {
    let configuration = configuration();
    let shares = Shares::new(1, &[3; 64]).expect("as the test has it");
    let transcript = Transcript {
        offer: [15; 32],
        legs: vec![LegDigests {
            client: [4; 32],
            server: [5; 32],
        }],
        shares: vec![ShareDigests {
            client: shares.digests(0),
            server: [[6; 32], [7; 32]],
        }],
        client_certificate: [0; 32],
    };
    let granted = vec![Granted {
        context: ContextId(1),
        purpose: Purpose::Read,
        share: shares.share(0, Purpose::Read).clone(),
    }];
    let own = granted.clone();
    vec![
        Message::Offer(Offer {
            suites: vec![0x1301, 0x1302],
            terms: configuration.terms.clone(),
            shares: shares.clone(),
        }),
        Message::Answer(Answer {
            configuration: configuration.clone(),
            shares,
        }),
        Message::Refusal,
        Message::Bindings(vec![Binding {
            own: [8; 32],
            reported: [9; 32],
        }]),
        Message::Ready([10; 32]),
        Message::Start(Start {
            endpoint: Endpoint::Server,
            position: Position::new(1).expect("as the test has it"),
            sid: [11; 32],
            configuration,
        }),
        Message::Bind([12; 32]),
        Message::Keys(Keys {
            transcript,
            granted,
        }),
        Message::OwnKeys(OwnKeys { granted: own }),
        Message::Confirm([13; 32]),
        Message::LegReady([14; 32]),
        Message::Alert(Alert::Blocked),
    ]
}

#[test]
fn what_was_written_is_read_in_any_pieces() {
    let bytes: Vec<u8> = all().iter().flat_map(Message::to_bytes).collect();
    for piece in [1, 2, 7, 100, bytes.len()] {
        let mut decoder = Decoder::new();
        let mut read = Vec::new();
        for chunk in bytes.chunks(piece) {
            decoder.push(chunk).expect("as the test has it");
            while let Some(message) = decoder.next().expect("as the test has it") {
                read.push(message);
            }
        }
        assert_eq!(read, all());
    }
}

#[test]
fn a_message_with_a_byte_more_or_less_is_refused() {
    for message in all() {
        let mut bytes = message.to_bytes();
        let counts = Some(Counts::of(&configuration().terms));
        let kind = bytes[0];
        let body = bytes.split_off(HEADER_LEN);
        assert_eq!(Message::parse(kind, &body, counts), Ok(message));
        if let Some((_, shorter)) = body.split_last() {
            assert!(Message::parse(kind, shorter, counts).is_err(), "{kind}");
        }
        let longer = [&body[..], &[0]].concat();
        assert!(Message::parse(kind, &longer, counts).is_err(), "{kind}");
    }
}

#[test]
fn keys_before_a_start_are_refused() {
    let keys = all().remove(7);
    let mut decoder = Decoder::new();
    decoder.push(&keys.to_bytes()).expect("as the test has it");
    let refused = Error::Peer(Breach::Unexpected(kind::KEYS));
    assert_eq!(decoder.next(), Err(refused));
}

#[test]
fn another_version_is_refused_and_named() {
    let mut offer = all().remove(0).to_bytes();
    offer[HEADER_LEN] = 2;
    let mut decoder = Decoder::new();
    decoder.push(&offer).expect("as the test has it");
    assert_eq!(decoder.next(), Err(Error::Peer(Breach::Version(2))));
}

#[test]
fn an_unknown_type_is_refused_before_its_body_is_there() {
    for code in [0, 6, 15, 23, 255] {
        let mut decoder = Decoder::new();
        decoder.push(&[code, 255, 255]).expect("as the test has it");
        assert_eq!(decoder.next(), Err(Malformed::Type(code).into()));
    }
}

#[test]
fn nothing_is_held_beyond_one_message() {
    let mut decoder = Decoder::new();
    let pushes = (1..)
        .find(|_| decoder.push(&[0; 4096]).is_err())
        .expect("as the test has it");
    assert_eq!(pushes, MAX_MESSAGE_LEN / 4096 + 2);
    assert_eq!(decoder.push(&[0]), Err(Error::Peer(Breach::Flood)));
}

#[test]
fn shares_are_not_shown() {
    let text = format!("{:?}", all());
    assert!(!text.contains("3, 3, 3"), "{text}");
}
