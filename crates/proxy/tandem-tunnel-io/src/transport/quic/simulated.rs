//! Both ends of the tunnel over a simulated link, in simulated time: our configuration in quinn's
//! protocol machine, without sockets and without waiting. A day takes a moment.
//!
//! Is not: quinn's driver, which moves the same datagrams between the machine and a socket.
//!
//! Invariants: connections, the link and the streams take their time and their chance from here;
//! only the keys of the handshake are random, and they change no length.

mod content;
mod outage;
mod rest;
mod roaming;
mod setup;
mod thin;

use std::net::{Ipv4Addr, SocketAddrV4};

use quinn_proto::{
    Connection as Machine, ConnectionHandle, DatagramEvent, Dir, Endpoint as Machines, Event,
    FinishError, ReadError, Side, StreamId, WriteError,
};
use tandem_netsim::link::{Direction, Input, LinkConfig, LinkCounters, Loss};
use tandem_netsim::presets::Preset;
use tandem_netsim::{BitRate, Link, Probability};
use tandem_wire::Instant;

use super::*;
use content::{frames, packets};

const KEY: [u8; 32] = [7; 32];
/// Bytes of an IPv4 and a UDP header.
const HEADERS: usize = 28;
/// Where the IPv4 header says what follows it (RFC 791), and that it is UDP.
const PROTOCOL_AT: usize = 9;
const UDP: u8 = 17;
/// Bytes at the start of a request that say how long the response is to be.
const LENGTH: usize = 4;

/// A packet that one side has sent.
struct Carried {
    direction: Direction,
    at: Instant,
    /// Bytes, with the headers of IP and UDP.
    len: usize,
    /// The types of its QUIC packets, and the frames in them.
    content: String,
}

/// A stream as the program above the tunnel sees it.
#[derive(Default)]
struct Exchange {
    to_send: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    first_at: Option<Instant>,
    done_at: Option<Instant>,
}

/// One end.
struct Party {
    machines: Machines,
    machine: Option<(ConnectionHandle, Machine)>,
    address: SocketAddrV4,
    streams: Vec<(StreamId, Exchange)>,
    lost: Option<ConnectionError>,
    watch: Watch,
    next_look: Instant,
    /// How long the other side may withhold an acknowledgement, on the side that greets.
    greets_after: Option<Duration>,
    greets_at: Option<Instant>,
}

/// Both ends and the link.
struct Pair {
    /// What quinn's points in time count from. Nothing depends on when that is.
    epoch: std::time::Instant,
    now: Instant,
    link: Link,
    client: Party,
    server: Party,
    carried: Vec<Carried>,
}

/// The line as the operator states it for this link.
fn stated(config: &LinkConfig) -> (Line, Line) {
    let round_trip = Some(config.up.delay + config.down.delay);
    let line = |rate: Option<BitRate>| Line {
        rate: rate.map(BitRate::bits_per_second),
        round_trip,
    };
    (line(config.up.rate), line(config.down.rate))
}

impl Pair {
    /// A client side that has just sent its first datagram, with the link's rates and round trip
    /// stated on both sides.
    fn new(config: LinkConfig) -> Self {
        let (up, down) = stated(&config);
        Self::with_lines(config, 1, &up, &down)
    }

    /// The same with what each side knows of the line, and a seed for the link's chance.
    fn with_lines(config: LinkConfig, seed: u64, up: &Line, down: &Line) -> Self {
        let client = Client::new(&KEY, SocketAddr::from(SERVER), up).expect("it starts");
        let reset_key = Arc::new(ResetKey::of_pair(&KEY));
        let mut client_end = endpoint_config(&reset_key, parameters::CLIENT_ID_LEN);
        let mut server_end = endpoint_config(&reset_key, parameters::SERVER_ID_LEN);
        client_end.rng_seed(Some([1; 32]));
        server_end.rng_seed(Some([2; 32]));
        let accepts =
            server_config_of(&KEY, std::collections::HashSet::new(), down).expect("it starts");
        let epoch = std::time::Instant::now();
        let mut machines = Machines::new(Arc::new(client_end), None, false, None);
        let machine = machines
            .connect(epoch, client.config.clone(), client.peer, SERVER_NAME)
            .expect("it starts");
        let mut pair = Self {
            epoch,
            now: Instant::ZERO,
            link: Link::new(config, seed, Instant::ZERO),
            client: Party::new(machines, Some(machine), CLIENT),
            server: Party::new(
                Machines::new(Arc::new(server_end), Some(Arc::new(accepts)), false, None),
                None,
                SERVER,
            ),
            carried: Vec::new(),
        };
        pair.client.watch = Watch::new(Side::Client, Counts::default());
        pair.client.greets_after = Some(client.greeting);
        pair.settle();
        pair
    }

