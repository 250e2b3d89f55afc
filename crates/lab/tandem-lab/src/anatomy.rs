//! What the packets of a handshake are made of, until the client has the server's Finished.
//!
//! Of the endpoints' own connection the link shows everything. What crosses a tunnel is sealed: its
//! datagrams' sizes are the link's, and how many of their bytes are the streams' the client side
//! says.
//!
//! Is not: a count of the packets, which is the emulator's. Invariant: the parts add up to it.

use tandem_netsim::link::Direction;
use tandem_report::Parts;
use tandem_testbed::describe::proxy_option_bytes;
use tandem_testbed::emulator::{Crossing, Fate};
use tandem_trace::Exchange;
use tandem_wire::TcpPacket;

use crate::floor;
use crate::phases::Phases;

/// IPv4's header without options, and UDP's (RFC 791, RFC 768).
const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
/// UDP's number in IPv4's header (RFC 791, section 3.1).
const UDP: u8 = 17;

/// The longest datagram that counts as one without data. An acknowledgement takes some 60 bytes; a
/// flight has an encrypted Finished of 40 at the least, which with QUIC's own makes 90.
const MAX_BARE: usize = 80;

/// What of a packet is the handshake's, bytes.
pub(crate) struct Share {
    pub(crate) payload: u64,
    pub(crate) options: u64,
}

/// `None` for packets that the link refused and for those of other connections.
pub(crate) fn share_of(crossing: &Crossing, exchange: &Exchange, phases: &Phases) -> Option<Share> {
    match crossing.fate {
        Fate::Taken => {}
        Fate::Refused => return None,
    }
    let packet = TcpPacket::parse(&crossing.packet).ok()?;
    let (from, to, start, end) = match crossing.direction {
        Direction::Up => (
            exchange.client,
            exchange.server,
            exchange.up_start,
            phases.up_end,
        ),
        Direction::Down => (
            exchange.server,
            exchange.client,
            exchange.down_start,
            phases.down_end,
        ),
    };
    if packet.source() != from || packet.destination() != to {
        return None;
    }
    // A shrunk segment keeps its last sequence number and a grown one its first, so both lie within
    // the flight's range.
    let offset = i64::from(packet.seq().distance_from(start));
    let payload = (offset + packet.payload().len() as i64).min(end as i64) - offset.max(0);
    Some(Share {
        payload: u64::try_from(payload).unwrap_or(0),
        options: proxy_option_bytes(&packet) as u64,
    })
}

/// The parts of a handshake on the endpoints' own connection. `None` where the handshake shows no
/// fresh bytes, as in TLS 1.3.
pub(crate) fn of_connection(
    exchange: &Exchange,
    phases: &Phases,
    crossings: &[Crossing],
) -> Option<Parts> {
    let mut parts = Parts::default();
    let mut as_sent = 0;
    let mut rewritten = [Vec::new(), Vec::new()];
    for crossing in crossings {
        if share_of(crossing, exchange, phases).is_none() || crossing.offered > phases.finished {
            continue;
        }
        let packet = TcpPacket::parse(&crossing.packet).ok()?;
        let payload = packet.payload();
        let options = proxy_option_bytes(&packet);
        let around = (crossing.packet.len() - payload.len()).checked_sub(options)? as u64;
        parts.ours += options as u64;
        if payload.is_empty() {
            parts.bare += around;
            continue;
        }
        parts.headers += around;
        let (streams, start, way) = match crossing.direction {
            Direction::Up => (&exchange.up, exchange.up_start, 0),
            Direction::Down => (&exchange.down, exchange.down_start, 1),
        };
        let sent = usize::try_from(packet.seq().distance_from(start)).ok();
        let sent = sent.and_then(|from| streams.sent.bytes().get(from..from + payload.len()));
        if sent == Some(payload) {
            as_sent += payload.len() as u64;
        } else {
            rewritten[way].extend_from_slice(payload);
        }
    }
    let pieces = floor::fresh(exchange, phases)?;
    parts.fresh = pieces.iter().map(|piece| piece.len() as u64).sum();
    let is_rewritten = |piece: &&Vec<u8>| rewritten.iter().any(|bytes| contains(bytes, piece));
    let fresh_rewritten: u64 = pieces
        .iter()
        .filter(is_rewritten)
        .map(|piece| piece.len() as u64)
        .sum();
    // A piece that is cut up in rewritten segments is found in neither.
    let fresh_as_sent = (parts.fresh - fresh_rewritten).min(as_sent);
    let rewritten: u64 = rewritten.iter().map(|bytes| bytes.len() as u64).sum();
    parts.rest = as_sent - fresh_as_sent;
    parts.ours += rewritten.checked_sub(parts.fresh - fresh_as_sent)?;
    Some(parts)
}

/// The parts of a handshake through a tunnel over UDP, on whose streams the client side has counted
/// so many bytes. `None` where that does not fit, and as for [`of_connection`].
pub(crate) fn of_tunnel(
    exchange: &Exchange,
    phases: &Phases,
    crossings: &[Crossing],
    stream_bytes: u64,
) -> Option<Parts> {
    let mut parts = Parts::default();
    let mut inside = 0;
    for crossing in crossings {
        match crossing.fate {
            Fate::Taken => {}
            Fate::Refused => continue,
        }
        if crossing.offered > phases.finished {
            continue;
        }
        let packet = &crossing.packet;
        let [0x45, ..] = packet.as_slice() else {
            return None;
        };
        if packet.get(9) != Some(&UDP) {
            return None;
        }
        if packet.len() <= MAX_BARE {
            parts.bare += packet.len() as u64;
            continue;
        }
        let headers = IPV4_HEADER + UDP_HEADER;
        parts.headers += headers as u64;
        inside += (packet.len() - headers) as u64;
    }
    let fresh = floor::fresh(exchange, phases)?;
    parts.fresh = fresh.iter().map(|piece| piece.len() as u64).sum();
    parts.ours = stream_bytes.checked_sub(parts.fresh)?;
    parts.quic = inside.checked_sub(stream_bytes)?;
    Some(parts)
}

