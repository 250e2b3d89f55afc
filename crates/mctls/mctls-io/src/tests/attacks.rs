//! Attacks by a middlebox that commits them, or by somebody on a hop, over real sockets; each test
//! names what caught it. The whole list, at the level of messages, is in `mctls/src/attacks.rs`.

use std::sync::{Arc, Mutex};

use mctls::config::{PathMode, Right};
use mctls::error::{Breach, Check};
use mctls::frame::{Frame, LegFrame};
use mctls::hostile::Forgery;
use mctls::party::{Author, ContextId, Position};
use mctls::relay::Passing;

use super::{
    BODY, HEADERS, Hostile, Interference, Pair, Task, bytes, client_settings, connect_with,
    forwards, interferer, middlebox, pair, server,
};
use crate::{Error, Part, Service};

use Right::{None as No, Read, Write};

fn position(number: u8) -> Position {
    Position::new(number).expect("a position")
}

/// The server receives until something is wrong, and that is what caught it.
async fn caught(mut pair: Pair, check: impl Into<mctls::Error>) {
    let check = check.into();
    loop {
        match pair.server.receiver.recv().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("nobody has noticed"),
            Err(Error::Session(error)) => return assert_eq!(error, check),
            Err(error) => panic!("{error}"),
        }
    }
}

async fn say(pair: &mut Pair, said: &[(ContextId, &[u8])]) {
    for (context, data) in said {
        pair.client.sender.send(*context, data).await.expect("sent");
    }
}

type Overstep = for<'a> fn(Passing<'a>, &mut Vec<u8>) -> Option<Passing<'a>>;

async fn hostile(number: usize, overstep: Overstep) -> Task<Result<(), Error>> {
    middlebox(number, move || -> Box<dyn Service> {
        Box::new(Hostile(overstep))
    })
    .await
}

/// Replaces what it may read by a forgery in this name.
fn forge<'a>(mut passing: Passing<'a>, out: &mut Vec<u8>, author: Author) -> Option<Passing<'a>> {
    if passing.text().is_none() {
        return Some(passing);
    }
    let forgery = Forgery {
        context: passing.context(),
        seq: passing.seq(),
        author,
        payload: b"forged",
    };
    passing.forge(forgery, out).expect("it has the key to read");
    None
}

fn as_endpoint<'a>(passing: Passing<'a>, out: &mut Vec<u8>) -> Option<Passing<'a>> {
    forge(passing, out, Author::Endpoint)
}

fn as_the_first<'a>(passing: Passing<'a>, out: &mut Vec<u8>) -> Option<Passing<'a>> {
    forge(passing, out, Author::Middlebox(position(1)))
}

#[tokio::test]
async fn a_reader_that_writes_is_caught_by_the_writers_tag() {
    let one = hostile(1, as_endpoint).await;
    let mut server = server().await;
    let mut pair = pair(&mut server, &[&one.address], &[[Read, No]], PathMode::Off).await;
    say(&mut pair, &[(HEADERS, b"data")]).await;
    caught(pair, Check::WriterTag(HEADERS)).await;
}

#[tokio::test]
async fn a_reader_that_forges_to_a_writer_is_caught_there() {
    let one = hostile(1, as_endpoint).await;
    let mut two = middlebox(2, forwards).await;
    let mut server = server().await;
    let via = [one.address.as_str(), two.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Read, No], [Write, No]], PathMode::Off).await;
    say(&mut pair, &[(HEADERS, b"data")]).await;
    let Err(Error::Session(error)) = two.next().await else {
        panic!("the writer has noticed nothing");
    };
    assert_eq!(error, Check::WriterTag(HEADERS).into());
    let told = pair
        .server
        .receiver
        .recv()
        .await
        .expect_err("the session is over");
    let named = "middlebox 2 ended the session: a record or proof did not verify";
    assert_eq!(told.to_string(), named);
}

#[tokio::test]
async fn a_reader_that_forges_to_a_reader_is_caught_at_the_endpoint() {
    let one = hostile(1, as_endpoint).await;
    let two = middlebox(2, forwards).await;
    let mut server = server().await;
    let via = [one.address.as_str(), two.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Read, No], [Read, No]], PathMode::Off).await;
    say(&mut pair, &[(HEADERS, b"data")]).await;
    caught(pair, Check::WriterTag(HEADERS)).await;
}

#[tokio::test]
async fn a_reader_that_passes_as_a_writer_is_caught_by_the_writers_tag() {
    let one = middlebox(1, forwards).await;
    let two = hostile(2, as_the_first).await;
    let mut server = server().await;
    let via = [one.address.as_str(), two.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Write, No], [Read, No]], PathMode::Off).await;
    say(&mut pair, &[(HEADERS, b"data")]).await;
    caught(pair, Check::WriterTag(HEADERS)).await;
}

#[tokio::test]
async fn a_writer_that_hides_is_caught_by_the_endpoints_tag() {
    for path in [PathMode::Off, PathMode::Required] {
        let one = hostile(1, as_endpoint).await;
        let mut server = server().await;
        let mut pair = pair(&mut server, &[&one.address], &[[Write, No]], path).await;
        say(&mut pair, &[(HEADERS, b"data")]).await;
        caught(pair, Check::EndpointTag(HEADERS)).await;
    }
}

