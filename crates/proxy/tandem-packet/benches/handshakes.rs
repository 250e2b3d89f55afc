//! How fast packet mode is without a kernel: both roles on one core, a warm handshake with a chain
//! of three.
//!
//! Prints a line for people and a JSON line for scripts per figure. Wall time is reported and gates
//! nothing; the bytes that it works on are those of the scenarios
//! (`tests/simulated/support/tls.rs`).
//!
//! - `engine`: the flight read along, written as a delta and framed; the frame followed and
//!   checked. Chains expected by name.
//! - `path`: every packet of the handshake, SYN to Finished, through both proxies, with parsing,
//!   checksums and flow tables.
//! - `stage_*`: microseconds of a handshake, both roles together, that parts of `path` take by
//!   themselves: reading packets, following TLS, writing the delta and its frame, rebuilding and
//!   checking. What the store takes is measured beside the store.
//!   With a part's name and a number it does that part so many times and prints nothing, for a
//!   profiler that counts instructions.
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

#[path = "../tests/simulated/support/tls.rs"]
mod tls;

/// What `tls.rs` takes from its parent.
const NAME: &str = "www.example.org";

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use tandem_delta::{Delta, Encoding, Reference, Source};
use tandem_engine::{Handshake, Possession, StoreSource, expected_chains, plan_flight};
use tandem_link::inband::frame::{self, Frame, Parsed};
use tandem_link::inband::{FlowId, Key, Version};
use tandem_packet::{
    ClientCertificates, Config, Direction, Limits, Output, Proxy, Role, Verdict, VerdictToken,
    WireFormat,
};
use tandem_store::{HostName, Kind, MemoryStore, Site, Store};
use tandem_testkit::bench::report;
use tandem_wire::{
    Instant, OptionsBuf, SegmentRepr, Seq, TcpFlags, TcpPacket, Timestamps, UnixTime,
};

const TODAY: UnixTime = UnixTime(1_790_000_000);
const MSS: usize = 1_448;

const FLOW: FlowId = FlowId {
    client: Seq(1),
    server: Seq(2),
};

fn key() -> Key {
    Key::from_bytes([1; 32])
}

/// How long each figure is measured.
const MEASURE: Duration = Duration::from_secs(2);

fn main() {
    let conversation = tls::Conversation::with_chain(&tls::chain(&[926, 900, 910]));
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    if let (Some(name), Some(count)) = (arguments.next(), arguments.next()) {
        let (_, part, _) = PARTS.iter().find(|part| part.0 == name).expect("a part");
        let count: u32 = count.parse().expect("a number");
        let mut one = part(&conversation);
        (0..count).for_each(|_| one());
        return;
    }
    for (name, part, unit) in PARTS {
        let micros = micros(|| part(&conversation));
        match unit {
            Unit::PerSecond => report(name, 1e6 / micros, "handshakes/s"),
            Unit::Micros => report(name, micros, "µs/handshake"),
        }
    }
    let [handshaking, finished] = memory(&conversation);
    report("memory_handshaking_flow", handshaking, "bytes");
    report("memory_finished_flow", finished, "bytes");
}

/// A part of the work, ready to be done again and again.
type Part = fn(&tls::Conversation) -> Box<dyn FnMut()>;

/// What a part is reported in.
enum Unit {
    PerSecond,
    Micros,
}

const PARTS: [(&str, Part, Unit); 6] = [
    ("engine", |it| Box::new(engine(it)), Unit::PerSecond),
    ("path", |it| Box::new(path(it)), Unit::PerSecond),
    ("stage_packets", |it| Box::new(reading(it)), Unit::Micros),
    ("stage_tls", |it| Box::new(following(it)), Unit::Micros),
    (
        "stage_delta",
        |it| {
            let mut write = writing(it);
            Box::new(move || drop(black_box(write())))
        },
        Unit::Micros,
    ),
    ("stage_rebuild", |it| Box::new(rebuilding(it)), Unit::Micros),
];

