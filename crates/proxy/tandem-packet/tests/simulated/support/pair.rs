//! Both proxies back to back, without hosts and without a link: single segments, made by hand, go
//! in at either end.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_netsim::element::{Element, Port};
use tandem_packet::{Limits, Role, WireFormat};
use tandem_store::MemoryStore;
use tandem_wire::{Instant, SegmentRepr, Seq, TcpFlags};

use super::{ProxyElement, client_address, config, server_address, store_with};

/// The client-side and the server-side proxy.
pub struct Pair {
    pub client_side: ProxyElement,
    pub server_side: ProxyElement,
    pub now: Instant,
    /// What crossed the link, and where to.
    pub crossed: Vec<(Port, Vec<u8>)>,
}

/// What came out at the two ends.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Arrived {
    pub at_client: Vec<Vec<u8>>,
    pub at_server: Vec<Vec<u8>>,
}

impl Pair {
    /// A pair whose client's side knows this chain.
    pub fn knowing(chain: &[Vec<u8>]) -> Self {
        Self::with(WireFormat::Safe, chain, Limits::default())
    }

    pub fn with(wire: WireFormat, chain: &[Vec<u8>], limits: Limits) -> Self {
        let proxy = |role, store| {
            let config = tandem_packet::Config {
                limits,
                ..config(role, wire)
            };
            ProxyElement::new(config, store)
        };
        Self {
            client_side: proxy(Role::ClientSide, store_with(chain)),
            server_side: proxy(Role::ServerSide, MemoryStore::default()),
            now: Instant::from_micros(1_000_000),
            crossed: Vec::new(),
        }
    }

    /// A segment enters at the client's end.
    pub fn client(&mut self, packet: Vec<u8>) -> Arrived {
        self.client_side.handle_input(Port::Left, packet, self.now);
        self.settle()
    }

    /// A segment enters at the server's end.
    pub fn server(&mut self, packet: Vec<u8>) -> Arrived {
        self.server_side.handle_input(Port::Right, packet, self.now);
        self.settle()
    }

    /// A segment enters at the server's end, and what the server's side sends is lost on the link.
    pub fn server_lost(&mut self, packet: Vec<u8>) {
        self.server_side.handle_input(Port::Right, packet, self.now);
        while self.server_side.poll_output().is_some() {}
    }

    /// A segment enters at the server's end and gets as far as the link, in `crossed`.
    pub fn server_to_link(&mut self, packet: Vec<u8>) {
        self.server_side.handle_input(Port::Right, packet, self.now);
        while let Some((port, packet)) = self.server_side.poll_output() {
            self.crossed.push((port, packet));
        }
    }

    /// Something arrives over the link at the client's side.
    pub fn arrive_at_client_side(&mut self, packet: Vec<u8>) -> Arrived {
        self.client_side.handle_input(Port::Right, packet, self.now);
        self.settle()
    }

    /// The same, and what the client's side says to that is lost on the link.
    pub fn arrive_at_client_side_and_lose_the_answer(&mut self, packet: Vec<u8>) {
        self.client_side.handle_input(Port::Right, packet, self.now);
        while self.client_side.poll_output().is_some() {}
    }

    /// Something arrives over the link at the server's side.
    pub fn arrive_at_server_side(&mut self, packet: Vec<u8>) -> Arrived {
        self.server_side.handle_input(Port::Left, packet, self.now);
        self.settle()
    }

    /// Time passes, and what is due by then happens.
    pub fn wait(&mut self, time: Duration) -> Arrived {
        let end = self.now + time;
        let mut arrived = Arrived::default();
        loop {
            let due = [
                self.client_side.poll_timeout(),
                self.server_side.poll_timeout(),
            ];
            let Some(at) = due.into_iter().flatten().min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            self.client_side.handle_timeout(self.now);
            self.server_side.handle_timeout(self.now);
            let more = self.settle();
            arrived.at_client.extend(more.at_client);
            arrived.at_server.extend(more.at_server);
        }
        self.now = end;
        arrived
    }

    fn settle(&mut self) -> Arrived {
        let mut arrived = Arrived::default();
        loop {
            let (left, right) = (
                self.client_side.poll_output(),
                self.server_side.poll_output(),
            );
            if left.is_none() && right.is_none() {
                return arrived;
            }
            match left {
                Some((Port::Left, packet)) => arrived.at_client.push(packet),
                Some((Port::Right, packet)) => {
                    self.crossed.push((Port::Right, packet.clone()));
                    self.server_side.handle_input(Port::Left, packet, self.now);
                }
                None => {}
            }
            match right {
                Some((Port::Right, packet)) => arrived.at_server.push(packet),
                Some((Port::Left, packet)) => {
                    self.crossed.push((Port::Left, packet.clone()));
                    self.client_side.handle_input(Port::Right, packet, self.now);
                }
                None => {}
            }
        }
    }

