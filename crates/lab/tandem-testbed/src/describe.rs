//! What crosses the link in words, packet by packet, for people.
//!
//! A [`Narrator`] follows one connection at a time, as far as naming takes it: where the next
//! record begins in each direction, which message a record's rest belongs to, and what was sent
//! before. It describes what can be seen; nothing depends on it.

use tandem_netsim::link::Direction;
use tandem_wire::{Seq, TcpFlags, TcpOption, TcpPacket};

/// TLS record: type, version, length (RFC 5246, section 6.2.1).
const RECORD_HEADER: usize = 5;

/// Names what a connection's packets carry.
#[derive(Debug, Clone, Default)]
pub struct Narrator {
    up: HalfStream,
    down: HalfStream,
}

/// One direction of a connection.
#[derive(Debug, Clone, Default)]
struct HalfStream {
    /// Where the stream begins, once its SYN was seen.
    start: Option<Seq>,
    /// Offset in the stream at which the next record begins.
    next_record: usize,
    /// The last message of the record before that, which a packet may continue.
    last_message: String,
    /// Offset behind the furthest byte that was sent.
    sent: usize,
}

impl Narrator {
    /// What a packet carries. Packets are told in the order in which they come to the link.
    pub fn words(&mut self, direction: Direction, packet: &[u8]) -> String {
        let Ok(packet) = TcpPacket::parse(packet) else {
            return datagram_in_words(packet).unwrap_or("not TCP").to_owned();
        };
        let flags = packet.flags();
        let mut words = Vec::new();
        for (flag, name) in [
            (TcpFlags::SYN, "SYN"),
            (TcpFlags::FIN, "FIN"),
            (TcpFlags::RST, "RST"),
        ] {
            if flags.contains(flag) {
                words.push(name.to_owned());
            }
        }
        let half = match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        };
        let again = if flags.contains(TcpFlags::SYN) {
            half.begin(packet.seq())
        } else {
            half.payload(&packet, &mut words)
        };
        if flags.contains(TcpFlags::ACK) && (words.is_empty() || words == ["SYN"]) {
            words.push("ACK".to_owned());
        }
        if proxy_option_bytes(&packet) > 0 {
            words.push("proxies' option".to_owned());
        }
        let again = if again { " (sent again)" } else { "" };
        words.join(", ") + again
    }
}

impl HalfStream {
    /// A SYN: a new connection, unless it is the same one again.
    fn begin(&mut self, seq: Seq) -> bool {
        let start = seq.wrapping_add(1);
        if self.start == Some(start) {
            return true;
        }
        *self = Self {
            start: Some(start),
            ..Self::default()
        };
        false
    }

    /// Adds what the payload is; whether all of it was sent before.
    fn payload(&mut self, packet: &TcpPacket<'_>, words: &mut Vec<String>) -> bool {
        let payload = packet.payload();
        if payload.is_empty() {
            return false;
        }
        let Some(start) = self.start else {
            words.extend(self.records(payload));
            return false;
        };
        let Ok(offset) = usize::try_from(packet.seq().distance_from(start)) else {
            words.push(format!("{} bytes", payload.len()));
            return false;
        };
        let end = offset + payload.len();
        let again = end <= self.sent;
        self.sent = self.sent.max(end);
        if again {
            // What it is was said the first time; the state is not to go back.
            words.extend(self.clone().records_again(payload));
            return true;
        }
        // The rest of a record that began before.
        let continued = self.next_record.saturating_sub(offset).min(payload.len());
        if continued > 0 {
            words.push(format!("{} (continued)", self.last_message));
        }
        let rest = &payload[continued..];
        if !rest.is_empty() {
            if is_record(rest) {
                let at = offset + continued;
                let (names, length) = (self.records(rest), records_len(rest));
                words.extend(names);
                self.next_record = at + length;
            } else {
                // No record begins here, so a proxy has written it.
                words.push(format!("rewritten flight ({} bytes)", rest.len()));
                self.next_record = end;
            }
        }
        false
    }

    fn records_again(&mut self, payload: &[u8]) -> Vec<String> {
        if is_record(payload) {
            self.records(payload)
        } else {
            vec![format!("{} bytes", payload.len())]
        }
    }