    /// The same, with its handshake complete and all said that follows from it.
    fn up(config: LinkConfig) -> Self {
        let mut pair = Self::new(config);
        pair.until(MINUTE * 5, Self::is_up);
        pair.pass(MINUTE);
        pair
    }

    fn is_up(&self) -> bool {
        let sides = [&self.client, &self.server];
        sides.iter().all(|side| {
            let machine = side.machine.as_ref();
            machine.is_some_and(|(_, machine)| !machine.is_handshaking())
        })
    }

    /// No packet was repeated, and none asks for an acknowledgement that is late.
    fn assert_nothing_twice(&self, from: usize) {
        let late = ["PING", "IMMEDIATE_ACK"];
        let mut packets = self.carried[from..].iter();
        let asks = packets.any(|packet| late.iter().any(|late| packet.content.contains(late)));
        assert!(!asks, "{}", self.trace(from));
        assert_eq!(self.client.lost_packets(), 0, "{}", self.trace(from));
        assert_eq!(self.server.lost_packets(), 0, "{}", self.trace(from));
    }

    /// Opens a stream with a request of `request` bytes; the other side then sends `response`
    /// bytes. The number of the exchange, for [`Self::response`].
    fn ask(&mut self, request: usize, response: usize) -> usize {
        let machine = self.client.machine_mut();
        let id = machine.streams().open(Dir::Bi).expect("there is room");
        let mut bytes = u32::try_from(response)
            .expect("it is short")
            .to_be_bytes()
            .to_vec();
        bytes.extend(pattern(request - LENGTH));
        self.client.streams.push((
            id,
            Exchange {
                to_send: bytes,
                ..Exchange::default()
            },
        ));
        self.settle();
        self.client.streams.len() - 1
    }

    fn response(&self, number: usize) -> &Exchange {
        &self.client.streams[number].1
    }

    /// Asks and waits for the whole answer, which must be right. How long it took.
    fn exchange(&mut self, request: usize, response: usize) -> Duration {
        let start = self.now;
        let number = self.ask(request, response);
        self.finish(number, response, MINUTE * 60);
        self.now.saturating_since(start)
    }

    /// Waits for the whole answer, which must be right.
    fn finish(&mut self, number: usize, response: usize, at_most: Duration) {
        self.until(at_most, |pair| pair.response(number).done_at.is_some());
        assert!(
            self.response(number).received == pattern(response),
            "the same bytes"
        );
    }

    /// Lets time pass until `done`.
    fn until(&mut self, at_most: Duration, done: impl Fn(&Self) -> bool) -> Duration {
        let start = self.now;
        let limit = self.now + at_most;
        while !done(self) {
            assert!(
                self.step(limit),
                "not within {at_most:?}: {}",
                self.trace(0)
            );
            assert!(self.client.lost.is_none(), "{:?}", self.client.lost);
            assert!(self.server.lost.is_none(), "{:?}", self.server.lost);
        }
        self.now.saturating_since(start)
    }

    fn pass(&mut self, time: Duration) {
        let limit = self.now + time;
        while self.step(limit) {}
    }

    fn pass_to(&mut self, since_start: Duration) {
        let limit = Instant::ZERO + since_start;
        while self.step(limit) {}
    }

    /// What the link has carried since it was made: all that is paid for.
    fn counters(&self) -> LinkCounters {
        self.link.counters()
    }

    /// From now on the client's packets come from another address; what is sent to the old one is
    /// lost. No side is told.
    fn rebind(&mut self, address: SocketAddrV4) {
        self.client.address = address;
    }

    /// The packets from this one on, a line each.
    fn trace(&self, from: usize) -> String {
        use std::fmt::Write as _;
        let mut trace = String::new();
        for packet in &self.carried[from..] {
            let (at, len, content) = (packet.at, packet.len, &packet.content);
            let _ = writeln!(
                trace,
                "\n{at:>14} {:?} {len:>5}  {content}",
                packet.direction
            );
        }
        trace
    }

    fn clock(&self) -> std::time::Instant {
        self.epoch + Duration::from_micros(self.now.as_micros())
    }

    /// The next thing that happens; false if that is after `limit`.
    fn step(&mut self, limit: Instant) -> bool {
        self.settle();
        let due = [
            self.link.poll_timeout().map(|(at, _)| at),
            self.client.due(self.epoch),
            self.server.due(self.epoch),
        ];
        let next = due.into_iter().flatten().min().filter(|at| *at <= limit);
        self.now = next.unwrap_or(limit).max(self.now);
        self.link.handle_timeout(self.now);
        let clock = self.clock();
        self.client.time_out(self.now, clock);
        self.server.time_out(self.now, clock);
        self.settle();
        next.is_some()
    }