#[tokio::test]
async fn a_writer_that_blames_another_is_caught_by_its_tag() {
    let one = middlebox(1, forwards).await;
    let two = hostile(2, as_the_first).await;
    let mut server = server().await;
    let via = [one.address.as_str(), two.address.as_str()];
    let mut pair = pair(
        &mut server,
        &via,
        &[[Write, No], [Write, No]],
        PathMode::Off,
    )
    .await;
    say(&mut pair, &[(HEADERS, b"data")]).await;
    caught(pair, Check::AuthorTag(position(1))).await;
}

/// Puts a record of its own in the place of each that it may not see.
fn usurp<'a>(mut passing: Passing<'a>, out: &mut Vec<u8>) -> Option<Passing<'a>> {
    if passing.text().is_some() {
        return Some(passing);
    }
    let forgery = Forgery {
        context: HEADERS,
        seq: passing.seq(),
        author: Author::Middlebox(position(1)),
        payload: b"in place of a body",
    };
    passing.forge(forgery, out).expect("it may write headers");
    None
}

#[tokio::test]
async fn a_writer_that_usurps_another_contexts_place_is_caught_by_the_endpoints_tag() {
    let one = hostile(1, usurp).await;
    let mut server = server().await;
    let mut pair = pair(&mut server, &[&one.address], &[[Write, No]], PathMode::Off).await;
    say(&mut pair, &[(HEADERS, b"headers"), (BODY, b"body")]).await;
    caught(pair, Check::EndpointTag(HEADERS)).await;
}

/// Drops what it should pass on.
fn swallow<'a>(passing: Passing<'a>, _: &mut Vec<u8>) -> Option<Passing<'a>> {
    (passing.context() != BODY).then_some(passing)
}

#[tokio::test]
async fn a_middlebox_that_swallows_a_record_is_caught_by_the_next() {
    let one = hostile(1, swallow).await;
    let mut server = server().await;
    let mut pair = pair(&mut server, &[&one.address], &[[Write, No]], PathMode::Off).await;
    say(&mut pair, &[(BODY, b"body"), (HEADERS, b"headers")]).await;
    let sequence = Breach::Sequence {
        expected: 0,
        found: 1,
    };
    caught(pair, sequence).await;
}

/// Seals what it changed a second time.
fn seal_twice<'a>(mut passing: Passing<'a>, out: &mut Vec<u8>) -> Option<Passing<'a>> {
    let (named, seq) = (Author::Middlebox(position(1)), passing.seq());
    let forgery = |payload| Forgery {
        context: HEADERS,
        seq,
        author: named,
        payload,
    };
    if passing.text().is_none() {
        return Some(passing);
    }
    for payload in [b"once", b"more"] {
        passing.forge(forgery(payload), out).expect("it may write");
    }
    None
}

#[tokio::test]
async fn a_writer_that_uses_a_nonce_again_is_caught_by_the_sequence() {
    let one = hostile(1, seal_twice).await;
    let mut server = server().await;
    let mut pair = pair(&mut server, &[&one.address], &[[Write, No]], PathMode::Off).await;
    say(&mut pair, &[(HEADERS, b"data")]).await;
    let sequence = Breach::Sequence {
        expected: 1,
        found: 0,
    };
    caught(pair, sequence).await;
}

/// Who stands between client and server, until the test is over.
struct Passed {
    _hop: Task<()>,
    _one: Task<Result<(), Error>>,
}

/// A session whose records somebody between the middlebox and the server interferes with.
async fn interfered(
    records: impl FnMut(Vec<u8>) -> Vec<Vec<u8>> + Send + Clone + Sync + 'static,
) -> (Pair, Passed) {
    let mut server = server().await;
    let (hop, _injector) = interferer(server.address.clone(), move || -> Interference {
        let mut records = records.clone();
        Box::new(move |frame| match frame {
            Frame::Record(_) => records(bytes(frame)),
            Frame::Tls(_)
            | Frame::Leg(_)
            | Frame::Announce
            | Frame::Route(_)
            | Frame::Short(_)
            | Frame::Holds(_) => vec![bytes(frame)],
        })
    })
    .await;
    let one = middlebox(1, forwards).await;
    let settings = client_settings(&[&one.address], &[[Read, Read]], PathMode::Off);
    let client = connect_with(settings, &hop.address).await;
    let mut pair = Pair {
        client: super::session(client),
        server: super::session(server.next().await),
    };
    let three: [(ContextId, &[u8]); 3] = [(HEADERS, b"one"), (BODY, b"two"), (HEADERS, b"three")];
    say(&mut pair, &three).await;
    pair.client.sender.close().await.expect("closed");
    let passed = Passed {
        _hop: hop,
        _one: one,
    };
    (pair, passed)
}

/// Frame header, record header: where the context stands, and the payload's first byte.
const CONTEXT_AT: usize = 5;