    /// Names the records that `payload` begins with; remembers the last message.
    fn records(&mut self, payload: &[u8]) -> Vec<String> {
        let mut words = Vec::new();
        let mut rest = payload;
        while is_record(rest) {
            let length = record_len(rest).min(rest.len());
            let (record, after) = rest.split_at(length);
            words.extend(record_in_words(
                record[0],
                record.get(RECORD_HEADER..).unwrap_or_default(),
            ));
            rest = after;
        }
        if !rest.is_empty() {
            words.push(format!("{} bytes", rest.len()));
        }
        if let Some(last) = words.last() {
            self.last_message.clone_from(last);
        }
        words
    }
}

/// Bytes of the experimental TCP options (RFC 6994) in a packet: what proxies say to each other
/// beside the payload.
pub fn proxy_option_bytes(packet: &TcpPacket<'_>) -> usize {
    packet
        .options()
        .map(|option| match option {
            // Kind, length, identifier, data.
            TcpOption::Experiment { data, .. } => 4 + data.len(),
            TcpOption::Nop
            | TcpOption::EndOfList
            | TcpOption::MaximumSegmentSize(_)
            | TcpOption::WindowScale(_)
            | TcpOption::SackPermitted
            | TcpOption::Sack(_)
            | TcpOption::Timestamps(_)
            | TcpOption::Md5(_)
            | TcpOption::Authentication(_)
            | TcpOption::Multipath(_)
            | TcpOption::FastOpen(_)
            | TcpOption::Other { .. } => 0,
        })
        .sum()
}

/// What a UDP packet carries, as far as QUIC shows it: the header form is the highest bit (RFC
/// 8999, section 5). `None` for what is no UDP over IPv4 or IPv6 without extensions.
fn datagram_in_words(packet: &[u8]) -> Option<&'static str> {
    /// RFC 768.
    const UDP: u8 = 17;
    const UDP_HEADER: usize = 8;
    const IPV6_HEADER: usize = 40;
    let first = *packet.first()?;
    let (protocol, header) = match first >> 4 {
        4 => (*packet.get(9)?, usize::from(first & 0x0f) * 4),
        6 => (*packet.get(6)?, IPV6_HEADER),
        _ => return None,
    };
    let byte = packet.get(header + UDP_HEADER)?;
    (protocol == UDP).then_some(if byte & 0x80 != 0 {
        "tunnel: set-up"
    } else {
        "tunnel: sealed"
    })
}

/// Whether a record may begin here: a type from ChangeCipherSpec to heartbeat, and version 3.x.
fn is_record(bytes: &[u8]) -> bool {
    matches!(bytes, [20..=24, 3, ..])
}

/// The length of the record that begins here, its header included; of a cut header what there is.
fn record_len(bytes: &[u8]) -> usize {
    match bytes.get(3..RECORD_HEADER) {
        Some(&[high, low]) => RECORD_HEADER + (usize::from(high) << 8 | usize::from(low)),
        _ => bytes.len(),
    }
}

/// Where the last record ends that begins in these bytes; may lie behind their end.
fn records_len(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(rest) = bytes.get(end..).filter(|rest| is_record(rest)) {
        end += record_len(rest);
    }
    end
}

fn record_in_words(content_type: u8, fragment: &[u8]) -> Vec<String> {
    match content_type {
        20 => vec!["ChangeCipherSpec".to_owned()],
        21 => vec!["Alert".to_owned()],
        22 => handshake_in_words(fragment),
        23 => vec!["application data".to_owned()],
        _ => vec!["heartbeat".to_owned()],
    }
}

fn handshake_in_words(mut fragment: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    while let [message_type, high, middle, low, body @ ..] = fragment {
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        let Some(name) = message_name(*message_type).filter(|_| length <= 1 << 17) else {
            // After ChangeCipherSpec the type byte is ciphertext.
            words.push("Finished".to_owned());
            break;
        };
        words.push(name.to_owned());
        fragment = body.get(length..).unwrap_or_default();
    }
    words
}

