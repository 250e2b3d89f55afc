//! How fast packet mode is without a kernel: both roles on one core, a warm handshake with a chain
//! of three.
//!
//! Prints a line for people and a JSON line for scripts per figure. Wall time is reported and gates
//! nothing; the bytes that it works on are those of the scenarios (`tests/support/tls.rs`).
//!
//! - `engine`: the flight read along, written as a delta and framed; the frame followed and
//!   checked. Chains expected by name.
//! - `path`: every packet of the handshake, SYN to Finished, through both proxies, with parsing,
//!   checksums and flow tables.
//! - `stage_*`: microseconds of a handshake, both roles together, that parts of `path` take by
//!   themselves: reading packets, following TLS, writing the delta and its frame, rebuilding and
//!   checking. What the store takes is measured beside the store.
//! - `memory`: bytes that the process grows by for a flow in the middle of its handshake, and for
//!   one that is over.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a bench measures time and memory and prints; it uses a part of what the scenarios share"
)]

#[path = "../tests/support/tls.rs"]
mod tls;

/// What `tls.rs` takes from its parent.
const NAME: &str = "www.example.org";

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use tandem_delta::{Delta, Encoding, Reference, Source};
use tandem_engine::{Handshake, Possession, StoreSource, expected_chains, plan_flight};
use tandem_link::frame::{self, Frame, Parsed};
use tandem_link::{FlowId, Key, Version};
use tandem_packet::{
    ClientCertificates, Config, Direction, Limits, Output, Proxy, Role, Ticket, Verdict, WireFormat,
};
use tandem_store::{HostName, Kind, MemoryStore, Site, Store};
use tandem_wire::{
    Instant, OptionsBuf, SegmentRepr, Seq, TcpFlags, TcpPacket, Timestamps, UnixTime,
};

const TODAY: UnixTime = UnixTime(1_790_000_000);
const MSS: usize = 1_448;

/// How long each figure is measured.
const MEASURE: Duration = Duration::from_secs(2);

fn main() {
    let conversation = tls::Conversation::with_chain(&tls::chain(&[926, 900, 910]));
    report(
        "engine",
        per_second(|| engine(&conversation)),
        "handshakes/s",
    );
    report("path", per_second(|| path(&conversation)), "handshakes/s");
    for (name, micros) in stages(&conversation) {
        report(name, micros, "µs/handshake");
    }
    let [handshaking, finished] = memory(&conversation);
    report("memory_handshaking_flow", handshaking, "bytes");
    report("memory_finished_flow", finished, "bytes");
}

fn report(name: &str, value: f64, unit: &str) {
    println!("{name:<24} {value:>12.1} {unit}");
    println!(
        "{}",
        serde_json::json!({ "bench": name, "value": value, "unit": unit })
    );
}

/// Runs batches until the time is up; the best batch counts, so that a busy machine does not.
fn per_second<F: FnMut()>(mut batch: impl FnMut() -> F) -> f64 {
    let started = Clock::now();
    let mut best = 0f64;
    while started.elapsed() < MEASURE {
        best = best.max(1e6 / micros_of_batch(&mut batch()));
    }
    best
}

/// Microseconds of a part of a handshake; the best batch likewise.
fn micros(mut one: impl FnMut()) -> f64 {
    let started = Clock::now();
    let mut best = f64::INFINITY;
    while started.elapsed() < MEASURE / 2 {
        best = best.min(micros_of_batch(&mut one));
    }
    best
}

fn micros_of_batch(one: &mut impl FnMut()) -> f64 {
    const BATCH: u32 = 500;
    let begun = Clock::now();
    for _ in 0..BATCH {
        one();
    }
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH)
}

fn warm_store(conversation: &tls::Conversation) -> MemoryStore {
    let mut store = MemoryStore::default();
    let chain: Vec<&[u8]> = conversation.chain.iter().map(Vec::as_slice).collect();
    let site = Site::Name(HostName::new(NAME).expect("a host name"));
    store.learn(Kind::Chain, Some(&site), &chain, UnixTime(TODAY.0 - 60));
    store
}

