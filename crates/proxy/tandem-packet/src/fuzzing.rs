//! What must hold for any sequence of packets: two proxies back to back, driven by a few bytes an
//! event.
//!
//! Not part of the public interface. The function returns where all is well and panics where an
//! invariant is broken: a token without exactly one verdict, a packet that is none, memory beyond
//! its limit, a byte that an endpoint did not send under a timestamp that the other would take.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use tandem_engine::filter::Rate as FilterRate;
use tandem_link::inband::frame::Sender;
use tandem_link::inband::{FlowId, Key, Version, option};
use tandem_store::{HostName, Kind, MemoryStore, Site, Store};
use tandem_wire::tls::{ContentType, ProtocolVersion, certificate, handshake, record};
use tandem_wire::tls::{HandshakeType, ServerHello};
use tandem_wire::{Edit, Instant, SegmentRepr, Seq, TcpFlags, TcpPacket, UnixTime};

use crate::config::{ClientCertificates, Config, Limits, Role, WireFormat};
use crate::output::{Direction, Output, Verdict, VerdictToken};
use crate::proxy::Proxy;

/// A function that checks the invariants of an engine on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 3] = [
    ("packet_sequence_safe", packet_sequence_safe),
    ("packet_sequence_mcveety", packet_sequence_mcveety),
    ("packet_sequence_ticket", packet_sequence_ticket),
];

const NOW: UnixTime = UnixTime(1_790_000_000);
const NAME: &str = "a.example";
/// Small, so that short inputs meet them.
const FLOWS: usize = 3;
const MEMORY: usize = 40_000;
/// Most events of one input.
const MAX_EVENTS: usize = 300;

/// The safe format, any sequence of events.
pub fn packet_sequence_safe(data: &[u8]) {
    Bench::new(WireFormat::Safe).run(data);
}

/// The same with a client that shows a session ticket, which both proxies have seen.
pub fn packet_sequence_ticket(data: &[u8]) {
    Bench::returning().run(data);
}

/// The thesis's format; what the ends receive is not checked, since a lone proxy breaks a
/// connection in it.
pub fn packet_sequence_mcveety(data: &[u8]) {
    Bench::new(WireFormat::Mcveety(tandem_engine::thesis::Codes::default())).run(data);
}

/// Which proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    Client,
    Server,
}

/// One proxy and the packets that it holds.
struct Seat {
    proxy: Proxy<MemoryStore>,
    queued: BTreeMap<VerdictToken, (Direction, Vec<u8>)>,
}

struct Bench {
    wire: WireFormat,
    client_side: Seat,
    server_side: Seat,
    next_token: u64,
    now: Instant,
    client_isn: Seq,
    server_isn: Seq,
    client_acked: usize,
    server_acked: usize,
    client_clock: u32,
    server_clock: u32,
    client_bytes: Vec<u8>,
    server_bytes: Vec<u8>,
    client_sent: usize,
    server_sent: usize,
    /// Packets on their way over the link, and where to.
    crossing: VecDeque<(Which, Vec<u8>)>,
    last_crossed: Option<(Which, Vec<u8>)>,
    /// How many frames of each type have crossed.
    frames: [usize; 16],
    /// What the next packet on the link meets.
    loses_next: bool,
    /// Somebody else has spoken in this connection: what the client gets may be theirs.
    tainted: bool,
}

/// The bytes of an input, one by one; nothing after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<usize> {
        Some(usize::from(self.byte()?) << 8 | usize::from(self.byte()?))
    }
}

fn config(role: Role, wire: WireFormat, how: ClientCertificates) -> Config {
    Config {
        role,
        wire,
        client_certificates: how,
        key: Some(Key::from_bytes([1; 32])),
        ports: vec![443],
        limits: Limits {
            flows: FLOWS,
            memory: MEMORY,
            hold_segments: 6,
            ..Limits::default()
        },
    }
}