/// Microseconds of a part. Runs batches, each from the beginning, until the time is up; the best
/// batch counts, so that a busy machine does not.
fn micros<F: FnMut()>(mut batch: impl FnMut() -> F) -> f64 {
    let started = Clock::now();
    let mut best = f64::INFINITY;
    while started.elapsed() < MEASURE {
        best = best.min(micros_of_batch(&mut batch()));
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
            &key(),
            (FLOW, Version::ONE, frame::Sender::Server),
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
        assert!(
            frame.verify(&key(), FLOW, Seq(3), &rebuilt),
            "the same bytes"
        );
        here.server_sent(&rebuilt);
        for side in [&mut here, &mut there] {
            side.client_sent(&[&hello[..], &key_exchange].concat());
            side.server_sent(&[&flight[..], &finished].concat());
        }
    }
}

/// Reading the packets and checking their sums.
fn reading(conversation: &tls::Conversation) -> impl FnMut() + use<> {
    let packets: Vec<Vec<u8>> = Packets::of(conversation, 40_000, 4)
        .turns
        .into_iter()
        .flat_map(|(_, packets)| packets)
        .collect();
    move || {
        for packet in packets.iter().chain(&packets) {
            let parsed = TcpPacket::parse(packet).expect("our own packet");
            assert!(black_box(parsed).checksums_valid());
        }
    }
}

/// Following TLS.
fn following(conversation: &tls::Conversation) -> impl FnMut() + use<> {
    let [hello, flight, key_exchange, finished] =
        [0, 1, 2, 3].map(|turn| conversation.turns[turn].1.clone());
    let up = [&hello[..], &key_exchange].concat();
    let down = [&flight[..], &finished].concat();
    move || {
        for _ in [Role::ClientSide, Role::ServerSide] {
            let mut side = Handshake::new();
            side.client_sent(&hello);
            side.server_sent(&flight);
            side.client_sent(&up);
            side.server_sent(&down);
            black_box(side.flight());
        }
    }
}

/// Writing the delta and its frame.
fn writing(conversation: &tls::Conversation) -> impl FnMut() -> Vec<u8> + use<> {
    let [hello, flight] = [0, 1].map(|turn| conversation.turns[turn].1.clone());
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
    move || {
        let found = there.flight().expect("the flight is whole");
        let delta = plan_flight(&flight, found, &possession, &mut server_side)
            .finish(Encoding::One)
            .expect("held");
        let sender = (FLOW, Version::ONE, frame::Sender::Server);
        frame::write(&key(), sender, Seq(3), &delta, &flight).expect("smaller")
    }
}

/// Reading the frame, rebuilding and checking.
fn rebuilding(conversation: &tls::Conversation) -> impl FnMut() + use<> {
    let written = writing(conversation)();
    let mut client_side = warm_store(conversation);
    let mut held = Held::default();
    let rebuild = move |source: &mut dyn FnMut(&Reference) -> Option<Arc<[u8]>>| {
        let parsed = Frame::parse(&written, Version::ONE, frame::Sender::Server);
        let Parsed::Whole(frame) = parsed else {
            panic!("our own frame")
        };
        let delta = Delta::parse(Encoding::One, frame.delta, frame.span).expect("our own delta");
        let rebuilt = delta.apply(&mut Asked(source)).expect("held");
        assert!(
            frame.verify(&key(), FLOW, Seq(3), &rebuilt),
            "the same bytes"
        );
    };
    rebuild(&mut |reference| held.fetch(reference, &mut client_side));
    move || rebuild(&mut |reference| held.known(reference))
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
    for (token, packet) in (0..).zip(&packets) {
        proxy.handle_packet(VerdictToken(token), direction, packet, Instant::ZERO, TODAY);
        while let Some(output) = proxy.poll_output() {
            match output {
                Output::Verdict(VerdictToken(token), Verdict::Accept | Verdict::Leave) => {
                    out.push(packets[token as usize].clone());
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
