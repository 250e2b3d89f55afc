//! Each attack of `docs/mctls13.md`, committed with everything that the attacker has, and the check
//! that catches it.
//!
//! TLS protects the handshake's messages. Where an attack changes one all the same, the attacker is
//! supposed to have broken that TLS session: what is tested is the check behind it.

mod records;

use crate::config::{PathMode, Right};
use crate::error::{Breach, Check, Error};
use crate::message::{Binding, Granted, Message, OwnKeys, Purpose, Start};
use crate::party::Endpoint;
use crate::suite::Suite;
use crate::testing::{
    CONTEXT, Envelope, Failure, Party, Setup, certificate, position, run, shares,
};

use Right::{Read, Write};

const FIRST: usize = 0;
const SECOND: usize = 1;

fn setup(rights: &[&[Right]]) -> Setup {
    Setup::new(rights, PathMode::Off)
}

fn failure(setup: &Setup, mut change: impl FnMut(&mut Envelope)) -> Failure {
    let result = run(setup, |mut envelope| {
        change(&mut envelope);
        vec![envelope]
    });
    result.expect_err("the attack is noticed")
}

// Towards a middlebox.

#[test]
fn a_configuration_rewritten_towards_a_middlebox_is_not_what_the_other_endpoint_says() {
    let rewritten = |by, from: &[&[Right]], to: &[&[Right]]| {
        let terms = setup(to).terms;
        let failed = failure(&setup(from), |envelope| {
            if let (true, Message::Start(start)) = (envelope.from == by, &mut envelope.message) {
                start.configuration.terms = terms.clone();
            }
        });
        assert_eq!(failed.at, Party::Box(position(1)));
        failed.error
    };
    let (read, write): (&[&[Right]], &[&[Right]]) = (&[&[Read]], &[&[Write]]);
    let no_more = rewritten(Party::Server, read, write);
    assert_eq!(no_more, Breach::NotReduced.into());
    for (from, to) in [(read, write), (write, read)] {
        let offered = rewritten(Party::Client, from, to);
        assert_eq!(offered, Breach::Grant.into(), "the shares are for others");
    }
    let less = rewritten(Party::Server, write, read);
    assert_eq!(less, Breach::Grant.into(), "the shares are for others");
}

#[test]
fn a_configuration_rewritten_by_both_legs_gives_other_keys() {
    let setup = setup(&[&[Read]]);
    let mut contexts = setup.terms.contexts().to_vec();
    contexts[0].purpose = "something harmless".into();
    let boxes = setup.terms.middleboxes().to_vec();
    let other = crate::config::Terms::new(*setup.terms.server_certificate(), boxes, contexts);
    let other = other.expect("as the test has it");
    let failed = failure(&setup, |envelope| {
        if let Message::Start(start) = &mut envelope.message {
            start.configuration.terms = other.clone();
        }
    });
    assert_eq!(failed.error, Check::Confirm(position(1)).into());
}

#[test]
fn a_start_of_another_session_or_place_than_the_clients_is_refused() {
    let changes: [fn(&mut Start); 2] = [
        |start| start.sid = [7; 32],
        |start| start.position = position(2),
    ];
    for change in changes {
        let failed = failure(&setup(&[&[Read, Read]]), |envelope| {
            if let (Party::Server, Message::Start(start)) = (envelope.from, &mut envelope.message) {
                change(start);
            }
        });
        assert!(matches!(failed.at, Party::Box(_)));
        assert_eq!(failed.error, Breach::StartsDiffer.into());
    }
}

#[test]
fn a_start_of_another_session_gives_other_leg_keys() {
    let failed = failure(&setup(&[&[Read]]), |envelope| {
        if let Message::Start(start) = &mut envelope.message {
            start.sid = [7; 32];
        }
    });
    assert_eq!(failed.error, Check::LegBinding(position(1)).into());
}

#[test]
fn a_middlebox_in_anothers_place_is_not_the_one_with_that_certificate() {
    let failed = failure(&setup(&[&[Read, Read]]), |envelope| {
        if let (Party::Box(to), Message::Start(_)) = (envelope.to, &envelope.message) {
            let other = 3 - to.number();
            envelope.to = Party::Box(position(other));
        }
    });
    assert!(matches!(failed.at, Party::Box(_)));
    let Error::Peer(Breach::MiddleboxCertificate(_)) = failed.error else {
        panic!("{}", failed.error);
    };
}