fn message(kind: HandshakeType, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    handshake::write_message(&mut out, kind, body).expect("a short body");
    let mut records = Vec::new();
    record::write_records(
        &mut records,
        ContentType::Handshake,
        ProtocolVersion::TLS1_2,
        &out,
    );
    records
}

fn finished() -> Vec<u8> {
    let mut out = Vec::new();
    record::write_records(
        &mut out,
        ContentType::ChangeCipherSpec,
        ProtocolVersion::TLS1_2,
        &[1],
    );
    record::write_records(
        &mut out,
        ContentType::Handshake,
        ProtocolVersion::TLS1_2,
        &[9; 40],
    );
    out
}

/// A session ticket.
const TICKET: [u8; 100] = [3; 100];

/// What is said: whether the server asks for a certificate, and the client shows one; or the client
/// shows a session ticket, which the server does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speech {
    OneWay,
    Mutual,
    Returning,
}

/// What the client says: hello, its chain if it is asked for it, key exchange, Finished, some data.
fn client_bytes(speech: Speech) -> Vec<u8> {
    let mut hello = vec![3, 3];
    hello.extend([5; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    let length = short(NAME.len());
    // What a mutual hello has more makes its length one that a single event can send.
    let more = match speech {
        Speech::OneWay => Vec::new(),
        Speech::Mutual => vec![0, 21, 0, 4, 0, 0, 0, 0],
        Speech::Returning => [&[0, 35][..], &short(TICKET.len()).to_be_bytes(), &TICKET].concat(),
    };
    hello.extend((length + 9 + short(more.len())).to_be_bytes());
    hello.extend([0, 0]);
    hello.extend((length + 5).to_be_bytes());
    hello.extend((length + 3).to_be_bytes());
    hello.push(0);
    hello.extend(length.to_be_bytes());
    hello.extend(NAME.as_bytes());
    hello.extend(&more);
    let mut out = message(HandshakeType::CLIENT_HELLO, &hello);
    match speech {
        Speech::OneWay | Speech::Returning => {}
        Speech::Mutual => out.extend(message(HandshakeType::CERTIFICATE, &list(&client_chain()))),
    }
    out.extend(message(HandshakeType::CLIENT_KEY_EXCHANGE, &[7; 33]));
    out.extend(finished());
    record::write_records(
        &mut out,
        ContentType::ApplicationData,
        ProtocolVersion::TLS1_2,
        &[4; 50],
    );
    out
}

/// A length of something short.
fn short(length: usize) -> u16 {
    u16::try_from(length).expect("a short one")
}

/// The multiples of `step`, each told from another certificate's by `which`.
fn noise(length: usize, step: u8, which: u8) -> Vec<u8> {
    let multiples = std::iter::successors(Some(0u8), |last| Some(last.wrapping_add(step)));
    multiples.map(|at| at ^ which).take(length).collect()
}

fn chain() -> [Vec<u8>; 2] {
    [0, 1].map(|which| noise(900, 31, which))
}

fn client_chain() -> [Vec<u8>; 2] {
    [2, 3].map(|which| noise(700, 29, which))
}

fn list(chain: &[Vec<u8>]) -> Vec<u8> {
    let mut list = Vec::new();
    certificate::write_certificates(&mut list, chain.iter().map(Vec::as_slice))
        .expect("a short chain");
    list
}

/// What the server says: a flight with two certificates and perhaps a request for one, Finished,
/// some data.
fn server_bytes(speech: Speech) -> Vec<u8> {
    let mut hello = vec![3, 3];
    hello.extend([6; 32]);
    hello.extend([0, 0xc0, 0x2f, 0]);
    debug_assert!(ServerHello::parse(&hello).is_ok());
    let mut out = message(HandshakeType::SERVER_HELLO, &hello);
    out.extend(message(HandshakeType::CERTIFICATE, &list(&chain())));
    out.extend(message(HandshakeType::SERVER_KEY_EXCHANGE, &[8; 100]));
    match speech {
        Speech::OneWay | Speech::Returning => {}
        Speech::Mutual => out.extend(message(HandshakeType::CERTIFICATE_REQUEST, &[7; 42])),
    }
    out.extend(message(HandshakeType::SERVER_HELLO_DONE, &[]));
    out.extend(finished());
    record::write_records(
        &mut out,
        ContentType::ApplicationData,
        ProtocolVersion::TLS1_2,
        &[4; 90],
    );
    out
}

fn stamps(value: u32, echo: u32) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10];
    options.extend(value.to_be_bytes());
    options.extend(echo.to_be_bytes());
    options
}

