//! One TCP connection as both endpoints saw it: what each sent, what each received, and when.
//!
//! ```text
//!   client's namespace                        server's namespace
//!   up.sent       --- proxies, link, NAT ---> up.received
//!   down.received <-------------------------- down.sent
//! ```
//!
//! Where TCP ends at the proxies, there are two connections, one in each namespace, which carry one
//! payload.
//!
//! What a host receives counts as its TCP would take it: segments with a bad checksum and segments
//! that carry an old timestamp (PAWS, RFC 7323, section 5) are left out.
//!
//! Is not a judge of the proxies' means: it compares payload streams at the two ends, and nothing
//! in between.

use std::net::SocketAddr;

use tandem_wire::{Assembler, Inserted, Seq, TcpFlags, TcpPacket};

use crate::moment::Moment;
use crate::seen::Seen;

/// Bytes of one direction that are looked at. A trial moves some ten thousand.
const STREAM_LIMIT: usize = 8 << 20;

/// How far back a timestamp may lie and still be taken (Linux, `TCP_PAWS_WINDOW`).
const PAWS_WINDOW: i32 = 1;

/// One direction of the payload as one host saw it.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    bytes: Vec<u8>,
    /// (bytes there are in order, since when), growing in both.
    arrivals: Vec<(usize, Moment)>,
    /// Segments that said something else about bytes that were already there.
    conflicts: usize,
}

impl Stream {
    /// The bytes in order, from the connection's first.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// When the first `count` bytes were there.
    pub fn time_of(&self, count: usize) -> Option<Moment> {
        let index = self
            .arrivals
            .partition_point(|(available, _)| *available < count);
        self.arrivals.get(index).map(|(_, at)| *at)
    }

    /// How many bytes were there at a moment.
    pub fn length_at(&self, moment: Moment) -> usize {
        let index = self.arrivals.partition_point(|(_, at)| *at <= moment);
        index
            .checked_sub(1)
            .and_then(|last| self.arrivals.get(last))
            .map_or(0, |(available, _)| *available)
    }
}

/// The stream of one direction, at both ends.
#[derive(Debug, Clone, Default)]
pub struct StreamPair {
    /// As its sender sent it.
    pub sent: Stream,
    /// As its receiver received it.
    pub received: Stream,
}

impl StreamPair {
    /// Whether the receiver got exactly the bytes that were sent.
    pub fn is_identical(&self) -> bool {
        self.sent.bytes == self.received.bytes && self.is_undamaged()
    }

    /// Whether the receiver got nothing but the beginning of what was sent: all that TCP promises
    /// of a connection that was cut.
    pub fn is_undamaged(&self) -> bool {
        self.sent.bytes.starts_with(&self.received.bytes)
            && self.sent.conflicts == 0
            && self.received.conflicts == 0
    }
}

/// A connection.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The client's end.
    pub client: SocketAddr,
    /// The server's end, and who the client takes for it.
    pub server: SocketAddr,
    /// When the client sent its first SYN.
    pub syn: Moment,
    /// The sequence number of the client's first payload byte.
    pub up_start: Seq,
    /// The sequence number of the server's first payload byte.
    pub down_start: Seq,
    /// From the client to the server.
    pub up: StreamPair,
    /// From the server to the client.
    pub down: StreamPair,
}

impl Exchange {
    /// The first connection to `port` in two captures. `None` where the client sent no SYN or the
    /// server no answer.
    pub fn find(at_client: &[Seen], at_server: &[Seen], port: u16) -> Option<Self> {
        let (syn, client, server, up_start) = at_client.iter().find_map(|seen| {
            let packet = TcpPacket::parse(&seen.packet).ok()?;
            let flags = packet.flags();
            let is_syn = flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK);
            (is_syn && packet.destination().port() == port).then(|| {
                (
                    seen.at,
                    packet.source(),
                    packet.destination(),
                    packet.seq().wrapping_add(1),
                )
            })
        })?;
        let far = Answer::first(at_server, server, Some(client))
            .or_else(|| Answer::first(at_server, server, None))?;
        let down_start = far.down_start;
        let (far, near, seat) = if far.to == client {
            let same = Answer { up_start, ..far };
            (same, same, Seat::Receiver)
        } else {
            let near = Answer::first(at_client, server, Some(client))?;
            (far, near, Seat::Neighbour)
        };
        Some(Self {
            client,
            server,
            syn,
            up_start,
            down_start,
            up: StreamPair {
                sent: assemble(at_client, client, server, up_start, Seat::Sender),
                received: assemble(at_server, far.to, server, far.up_start, seat),
            },
            down: StreamPair {
                sent: assemble(at_server, server, far.to, down_start, Seat::Sender),
                received: assemble(at_client, server, client, near.down_start, seat),
            },
        })
    }

    /// Whether both ends received exactly what the other sent.
    pub fn is_identical(&self) -> bool {
        self.up.is_identical() && self.down.is_identical()
    }

    /// Whether neither end received anything but the beginning of what the other sent.
    pub fn is_undamaged(&self) -> bool {
        self.up.is_undamaged() && self.down.is_undamaged()
    }
}