#[tokio::test]
async fn records_that_are_dropped_repeated_or_swapped_on_a_hop_are_caught_by_the_sequence() {
    let sequence = |expected, found| Breach::Sequence { expected, found };
    let mut first = true;
    let (pair, _passed) = interfered(move |record| {
        let dropped = std::mem::replace(&mut first, false);
        if dropped { Vec::new() } else { vec![record] }
    })
    .await;
    caught(pair, sequence(0, 1)).await;
    let (pair, _passed) = interfered(|record| vec![record.clone(), record]).await;
    caught(pair, sequence(1, 0)).await;
    let mut held: Option<Vec<u8>> = None;
    let (pair, _passed) = interfered(move |record| match held.take() {
        Some(first) => vec![record, first],
        None => {
            held = Some(record);
            Vec::new()
        }
    })
    .await;
    caught(pair, sequence(0, 1)).await;
}

#[tokio::test]
async fn a_record_that_is_changed_on_a_hop_is_caught_by_the_aead() {
    let (pair, _passed) = interfered(|mut record| {
        *record.last_mut().expect("a record is not empty") ^= 1;
        vec![record]
    })
    .await;
    caught(pair, Check::Aead(HEADERS)).await;
}

#[tokio::test]
async fn a_record_that_is_moved_to_another_context_is_caught_by_the_aead() {
    let (pair, _passed) = interfered(|mut record| {
        if record[CONTEXT_AT] == BODY.0 {
            record[CONTEXT_AT] = HEADERS.0;
        }
        vec![record]
    })
    .await;
    caught(pair, Check::Aead(HEADERS)).await;
}

#[tokio::test]
async fn a_session_that_is_cut_on_a_hop_is_caught_by_the_lack_of_an_end() {
    let mut left = 3;
    let (pair, _passed) = interfered(move |record| {
        let passes = left > 0;
        left -= i32::from(passes);
        if passes { vec![record] } else { Vec::new() }
    })
    .await;
    caught(pair, Breach::Truncated).await;
}

#[tokio::test]
async fn a_middlebox_that_is_bypassed_is_caught_where_the_path_is_required() {
    let mut server = server().await;
    let pass = || -> Interference { Box::new(|frame| vec![bytes(frame)]) };
    let (behind, injector) = interferer(server.address.clone(), pass).await;
    let injector = Arc::new(Mutex::new(injector));
    let one = middlebox(1, forwards).await;
    let (before, _) = interferer(one.address.clone(), move || -> Interference {
        let injector = Arc::clone(&injector);
        Box::new(move |frame| match frame {
            Frame::Record(_) => {
                let injector = injector.lock().expect("no panic with it");
                injector
                    .send(bytes(frame))
                    .expect("the hop behind is there");
                Vec::new()
            }
            Frame::Tls(_)
            | Frame::Leg(_)
            | Frame::Announce
            | Frame::Route(_)
            | Frame::Short(_)
            | Frame::Holds(_) => vec![bytes(frame)],
        })
    })
    .await;
    let settings = client_settings(&[&before.address], &[[Read, Read]], PathMode::Required);
    let client = connect_with(settings, &behind.address).await;
    let mut pair = Pair {
        client: super::session(client),
        server: super::session(server.next().await),
    };
    say(&mut pair, &[(HEADERS, b"GET /forbidden")]).await;
    caught(pair, Check::PathSkipped(position(1))).await;
}

#[tokio::test]
async fn a_leg_that_is_led_to_another_middlebox_is_caught_by_its_certificate() {
    let one = middlebox(1, forwards).await;
    let two = middlebox(2, forwards).await;
    let server = server().await;
    let (hop, _injector) = interferer(one.address.clone(), || -> Interference {
        Box::new(|frame| match frame {
            Frame::Leg(leg) => {
                let distance = position(3 - leg.distance.number());
                vec![bytes(&Frame::Leg(LegFrame { distance, ..*leg }))]
            }
            Frame::Tls(_)
            | Frame::Record(_)
            | Frame::Announce
            | Frame::Route(_)
            | Frame::Short(_)
            | Frame::Holds(_) => {
                vec![bytes(frame)]
            }
        })
    })
    .await;
    let via = [hop.address.as_str(), two.address.as_str()];
    let settings = client_settings(&via, &[[Read, No], [Read, No]], PathMode::Off);
    let error = connect_with(settings, &server.address).await;
    let error = error.expect_err("the legs are crossed");
    assert!(
        matches!(
            error,
            Error::Tls {
                part: Part::Leg(_),
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_handshake_that_is_tampered_with_on_a_hop_fails_in_tls() {
    for wanted in [0x16, 0xb0] {
        let one = middlebox(1, forwards).await;
        let server = server().await;
        let (hop, _injector) = interferer(one.address.clone(), move || -> Interference {
            Box::new(move |frame| {
                let mut bytes = bytes(frame);
                if bytes[0] == wanted {
                    *bytes.last_mut().expect("a frame is not empty") ^= 1;
                }
                vec![bytes]
            })
        })
        .await;
        let settings = client_settings(&[&hop.address], &[[Read, No]], PathMode::Off);
        let failed = connect_with(settings, &server.address).await;
        assert!(failed.is_err(), "{wanted:#x}");
    }
}