impl Bench {
    fn new(wire: WireFormat) -> Self {
        Self::with(wire, Speech::OneWay, ClientCertificates::default())
    }

    /// A bench whose proxies do this with clients' certificates. In a mutual one both know the
    /// client's chain, unless the client's side is told what the other has stored.
    fn with(wire: WireFormat, speech: Speech, how: ClientCertificates) -> Self {
        let seat = |role, store| Seat {
            proxy: Proxy::new(config(role, wire, how), store),
            queued: BTreeMap::new(),
        };
        let mut store = MemoryStore::default();
        let site = HostName::new(NAME).map(Site::Name).ok();
        let chain = chain();
        let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
        store.learn(Kind::Chain, site.as_ref(), &chain, NOW);
        let mut other = MemoryStore::default();
        let shown = client_chain();
        let shown: Vec<&[u8]> = shown.iter().map(Vec::as_slice).collect();
        match speech {
            Speech::OneWay | Speech::Returning => {}
            Speech::Mutual => {
                store.learn(Kind::Chain, None, &shown, NOW);
                other.learn(Kind::Chain, None, &shown, NOW);
            }
        }
        Self {
            wire,
            client_side: seat(Role::ClientSide, store),
            server_side: seat(Role::ServerSide, other),
            next_token: 0,
            now: Instant::from_micros(1),
            client_isn: Seq(u32::MAX - 20),
            server_isn: Seq(u32::MAX - 500),
            client_acked: 0,
            server_acked: 0,
            client_clock: 1_000,
            server_clock: u32::MAX - 10,
            client_bytes: client_bytes(speech),
            server_bytes: server_bytes(speech),
            client_sent: 0,
            server_sent: 0,
            crossing: VecDeque::new(),
            last_crossed: None,
            frames: [0; 16],
            loses_next: false,
            tainted: false,
        }
    }

    /// A client that comes back with a ticket, which both proxies have seen.
    fn returning() -> Self {
        let how = ClientCertificates::default();
        let mut bench = Self::with(WireFormat::Safe, Speech::Returning, how);
        let site = Site::Address(SocketAddr::from(([10, 0, 0, 2], 443)));
        for seat in [&mut bench.client_side, &mut bench.server_side] {
            seat.proxy
                .engine_mut()
                .remember_ticket(&site, &TICKET, bench.now);
        }
        bench
    }

    fn run(mut self, data: &[u8]) {
        let mut input = Input(data);
        for _ in 0..MAX_EVENTS {
            if self.event(&mut input).is_none() {
                break;
            }
        }
        // The end: what is held goes, then nothing is left.
        for which in [Which::Client, Which::Server] {
            self.seat(which).proxy.release_all();
            self.drain(which);
            let seat = self.seat(which);
            assert!(seat.queued.is_empty(), "a token is left");
            assert_eq!(seat.proxy.gauges(), crate::Gauges::default());
        }
    }

