//! Attacks on the handshake by whoever is on the path.

use mctls::config::Right;
use mctls::party::{Direction, Endpoint, Position};

use super::{Act, Attack, ONE, TWO, Tamper, changed, original, script};
use crate::error::{Breach, Check, Policy};
use crate::exchange::{Ephemeral, Point};
use crate::list::{Context, MiddleboxList, Place};
use crate::message::{ClientHello, Message, MiddleboxKeys, Mode, Recipient};
use crate::record::ContentType;
use crate::rehearsal::Crossing;

use Right::{None as No, Read, Write};

const TO_SERVER: Direction = Direction::ToServer;
const TO_CLIENT: Direction = Direction::ToClient;

const NOBODY: [&[Right]; 2] = [&[], &[]];
const READER: [&[Right]; 2] = [&[Read], &[No]];
const WRITER: [&[Right]; 2] = [&[Write], &[No]];
const WRITER_OF_BOTH: [&[Right]; 2] = [&[Write], &[Write]];

pub(super) fn all() -> Vec<Attack> {
    let mut all = hellos();
    all.extend(downgrades());
    all.extend(key_material());
    all.extend(promises_end());
    all
}

fn position(number: u8) -> Position {
    Position::new(number).expect("as the attack has it")
}

/// Changes the handshake messages that cross.
fn messages(mut change: impl FnMut(&Crossing, &mut Message) + Send + 'static) -> Tamper {
    Box::new(move |mut crossing| {
        if crossing.record.kind == ContentType::Handshake
            && let Ok(mut message) = Message::parse(&crossing.record.fragment)
        {
            change(&crossing, &mut message);
            crossing.record.fragment = message.to_bytes();
        }
        vec![crossing]
    })
}

/// Rewrites the list towards the first middlebox, and back behind it.
fn confused(change: fn(&mut Place, &mut Vec<Context>)) -> Tamper {
    let mut genuine = None;
    messages(move |crossing, message| {
        if let Message::ClientHello(hello) = message {
            match crossing.hop {
                0 => {
                    genuine = Some(hello.list.clone());
                    rewrite(hello, change);
                }
                _ => hello.list = genuine.clone().expect("it has crossed hop 0"),
            }
        }
    })
}

fn rewrite(hello: &mut ClientHello, change: fn(&mut Place, &mut Vec<Context>)) {
    let list = &hello.list;
    let (mut server, mut contexts) = (list.server().clone(), list.contexts().to_vec());
    change(&mut server, &mut contexts);
    hello.list = MiddleboxList::new(server, list.middleboxes().to_vec(), contexts)
        .expect("as the attack has it");
}

