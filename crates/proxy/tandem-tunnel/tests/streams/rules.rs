//! What is held and for how long, how each end crosses, and what a peer may not send.

use std::time::Duration;

use crate::support::tls::{self, noise};
use crate::support::{OPENING, THEN, engine, server_address};
use tandem_engine::{Engine, Role};
use tandem_link::tunnel::{Ending, Frame, Miss, Open, Phrase, Piece, Target, check};
use tandem_store::{Kind, MemoryStore, Store as _};
use tandem_tunnel::{
    CLIENT_HOLD, Clock, Event, Input, Output, Relay, SERVER_HOLD, SILENCE, Wakeup,
};
use tandem_wire::Instant;

/// One relay, and a peer and an endpoint that the test plays.
struct One {
    relay: Relay,
    engine: Engine<MemoryStore>,
    clock: Clock,
}

impl One {
    fn of(role: Role) -> Self {
        let now = Instant::ZERO;
        let relay = match role {
            Role::ClientSide => {
                Relay::client_side(Open::to(Target::Address(server_address())), now)
            }
            Role::ServerSide => Relay::server_side(now + OPENING),
        };
        let clock = Clock { now, wall: THEN };
        let engine = engine(role);
        Self {
            relay,
            engine,
            clock,
        }
    }

    /// One at the server side whose target is connected to.
    fn connected() -> Self {
        let mut one = Self::of(Role::ServerSide);
        one.input(Input::Tunnel(&opening()));
        one.input(Input::Connected(server_address()));
        one
    }

    fn input(&mut self, input: Input<'_>) -> Vec<Output> {
        self.relay.handle_input(input, &mut self.engine, self.clock);
        self.outputs()
    }

    fn tunnel(&mut self, frames: &[Frame]) -> Vec<Output> {
        self.input(Input::Tunnel(&written(frames)))
    }

    fn wait(&mut self, time: Duration) -> Vec<Output> {
        self.clock.now += time;
        self.relay.handle_timeout(&mut self.engine, self.clock);
        self.outputs()
    }

    /// All outputs but events.
    fn outputs(&mut self) -> Vec<Output> {
        let outputs = std::iter::from_fn(|| self.relay.poll_output());
        outputs
            .filter(|output| !matches!(output, Output::Event(_)))
            .collect()
    }
}

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut out));
    out
}

fn opening() -> Vec<u8> {
    let mut out = Vec::new();
    let target = Target::Address(server_address());
    Open::to(target).write(&mut out).expect("it may cross");
    out
}

fn piece(bytes: &[u8]) -> Piece {
    Piece::new(bytes.to_vec()).expect("a body")
}

fn bytes(bytes: &[u8]) -> Frame {
    Frame::Bytes(piece(bytes))
}

/// A delta of one literal.
fn literal(bytes: &[u8]) -> Frame {
    let mut writer = tandem_delta::DeltaWriter::new(tandem_delta::Encoding::Three);
    writer.add(bytes);
    Frame::Delta {
        check: check(bytes),
        delta: piece(&writer.finish()),
    }
}

/// One that is no delta.
fn broken() -> Frame {
    Frame::Delta {
        check: [0; 4],
        delta: piece(&[0xff]),
    }
}

fn to_tunnel(frames: &[Frame]) -> Output {
    Output::ToTunnel(written(frames))
}

fn refused() -> Vec<Output> {
    vec![
        Output::ResetTunnel(Ending::Malformed),
        Output::AbortEndpoint(Ending::Malformed),
    ]
}

fn hello() -> Vec<u8> {
    tls::client_hello("www.example", &[], 1)
}

#[test]
fn a_silent_client_is_told_of_and_its_hello_is_held_all_the_same() {
    let mut one = One::of(Role::ClientSide);
    let due = Instant::ZERO + SILENCE;
    assert_eq!(one.relay.poll_timeout(), Some((due, Wakeup::Silence)));
    assert_eq!(one.wait(SILENCE - Duration::from_micros(1)), []);
    assert_eq!(
        one.wait(Duration::from_micros(1)),
        [Output::ToTunnel(opening())]
    );
    assert_eq!(one.relay.poll_timeout(), None);
    let (first, rest) = (&hello()[..9], &hello()[9..]);
    assert_eq!(one.input(Input::Endpoint(first)), []);
    assert_eq!(
        one.input(Input::Endpoint(rest)),
        [to_tunnel(&[bytes(&hello())])]
    );
}

