//! A proxy that writes what deltas it likes: the other one asks for the bytes, and its endpoint
//! gets these or nothing.

use crate::support::{OPENING, THEN, engine, server_address, teach, tls};
use proptest::prelude::*;
use tandem_delta::{DeltaWriter, Encoding, Name, Reference};
use tandem_engine::{Engine, Event, Role};
use tandem_link::tunnel::{Ending, Frame, MAX_LEN, Miss, Open, Piece, Target, check};
use tandem_store::MemoryStore;
use tandem_tunnel::{Clock, Input, Output, Relay};
use tandem_wire::Instant;

/// Most that a relay may keep in a handshake: both streams, and one body on its way.
const MAX_FOOTPRINT: usize = 4 * MAX_LEN;

/// A relay that has seen a handshake with the site before, and a peer that the test plays.
struct Taught {
    relay: Relay,
    engine: Engine<MemoryStore>,
}

impl Taught {
    fn of(role: Role) -> Self {
        let mut engine = engine(role);
        teach(&mut engine, &tls::full(&[], &[], 1));
        Self {
            relay: relay(role),
            engine,
        }
    }

    /// One at the client side whose client has sent its next hello.
    fn after_hello() -> Self {
        let mut one = Self::of(Role::ClientSide);
        one.input(Input::Endpoint(&tls::full(&[], &[], 1_000).turns[0].1));
        one
    }

    /// Whether this ends the connection as what no peer of ours does.
    fn refuses(&mut self, input: Input<'_>) -> bool {
        let clock = Clock {
            now: Instant::ZERO,
            wall: THEN,
        };
        self.relay.handle_input(input, &mut self.engine, clock);
        let refusal = Output::ResetTunnel(Ending::Malformed);
        let outputs: Vec<_> = std::iter::from_fn(|| self.relay.poll_output()).collect();
        outputs.contains(&refusal)
    }

    fn refuses_frames(&mut self, frames: &[Frame]) -> bool {
        self.refuses(Input::Tunnel(&written(frames)))
    }

    /// What goes to the tunnel, and what to the endpoint.
    fn input(&mut self, input: Input<'_>) -> [Vec<u8>; 2] {
        let clock = Clock {
            now: Instant::ZERO,
            wall: THEN,
        };
        self.relay.handle_input(input, &mut self.engine, clock);
        let (mut to_tunnel, mut to_endpoint) = (Vec::new(), Vec::new());
        while let Some(output) = self.relay.poll_output() {
            match output {
                Output::ToTunnel(bytes) => to_tunnel.extend(bytes),
                Output::ToEndpoint(bytes) => to_endpoint.extend(bytes),
                Output::Connect(_) | Output::Bulk | Output::Event(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(self.relay.footprint() < MAX_FOOTPRINT);
        [to_tunnel, to_endpoint]
    }

    fn frames(&mut self, frames: &[Frame]) -> [Vec<u8>; 2] {
        self.input(Input::Tunnel(&written(frames)))
    }

    /// This delta is missed, and the bytes it stood for arrive once they come.
    fn misses(&mut self, delta: Vec<u8>, meant: &[u8]) -> Miss {
        let [said, arrived] = self.frames(&[framed(&delta, meant)]);
        assert!(arrived.is_empty());
        let missed = Miss::ALL.into_iter();
        let mut missed = missed.filter(|miss| said.ends_with(&written(&[Frame::Missed(*miss)])));
        let again = Frame::Again(Piece::new(meant.to_vec()).expect("a body"));
        assert_eq!(self.frames(&[again])[1], meant);
        missed.next().expect("it asks for the bytes")
    }
}

fn relay(role: Role) -> Relay {
    let target = Target::Address(server_address());
    match role {
        Role::ClientSide => Relay::client_side(Open::to(target), Instant::ZERO),
        Role::ServerSide => Relay::server_side(Instant::ZERO + OPENING),
    }
}

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut out));
    out
}

/// A delta that is meant to rebuild this.
fn framed(delta: &[u8], meant: &[u8]) -> Frame {
    Frame::Delta {
        check: check(meant),
        delta: Piece::new(delta.to_vec()).expect("a body"),
    }
}