/// What finished messages, signatures and certificates catch.
fn hellos() -> Vec<Attack> {
    let mut all = vec![
        Attack::new("a hello rewritten towards the server", READER)
            .on_hops(messages(|crossing, message| {
                if let (1, Message::ClientHello(hello)) = (crossing.hop, message) {
                    rewrite(hello, |_, contexts| contexts[0].rights = vec![Write]);
                }
            }))
            .caught_by_server(Check::Finished),
        Attack {
            server_verifies: false,
            ..Attack::new(
                "a middlebox hello replaced, the server verifies none",
                READER,
            )
        }
        .on_hops(messages(|crossing, message| {
            if let (1, Message::MiddleboxHello(hello)) = (crossing.hop, message) {
                hello.random[0] ^= 1;
            }
        }))
        // The middlebox has other keys with the server then; what the endpoints compare is their
        // own.
        .caught_by_server(Check::Finished),
        Attack {
            sessions: 2,
            ..Attack::new("a middlebox hello of another session", READER)
        }
        .on_hops({
            let mut theirs = None;
            messages(move |_, message| {
                if let Message::MiddleboxHello(hello) = message {
                    *hello = theirs.get_or_insert_with(|| hello.clone()).clone();
                }
            })
        })
        .caught_by_client(Check::MiddleboxSignature(position(1))),
        Attack::new(
            "a middlebox with another's certificate",
            [&[Read, Read], &[No, No]],
        )
        .on_hops({
            let mut first = Vec::new();
            messages(move |crossing, message| {
                if let (0, Message::MiddleboxHello(hello)) = (crossing.hop, message) {
                    match hello.position.number() {
                        1 => first.clone_from(&hello.chain),
                        _ => hello.chain.clone_from(&first),
                    }
                }
            })
        })
        .caught_by_client(Policy::MiddleboxCertificate(position(2))),
        Attack::new("a server's random value replaced", NOBODY)
            .on_hops(messages(|_, message| {
                if let Message::ServerHello(hello) = message {
                    hello.random[0] ^= 1;
                }
            }))
            .caught_by_client(Check::ServerSignature),
        Attack::new("a server's key replaced", NOBODY)
            .on_hops(messages(|_, message| {
                if let Message::ServerKeyExchange(signed) = message {
                    signed.keys = own_key();
                }
            }))
            .caught_by_client(Check::ServerSignature),
        Attack::new(
            "a finished message changed, which each middlebox passes on",
            READER,
        )
        .on_hops(Box::new(|mut crossing| {
            let is_finished = crossing.record.kind == ContentType::Handshake
                && Message::parse(&crossing.record.fragment).is_err()
                && crossing.hop == 0;
            if is_finished {
                crossing.record.fragment[20] ^= 1;
            }
            vec![crossing]
        }))
        .caught_by_server(Check::EndpointMac),
    ];
    for hop in [0, 1] {
        let name = format!("a middlebox's key replaced on hop {hop}");
        let attack = Attack::new(name, READER).on_hops(messages(move |crossing, message| {
            if let Message::MiddleboxHello(hello) = message
                && crossing.hop == hop
            {
                hello.signed.keys = MiddleboxKeys {
                    client: own_key(),
                    server: own_key(),
                };
            }
        }));
        let caught = Check::MiddleboxSignature(position(1));
        all.push(match hop {
            0 => attack.caught_by_client(caught),
            _ => attack.caught_by_server(caught),
        });
    }
    all
}

/// A good key, and the attacker's.
fn own_key() -> Point {
    let own = Ephemeral::new(&[7; 32]).expect("below the order of the curve");
    *own.public()
}

fn downgrades() -> Vec<Attack> {
    let mut all = vec![
        Attack::new("an offer of suites cut down", NOBODY)
            .on_hops(messages(|_, message| {
                if let Message::ClientHello(hello) = message {
                    hello.suites.truncate(1);
                }
            }))
            .caught_by_server(Check::Finished),
        Attack::new("the mode changed towards the client", READER)
            .on_hops(messages(|crossing, message| {
                if let (1, Message::ServerHello(hello)) = (crossing.hop, message) {
                    hello.mode = Mode::ClientDistributes;
                }
            }))
            // The server awaits the client's halves.
            .caught_by_server(Breach::Record(ContentType::ChangeCipherSpec.code())),
    ];
    for suite in [0x0067, 0xc027] {
        let tamper = messages(move |_, message| {
            if let Message::ServerHello(hello) = message {
                hello.suite = suite;
            }
        });
        let attack = Attack::new(format!("suite {suite:#06x} put in"), NOBODY);
        all.push(
            attack
                .on_hops(tamper)
                .caught_by_client(Breach::Suite(suite)),
        );
    }
    all
}