#[test]
fn a_stream_that_does_not_say_where_it_goes_is_broken_off_after_its_time() {
    let mut one = One::of(Role::ServerSide);
    let first = opening();
    let (first, last) = first.split_at(first.len() - 1);
    assert_eq!(one.input(Input::Tunnel(first)), []);
    let due = Instant::ZERO + OPENING;
    assert_eq!(one.relay.poll_timeout(), Some((due, Wakeup::Opening)));
    assert_eq!(one.wait(OPENING - Duration::from_micros(1)), []);
    let over = [Output::ResetTunnel(Ending::TimedOut)];
    assert_eq!(one.wait(Duration::from_micros(1)), over);
    assert!(one.relay.is_over());
    assert_eq!(one.input(Input::Tunnel(last)), []);
}

#[test]
fn a_hello_that_does_not_become_whole_goes_after_its_time() {
    let mut one = One::of(Role::ClientSide);
    assert_eq!(one.input(Input::Endpoint(&hello()[..9])), []);
    let due = Instant::ZERO + CLIENT_HOLD;
    assert_eq!(one.relay.poll_timeout(), Some((due, Wakeup::Hold)));
    let first = [opening(), written(&[bytes(&hello()[..9])])].concat();
    assert_eq!(one.wait(CLIENT_HOLD), [Output::ToTunnel(first)]);
    assert_eq!(
        one.input(Input::Endpoint(&hello()[9..12])),
        [to_tunnel(&[bytes(&hello()[9..12])])]
    );
}

#[test]
fn a_servers_flight_that_does_not_become_whole_goes_after_its_time_and_is_not_held_again() {
    let said = tls::full(&[], &[], 1);
    let flight = &said.turns[1].1;
    let mut one = One::connected();
    let greeted = one.tunnel(&[bytes(&said.turns[0].1)]);
    assert_eq!(greeted, [Output::ToEndpoint(said.turns[0].1.clone())]);
    assert_eq!(one.input(Input::Endpoint(&flight[..100])), []);
    assert_eq!(one.wait(SERVER_HOLD / 2), []);
    let gone = [to_tunnel(&[Frame::Plain, bytes(&flight[..100])])];
    assert_eq!(one.wait(SERVER_HOLD / 2), gone);
    let rest = [to_tunnel(&[bytes(&flight[100..])])];
    assert_eq!(one.input(Input::Endpoint(&flight[100..])), rest);
}

#[test]
fn what_a_server_says_instead_of_a_flight_goes_at_once() {
    let alert = tls::alert(1).turns[1].1.clone();
    let tls13 = tls::tls13(0, 1).turns[1].1.clone();
    let resumed = tls::resumed(&noise(200, 1), 1).turns[1].1.clone();
    for said in [alert, tls13, resumed] {
        let mut one = One::connected();
        one.tunnel(&[bytes(&hello())]);
        let outputs = one.input(Input::Endpoint(&said));
        let mut frames = vec![Frame::Plain];
        let mut rest = &*said;
        while let Some((at, phrase)) = Phrase::first_in(rest) {
            frames.extend(Piece::new(rest[..at].to_vec()).map(Frame::Bytes));
            frames.push(Frame::Phrase(phrase));
            rest = &rest[at + phrase.bytes().len()..];
        }
        frames.push(bytes(rest));
        assert!(outputs.contains(&to_tunnel(&frames)));
        assert_eq!(one.relay.poll_timeout(), None);
    }
}

#[test]
fn a_handshake_that_cannot_be_followed_is_bulk_after_16_kb() {
    let said = tls::tls13(0, 1);
    // With frames, and without.
    for peer in [vec![], vec![Frame::Plain, Frame::Rest]] {
        let mut one = One::connected();
        one.tunnel(&[bytes(&said.turns[0].1)]);
        let flight = one.input(Input::Endpoint(&said.turns[1].1));
        assert!(!flight.contains(&Output::Bulk), "{flight:?}");
        one.tunnel(&peer);
        for (len, expected) in [(10_000, false), (6_383, false), (1, true), (20_000, false)] {
            let outputs = one.input(Input::Endpoint(&noise(len, 1)));
            assert!(matches!(outputs[0], Output::ToTunnel(_)), "{outputs:?}");
            assert_eq!(outputs.contains(&Output::Bulk), expected, "{len}");
        }
    }
}