    /// One event out of the input; `None` at its end.
    fn event(&mut self, input: &mut Input<'_>) -> Option<()> {
        let byte = input.byte()?;
        if let Some(how) = mutual(byte) {
            // Another bench, as long as nothing was said on this one.
            if self.next_token == 0 {
                *self = Self::with(self.wire, Speech::Mutual, how);
                return Some(());
            }
            return self.lose_server_store();
        }
        match byte % 18 {
            0 => {
                let mut syn = self.client_segment(0, &[]);
                (syn.seq, syn.ack, syn.flags) = (self.client_isn, Seq(0), TcpFlags::SYN);
                syn.options = [vec![2, 4, 5, 180], stamps(self.client_clock, 0)].concat();
                self.enter(Which::Client, Direction::ToLink, syn.build());
            }
            1 => {
                let mut syn = self.server_segment(0, &[]);
                (syn.seq, syn.flags) = (self.server_isn, TcpFlags::SYN.with(TcpFlags::ACK));
                syn.ack = self.client_isn.wrapping_add(1);
                syn.options = [&[2, 4, 5, 180], &syn.options[..]].concat();
                self.enter(Which::Server, Direction::ToLink, syn.build());
            }
            2 => {
                self.client_acked = input.number()?;
                let ack = self.client_segment(self.client_sent, &[]);
                self.enter(Which::Client, Direction::ToLink, ack.build());
            }
            3 => {
                self.server_acked = usize::from(input.byte()?);
                let ack = self.server_segment(self.server_sent, &[]);
                self.enter(Which::Server, Direction::ToLink, ack.build());
            }
            4 => {
                let size = usize::from(input.byte()?) * 6;
                let at = self.client_sent;
                let piece = slice(&self.client_bytes, at, size);
                self.client_sent += piece.len();
                let segment = self.client_segment(at, &piece);
                self.enter(Which::Client, Direction::ToLink, segment.build());
            }
            5 => {
                let size = usize::from(input.byte()?) * 6;
                let at = self.server_sent;
                let piece = slice(&self.server_bytes, at, size);
                self.server_sent += piece.len();
                let segment = self.server_segment(at, &piece);
                self.enter(Which::Server, Direction::ToLink, segment.build());
            }
            6 => {
                let most = self.client_bytes.len().max(400);
                let (at, size) = (input.number()? % most, input.number()? % 1_449);
                let piece = slice(&self.client_bytes, at, size);
                let segment = self.client_segment(at, &piece);
                self.enter(Which::Client, Direction::ToLink, segment.build());
            }
            7 => {
                let most = self.server_bytes.len().max(2_200);
                let (at, size) = (input.number()? % most, input.number()? % 1_449);
                let piece = slice(&self.server_bytes, at, size);
                let segment = self.server_segment(at, &piece);
                self.enter(Which::Server, Direction::ToLink, segment.build());
            }
            8 => self.pass_time(Duration::from_millis(u64::from(input.byte()?) * 20)),
            9 => self.loses_next = true,
            10 => {
                if let Some((to, packet)) = self.last_crossed.clone() {
                    self.enter(to, Direction::FromLink, packet);
                }
            }
            11 => self.damage(input.number()?, input.byte()?),
            12 => {
                let length = usize::from(input.byte()?).min(input.0.len());
                let (raw, rest) = input.0.split_at(length);
                let raw = raw.to_vec();
                input.0 = rest;
                self.tainted = true;
                self.enter(Which::Client, Direction::FromLink, raw.clone());
                self.enter(Which::Server, Direction::FromLink, raw.clone());
                self.enter(Which::Client, Direction::ToLink, raw);
            }
            13 => {
                let flags = TcpFlags::ACK.with(TcpFlags(u16::from(input.byte()?)));
                let segment = SegmentRepr {
                    flags,
                    ..self.client_segment(self.client_sent, &[])
                };
                self.enter(Which::Client, Direction::ToLink, segment.build());
            }
            14 => {
                let flags = TcpFlags::ACK.with(TcpFlags(u16::from(input.byte()?)));
                let segment = SegmentRepr {
                    flags,
                    ..self.server_segment(self.server_sent, &[])
                };
                self.enter(Which::Server, Direction::ToLink, segment.build());
            }
            15 => {
                *self.seat(Which::Client).proxy.store_mut() = MemoryStore::default();
                self.seat(Which::Server).proxy.engine_mut().forget_tickets();
            }
            16 => {
                let step = u32::from(input.byte()?);
                self.server_clock = self.server_clock.wrapping_add(step);
                self.client_clock = self.client_clock.wrapping_add(step);
            }
            _ => self.begin_again(input.byte()?),
        }
        self.cross();
        Some(())
    }