#[test]
fn a_middlebox_that_was_swapped_for_another_shows_another_certificate() {
    let mut swapped = setup(&[&[Read]]);
    let mut boxes = swapped.terms.middleboxes().to_vec();
    boxes[FIRST].certificate = certificate(5);
    let contexts = swapped.terms.contexts().to_vec();
    let server = *swapped.terms.server_certificate();
    swapped.terms = crate::config::Terms::new(server, boxes, contexts).expect("as the test has it");
    let failed = failure(&swapped, |_| {});
    assert_eq!(failed.at, Party::Client);
    let error = Breach::MiddleboxCertificate(position(1));
    assert_eq!(failed.error, error.into());
}

#[test]
fn a_server_that_a_middlebox_was_led_astray_to_is_not_the_clients() {
    let mut other = setup(&[&[Read]]);
    let boxes = other.terms.middleboxes().to_vec();
    let contexts = other.terms.contexts().to_vec();
    other.terms = crate::config::Terms::new([1; 32], boxes, contexts).expect("as the test has it");
    other.reduced = other.terms.clone();
    let failed = failure(&other, |_| {});
    assert_eq!(failed.at, Party::Server);
    assert_eq!(failed.error, Breach::ServerCertificate.into());
    let mut astray = setup(&[&[Read]]);
    astray.leg_server = [1; 32];
    let failed = failure(&astray, |_| {});
    assert_eq!(failed.at, Party::Box(position(1)));
    assert_eq!(failed.error, Breach::ServerCertificate.into());
}

#[test]
fn legs_that_the_other_endpoint_knows_otherwise_are_noticed() {
    let changes: [fn(&mut Binding); 2] = [|leg| leg.own[0] ^= 1, |leg| leg.reported[0] ^= 1];
    for change in changes {
        let failed = failure(&setup(&[&[Read, Read]]), |envelope| {
            if let Message::Bindings(legs) = &mut envelope.message {
                change(&mut legs[SECOND]);
            }
        });
        assert_eq!(failed.at, Party::Client);
        assert_eq!(failed.error, Check::LegBinding(position(2)).into());
    }
}

/// What a middlebox tells one endpoint of the other's leg: the client finds either.
#[test]
fn a_leg_that_a_middlebox_reports_otherwise_is_noticed() {
    for to in [Party::Client, Party::Server] {
        let failed = failure(&setup(&[&[Read, Read]]), |envelope| {
            let is_second = envelope.from == Party::Box(position(2));
            if let (true, true, Message::Bind(digest)) =
                (is_second, envelope.to == to, &mut envelope.message)
            {
                digest[0] ^= 1;
            }
        });
        assert_eq!(failed.at, Party::Client);
        assert_eq!(failed.error, Check::LegBinding(position(2)).into());
    }
}

// Shares.

#[test]
fn shares_moved_to_another_middlebox_are_not_those_of_its_rights() {
    for (from, endpoint) in [
        (Party::Client, Endpoint::Client),
        (Party::Server, Endpoint::Server),
    ] {
        let all = shares(endpoint, 1);
        let writers = Purpose::BOTH.map(|purpose| Granted {
            context: CONTEXT,
            purpose,
            share: all.share(0, purpose).clone(),
        });
        let failed = failure(&setup(&[&[Read, Write]]), |envelope| {
            let to_reader = envelope.to == Party::Box(position(1));
            match (to_reader && envelope.from == from, &mut envelope.message) {
                (true, Message::OwnKeys(keys)) => keys.granted = writers.to_vec(),
                (true, Message::Keys(keys)) => keys.granted = writers.to_vec(),
                (_, _) => {}
            }
        });
        assert_eq!(failed.error, Breach::Grant.into());
    }
}