#[test]
fn what_is_held_goes_in_front_of_the_end() {
    let said = tls::full(&[], &[], 1);
    let mut one = One::connected();
    one.tunnel(&[bytes(&said.turns[0].1)]);
    assert_eq!(one.input(Input::Endpoint(&said.turns[1].1[..50])), []);
    let end = [Frame::Plain, bytes(&said.turns[1].1[..50]), Frame::End];
    assert_eq!(one.input(Input::EndpointEnd), [to_tunnel(&end)]);
    let mut one = One::of(Role::ClientSide);
    assert_eq!(one.input(Input::Endpoint(&hello()[..9])), []);
    let end = [bytes(&hello()[..9]), Frame::End];
    let end = [opening(), written(&end)].concat();
    assert_eq!(one.input(Input::EndpointEnd), [Output::ToTunnel(end)]);
    // Nothing can be owed any more once the server side has ended, too.
    let ended = one.tunnel(&[Frame::End]);
    assert_eq!(ended, [Output::EndEndpoint, Output::EndTunnel]);
    assert_eq!(one.input(Input::TunnelEnd), []);
    assert!(one.relay.is_over());
}

#[test]
fn a_missed_delta_is_asked_for_and_what_follows_waits_for_it() {
    let mut one = One::connected();
    let first = one.tunnel(&[broken(), bytes(b"def"), Frame::End]);
    assert_eq!(first, [to_tunnel(&[Frame::Missed(Miss::Malformed)])]);
    let then = one.tunnel(&[Frame::Again(piece(b"abc"))]);
    let whole = Output::ToEndpoint(b"abcdef".to_vec());
    assert_eq!(then, [whole, Output::EndEndpoint]);
}

#[test]
fn a_check_that_fails_is_a_miss() {
    let Frame::Delta { delta, .. } = literal(b"abc") else {
        panic!("a delta")
    };
    let mut one = One::connected();
    let wrong = Frame::Delta {
        check: check(b"abd"),
        delta,
    };
    assert_eq!(
        one.tunnel(&[wrong]),
        [to_tunnel(&[Frame::Missed(Miss::Check)])]
    );
}

#[test]
fn that_a_delta_was_rebuilt_is_said_with_the_next_bytes_or_when_the_peer_waits_for_it() {
    let answer = |one: &mut One| one.input(Input::Endpoint(b"answer"));
    let mut one = One::connected();
    let rebuilt = one.tunnel(&[literal(&hello())]);
    assert_eq!(rebuilt, [Output::ToEndpoint(hello())]);
    one.wait(Duration::from_secs(60));
    let said = [to_tunnel(&[Frame::Plain, Frame::Rebuilt, bytes(b"answer")])];
    let swapped = [to_tunnel(&[Frame::Rebuilt, Frame::Plain, bytes(b"answer")])];
    let outputs = answer(&mut one);
    assert!(outputs == said || outputs == swapped, "{outputs:?}");
    // Much has followed; or the client has ended.
    for frames in [vec![bytes(&[0; 20_000])], vec![Frame::End]] {
        let mut one = One::connected();
        one.tunnel(&[literal(&hello())]);
        let outputs = one.tunnel(&frames);
        assert!(
            outputs.contains(&to_tunnel(&[Frame::Rebuilt])),
            "{outputs:?}"
        );
    }
}

#[test]
fn each_failure_reaches_the_other_end_at_each_state() {
    for ending in Ending::ALL {
        let fresh = || One::of(Role::ServerSide);
        let dialling = || {
            let mut one = fresh();
            one.input(Input::Tunnel(&opening()));
            one
        };
        let holding = || {
            let mut one = One::connected();
            one.tunnel(&[bytes(&hello())]);
            one.input(Input::Endpoint(&tls::full(&[], &[], 1).turns[1].1[..50]));
            one
        };
        let passing = || {
            let mut one = One::of(Role::ClientSide);
            one.input(Input::Endpoint(b"GET /"));
            one.tunnel(&[Frame::Plain]);
            one.input(Input::Endpoint(b" "));
            one.tunnel(&[Frame::Rest]);
            one
        };
        let states: [&dyn Fn() -> One; 5] = [
            &|| One::of(Role::ClientSide),
            &dialling,
            &One::connected,
            &holding,
            &passing,
        ];
        for state in states {
            let mut one = state();
            assert_eq!(
                one.input(Input::EndpointFailed(ending)),
                [Output::ResetTunnel(ending)]
            );
            assert!(one.relay.is_over() && one.relay.poll_timeout().is_none());
            assert_eq!(one.input(Input::Tunnel(b"late")), []);
            let mut one = state();
            assert_eq!(
                one.input(Input::TunnelReset(ending)),
                [Output::AbortEndpoint(ending)]
            );
            assert_eq!(one.input(Input::Endpoint(b"late")), []);
        }
    }
}

