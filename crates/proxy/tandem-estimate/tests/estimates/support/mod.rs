//! Captures made by hand: TLS flights in TCP segments in a pcap file.
//!
//! Not a TLS stack: randoms, keys and certificates are filler of the right shape and size.
#![allow(dead_code, reason = "each test program uses its own part of this")]

pub(crate) mod figures;

use std::net::SocketAddr;

use tandem_estimate::{Options, Outcome, estimate};
use tandem_wire::{SegmentRepr, Seq, TcpFlags};

/// Raw IP.
pub(crate) const LINK_RAW: u32 = 101;

/// A pcap file that grows.
pub(crate) struct Trace {
    pub(crate) bytes: Vec<u8>,
    micros: u32,
}

impl Trace {
    pub(crate) fn new(link_type: u32) -> Self {
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        bytes.extend([0; 8]);
        bytes.extend(262_144u32.to_le_bytes());
        bytes.extend(link_type.to_le_bytes());
        Self { bytes, micros: 0 }
    }

    /// Appends a frame of which the first `captured` bytes were captured.
    pub(crate) fn cut_frame(&mut self, frame: &[u8], captured: usize) {
        let captured = &frame[..captured.min(frame.len())];
        self.micros += 1000;
        let (seconds, micros) = (1_000_000 + self.micros / 1_000_000, self.micros % 1_000_000);
        for field in [seconds, micros, captured.len() as u32, frame.len() as u32] {
            self.bytes.extend(field.to_le_bytes());
        }
        self.bytes.extend(captured);
    }

    pub(crate) fn frame(&mut self, frame: &[u8]) {
        self.cut_frame(frame, frame.len());
    }

    pub(crate) fn frames(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            self.frame(frame);
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        read(&self.bytes)
    }
}

/// What a capture gives, checked for contradictions.
pub(crate) fn read(bytes: &[u8]) -> Outcome {
    read_with(bytes, &Options::default())
}

pub(crate) fn read_with(bytes: &[u8], options: &Options) -> Outcome {
    let outcome = estimate(bytes, options, &mut |_| {}).expect("a capture");
    tandem_estimate::fuzzing::check(&outcome);
    outcome
}

/// A raw-IP capture of these packets.
pub(crate) fn capture_of(packets: &[Vec<u8>]) -> Outcome {
    let mut trace = Trace::new(LINK_RAW);
    trace.frames(packets);
    trace.outcome()
}

/// One connection: makes packets, in the order in which they would pass.
pub(crate) struct Talk {
    client: SocketAddr,
    server: SocketAddr,
    pub(crate) client_next: Seq,
    pub(crate) server_next: Seq,
    /// Bytes of payload in one segment.
    pub(crate) segment: usize,
    /// Whether the next packets have TCP timestamps.
    pub(crate) timestamps: bool,
    pub(crate) packets: Vec<Vec<u8>>,
}

impl Talk {
    /// A connection that is not open yet, from a client's port. The client's numbers wrap soon.
    pub(crate) fn new(port: u16) -> Self {
        Self::between(&format!("192.0.2.1:{port}"), "198.51.100.1:443")
    }

    pub(crate) fn between(client: &str, server: &str) -> Self {
        Self {
            client: client.parse().expect("an address"),
            server: server.parse().expect("an address"),
            client_next: Seq(u32::MAX - 100),
            server_next: Seq(5000),
            segment: 1460,
            timestamps: true,
            packets: Vec::new(),
        }
    }

    /// A connection after its three-way handshake.
    pub(crate) fn open(port: u16) -> Self {
        let mut talk = Self::new(port);
        talk.shake_hands();
        talk
    }

    pub(crate) fn shake_hands(&mut self) {
        self.push(true, TcpFlags::SYN, &[]);
        self.client_next = self.client_next.wrapping_add(1);
        self.push(false, TcpFlags::SYN.with(TcpFlags::ACK), &[]);
        self.server_next = self.server_next.wrapping_add(1);
        self.push(true, TcpFlags::ACK, &[]);
    }

    pub(crate) fn client(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(self.segment) {
            self.push(true, TcpFlags::ACK.with(TcpFlags::PSH), part);
            self.client_next = self.client_next.wrapping_add(part.len() as u32);
        }
    }

    pub(crate) fn server(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(self.segment) {
            self.push(false, TcpFlags::ACK.with(TcpFlags::PSH), part);
            self.server_next = self.server_next.wrapping_add(part.len() as u32);
        }
    }

    pub(crate) fn close(&mut self) {
        self.push(true, TcpFlags::ACK.with(TcpFlags::FIN), &[]);
        self.client_next = self.client_next.wrapping_add(1);
        self.push(false, TcpFlags::ACK.with(TcpFlags::FIN), &[]);
        self.server_next = self.server_next.wrapping_add(1);
        self.push(true, TcpFlags::ACK, &[]);
    }