/// A TCP connection with the server, as its SYN/ACK has it.
#[derive(Clone, Copy)]
struct Answer {
    to: SocketAddr,
    up_start: Seq,
    down_start: Seq,
}

impl Answer {
    /// The server's first one, to `to` if that is given.
    fn first(seen: &[Seen], server: SocketAddr, to: Option<SocketAddr>) -> Option<Self> {
        seen.iter().find_map(|seen| {
            let packet = TcpPacket::parse(&seen.packet).ok()?;
            let flags = packet.flags();
            (packet.source() == server
                && to.is_none_or(|to| packet.destination() == to)
                && flags.contains(TcpFlags::SYN)
                && flags.contains(TcpFlags::ACK))
            .then(|| Self {
                to: packet.destination(),
                up_start: packet.ack(),
                down_start: packet.seq().wrapping_add(1),
            })
        })
    }
}

/// Where a capture stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seat {
    /// At the sender: everything counts, checksums are not finished yet.
    Sender,
    /// At the receiver: only what its TCP takes counts.
    Receiver,
    /// At a receiver whose TCP peer is on the same cable: everything counts. The kernel hands over
    /// what one host sends to the other with unfinished checksums, and nothing is in between that
    /// could harm it.
    Neighbour,
}

fn assemble(seen: &[Seen], from: SocketAddr, to: SocketAddr, start: Seq, seat: Seat) -> Stream {
    let mut assembler = Assembler::new(start, STREAM_LIMIT);
    let mut stream = Stream::default();
    let mut newest_timestamp: Option<u32> = None;
    for Seen { at, packet } in seen {
        let Ok(packet) = TcpPacket::parse(packet) else {
            continue;
        };
        if packet.source() != from || packet.destination() != to {
            continue;
        }
        if seat == Seat::Receiver && !packet.checksums_valid() {
            continue;
        }
        if let Some(timestamps) = packet.timestamps() {
            let age = newest_timestamp.map_or(0, |newest| {
                newest.wrapping_sub(timestamps.value).cast_signed()
            });
            if seat == Seat::Receiver && age > PAWS_WINDOW {
                continue;
            }
            if age <= 0 {
                newest_timestamp = Some(timestamps.value);
            }
        }
        match assembler.insert(packet.seq(), packet.payload()) {
            Inserted::New => {
                let available = assembler.contiguous().len();
                if stream
                    .arrivals
                    .last()
                    .is_none_or(|(known, _)| *known < available)
                {
                    stream.arrivals.push((available, *at));
                }
            }
            Inserted::Conflict => stream.conflicts += 1,
            Inserted::Duplicate | Inserted::OutOfBounds => {}
        }
    }
    stream.bytes = assembler.contiguous().to_vec();
    stream
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::samples::{Talk, conversation};

    #[test]
    fn streams_are_put_together_with_their_times() -> Result<(), String> {
        let seen = conversation(&[(true, b"hello"), (false, b"answer"), (true, b"more")]);
        let exchange = Exchange::find(&seen, &seen, 443).ok_or("no connection found")?;
        assert_eq!(exchange.up.received.bytes(), b"hellomore");
        assert_eq!(exchange.down.received.bytes(), b"answer");
        assert!(exchange.is_identical());
        let after = |stream: &Stream, count| {
            stream
                .time_of(count)
                .map(|at| at.seconds_since(exchange.syn))
        };
        assert_eq!(after(&exchange.up.sent, 5), Some(2.0));
        assert_eq!(after(&exchange.up.sent, 6), Some(4.0));
        assert_eq!(after(&exchange.up.sent, 10), None);
        assert_eq!(
            exchange
                .up
                .sent
                .length_at(exchange.syn + Duration::from_secs(3)),
            5
        );
        Ok(())
    }

    /// The same turns where TCP ends at proxies: in the server's namespace another client with
    /// other numbers. Neighbours leave the checksums of what they send to the kernel.
    fn behind_proxies(turns: &[(bool, &[u8])]) -> Vec<Seen> {
        const CHECKSUM_AT: usize = 20 + 16;
        let talk = Talk {
            ends: [
                SocketAddr::from(([10, 77, 3, 1], 50_000)),
                SocketAddr::from(([10, 77, 3, 2], 443)),
            ],
            next: [Seq(7_000), Seq(9_000)],
            ..Talk::default()
        };
        let mut seen = talk.held(turns);
        for seen in &mut seen {
            seen.packet[CHECKSUM_AT] ^= 1;
        }
        seen
    }

    #[test]
    fn a_connection_that_ends_at_proxies_is_followed_at_both_ends() -> Result<(), String> {
        let turns: [(bool, &[u8]); 3] = [(true, b"hello"), (false, b"answer"), (true, b"more")];
        let at_client = conversation(&turns);
        let exchange = Exchange::find(&at_client, &behind_proxies(&turns), 443)
            .ok_or("no connection found")?;
        assert_eq!(exchange.client, SocketAddr::from(([10, 77, 1, 2], 40_000)));
        assert_eq!(exchange.up.received.bytes(), b"hellomore");
        assert_eq!(exchange.down.sent.bytes(), b"answer");
        assert_eq!(exchange.down.received.bytes(), b"answer");
        assert!(exchange.is_identical());

        let other: [(bool, &[u8]); 3] = [(true, b"hello"), (false, b"answeR"), (true, b"more")];
        let exchange = Exchange::find(&at_client, &behind_proxies(&other), 443)
            .ok_or("no connection found")?;
        assert!(exchange.up.is_identical() && !exchange.down.is_identical());

        assert!(
            Exchange::find(&at_client, &[], 443).is_none(),
            "the server was not asked"
        );
        Ok(())
    }

    #[test]
    fn a_changed_byte_is_seen_as_a_difference() -> Result<(), String> {
        let sent = conversation(&[(true, b"hello")]);
        let received = conversation(&[(true, b"hellO")]);
        let exchange = Exchange::find(&sent, &received, 443).ok_or("no connection found")?;
        assert!(!exchange.is_identical() && !exchange.is_undamaged());
        Ok(())
    }

    #[test]
    fn a_cut_connection_is_undamaged_and_not_identical() -> Result<(), String> {
        let sent = conversation(&[(true, b"hello"), (true, b"more")]);
        let exchange = Exchange::find(&sent, &sent[..3], 443).ok_or("no connection found")?;
        assert!(!exchange.is_identical() && exchange.is_undamaged());
        let exchange = Exchange::find(&sent[..3], &sent, 443).ok_or("no connection found")?;
        assert!(!exchange.is_undamaged(), "bytes that nobody sent");
        Ok(())
    }

    #[test]
    fn a_receiver_does_not_take_old_timestamps_or_bad_checksums() -> Result<(), String> {
        let sent = conversation(&[(true, b""), (true, b"hello")]);
        let mut received = sent.clone();
        // Stamped like the SYN, so older than the acknowledgement since: bytes that a far proxy was
        // to rebuild.
        let mut old = Talk {
            next: [Seq(1), Seq(1)],
            ..Talk::default()
        };
        old.packet(true, TcpFlags::ACK, b"xxxxx");
        received.splice(3..3, old.seen);
        let mut broken = sent[3].clone();
        let last = broken.packet.len() - 1;
        broken.packet[last] ^= 1;
        received.insert(4, broken);
        let exchange = Exchange::find(&sent, &received, 443).ok_or("no connection found")?;
        assert_eq!(exchange.up.received.bytes(), b"hello");
        assert!(exchange.is_identical());
        Ok(())
    }

    #[test]
    fn no_connection_is_none() {
        assert!(Exchange::find(&[], &[], 443).is_none());
        let seen = conversation(&[]);
        assert!(Exchange::find(&seen, &seen, 80).is_none());
        assert!(Exchange::find(&seen, &[], 443).is_none());
    }
}