fn engine(conversation: &tls::Conversation) -> impl FnMut() + use<> {
    let [hello, flight, key_exchange, finished] =
        [0, 1, 2, 3].map(|turn| conversation.turns[turn].1.clone());
    let mut client_side = warm_store(conversation);
    let mut server_side = MemoryStore::default();
    let key = Key::from_bytes([1; 32]);
    let flow = FlowId {
        client: Seq(1),
        server: Seq(2),
    };
    move || {
        let mut here = Handshake::new();
        here.client_sent(&hello);
        let site = Site::Name(here.server_name().expect("the hello has a name").clone());
        let hints: Vec<_> = expected_chains(&mut client_side, &site, TODAY, 2)
            .iter()
            .map(|id| id.prefix4())
            .collect();

        let mut there = Handshake::new();
        there.client_sent(&hello);
        there.server_sent(&flight);
        let found = there.flight().expect("the flight is whole");
        let possession = Possession::from_hints(&hints);
        let delta = plan_flight(&flight, found, &possession, &mut server_side)
            .finish(Encoding::One)
            .expect("held");
        let frame = frame::write(
            &key,
            (flow, Version::ONE, frame::Sender::Server),
            Seq(3),
            &delta,
            &flight,
        )
        .expect("smaller");

        let Parsed::Whole(frame) = Frame::parse(&frame, Version::ONE, frame::Sender::Server) else {
            panic!("our own frame")
        };
        let delta = Delta::parse(Encoding::One, frame.delta, frame.span).expect("our own delta");
        let rebuilt = delta
            .apply(&mut StoreSource::new(&mut client_side))
            .expect("held");
        assert!(frame.verify(&key, flow, Seq(3), &rebuilt), "the same bytes");
        here.server_sent(&rebuilt);
        for side in [&mut here, &mut there] {
            side.client_sent(&[&hello[..], &key_exchange].concat());
            side.server_sent(&[&flight[..], &finished].concat());
        }
    }
}