    /// A connection opens: SYN, SYN/ACK, ACK. Checks that the ends saw nothing but what the other
    /// sent.
    pub fn open(&mut self, flow: &Flow) {
        for (packet, from) in [
            (flow.syn(), Port::Left),
            (flow.syn_ack(), Port::Right),
            (flow.client(0, &[]), Port::Left),
        ] {
            let arrived = match from {
                Port::Left => self.client(packet.clone()).at_server,
                Port::Right => self.server(packet.clone()).at_client,
            };
            assert_eq!(arrived, [packet], "the handshake of TCP is as it was sent");
        }
    }
}

/// Makes the segments of one connection.
#[derive(Debug, Clone)]
pub struct Flow {
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub client_isn: Seq,
    pub server_isn: Seq,
    /// Offsets that the two ends have acknowledged: what their segments say.
    pub client_acked: u32,
    pub server_acked: u32,
    /// The clocks of the two ends; `None`: no timestamps.
    pub clocks: Option<(u32, u32)>,
    pub mss: u16,
    /// Options in the SYN beside the usual ones.
    pub syn_options: Vec<u8>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            client: client_address(),
            server: server_address(),
            client_isn: Seq(u32::MAX - 40),
            server_isn: Seq(u32::MAX - 700),
            client_acked: 0,
            server_acked: 0,
            clocks: Some((1_000, 900_000)),
            mss: 1_460,
            syn_options: Vec::new(),
        }
    }
}

impl Flow {
    pub fn syn(&self) -> Vec<u8> {
        let mut options = self.offer(self.clocks);
        options.extend(&self.syn_options);
        options.resize(options.len().next_multiple_of(4), 1);
        SegmentRepr {
            ack: Seq(0),
            flags: TcpFlags::SYN,
            seq: self.client_isn,
            options,
            ..self.client_repr(0, &[])
        }
        .build()
    }

    pub fn syn_ack(&self) -> Vec<u8> {
        SegmentRepr {
            ack: self.client_isn.wrapping_add(1),
            flags: TcpFlags::SYN.with(TcpFlags::ACK),
            seq: self.server_isn,
            options: self.offer(self.clocks.map(|(client, server)| (server, client))),
            ..self.server_repr(0, &[])
        }
        .build()
    }

    /// Bytes of the client's that stand at this offset of its stream; a pure ACK where there are
    /// none.
    pub fn client(&self, offset: u32, payload: &[u8]) -> Vec<u8> {
        self.client_repr(offset, payload).build()
    }

    /// Bytes of the server's.
    pub fn server(&self, offset: u32, payload: &[u8]) -> Vec<u8> {
        self.server_repr(offset, payload).build()
    }

    pub fn client_repr(&self, offset: u32, payload: &[u8]) -> SegmentRepr {
        SegmentRepr {
            source: self.client,
            destination: self.server,
            seq: self.client_isn.wrapping_add(1).wrapping_add(offset),
            ack: self.server_isn.wrapping_add(1 + self.client_acked),
            flags: flags(payload),
            window: 60_000,
            options: stamps(self.clocks),
            payload: payload.to_vec(),
            hop_limit: 64,
        }
    }

    pub fn server_repr(&self, offset: u32, payload: &[u8]) -> SegmentRepr {
        SegmentRepr {
            source: self.server,
            destination: self.client,
            seq: self.server_isn.wrapping_add(1).wrapping_add(offset),
            ack: self.client_isn.wrapping_add(1 + self.server_acked),
            flags: flags(payload),
            window: 60_000,
            options: stamps(self.clocks.map(|(client, server)| (server, client))),
            payload: payload.to_vec(),
            hop_limit: 64,
        }
    }

    fn offer(&self, clocks: Option<(u32, u32)>) -> Vec<u8> {
        let [high, low] = self.mss.to_be_bytes();
        let mut options = vec![2, 4, high, low];
        options.extend(stamps(clocks));
        options.extend([1, 3, 3, 7]);
        options
    }
}

/// The usual timestamps option: TSval, TSecr.
fn stamps(clocks: Option<(u32, u32)>) -> Vec<u8> {
    let Some((value, echo)) = clocks else {
        return Vec::new();
    };
    let mut options = vec![1, 1, 8, 10];
    options.extend(value.to_be_bytes());
    options.extend(echo.to_be_bytes());
    options
}

fn flags(payload: &[u8]) -> TcpFlags {
    if payload.is_empty() {
        TcpFlags::ACK
    } else {
        TcpFlags::ACK.with(TcpFlags::PSH)
    }
}