fn key_material() -> Vec<Attack> {
    /// Changes what goes to middleboxes on a hop.
    fn changed_on(hop: usize, direction: Direction) -> Tamper {
        messages(move |crossing, message| {
            if let Message::KeyMaterial(material) = message
                && (crossing.hop, crossing.direction) == (hop, direction)
                && material.recipient != Recipient::OtherEndpoint
            {
                material.sealed[20] ^= 1;
            }
        })
    }
    let [client, server] = [Endpoint::Client, Endpoint::Server].map(Check::KeyMaterial);
    vec![
        Attack::new(
            "the client's key material changed before its middlebox",
            READER,
        )
        .on_hops(changed_on(0, TO_SERVER))
        .caught_by_box(1, client),
        Attack::new(
            "the server's key material changed before its middlebox",
            READER,
        )
        .on_hops(changed_on(1, TO_CLIENT))
        .caught_by_box(1, server),
        Attack::new(
            "the client's key material changed behind its middlebox",
            READER,
        )
        .on_hops(changed_on(1, TO_SERVER))
        .caught_by_server(Check::Finished),
        Attack::new(
            "the server's key material changed behind its middlebox",
            READER,
        )
        .on_hops(changed_on(0, TO_CLIENT))
        .caught_by_client(Check::Finished),
        Attack::new("halves changed between the endpoints", READER)
            .on_hops(messages(|crossing, message| {
                if let (1, Message::KeyMaterial(material)) = (crossing.hop, message)
                    && material.recipient == Recipient::OtherEndpoint
                {
                    material.sealed[20] ^= 1;
                }
            }))
            .caught_by_server(client),
        Attack::new(
            "key material moved to another middlebox",
            [&[Read, Write], &[No, No]],
        )
        .on_hops({
            // Written back behind it, so that the server misses nothing.
            let mut of_first = 0;
            messages(move |crossing, message| {
                let Message::KeyMaterial(material) = message else {
                    return;
                };
                let to = |number| Recipient::Middlebox(position(number));
                if (crossing.hop, material.recipient) == (0, to(2)) {
                    material.recipient = to(1);
                } else if (crossing.hop, material.recipient) == (1, to(1)) {
                    of_first += 1;
                    material.recipient = to(of_first);
                }
            })
        })
        .caught_by_box(1, client),
        Attack {
            sessions: 2,
            ..Attack::new("key material of another session", WRITER)
        }
        .on_hops({
            let mut theirs = None;
            messages(move |crossing, message| {
                if let (0, TO_SERVER, Message::KeyMaterial(material)) =
                    (crossing.hop, crossing.direction, message)
                    && material.recipient != Recipient::OtherEndpoint
                {
                    *material = theirs.get_or_insert_with(|| material.clone()).clone();
                }
            })
        })
        .caught_by_box(1, client),
    ]
}

/// Where the promises end.
fn promises_end() -> Vec<Attack> {
    const INSTEAD: &[u8] = b"by mistake";
    let replaces = |purpose| Act::Replace(purpose, INSTEAD);
    let replaced = [
        changed(ONE, INSTEAD),
        original(TWO, b"second"),
        changed(ONE, INSTEAD),
    ];
    let withheld = |name, mode| Attack {
        server_rights: vec![vec![No], vec![No]],
        mode,
        ..Attack::new(name, WRITER)
    };
    vec![
        // Bhargavan et al. 2018: a middlebox does not know in which session it is. It changes what
        // it takes for data of the second purpose, and that counts as a legal change.
        Attack::new(
            "a middlebox confused about server and contexts",
            WRITER_OF_BOTH,
        )
        .on_hops(confused(|server, contexts| {
            server.name = "elsewhere".into();
            let (left, right) = contexts.split_at_mut(1);
            std::mem::swap(&mut left[0].purpose, &mut right[0].purpose);
        }))
        .by(1, replaces("purpose 2"))
        .arrives(&replaced)
        .also(|outcome| outcome.boxes[0].server == "elsewhere"),
        // It believes that it has no right. What it can do is what it has keys for, so nothing is
        // gained by it here.
        Attack::new("a middlebox told of other rights than it has", WRITER)
            .on_hops(confused(|_, contexts| contexts[0].rights = vec![No]))
            .by(1, replaces("purpose 1"))
            .arrives(&replaced),
        withheld(
            "a grant of the client alone, both make keys",
            Mode::Contributory,
        )
        .by(1, replaces("purpose 1"))
        .arrives(&script())
        .also(|outcome| outcome.boxes[0].data.is_empty()),
        // The paper, section 3.6: where the client distributes keys, the server agrees to nothing.
        withheld(
            "a grant of the client alone, it distributes keys",
            Mode::ClientDistributes,
        )
        .by(1, replaces("purpose 1"))
        .arrives(&replaced)
        .also(|outcome| outcome.boxes[0].data.len() == 2),
    ]
}