/// The parts of a handshake's path, each by itself; microseconds.
fn stages(conversation: &tls::Conversation) -> [(&'static str, f64); 4] {
    let [hello, flight, key_exchange, finished] =
        [0, 1, 2, 3].map(|turn| conversation.turns[turn].1.clone());
    let packets: Vec<Vec<u8>> = Packets::of(conversation, 40_000, 4)
        .turns
        .into_iter()
        .flat_map(|(_, packets)| packets)
        .collect();
    let reading = micros(|| {
        for packet in packets.iter().chain(&packets) {
            let parsed = TcpPacket::parse(packet).expect("our own packet");
            assert!(black_box(parsed).checksums_valid());
        }
    });
    let up = [&hello[..], &key_exchange].concat();
    let down = [&flight[..], &finished].concat();
    let following = micros(|| {
        for _ in [Role::ClientSide, Role::ServerSide] {
            let mut side = Handshake::new();
            side.client_sent(&hello);
            side.server_sent(&flight);
            side.client_sent(&up);
            side.server_sent(&down);
            black_box(side.flight());
        }
    });

    let key = Key::from_bytes([1; 32]);
    let flow = FlowId {
        client: Seq(1),
        server: Seq(2),
    };
    let mut there = Handshake::new();
    there.client_sent(&hello);
    there.server_sent(&flight);
    let mut client_side = warm_store(conversation);
    let site = Site::Name(HostName::new(NAME).expect("a host name"));
    let hints: Vec<_> = expected_chains(&mut client_side, &site, TODAY, 2)
        .iter()
        .map(|id| id.prefix4())
        .collect();
    let possession = Possession::from_hints(&hints);
    let mut server_side = MemoryStore::default();
    let mut write = || {
        let found = there.flight().expect("the flight is whole");
        let delta = plan_flight(&flight, found, &possession, &mut server_side)
            .finish(Encoding::One)
            .expect("held");
        let sender = (flow, Version::ONE, frame::Sender::Server);
        frame::write(&key, sender, Seq(3), &delta, &flight).expect("smaller")
    };
    let written = write();
    let writing = micros(|| drop(black_box(write())));
    let mut held = Held::default();
    let rebuild = |source: &mut dyn FnMut(&Reference) -> Option<Arc<[u8]>>| {
        let parsed = Frame::parse(&written, Version::ONE, frame::Sender::Server);
        let Parsed::Whole(frame) = parsed else {
            panic!("our own frame")
        };
        let delta = Delta::parse(Encoding::One, frame.delta, frame.span).expect("our own delta");
        let rebuilt = delta.apply(&mut Asked(source)).expect("held");
        assert!(frame.verify(&key, flow, Seq(3), &rebuilt), "the same bytes");
    };
    rebuild(&mut |reference| held.fetch(reference, &mut client_side));
    let rebuilding = micros(|| rebuild(&mut |reference| held.known(reference)));
    [
        ("stage_packets", reading),
        ("stage_tls", following),
        ("stage_delta", writing),
        ("stage_rebuild", rebuilding),
    ]
}

/// What the store said once, so that asking it is not measured with what is done with the answer.
#[derive(Default)]
struct Held(Vec<(Reference, Arc<[u8]>)>);

impl Held {
    fn fetch(&mut self, reference: &Reference, store: &mut MemoryStore) -> Option<Arc<[u8]>> {
        let bytes = StoreSource::new(store).resolve(reference)?;
        self.0.push((*reference, Arc::clone(&bytes)));
        Some(bytes)
    }

    fn known(&self, reference: &Reference) -> Option<Arc<[u8]>> {
        let found = self.0.iter().find(|(known, _)| known == reference);
        found.map(|(_, bytes)| Arc::clone(bytes))
    }
}

/// A source that is a function.
struct Asked<'a>(&'a mut dyn FnMut(&Reference) -> Option<Arc<[u8]>>);

impl Source for Asked<'_> {
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
        (self.0)(reference)
    }
}