#[test]
fn what_comes_before_the_target_is_connected_to_is_kept_as_far_as_there_is_room() {
    let mut one = One::of(Role::ServerSide);
    let connect = Output::Connect(Open::to(Target::Address(server_address())));
    assert_eq!(one.input(Input::Tunnel(&opening())), [connect]);
    let many = bytes(&noise(60_000, 1));
    assert_eq!(one.tunnel(std::slice::from_ref(&many)), []);
    assert!(one.relay.wants_tunnel() && !one.relay.wants_endpoint());
    one.tunnel(&[many]);
    assert!(!one.relay.wants_tunnel());
    one.input(Input::TunnelEnd);
    let outputs = one.input(Input::Connected(server_address()));
    // The peer may not end its stream before it was told that no delta comes.
    assert!(outputs.ends_with(&refused()), "{outputs:?}");
}

#[test]
fn frames_where_no_writer_puts_them_end_it() {
    let hole = [broken()];
    let full = bytes(&[0; 1 << 16]);
    let cases: Vec<(&str, Vec<Frame>)> = vec![
        ("an answer to nothing", vec![Frame::Rebuilt]),
        ("a miss of nothing", vec![Frame::Missed(Miss::Check)]),
        ("an original of nothing", vec![Frame::Again(piece(b"a"))]),
        ("plain twice", vec![Frame::Plain, Frame::Plain]),
        ("a delta after plain", vec![Frame::Plain, literal(b"abc")]),
        (
            "a delta before the last was answered",
            vec![literal(b"abc"), literal(b"abc")],
        ),
        ("bytes after the end", vec![Frame::End, bytes(b"a")]),
        ("an end after the end", vec![Frame::End, Frame::End]),
        (
            "rest before it was told that no delta comes",
            vec![Frame::Rest],
        ),
        (
            "hints twice",
            vec![Frame::Hints(vec![[1; 4]]), Frame::Hints(vec![[1; 4]])],
        ),
        (
            "hints after a word that nothing is held",
            vec![Frame::Unknown, Frame::Hints(vec![[1; 4]])],
        ),
        (
            "plain after the last delta",
            vec![bytes(b"a"), literal(b"abc"), Frame::Plain],
        ),
        (
            "a delta behind a hole",
            [&hole[..], &[literal(b"abc")]].concat(),
        ),
        ("rest behind a hole", [&hole[..], &[Frame::Rest]].concat()),
        (
            "too much behind a hole",
            [&hole[..], &[full, bytes(b"a")]].concat(),
        ),
        (
            "a third delta",
            [
                broken(),
                Frame::Again(piece(b"a")),
                broken(),
                Frame::Again(piece(b"a")),
                broken(),
            ]
            .to_vec(),
        ),
    ];
    for (name, frames) in cases {
        let mut one = One::connected();
        let outputs = one.tunnel(&frames);
        assert!(outputs.ends_with(&refused()), "{name}: {outputs:?}");
        assert!(
            one.relay.is_over() && one.relay.footprint() == size_of::<Relay>(),
            "{name}"
        );
    }
    let mut one = One::of(Role::ClientSide);
    assert_eq!(
        one.tunnel(&[Frame::Hints(vec![[1; 4]])]),
        refused(),
        "hints of a server side"
    );
}

#[test]
fn a_client_that_has_ended_still_says_what_became_of_the_servers_flight() {
    for (delta, answer) in [
        (literal(b"flight"), Frame::Rebuilt),
        (broken(), Frame::Missed(Miss::Malformed)),
    ] {
        let mut one = One::of(Role::ClientSide);
        one.input(Input::Endpoint(&hello()));
        let ended = one.input(Input::EndpointEnd);
        assert_eq!(ended, [to_tunnel(&[Frame::End])]);
        let outputs = one.tunnel(&[delta]);
        assert!(outputs.contains(&to_tunnel(&[answer])), "{outputs:?}");
        assert_eq!(outputs.last(), Some(&Output::EndTunnel));
    }
}

#[test]
fn a_stream_that_ends_in_the_middle_ends_the_connection() {
    for kept in [&[][..], &[0, 192]] {
        let mut one = One::of(Role::ServerSide);
        one.input(Input::Tunnel(kept));
        assert_eq!(one.input(Input::TunnelEnd), refused());
    }
    let mut one = One::connected();
    one.input(Input::Endpoint(b"220 greeting"));
    one.input(Input::Tunnel(&[1, 9, 0]));
    assert_eq!(one.input(Input::TunnelEnd), refused());
}