/// RFC 5246, section 7.4; RFC 5077; RFC 6066. 0x99 is the thesis's own.
fn message_name(message_type: u8) -> Option<&'static str> {
    match message_type {
        1 => Some("ClientHello"),
        2 => Some("ServerHello"),
        4 => Some("NewSessionTicket"),
        11 => Some("Certificate"),
        12 => Some("ServerKeyExchange"),
        13 => Some("CertificateRequest"),
        14 => Some("ServerHelloDone"),
        15 => Some("CertificateVerify"),
        16 => Some("ClientKeyExchange"),
        22 => Some("CertificateStatus"),
        0x99 => Some("CompressedCertificate"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tandem_wire::SegmentRepr;

    use super::*;

    fn packet(seq: u32, flags: TcpFlags, payload: &[u8]) -> Vec<u8> {
        SegmentRepr {
            source: SocketAddr::from(([10, 77, 3, 2], 443)),
            destination: SocketAddr::from(([10, 77, 1, 2], 40_000)),
            seq: Seq(seq),
            ack: Seq(1),
            flags,
            window: 1000,
            options: Vec::new(),
            payload: payload.to_vec(),
            hop_limit: 64,
        }
        .build()
    }

    /// What a narrator says of packets that go down, after a SYN with sequence number 0.
    fn told(packets: &[(u32, &[u8])]) -> Vec<String> {
        let mut narrator = Narrator::default();
        let syn = packet(0, TcpFlags::SYN.with(TcpFlags::ACK), &[]);
        let mut words = vec![narrator.words(Direction::Down, &syn)];
        for (seq, payload) in packets {
            words.push(narrator.words(Direction::Down, &packet(*seq, TcpFlags::ACK, payload)));
        }
        words
    }

    #[test]
    fn messages_are_named_also_where_packets_cut_them() {
        // A ServerHello of 2 bytes, a Certificate of 6 that is cut after 2, a ServerHelloDone.
        let flight = [
            22, 3, 3, 0, 6, 2, 0, 0, 2, 0, 0, 22, 3, 3, 0, 10, 11, 0, 0, 6, 1, 2, 3, 4, 5, 6, 22,
            3, 3, 0, 4, 14, 0, 0, 0,
        ];
        let words = told(&[
            (1, &flight[..22]),
            (23, &flight[22..]),
            (1, &flight[..22]),
            (36, &[]),
        ]);
        assert_eq!(
            words,
            [
                "SYN, ACK",
                "ServerHello, Certificate",
                "Certificate (continued), ServerHelloDone",
                "ServerHello, Certificate (sent again)",
                "ACK",
            ]
        );
    }

    #[test]
    fn what_is_no_record_where_one_should_begin_was_written_by_a_proxy() {
        let flight: [u8; 11] = [22, 3, 3, 0, 6, 2, 0, 0, 2, 0, 0];
        let finished: [u8; 9] = [22, 3, 3, 0, 4, 0xd7, 1, 2, 3];
        let words = told(&[(1, &flight), (500, b"\x01delta"), (506, &finished)]);
        assert_eq!(
            words[1..],
            ["ServerHello", "rewritten flight (6 bytes)", "Finished"]
        );
    }

    #[test]
    fn what_is_not_tcp_is_said_to_be() {
        assert_eq!(Narrator::default().words(Direction::Up, &[0x45]), "not TCP");
    }

    #[test]
    fn of_a_tunnel_only_its_set_up_can_be_told() {
        let told = |packet: &[u8]| Narrator::default().words(Direction::Up, packet);
        let mut packet = vec![0; 20 + 8 + 1];
        (packet[0], packet[9], packet[28]) = (0x45, 17, 0xc0);
        assert_eq!(told(&packet), "tunnel: set-up");
        packet[28] = 0x40;
        assert_eq!(told(&packet), "tunnel: sealed");
        assert_eq!(told(&packet[..28]), "not TCP", "an empty datagram");
        let mut packet = vec![0; 40 + 8 + 1];
        (packet[0], packet[6], packet[48]) = (0x60, 17, 0x40);
        assert_eq!(told(&packet), "tunnel: sealed");
    }
}