/// The message of a sealed flight, with this body.
fn sealed(body: &[u8]) -> Frame {
    Frame::Sealed(Piece::new(body.to_vec()).expect("a body"))
}

fn delta(write: impl FnOnce(&mut DeltaWriter)) -> Vec<u8> {
    let mut writer = DeltaWriter::new(Encoding::Three);
    write(&mut writer);
    writer.finish()
}

#[test]
fn what_was_never_said_or_lies_outside_is_missed_at_the_client_side() {
    let earlier = tls::full(&[], &[], 1).turns[1].1.clone();
    let length = earlier.len();
    let cases: [(Vec<u8>, Miss); 7] = [
        (
            delta(|writer| writer.copy(Name::Number(0), 1, length)),
            Miss::Malformed,
        ),
        (
            delta(|writer| writer.copy(Name::Number(0), u32::MAX as usize, 1)),
            Miss::Malformed,
        ),
        (
            delta(|writer| writer.copy(Name::Number(1), 0, 1)),
            Miss::NotHeld,
        ),
        (
            delta(|writer| writer.copy(Name::Number((1 << 31) - 1), 0, 1)),
            Miss::NotHeld,
        ),
        (
            delta(|writer| writer.copy(Reference([7; 16]), 0, 1)),
            Miss::NotHeld,
        ),
        (
            delta(|writer| writer.copy(Name::Number(0), 0, MAX_LEN + 1)),
            Miss::Malformed,
        ),
        // Of what was said, but another part of it.
        (
            delta(|writer| writer.copy(Name::Number(0), 1, length - 1)),
            Miss::Check,
        ),
    ];
    for (number, (delta, miss)) in cases.into_iter().enumerate() {
        let missed = Taught::after_hello().misses(delta, &earlier);
        assert_eq!(missed, miss, "{number}");
    }
}

#[test]
fn as_many_copies_as_fit_a_delta_rebuild_no_more_than_a_body() {
    let earlier = tls::full(&[], &[], 1).turns[1].1.clone();
    // A byte for each copy: the first byte of the earlier flight, and then those after it.
    let mut copies = vec![3; earlier.len()];
    let mut one = Taught::after_hello();
    assert_eq!(one.frames(&[framed(&copies, &earlier)])[1], earlier);
    copies.resize(MAX_LEN, 3);
    assert_eq!(
        Taught::after_hello().misses(copies, &earlier),
        Miss::Malformed
    );
}

#[test]
fn a_miss_of_what_was_not_said_to_be_held_leaves_earlier_flights() {
    let earlier = tls::full(&[], &[], 1).turns[1].1.clone();
    let copy = delta(|writer| writer.copy(Name::Number(0), 0, earlier.len()));
    let mut one = Taught::of(Role::ClientSide);
    // Of this site no flight is held: nothing has the number 0.
    let elsewhere = tls::client_hello("elsewhere.example", &[], 1_000);
    one.input(Input::Endpoint(&elsewhere));
    assert_eq!(one.misses(copy.clone(), &earlier), Miss::NotHeld);
    one.relay = relay(Role::ClientSide);
    one.input(Input::Endpoint(&tls::full(&[], &[], 2_000).turns[0].1));
    assert_eq!(one.frames(&[framed(&copy, &earlier)])[1], earlier);
}

#[test]
fn earlier_flights_are_forgotten_where_one_is_not_what_was_meant() {
    let earlier = tls::full(&[], &[], 1).turns[1].1.clone();
    let copy = delta(|writer| writer.copy(Name::Number(0), 0, earlier.len()));
    let mut one = Taught::after_hello();
    assert!(!one.refuses_frames(&[framed(&copy, b"another")]));
    one.relay = relay(Role::ClientSide);
    one.input(Input::Endpoint(&tls::full(&[], &[], 2_000).turns[0].1));
    assert_eq!(one.misses(copy, &earlier), Miss::NotHeld);
}