    /// Moves everything that can move now.
    fn settle(&mut self) {
        loop {
            let arrived = self.arrive();
            self.client.talk(self.now, pattern_of_request);
            self.server.talk(self.now, response_to);
            let sent = self.send(Direction::Up) | self.send(Direction::Down);
            if !(arrived | sent) {
                return;
            }
        }
    }

    fn arrive(&mut self) -> bool {
        let mut any = false;
        while let Some(output) = self.link.poll_output() {
            any = true;
            if output.packet[PROTOCOL_AT] != UDP {
                // A message that a packet was too long: quinn does not read it.
                continue;
            }
            let (source, target) = addresses(&output.packet);
            let clock = self.clock();
            let side = match output.direction {
                Direction::Up => &mut self.server,
                Direction::Down => &mut self.client,
            };
            if side.address == target {
                let replies = side.receive(&output.packet[HEADERS..], source, clock);
                for (to, bytes) in replies {
                    let from = side.address;
                    let direction = output.direction.reverse();
                    let packet = packet(from, to, &bytes);
                    self.link
                        .handle_input(Input { direction, packet }, self.now);
                }
            }
        }
        any
    }

    fn send(&mut self, direction: Direction) -> bool {
        let clock = self.clock();
        let side = match direction {
            Direction::Up => &mut self.client,
            Direction::Down => &mut self.server,
        };
        let mut any = false;
        while let Some(sent) = side.transmit(clock) {
            any = true;
            let packet = packet(side.address, sent.to, &sent.bytes);
            self.carried.push(Carried {
                direction,
                at: self.now,
                len: packet.len(),
                content: sent.content,
            });
            self.link
                .handle_input(Input { direction, packet }, self.now);
        }
        any
    }
}

/// A datagram that leaves.
struct Sent {
    to: SocketAddrV4,
    bytes: Vec<u8>,
    content: String,
}

impl Party {
    fn new(
        machines: Machines,
        machine: Option<(ConnectionHandle, Machine)>,
        address: SocketAddrV4,
    ) -> Self {
        Self {
            machines,
            machine,
            address,
            streams: Vec::new(),
            lost: None,
            watch: Watch::new(Side::Server, Counts::default()),
            next_look: Instant::ZERO + LOOK_INTERVAL,
            greets_after: None,
            greets_at: None,
        }
    }

    fn machine(&self) -> &Machine {
        &self.machine.as_ref().expect("there is a connection").1
    }

    fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine.as_mut().expect("there is a connection").1
    }

    /// Packets that this side believes to be lost.
    fn lost_packets(&self) -> u64 {
        self.machine().stats().path.lost_packets
    }

    fn due(&mut self, epoch: std::time::Instant) -> Option<Instant> {
        let machine = self.machine.as_mut()?.1.poll_timeout().map(|at| {
            // Rounded up: at that time it is due.
            let nanos = at.saturating_duration_since(epoch).as_nanos();
            Instant::from_micros(u64::try_from(nanos.div_ceil(1_000)).unwrap_or(u64::MAX))
        });
        let due = [machine, Some(self.next_look), self.greets_at];
        due.into_iter().flatten().min()
    }

    fn time_out(&mut self, now: Instant, clock: std::time::Instant) {
        let Some((_, machine)) = &mut self.machine else {
            return;
        };
        if machine.poll_timeout().is_some_and(|at| at <= clock) {
            machine.handle_timeout(clock);
        }
        let greets = self.greets_at.take_if(|at| *at <= now).is_some();
        let looks = self.next_look <= now && !machine.is_handshaking();
        if self.next_look <= now {
            self.next_look = now + LOOK_INTERVAL;
        }
        let asks = looks && self.watch.look(counts(&machine.stats()));
        if greets || asks {
            self.nudge();
        }
    }

    /// What `super::nudge` does.
    fn nudge(&mut self) {
        let machine = self.machine_mut();
        nudge::let_one_pass(machine.congestion_state().clone_box());
        let sent = machine.datagrams().send(Vec::new().into(), true);
        sent.expect("both sides permit it");
    }

    /// Takes a datagram; what is to be answered outside of the connection.
    fn receive(
        &mut self,
        bytes: &[u8],
        from: SocketAddrV4,
        clock: std::time::Instant,
    ) -> Vec<(SocketAddrV4, Vec<u8>)> {
        let mut answer = Vec::new();
        let event = self
            .machines
            .handle(clock, from.into(), None, None, bytes.into(), &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((ours, machine)) = &mut self.machine
                    && *ours == handle
                {
                    machine.handle_event(event);
                }
                Vec::new()
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.machines.accept(incoming, clock, &mut answer, None);
                self.machine = Some(accepted.map_err(|error| error.cause).expect("a hello"));
                Vec::new()
            }
            Some(DatagramEvent::Response(_)) => vec![(from, answer)],
            None => Vec::new(),
        }
    }

    /// What quinn's driver and the program above do: events, and the streams' bytes.
    fn talk(&mut self, now: Instant, answer: fn(&[u8]) -> Vec<u8>) {
        let Some((handle, machine)) = &mut self.machine else {
            return;
        };
        while let Some(event) = machine.poll_endpoint_events() {
            if let Some(event) = self.machines.handle_event(*handle, event) {
                machine.handle_event(event);
            }
        }
        while let Some(event) = machine.poll() {
            match event {
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Connected => {
                    let after = self
                        .greets_after
                        .map(|ack_delay| greeting(machine.rtt(), ack_delay));
                    self.greets_at = after.map(|after| now + after);
                }
                Event::HandshakeDataReady
                | Event::Stream(_)
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
        while let Some(id) = machine.streams().accept(Dir::Bi) {
            self.streams.push((id, Exchange::default()));
        }
        for (id, stream) in &mut self.streams {
            stream.read(machine, *id, now);
            if stream.done_at.is_some() && stream.to_send.is_empty() {
                stream.to_send = answer(&stream.received);
            }
            stream.write(machine, *id);
        }
    }

    fn transmit(&mut self, clock: std::time::Instant) -> Option<Sent> {
        let machine = &mut self.machine.as_mut()?.1;
        let before = machine.stats().frame_tx;
        let mut bytes = Vec::new();
        let transmit = machine.poll_transmit(clock, 1, &mut bytes)?;
        let SocketAddr::V4(to) = transmit.destination else {
            panic!("all addresses here are of IPv4");
        };
        let frames = frames(&before, &machine.stats().frame_tx);
        let content = format!("{} {frames}", packets(&bytes));
        Some(Sent { to, bytes, content })
    }
}

impl Exchange {
    fn read(&mut self, machine: &mut Machine, id: StreamId, now: Instant) {
        if self.done_at.is_some() {
            return;
        }
        let mut stream = machine.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return;
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    self.first_at.get_or_insert(now);
                    self.received.extend_from_slice(&chunk.bytes);
                }
                Ok(None) => {
                    self.done_at = Some(now);
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => panic!("reset: {code}"),
            }
        }
        let _ = chunks.finalize();
    }

    fn write(&mut self, machine: &mut Machine, id: StreamId) {
        if self.to_send.is_empty() || self.sent > self.to_send.len() {
            return;
        }
        let mut stream = machine.send_stream(id);
        while self.sent < self.to_send.len() {
            match stream.write(&self.to_send[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(WriteError::Blocked) => return,
                Err(error) => panic!("{error}"),
            }
        }
        match stream.finish() {
            // No more than all is how the end shows that it has been sent.
            Ok(()) | Err(FinishError::ClosedStream) => self.sent += 1,
            Err(error @ FinishError::Stopped(_)) => panic!("{error}"),
        }
    }
}

const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 1_000);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 443);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// From the thinnest to one that the tunnel hardly notices.
const LINKS: [&str; 4] = ["iridium", "certus-100", "geo-hts", "tcdl-10"];

fn link(name: &str) -> LinkConfig {
    Preset::by_name(name).expect("it is one").config()
}

/// Bytes in which each cut and each shift shows.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251 + n / 251 % 7) as u8).collect()
}

/// The client side's program answers no response.
fn pattern_of_request(_response: &[u8]) -> Vec<u8> {
    Vec::new()
}

fn response_to(request: &[u8]) -> Vec<u8> {
    let (length, rest) = request.split_first_chunk::<LENGTH>().expect("a length");
    assert!(rest == pattern(rest.len()), "the same bytes");
    pattern(u32::from_be_bytes(*length) as usize)
}

/// A datagram as it crosses the link. Nobody looks at its checksums.
fn packet(from: SocketAddrV4, to: SocketAddrV4, bytes: &[u8]) -> Vec<u8> {
    let length = |len: usize| u16::try_from(len).expect("a datagram").to_be_bytes();
    let mut packet = vec![0x45, 0];
    packet.extend(length(HEADERS + bytes.len()));
    packet.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]);
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend(length(8 + bytes.len()));
    packet.extend([0, 0]);
    packet.extend(bytes);
    packet
}

fn addresses(packet: &[u8]) -> (SocketAddrV4, SocketAddrV4) {
    let ip = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).expect("four"));
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (
        SocketAddrV4::new(ip(12), port(20)),
        SocketAddrV4::new(ip(16), port(22)),
    )
}