/// Whether a piece stands somewhere in these bytes; an empty one stands nowhere.
fn contains(bytes: &[u8], piece: &[u8]) -> bool {
    !piece.is_empty() && bytes.windows(piece.len()).any(|window| window == piece)
}

#[cfg(test)]
mod tests {
    use tandem_trace::{Moment, Seen};

    use super::*;
    use crate::floor::tests::{FRESH, handshake};

    fn found(seen: &[Seen]) -> Result<(Exchange, Phases), String> {
        let exchange = Exchange::find(seen, seen, 443).ok_or("no connection found")?;
        let phases = Phases::of(&exchange).ok_or("no handshake found")?;
        Ok((exchange, phases))
    }

    fn crossing(offered: Moment, direction: Direction, packet: Vec<u8>) -> Crossing {
        Crossing {
            direction,
            offered,
            delivered: None,
            fate: Fate::Taken,
            words: String::new(),
            packet,
        }
    }

    fn crossings(seen: &[Seen]) -> Result<Vec<Crossing>, String> {
        let mut crossings = Vec::new();
        for seen in seen {
            let packet = TcpPacket::parse(&seen.packet).map_err(|error| error.to_string())?;
            let direction = if packet.destination().port() == 443 {
                Direction::Up
            } else {
                Direction::Down
            };
            crossings.push(crossing(seen.at, direction, seen.packet.clone()));
        }
        Ok(crossings)
    }

    /// What the emulator counts until Finished.
    fn counted(crossings: &[Crossing], phases: &Phases) -> u64 {
        crossings
            .iter()
            .filter(|crossing| crossing.offered <= phases.finished)
            .map(|crossing| crossing.packet.len() as u64)
            .sum()
    }

    /// IPv4's header and TCP's, with timestamps.
    const HEADERS: u64 = 52;

    #[test]
    fn a_plain_handshake_is_headers_fresh_bytes_and_what_the_endpoints_say() -> Result<(), String> {
        let seen = handshake(&[9; 500]);
        let (exchange, phases) = found(&seen)?;
        let crossings = crossings(&seen)?;
        let parts = of_connection(&exchange, &phases, &crossings).ok_or("no parts")?;
        assert_eq!(parts.total(), counted(&crossings, &phases));
        assert_eq!(parts.fresh, FRESH as u64);
        assert_eq!((parts.ours, parts.quic), (0, 0));
        assert_eq!((parts.bare, parts.headers), (2 * HEADERS, 4 * HEADERS));
        assert!(parts.rest > 500, "{parts:?}");
        Ok(())
    }

    #[test]
    fn what_crosses_in_other_words_is_the_proxies_but_for_what_is_fresh() -> Result<(), String> {
        let seen = handshake(&[9; 500]);
        let (exchange, phases) = found(&seen)?;
        let mut crossings = crossings(&seen)?;
        let plain = of_connection(&exchange, &phases, &crossings).ok_or("no parts")?;
        // The server's flight, with a reference of 20 bytes where its certificate was.
        crossings[3].packet = handshake(&[7; 20])[3].packet.clone();
        let parts = of_connection(&exchange, &phases, &crossings).ok_or("no parts")?;
        assert_eq!(parts.total(), counted(&crossings, &phases));
        assert_eq!(parts.total() + 480, plain.total());
        assert_eq!(parts.fresh, plain.fresh);
        assert!(
            parts.ours >= 20 && parts.rest < plain.rest - 500,
            "{parts:?}"
        );
        // A segment that crosses again has nothing fresh any more.
        crossings.insert(4, crossings[3].clone());
        let again = of_connection(&exchange, &phases, &crossings).ok_or("no parts")?;
        assert_eq!(again.total(), counted(&crossings, &phases));
        assert_eq!(again.fresh, plain.fresh);
        Ok(())
    }

    #[test]
    fn datagrams_are_headers_what_streams_carry_and_the_transport_s_own() -> Result<(), String> {
        let seen = handshake(&[9; 500]);
        let (exchange, phases) = found(&seen)?;
        let datagram = |at: Moment, length| {
            let mut packet = vec![0; length];
            (packet[0], packet[9]) = (0x45, UDP);
            crossing(at, Direction::Up, packet)
        };
        let mut crossings = vec![
            datagram(exchange.syn, 400),
            datagram(exchange.syn, 56),
            datagram(phases.finished, 420),
            datagram(phases.finished + std::time::Duration::from_secs(1), 300),
        ];
        let streams = FRESH as u64 + 60;
        let of =
            |crossings: &[Crossing], streams| of_tunnel(&exchange, &phases, crossings, streams);
        let parts = of(&crossings, streams).ok_or("no parts")?;
        assert_eq!(parts.total(), counted(&crossings, &phases));
        let expected = Parts {
            fresh: FRESH as u64,
            ours: 60,
            headers: 56,
            quic: 820 - 56 - streams,
            bare: 56,
            rest: 0,
        };
        assert_eq!(parts, expected);
        assert_eq!(of(&crossings, 1_000), None, "more than crossed");
        assert_eq!(of(&crossings, 10), None, "less than is fresh");
        crossings[0].packet[9] = 6;
        assert_eq!(of(&crossings, streams), None, "over TCP");
        Ok(())
    }
}