#[test]
fn frames_where_no_writer_of_ours_puts_them_end_the_connection() {
    let some = |length: usize| Frame::Bytes(Piece::new(vec![7; length]).expect("a body"));
    let missed = framed(&delta(|writer| writer.copy(Name::Number(9), 0, 1)), b"x");
    // Our hello's delta has no answer, and a delta may still come of our side.
    assert!(Taught::after_hello().refuses(Input::TunnelEnd));
    assert!(Taught::after_hello().refuses_frames(&[Frame::Rest]));
    let cases = [
        // What a client side alone says; an answer to nothing, an original of nothing.
        vec![Frame::Hints(vec![[1; 4]])],
        vec![Frame::Unknown],
        vec![Frame::Rebuilt, Frame::Rebuilt],
        vec![Frame::Again(Piece::new(vec![7]).expect("a body"))],
        // More behind a delta that was missed than is kept; another delta.
        vec![missed.clone(), some(MAX_LEN), some(1)],
        vec![missed.clone(), missed.clone()],
        // Deltas and bytes after it was said that there are none.
        vec![Frame::Plain, missed.clone()],
        vec![Frame::End, some(1)],
        vec![Frame::Plain, sealed(&[1; 60])],
        vec![missed.clone(), sealed(&[1; 60])],
    ];
    for (number, case) in cases.iter().enumerate() {
        let mut one = Taught::after_hello();
        let (last, before) = case.split_last().expect("some");
        assert!(!one.refuses_frames(before), "{number}");
        assert!(one.refuses_frames(std::slice::from_ref(last)), "{number}");
    }
}

#[test]
fn a_sealed_flight_that_is_none_is_missed_and_has_no_place_before_the_hello() {
    let meant = tls::full(&[], &[], 1_000).turns[1].1.clone();
    for body in [&[1][..], &[4; 300], &[1; 300]] {
        let mut one = Taught::after_hello();
        let [said, arrived] = one.frames(&[sealed(body)]);
        assert!(said.ends_with(&written(&[Frame::Missed(Miss::Malformed)])));
        assert!(arrived.is_empty());
        let again = Frame::Again(Piece::new(meant.clone()).expect("a body"));
        assert_eq!(one.frames(&[again])[1], meant);
    }
    let hello = tls::full(&[], &[], 1_000).turns[0].1.clone();
    let [opening, _] = Taught::of(Role::ClientSide).input(Input::Endpoint(&hello));
    let mut one = Taught::of(Role::ServerSide);
    one.input(Input::Tunnel(&opening));
    one.input(Input::Connected(server_address()));
    one.input(Input::Endpoint(b"\x15\x03\x03\0\x02\x02\x28"));
    let [said, arrived] = one.frames(&[sealed(&[1; 300])]);
    assert!(said.ends_with(&written(&[Frame::Missed(Miss::NotHeld)])));
    assert!(arrived.is_empty());
    // As the first of what a client sends it has no place.
    let mut opening = Vec::new();
    let open = Open::to(Target::Address(server_address()));
    open.write(&mut opening).expect("it may cross");
    let mut one = Taught::of(Role::ServerSide);
    one.input(Input::Tunnel(&opening));
    one.input(Input::Connected(server_address()));
    assert!(one.refuses_frames(&[sealed(&[1; 300])]));
}

#[test]
fn a_delta_of_nothing_is_missed() {
    // A place, and no copy from there.
    let [said, arrived] = Taught::after_hello().frames(&[framed(&[1, 1, 0], b"")]);
    assert!(said.ends_with(&written(&[Frame::Missed(Miss::Malformed)])));
    assert!(arrived.is_empty());
}

#[test]
fn a_server_side_takes_one_delta_at_a_time_and_two_in_all() {
    let hello = tls::full(&[], &[], 1_000).turns[0].1.clone();
    let [opening, _] = Taught::of(Role::ClientSide).input(Input::Endpoint(&hello));
    let other = framed(&delta(|writer| writer.add(b"x")), b"x");
    let joined = || {
        let mut one = Taught::of(Role::ServerSide);
        one.input(Input::Tunnel(&opening));
        assert_eq!(one.input(Input::Connected(server_address()))[1], hello);
        one
    };
    assert!(joined().refuses_frames(std::slice::from_ref(&other)));
    let mut one = joined();
    // What the server says answers the first.
    one.input(Input::Endpoint(b"\x15\x03\x03\0\x02\x02\x28"));
    assert!(!one.refuses_frames(std::slice::from_ref(&other)));
    one.input(Input::Endpoint(b"more"));
    assert!(one.refuses_frames(std::slice::from_ref(&other)));
    // Hints come once.
    let hints = Frame::Hints(vec![[1; 4]]);
    let mut one = joined();
    assert!(!one.refuses_frames(std::slice::from_ref(&hints)));
    assert!(one.refuses_frames(&[hints]));
}

