//! What must hold for any input of this crate: called by the fuzz targets in `fuzz/` and by the
//! replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_engine::{ClientCertificates, Engine, Role};
use tandem_link::tunnel::{Ending, Open, Target};
use tandem_store::MemoryStore;
use tandem_wire::{Instant, UnixTime};

pub use crate::dns::fuzzing::tunnel_dns;
use crate::mux::{Event, Limits, Mux, Read, Side};
use crate::{Clock, Input, Output, Relay};

/// A function that checks the invariants of an engine on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 3] = [
    ("tunnel_dns", tunnel_dns),
    ("tunnel_mux", tunnel_mux),
    ("tunnel_relay", tunnel_relay),
];

/// Most that a relay keeps: both streams, a flight without an answer, what waits behind a hole, one
/// frame that is not whole, and the map of messages.
const MAX_FOOTPRINT: usize = 2 << 20;

/// How long a stream may take to say where it goes.
const OPENING: Duration = Duration::from_secs(60);

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 443);

/// How far a direction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Open,
    Ended,
}

/// A relay at either side, and a peer and an endpoint that do what they like. The first byte says
/// at which side; after that a byte says what happens, and where that has bytes, another how many
/// follow.
pub fn tunnel_relay(data: &[u8]) {
    let Some((&side, mut script)) = data.split_first() else {
        return;
    };
    let server = SocketAddr::from(SERVER);
    let (role, mut relay) = match side & 1 {
        0 => {
            let target = Target::Address(server);
            (
                Role::ClientSide,
                Relay::client_side(Open::to(target), Instant::ZERO),
            )
        }
        _ => (
            Role::ServerSide,
            Relay::server_side(Instant::ZERO + OPENING),
        ),
    };
    let store = MemoryStore::default();
    let how = ClientCertificates::Persistent;
    let mut engine = Engine::new(role, how, None, store).with_hello_templates();
    let mut clock = Clock {
        now: Instant::ZERO,
        wall: UnixTime(1_790_000_000),
    };
    let (mut to_tunnel, mut to_endpoint) = (Way::Open, Way::Open);
    let mut connects = 0;
    while let Some((&step, rest)) = script.split_first() {
        let (bytes, rest) = match (step % 8, rest.split_first()) {
            (0 | 1, Some((&length, rest))) => rest.split_at(usize::from(length).min(rest.len())),
            _ => (&[][..], rest),
        };
        script = rest;
        let input = match step % 8 {
            0 => Some(Input::Endpoint(bytes)),
            1 => Some(Input::Tunnel(bytes)),
            2 => Some(Input::EndpointEnd),
            3 => Some(Input::TunnelEnd),
            4 => Some(Input::EndpointFailed(Ending::Refused)),
            5 => Some(Input::TunnelReset(Ending::TimedOut)),
            6 => Some(Input::Connected(server)),
            _ => None,
        };
        let was_over = relay.is_over();
        match input {
            Some(input) => relay.handle_input(input, &mut engine, clock),
            None => {
                clock.now += Duration::from_millis(100);
                relay.handle_timeout(&mut engine, clock);
                assert!(relay.poll_timeout().is_none_or(|(at, _)| at > clock.now));
            }
        }
        while let Some(output) = relay.poll_output() {
            assert!(!was_over, "{output:?} of a relay that is over");
            match output {
                Output::ToTunnel(bytes) => {
                    assert!(to_tunnel == Way::Open && !bytes.is_empty());
                }
                Output::ToEndpoint(bytes) => {
                    assert!(to_endpoint == Way::Open && !bytes.is_empty());
                }
                Output::EndTunnel => {
                    assert_eq!(std::mem::replace(&mut to_tunnel, Way::Ended), Way::Open);
                }
                Output::EndEndpoint => {
                    assert_eq!(std::mem::replace(&mut to_endpoint, Way::Ended), Way::Open);
                }
                Output::Connect(_) => {
                    connects += 1;
                    assert!(connects == 1 && role == Role::ServerSide);
                }
                Output::AbortEndpoint(_) | Output::ResetTunnel(_) => assert!(relay.is_over()),
                Output::Bulk | Output::Event(_) => {}
            }
        }
        assert!(relay.footprint() <= MAX_FOOTPRINT + data.len());
        if relay.is_over() {
            assert!(relay.poll_timeout().is_none());
            assert!(!relay.wants_endpoint() && !relay.wants_tunnel());
            assert_eq!(relay.footprint(), size_of::<Relay>());
        }
    }
}

/// An end of a connection with many streams, which answers by sending back what it gets, and
/// another side that does what it likes. The first byte says which end.
pub fn tunnel_mux(data: &[u8]) {
    let Some((&side, input)) = data.split_first() else {
        return;
    };
    let side = match side & 1 {
        0 => Side::Opens,
        _ => Side::Accepts,
    };
    let limits = Limits {
        streams: 4,
        window: 100_000,
    };
    let mut mux = Mux::new(side, limits);
    let mut keys = Vec::new();
    while let Some(key) = mux.open() {
        assert_eq!(mux.write(key, b"x"), Ok(1));
        keys.push(key);
    }
    assert_eq!(keys.len(), if side == Side::Opens { 4 } else { 0 });
    for piece in input.chunks(7) {
        if mux.handle_input(piece).is_err() {
            return;
        }
        while let Some(event) = mux.poll_event() {
            match event {
                Event::Opened(key) => keys.push(key),
                Event::Readable(key) => match mux.read(key) {
                    Ok(Read::Piece(bytes)) => {
                        assert!(!bytes.is_empty());
                        let _ = mux.write(key, &bytes);
                    }
                    Ok(Read::End) => mux.finish(key),
                    Ok(Read::Nothing) | Err(_) => {}
                },
                Event::Stopped(key) => assert!(mux.stopped(key).is_some()),
                Event::Writable(_) | Event::Room => {}
            }
        }
        assert!(mux.streams() <= 2 * limits.streams);
        while !mux.poll_output(64).is_empty() {}
    }
    // What is let go of is forgotten as soon as the other side has said its last.
    for key in keys {
        mux.let_go_of_receiving(key);
        mux.let_go_of_sending(key);
    }
    let mut said = 0;
    loop {
        let out = mux.poll_output(64);
        assert!(out.len() <= 64);
        if out.is_empty() {
            return;
        }
        said += out.len();
        assert!(said < 10_000 + data.len(), "it does not come to its end");
    }
}