    /// The server's side loses all that it has stored.
    fn lose_server_store(&mut self) -> Option<()> {
        *self.seat(Which::Server).proxy.store_mut() = MemoryStore::default();
        Some(())
    }

    /// Another connection, on the same ports or others.
    fn begin_again(&mut self, how: u8) {
        self.client_isn = self.client_isn.wrapping_add(1 + u32::from(how) * 70_000);
        self.server_isn = self.server_isn.wrapping_sub(1 + u32::from(how) * 90_000);
        (self.client_sent, self.server_sent) = (0, 0);
        (self.client_acked, self.server_acked) = (0, 0);
        // Late copies of the other connection's segments are somebody else's.
        self.tainted = true;
    }

    fn pass_time(&mut self, time: Duration) {
        let end = self.now + time;
        for which in [Which::Client, Which::Server] {
            let due = self.seat(which).proxy.poll_timeout();
            if let Some((at, _)) = due.filter(|(at, _)| *at <= end) {
                self.now = self.now.max(at);
                let now = self.now;
                self.seat(which).proxy.handle_timeout(now);
                let next = self.seat(which).proxy.poll_timeout();
                assert!(
                    next.is_none_or(|(next, _)| next > now),
                    "a time-out is spent"
                );
                self.drain(which);
            }
        }
        self.now = end;
    }

    /// Flips a bit of what crossed last, gives it a good checksum, and lets it arrive.
    fn damage(&mut self, bit: usize, how: u8) {
        let last = self.last_crossed.clone();
        let Some((to, mut packet)) = last.filter(|(_, packet)| !packet.is_empty()) else {
            return;
        };
        let at = bit % (packet.len() * 8);
        packet[at / 8] ^= 1 << (at % 8);
        let repaired = TcpPacket::parse(&packet).ok().and_then(|parsed| {
            let seq = Some(parsed.seq());
            let edit = Edit {
                seq,
                ..Edit::default()
            };
            parsed.rebuilt(&edit).ok()
        });
        if how.is_multiple_of(2) {
            packet = repaired.unwrap_or(packet);
            self.tainted = true;
        }
        if how.is_multiple_of(3) {
            // An option of ours in another place.
            let flow = FlowId {
                client: self.client_isn,
                server: self.server_isn,
            };
            let key = Key::from_bytes([1; 32]);
            let options = [
                option::hint(&key, flow, Version::TWO, &[[3; 4]]),
                option::miss(&key, flow, Version::TWO, Sender::Server),
                option::miss(&key, flow, Version::TWO, Sender::Client),
                option::held(&key, flow, Version::TWO, 3),
            ];
            let segment = self.client_segment(self.client_sent, &[]);
            let option = &options[usize::from(how) % options.len()];
            let (to, segment) = if usize::from(how) % options.len() < 2 {
                (Which::Server, segment)
            } else {
                (Which::Client, self.server_segment(self.server_sent, &[]))
            };
            let options = [option, &segment.options[..]].concat();
            packet = SegmentRepr { options, ..segment }.build();
            return self.enter(to, Direction::FromLink, packet);
        }
        self.enter(to, Direction::FromLink, packet);
    }

    fn client_segment(&self, offset: usize, payload: &[u8]) -> SegmentRepr {
        SegmentRepr {
            source: SocketAddr::from(([10, 0, 0, 1], 40_000)),
            destination: SocketAddr::from(([10, 0, 0, 2], 443)),
            seq: self.client_isn.after(1 + offset),
            ack: self.server_isn.after(1 + self.client_acked),
            flags: TcpFlags::ACK,
            window: 65_535,
            options: stamps(self.client_clock, self.server_clock),
            payload: payload.to_vec(),
            hop_limit: 64,
        }
    }