    fn push(&mut self, from_client: bool, flags: TcpFlags, payload: &[u8]) {
        let (source, destination, seq, ack) = if from_client {
            (self.client, self.server, self.client_next, self.server_next)
        } else {
            (self.server, self.client, self.server_next, self.client_next)
        };
        let packet = SegmentRepr {
            source,
            destination,
            seq,
            ack: if flags.contains(TcpFlags::ACK) {
                ack
            } else {
                Seq(0)
            },
            flags,
            window: 65_535,
            options: if self.timestamps {
                vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 9]
            } else {
                Vec::new()
            },
            payload: payload.to_vec(),
            hop_limit: 64,
        };
        self.packets.push(packet.build());
    }
}

/// A record.
pub(crate) fn record(content_type: u8, fragment: &[u8]) -> Vec<u8> {
    let len = u16::try_from(fragment.len()).expect("a fragment");
    [&[content_type, 3, 3][..], &len.to_be_bytes(), fragment].concat()
}

/// A handshake message.
pub(crate) fn message(message_type: u8, body: &[u8]) -> Vec<u8> {
    [&[message_type][..], &u24(body.len()), body].concat()
}

fn u24(number: usize) -> [u8; 3] {
    let [_, low @ ..] = u32::try_from(number).expect("24 bits").to_be_bytes();
    low
}

fn vec16(bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("16 bits");
    [&len.to_be_bytes()[..], bytes].concat()
}

fn extension(number: u16, data: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], &vec16(data)].concat()
}

/// A ClientHello message with a server name, if any, and further extensions.
pub(crate) fn client_hello(name: Option<&str>, further: &[(u16, &[u8])]) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let entry = [&[0][..], &vec16(name.as_bytes())].concat();
        extensions.extend(extension(0, &vec16(&entry)));
    }
    for (number, data) in further {
        extensions.extend(extension(*number, data));
    }
    let mut body = vec![3, 3];
    body.extend([0x11; 32]);
    body.push(0);
    body.extend(vec16(&[0xc0, 0x2f, 0x13, 0x01]));
    body.extend([1, 0]);
    body.extend(vec16(&extensions));
    message(1, &body)
}

/// A ServerHello message with extensions.
pub(crate) fn server_hello(version: u16, extensions: &[(u16, &[u8])]) -> Vec<u8> {
    server_hello_with_random([0x22; 32], version, extensions)
}

pub(crate) fn server_hello_with_random(
    random: [u8; 32],
    version: u16,
    extensions: &[(u16, &[u8])],
) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    body.extend(random);
    body.extend([0, 0xc0, 0x2f, 0]);
    let block: Vec<u8> = extensions
        .iter()
        .flat_map(|(number, data)| extension(*number, data))
        .collect();
    body.extend(vec16(&block));
    message(2, &body)
}

/// A Certificate message with certificates of these sizes; `fill` makes chains differ.
pub(crate) fn certificate(fill: u8, sizes: &[usize]) -> Vec<u8> {
    let list: Vec<u8> = sizes
        .iter()
        .enumerate()
        .flat_map(|(place, &size)| [&u24(size)[..], &noise([fill, place as u8], size)].concat())
        .collect();
    message(11, &[&u24(list.len())[..], &list].concat())
}

/// Bytes in which nothing repeats, as in keys and signatures.
pub(crate) fn noise(seed: [u8; 2], size: usize) -> Vec<u8> {
    let mut state = u32::from(u16::from_be_bytes(seed)) + 1;
    let next = || {
        // Numerical Recipes' generator; its low bits are poor.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(size).collect()
}

/// What a full handshake of TLS 1.2 sends, flight by flight.
pub(crate) struct Full {
    pub(crate) hello: Vec<u8>,
    pub(crate) server: Vec<u8>,
    pub(crate) client: Vec<u8>,
    pub(crate) finished: Vec<u8>,
}

impl Full {
    pub(crate) fn new(name: Option<&str>, fill: u8, sizes: &[usize]) -> Self {
        let server = [
            server_hello(0x0303, &[]),
            certificate(fill, sizes),
            message(12, &[0x33; 300]),
            message(14, &[]),
        ];
        let ending = [record(20, &[1]), record(22, &[0x44; 40])].concat();
        Self {
            hello: record(22, &client_hello(name, &[])),
            server: server
                .iter()
                .flat_map(|message| record(22, message))
                .collect(),
            client: [record(22, &message(16, &[0x55; 66])), ending.clone()].concat(),
            finished: ending,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.hello.len() + self.server.len() + self.client.len() + self.finished.len()) as u64
    }

    /// The packets of it, with application data after it.
    pub(crate) fn talk(&self, mut talk: Talk) -> Talk {
        talk.client(&self.hello);
        talk.server(&self.server);
        talk.client(&self.client);
        talk.server(&self.finished);
        talk.client(&record(23, &[0x66; 200]));
        talk.server(&record(23, &[0x77; 9000]));
        talk
    }
}