/// One handshake as packets, for any client port.
struct Packets {
    turns: Vec<(Toward, Vec<Vec<u8>>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Toward {
    Server,
    Client,
}

impl Packets {
    fn of(conversation: &tls::Conversation, port: u16, turns: usize) -> Self {
        let client = SocketAddr::from(([10, 0, (port >> 8) as u8, 1], port));
        let server = SocketAddr::from(([10, 9, 9, 1], 443));
        let mut next = [Seq(1_000), Seq(9_000)];
        let mut segment = |toward, flags: TcpFlags, payload: &[u8]| {
            let (me, other) = match toward {
                Toward::Server => (0, 1),
                Toward::Client => (1, 0),
            };
            let mut options = OptionsBuf::new();
            if flags.contains(TcpFlags::SYN) {
                options.push_maximum_segment_size(1_460).expect("room");
            }
            options
                .push_timestamps(Timestamps {
                    value: 7_000,
                    echo: 7_000,
                })
                .expect("room");
            let repr = SegmentRepr {
                source: if me == 0 { client } else { server },
                destination: if me == 0 { server } else { client },
                seq: next[me],
                ack: if flags.contains(TcpFlags::ACK) {
                    next[other]
                } else {
                    Seq(0)
                },
                flags,
                window: 60_000,
                options: options.as_slice().to_vec(),
                payload: payload.to_vec(),
                hop_limit: 64,
            };
            let syn = u32::from(flags.contains(TcpFlags::SYN));
            next[me] = next[me].wrapping_add(payload.len() as u32 + syn);
            repr.build()
        };
        let syn_ack = TcpFlags::SYN.with(TcpFlags::ACK);
        let mut all = vec![
            (
                Toward::Server,
                vec![segment(Toward::Server, TcpFlags::SYN, &[])],
            ),
            (Toward::Client, vec![segment(Toward::Client, syn_ack, &[])]),
            (
                Toward::Server,
                vec![segment(Toward::Server, TcpFlags::ACK, &[])],
            ),
        ];
        for (speaker, bytes) in conversation.turns.iter().take(turns) {
            let toward = match speaker {
                tandem_netsim::script::Speaker::Client => Toward::Server,
                tandem_netsim::script::Speaker::Server => Toward::Client,
            };
            let flags = TcpFlags::ACK.with(TcpFlags::PSH);
            let packets = bytes.chunks(MSS).map(|chunk| segment(toward, flags, chunk));
            all.push((toward, packets.collect()));
        }
        Self { turns: all }
    }
}

fn proxies(conversation: &tls::Conversation) -> [Proxy<MemoryStore>; 2] {
    let limits = Limits {
        flows: 100_000,
        memory: 1 << 40,
        ..Limits::default()
    };
    let config = |role| Config {
        role,
        wire: WireFormat::Safe,
        client_certificates: ClientCertificates::default(),
        key: Some(Key::from_bytes([1; 32])),
        ports: vec![443],
        limits,
    };
    [
        Proxy::new(config(Role::ClientSide), warm_store(conversation)),
        Proxy::new(config(Role::ServerSide), MemoryStore::default()),
    ]
}

/// Sends packets through one proxy; what it sends on.
fn through(
    proxy: &mut Proxy<MemoryStore>,
    direction: Direction,
    packets: Vec<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for (ticket, packet) in (0..).zip(&packets) {
        proxy.handle_packet(Ticket(ticket), direction, packet, Instant::ZERO, TODAY);
        while let Some(output) = proxy.poll_output() {
            match output {
                Output::Verdict(Ticket(ticket), Verdict::Accept | Verdict::Leave) => {
                    out.push(packets[ticket as usize].clone());
                }
                Output::Verdict(_, Verdict::Replace(packet)) | Output::Inject(_, packet) => {
                    out.push(packet)
                }
                Output::Verdict(_, Verdict::Drop) | Output::Event(_) => {}
            }
        }
    }
    out
}

fn handshake(proxies: &mut [Proxy<MemoryStore>; 2], packets: &Packets) {
    let [client_side, server_side] = proxies;
    for (toward, segments) in &packets.turns {
        match toward {
            Toward::Server => {
                let crossing = through(client_side, Direction::ToLink, segments.clone());
                through(server_side, Direction::FromLink, crossing);
            }
            Toward::Client => {
                let crossing = through(server_side, Direction::ToLink, segments.clone());
                let arrived = through(client_side, Direction::FromLink, crossing);
                let bytes = |packets: &[Vec<u8>]| packets.iter().map(Vec::len).sum::<usize>();
                assert_eq!(
                    bytes(&arrived),
                    bytes(segments),
                    "the flight is whole again"
                );
            }
        }
    }
}

fn path(conversation: &tls::Conversation) -> impl FnMut() + use<> {
    let mut proxies = proxies(conversation);
    let packets = Packets::of(conversation, 40_000, 4);
    move || {
        handshake(&mut proxies, &packets);
        assert_eq!(proxies[1].gauges().flows, 0, "the flow is over");
    }
}

/// Bytes by which the process grows for a flow whose flight has been rewritten but not
/// acknowledged, and for one that is over.
fn memory(conversation: &tls::Conversation) -> [f64; 2] {
    const FLOWS: u16 = 5_000;
    [2, 4].map(|turns| {
        let mut proxies = proxies(conversation);
        let before = resident();
        for port in 0..FLOWS {
            handshake(
                &mut proxies,
                &Packets::of(conversation, 10_000 + port, turns),
            );
        }
        (resident() - before) / f64::from(FLOWS) / 2.0
    })
}

/// The process's resident memory, bytes (proc(5), statm: the second field, in pages).
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0.0);
    pages * 4_096.0
}