#[test]
fn a_delta_without_an_answer_stops_the_endpoint_after_a_while() {
    let said = tls::full(&[], &[], 1);
    let mut one = One::connected();
    let chain = tls::server_chain();
    let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
    let name = MemoryStore::default().learn(Kind::Chain, None, &chain, THEN);
    let hints = Frame::Hints(vec![name.prefix4()]);
    one.tunnel(&[hints, bytes(&said.turns[0].1)]);
    one.input(Input::Endpoint(&said.turns[1].1));
    assert!(one.relay.wants_endpoint());
    let many = noise(100_000, 9);
    let outputs = one.input(Input::Endpoint(&many));
    assert!(!one.relay.wants_endpoint());
    let written: usize = outputs
        .iter()
        .map(|output| match output {
            Output::ToTunnel(bytes) => bytes.len(),
            _ => 0,
        })
        .sum();
    assert!((1 << 16..66_000).contains(&written), "{written}");
    let rest = one.tunnel(&[Frame::Rebuilt]);
    assert!(one.relay.wants_endpoint() && !rest.is_empty());
}

#[test]
fn after_rest_both_ways_bytes_need_no_engine() {
    let mut one = One::connected();
    one.tunnel(&[bytes(b"EHLO"), Frame::Plain]);
    one.input(Input::Endpoint(b"250 ok"));
    assert_eq!(one.relay.pass_to_endpoint(vec![1]), Err(vec![1]), "a frame");
    assert_eq!(one.relay.pass_to_tunnel(vec![2]), Err(vec![2]), "a frame");
    one.tunnel(&[Frame::Rest]);
    assert_eq!(one.relay.pass_to_endpoint(vec![1]), Ok(()));
    assert_eq!(one.relay.pass_to_tunnel(vec![2]), Ok(()));
    assert_eq!(
        one.outputs(),
        [Output::ToEndpoint(vec![1]), Output::ToTunnel(vec![2])]
    );
    assert_eq!(one.input(Input::EndpointEnd), [Output::EndTunnel]);
    assert_eq!(one.relay.pass_to_tunnel(vec![2]), Ok(()));
    assert_eq!(one.outputs(), [], "it comes behind the end");
    assert_eq!(one.input(Input::TunnelEnd), [Output::EndEndpoint]);
    assert!(one.relay.is_over());
}

#[test]
fn after_rest_both_ways_nothing_is_kept() {
    let mut one = One::connected();
    one.tunnel(&[bytes(b"EHLO"), Frame::Plain]);
    assert_eq!(
        one.input(Input::Endpoint(b"250 ok")),
        [Output::ToTunnel([&[0][..], b"250 ok"].concat())]
    );
    assert_eq!(one.tunnel(&[Frame::Rest]), []);
    assert_eq!(one.relay.footprint(), size_of::<Relay>());
    assert_eq!(
        one.input(Input::Tunnel(&[1, 2])),
        [Output::ToEndpoint(vec![1, 2])]
    );
    assert_eq!(one.input(Input::EndpointEnd), [Output::EndTunnel]);
    assert_eq!(one.input(Input::TunnelEnd), [Output::EndEndpoint]);
    assert!(one.relay.is_over());
    assert_eq!(Event::RelayClosed.name(), "relays_closed");
}

#[test]
fn headers_that_every_handshake_has_are_a_byte_each_and_arrive_as_they_were() {
    let key = [&[22, 3, 3, 0, 37, 16, 0, 0, 33, 32][..], &noise(32, 1)].concat();
    let last = [&[20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 40][..], &noise(40, 2)].concat();
    let mut one = One::connected();
    one.tunnel(&[bytes(b"EHLO"), Frame::Plain]);
    let said = [&key[..], &last].concat();
    let outputs = one.input(Input::Endpoint(&said));
    let [Output::ToTunnel(crossing)] = outputs.as_slice() else {
        panic!("{outputs:?}");
    };
    // Both phrases, a frame of 32 bytes, the word that no frame follows, and 40 bytes.
    assert_eq!(crossing.len(), 1 + (2 + 32) + 1 + 1 + 40);
    let mut far = One::of(Role::ClientSide);
    far.input(Input::Endpoint(b"EHLO"));
    let arrived: Vec<u8> = far
        .input(Input::Tunnel(crossing))
        .into_iter()
        .flat_map(|output| match output {
            Output::ToEndpoint(bytes) => bytes,
            _ => Vec::new(),
        })
        .collect();
    assert_eq!(arrived, said);
}

#[test]
fn to_go_over_to_bytes_as_they_are_answers_a_delta() {
    let mut one = One::connected();
    one.tunnel(&[literal(&hello())]);
    one.input(Input::Endpoint(b"220 greeting"));
    // The client's side owes no answer, and is owed one: `Rest` of ours is that.
    let outputs = one.tunnel(&[Frame::Plain]);
    assert_eq!(outputs, []);
    assert_eq!(
        one.input(Input::Endpoint(b"more")),
        [Output::ToTunnel([&[0][..], b"more"].concat())]
    );
}