#[test]
fn a_stream_that_ends_within_a_frame_ends_the_connection() {
    for (front, is_refused) in [(&[][..], false), (&[1, 5, 7], true)] {
        let mut one = Taught::of(Role::ClientSide);
        one.input(Input::EndpointEnd);
        assert!(!one.refuses(Input::Tunnel(front)));
        assert_eq!(one.refuses(Input::TunnelEnd), is_refused);
    }
}

#[test]
fn no_more_follows_a_delta_without_an_answer_than_the_far_side_keeps() {
    let mut one = Taught::after_hello();
    let [said, _] = one.input(Input::Endpoint(&tls::noise(MAX_LEN + 500, 3)));
    assert!(said.len() <= MAX_LEN + 20, "{}", said.len());
    assert!(!one.relay.wants_endpoint());
    let [more, _] = one.frames(&[Frame::Rebuilt]);
    assert!(more.len() >= 500 && one.relay.wants_endpoint());
}

#[test]
fn a_flight_counts_as_recalled_once_it_crosses_as_a_delta() {
    let said = tls::full(&[], &[], 1_000);
    let [hello, flight] = [0, 1].map(|turn| &said.turns[turn].1);
    let [opening, _] = Taught::of(Role::ClientSide).input(Input::Endpoint(hello));
    for (is_whole, recalled) in [(false, 0), (true, 1)] {
        let mut one = Taught::of(Role::ServerSide);
        one.input(Input::Tunnel(&opening));
        one.input(Input::Connected(server_address()));
        let (front, rest) = flight.split_at(500);
        one.input(Input::Endpoint(front));
        if is_whole {
            one.input(Input::Endpoint(rest));
        }
        one.input(Input::EndpointEnd);
        let events = one.engine.events();
        let found = events.filter(|event| *event == Event::FlightRecalled);
        assert_eq!(found.count(), recalled);
    }
}

#[test]
fn who_says_that_it_holds_a_flight_and_does_not_gets_the_flight() {
    let said = tls::full(&[], &[], 1_000);
    let [hello, flight] = [0, 1].map(|turn| &said.turns[turn].1);
    let [opening, _] = Taught::of(Role::ClientSide).input(Input::Endpoint(hello));
    let mut target = Vec::new();
    let open = Open::to(Target::Address(server_address()));
    open.write(&mut target).expect("it may cross");
    assert!(opening.starts_with(&target) && opening.len() < hello.len());

    let mut one = Taught::of(Role::ServerSide);
    one.input(Input::Tunnel(&opening));
    assert_eq!(one.input(Input::Connected(server_address()))[1], *hello);
    let [short, _] = one.input(Input::Endpoint(flight));
    assert!(short.len() < 400, "{}", short.len());
    let [again, _] = one.frames(&[Frame::Missed(Miss::NotHeld)]);
    let whole = Frame::Again(Piece::new(flight.clone()).expect("a body"));
    assert!(again.starts_with(&written(&[whole])));
}

proptest! {
    #[test]
    fn no_delta_makes_bytes_that_its_check_is_not_of(
        pieces in proptest::collection::vec((0u32..4, 0usize..5_000, 1usize..3_000), 0..12),
        tail in proptest::collection::vec(any::<u8>(), 0..12),
    ) {
        let meant = tls::full(&[], &[], 1_000).turns[1].1.clone();
        let mut forged = delta(|writer| {
            for (name, offset, length) in pieces {
                match name {
                    3 => writer.add(&tls::noise(length.min(20), 3)),
                    2 => writer.copy(Reference([9; 16]), offset, length),
                    number => writer.copy(Name::Number(number), offset, length),
                }
            }
        });
        forged.extend(tail);
        prop_assume!(!forged.is_empty());
        Taught::after_hello().misses(forged, &meant);
    }
}