    fn server_segment(&self, offset: usize, payload: &[u8]) -> SegmentRepr {
        let back = self.client_segment(0, &[]);
        SegmentRepr {
            source: back.destination,
            destination: back.source,
            seq: self.server_isn.after(1 + offset),
            ack: self.client_isn.after(1 + self.server_acked),
            options: stamps(self.server_clock, self.client_clock),
            payload: payload.to_vec(),
            ..back
        }
    }

    fn seat(&mut self, which: Which) -> &mut Seat {
        match which {
            Which::Client => &mut self.client_side,
            Which::Server => &mut self.server_side,
        }
    }

    fn enter(&mut self, which: Which, direction: Direction, packet: Vec<u8>) {
        let token = VerdictToken(self.next_token);
        self.next_token += 1;
        let now = self.now;
        let seat = self.seat(which);
        seat.queued.insert(token, (direction, packet.clone()));
        seat.proxy
            .handle_packet(token, direction, &packet, now, NOW);
        self.drain(which);
    }

    fn drain(&mut self, which: Which) {
        while let Some(output) = self.seat(which).proxy.poll_output() {
            let (direction, packet) = match output {
                Output::Event(_) => continue,
                Output::Inject(direction, packet) => {
                    well_formed(&packet);
                    (direction, packet)
                }
                Output::Verdict(token, verdict) => {
                    let queued = self.seat(which).queued.remove(&token);
                    let (direction, packet) = queued.expect("one verdict for each token");
                    match verdict {
                        Verdict::Accept | Verdict::Leave => (direction, packet),
                        Verdict::Replace(packet) => {
                            well_formed(&packet);
                            (direction, packet)
                        }
                        Verdict::Drop => continue,
                    }
                }
            };
            self.out(which, direction, packet);
        }
        let seat = self.seat(which);
        let gauges = seat.proxy.gauges();
        assert_eq!(gauges.held_packets, seat.queued.len());
        assert!(gauges.flows <= FLOWS && gauges.memory <= MEMORY);
    }

    fn out(&mut self, which: Which, direction: Direction, packet: Vec<u8>) {
        match (which, direction) {
            (_, Direction::ToLink) => {
                let to = match which {
                    Which::Client => Which::Server,
                    Which::Server => Which::Client,
                };
                let parsed = TcpPacket::parse(&packet).ok();
                let first = parsed.and_then(|packet| packet.payload().first().copied());
                // The first byte of a frame; none of TLS's content types is like it.
                if let Some(first @ 0x20..=0x23) = first {
                    self.frames[usize::from(first & 0x0f)] += 1;
                }
                self.last_crossed = Some((to, packet.clone()));
                if !std::mem::take(&mut self.loses_next) {
                    self.crossing.push_back((to, packet));
                }
            }
            (Which::Client, Direction::FromLink) => self.arrives(Which::Client, &packet),
            (Which::Server, Direction::FromLink) => self.arrives(Which::Server, &packet),
        }
    }

    fn cross(&mut self) {
        while let Some((to, packet)) = self.crossing.pop_front() {
            self.enter(to, Direction::FromLink, packet);
        }
    }

    /// What an endpoint would take is what the other said.
    fn arrives(&self, at: Which, packet: &[u8]) {
        let Ok(packet) = TcpPacket::parse(packet) else {
            return;
        };
        let (first, start, said) = match at {
            Which::Client => (u32::MAX - 10, self.server_isn, &self.server_bytes),
            Which::Server => (1_000, self.client_isn, &self.client_bytes),
        };
        let fresh = packet
            .timestamps()
            .is_some_and(|stamps| !crate::paws::is_older(stamps.value, first));
        let checked = match self.wire {
            WireFormat::Safe => !self.tainted && packet.checksums_valid() && fresh,
            WireFormat::Mcveety(_) => false,
        };
        if !checked {
            return;
        }
        let from = packet.seq().distance_from(start.wrapping_add(1));
        let from = usize::try_from(from).unwrap_or_default();
        assert!(
            packet.payload() == slice(said, from, packet.payload().len()),
            "a byte that the other end did not send"
        );
    }
}