#[test]
fn keys_of_another_session_have_another_transcript() {
    let one = setup(&[&[Read]]);
    let mut other = one.clone();
    other.session = [1; 32];
    let mut theirs: Vec<Envelope> = Vec::new();
    run(&other, |envelope| {
        if let Message::Keys(_) | Message::LegReady(_) = envelope.message {
            theirs.push(envelope.clone());
        }
        vec![envelope]
    })
    .expect("as the test has it");
    let from = |party| {
        let mut all = theirs.iter();
        let envelope = all.find(|envelope| envelope.from == party);
        envelope.expect("as the test has it").message.clone()
    };
    let failed = failure(&one, |envelope| {
        if let Message::LegReady(_) = &envelope.message {
            envelope.message = from(Party::Client);
        }
    });
    assert_eq!(failed.error, Check::Transcript.into());
    let failed = failure(&one, |envelope| {
        if let Message::Keys(_) = envelope.message {
            envelope.message = from(Party::Server);
        }
    });
    assert_eq!(failed.error, Check::LegBinding(position(1)).into());
}

fn replace_share(keys: &mut OwnKeys) {
    keys.granted[FIRST].share = shares(Endpoint::Server, 1).share(0, Purpose::Write).clone();
}

#[test]
fn a_replaced_share_has_another_digest() {
    let failed = failure(&setup(&[&[Read]]), |envelope| {
        if let Message::OwnKeys(keys) = &mut envelope.message {
            replace_share(keys);
        }
    });
    assert_eq!(failed.error, Check::ShareDigest.into());
}

#[test]
fn shares_replaced_between_the_endpoints_give_another_transcript() {
    let swap = |envelope: &mut Envelope| {
        if let Message::Answer(answer) = &mut envelope.message {
            answer.shares = shares(Endpoint::Client, 1);
        }
    };
    for rights in [&[Read][..], &[]] {
        let failed = failure(&setup(&[rights]), swap);
        assert_eq!(
            (failed.at, failed.error),
            (Party::Client, Check::Ready.into())
        );
    }
}

#[test]
fn a_grant_that_the_other_endpoint_did_not_agree_to_is_refused() {
    let write = shares(Endpoint::Client, 1).share(0, Purpose::Write).clone();
    let failed = failure(&setup(&[&[Read]]), |envelope| {
        if let Message::OwnKeys(keys) = &mut envelope.message {
            keys.granted.push(Granted {
                context: CONTEXT,
                purpose: Purpose::Write,
                share: write.clone(),
            });
        }
    });
    assert_eq!(failed.error, Breach::Grant.into());
}

#[test]
fn shares_in_another_order_are_refused() {
    let failed = failure(&setup(&[&[Write]]), |envelope| {
        if let Message::OwnKeys(keys) = &mut envelope.message {
            keys.granted.swap(0, 1);
        }
    });
    assert_eq!(failed.error, Breach::Grant.into());
}

#[test]
fn one_endpoints_share_alone_is_no_key() {
    use crate::schedule::context_key;
    let th = [3; 32];
    let client = shares(Endpoint::Client, 1);
    let server = shares(Endpoint::Server, 1);
    let (mine, theirs) = (
        client.share(0, Purpose::Write),
        server.share(0, Purpose::Write),
    );
    let key = context_key(&th, mine, theirs);
    for guess in [mine, theirs] {
        assert!(context_key(&th, mine, guess) != key || guess == theirs);
        assert!(context_key(&th, guess, guess) != key);
    }
}

// Downgrades.

#[test]
fn a_suite_that_was_not_offered_is_refused() {
    let mut only = setup(&[&[Read]]);
    only.suites = vec![Suite::Aes128Gcm];
    let failed = failure(&only, |envelope| {
        if let Message::Answer(answer) = &mut envelope.message {
            answer.configuration.suite = Suite::ChaCha20Poly1305;
        }
    });
    assert_eq!(failed.error, Breach::Suite(0x1303).into());
}

#[test]
fn an_offer_cut_down_on_the_way_gives_another_transcript() {
    let cut = |envelope: &mut Envelope| {
        if let Message::Offer(offer) = &mut envelope.message {
            offer.suites.remove(0);
        }
    };
    for rights in [&[Read][..], &[]] {
        let failed = failure(&setup(&[rights]), cut);
        assert_eq!(
            (failed.at, failed.error),
            (Party::Client, Check::Ready.into())
        );
    }
}