/// The events that make the bench one of mutual handshakes, by what is done with the client's
/// certificate. Later, they make the server's side forget.
fn mutual(event: u8) -> Option<ClientCertificates> {
    match event {
        250 => Some(ClientCertificates::Filter {
            rate: FilterRate::DEFAULT,
        }),
        251 => Some(ClientCertificates::Persistent),
        252 => Some(ClientCertificates::Cii {
            extension: tandem_engine::intention::EXTENSION,
        }),
        _ => None,
    }
}

fn slice(bytes: &[u8], at: usize, length: usize) -> Vec<u8> {
    bytes.iter().skip(at).take(length).copied().collect()
}

fn well_formed(packet: &[u8]) {
    let parsed = TcpPacket::parse(packet).expect("a proxy sends whole TCP packets");
    assert!(parsed.checksums_valid() && packet.len() <= 1_500);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SYN, SYN/ACK, ACK, hello, the flight in two segments.
    const WARM: [u8; 13] = [0, 1, 2, 0, 0, 4, 13, 5, 241, 5, 90, 8, 0];

    #[test]
    fn the_usual_events_lead_to_a_rewritten_flight() {
        let mut bench = Bench::new(WireFormat::Safe);
        let mut input = Input(&WARM);
        while bench.event(&mut input).is_some() {}
        let (_, frame) = bench.last_crossed.clone().expect("something crossed");
        let frame = TcpPacket::parse(&frame).expect("a segment");
        assert_eq!(frame.payload().first(), Some(&0x21));
        bench.run(&[]);
    }

    /// The same for a mutual handshake, after the event that makes it one: SYN, SYN/ACK, ACK,
    /// hello, the flight, its acknowledgement and the client's flight, each in two segments.
    const MUTUAL: [u8; 20] = [
        0, 1, 2, 0, 0, 4, 13, 5, 241, 5, 98, 2, 7, 242, 4, 241, 4, 120, 8, 0,
    ];

    #[test]
    fn the_usual_events_lead_to_frames_of_both_ends_in_mutual_handshakes() {
        for (event, publications) in [(250, 1), (251, 0)] {
            let mut bench = Bench::new(WireFormat::Safe);
            let events = [&[event], &MUTUAL[..]].concat();
            let mut input = Input(&events);
            while bench.event(&mut input).is_some() {}
            assert_eq!(bench.frames[1..4], [1, 1, publications], "{event}");
            bench.run(&[]);
        }
    }

    /// The same with a longer hello.
    const RETURNING: [u8; 13] = [0, 1, 2, 0, 0, 4, 31, 5, 241, 5, 90, 8, 0];

    #[test]
    fn the_usual_events_lead_to_a_rewritten_hello() {
        let mut bench = Bench::returning();
        let mut input = Input(&RETURNING[..7]);
        while bench.event(&mut input).is_some() {}
        let (_, frame) = bench.last_crossed.clone().expect("something crossed");
        let frame = TcpPacket::parse(&frame).expect("a segment");
        assert_eq!(frame.payload().first(), Some(&0x22));
        assert!(frame.payload().len() < 31 * 6 - 50);
        bench.run(&[]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn any_events_after_those_of_a_mutual_handshake(
            how in 250u8..253,
            events in proptest::collection::vec(any::<u8>(), 0..300),
            skip in 0usize..20,
        ) {
            let data = [&[how], &MUTUAL[..MUTUAL.len() - skip], &events].concat();
            packet_sequence_safe(&data);
            packet_sequence_mcveety(&data);
        }

        #[test]
        fn any_events_after_the_usual_ones(events in proptest::collection::vec(any::<u8>(), 0..300), skip in 0usize..13) {
            let data = [&WARM[..WARM.len() - skip], &events].concat();
            packet_sequence_safe(&data);
            packet_sequence_mcveety(&data);
            let data = [&RETURNING[..RETURNING.len() - skip], &events].concat();
            packet_sequence_ticket(&data);
        }
    }
}
