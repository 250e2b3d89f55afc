//! One packet in words: what crosses the link, for people.
//!
//! Works on single packets without any state, so a message that begins in one packet and ends in the next is named once. It
//! describes what can be seen; nothing depends on it.

use tandem_netsim::link::Direction;
use tandem_wire::{TcpFlags, TcpOption, TcpPacket};

/// TLS record: type, version, length (RFC 5246, section 6.2.1).
const RECORD_HEADER: usize = 5;

/// A capture's comment: direction and content.
pub(crate) fn comment(direction: Direction, packet: &[u8]) -> String {
    let way = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    format!("{way}: {}", packet_in_words(packet))
}

/// What a packet carries.
pub(crate) fn packet_in_words(packet: &[u8]) -> String {
    let Ok(packet) = TcpPacket::parse(packet) else {
        return "not TCP".to_owned();
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
    words.extend(payload_in_words(packet.payload()));
    if flags.contains(TcpFlags::ACK) && (words.is_empty() || words == ["SYN"]) {
        words.push("ACK".to_owned());
    }
    if proxy_option_bytes(&packet) > 0 {
        words.push("proxies' option".to_owned());
    }
    words.join(", ")
}

/// Bytes of the experimental TCP options (RFC 6994) in a packet: what proxies say to each other beside the payload.
pub(crate) fn proxy_option_bytes(packet: &TcpPacket<'_>) -> usize {
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

fn payload_in_words(payload: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let (Some(&content_type), Some(version)) = (rest.first(), rest.get(1)) else {
            break;
        };
        let length = match rest.get(3..RECORD_HEADER) {
            Some(&[high, low]) if *version == 3 && (20..=24).contains(&content_type) => {
                usize::from(high) << 8 | usize::from(low)
            }
            _ => {
                words.push(format!("{} bytes", rest.len()));
                break;
            }
        };
        let end = rest.len().min(RECORD_HEADER + length);
        let (record, after) = rest.split_at(end);
        words.extend(record_in_words(content_type, &record[RECORD_HEADER..]));
        rest = after;
    }
    words
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
            words.push("Finished (encrypted)".to_owned());
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
    use super::*;

    #[test]
    fn records_and_messages_are_named() {
        let hello = [22, 3, 1, 0, 6, 1, 0, 0, 2, 0, 0];
        assert_eq!(payload_in_words(&hello), ["ClientHello"]);
        let mut flight = vec![20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 4, 0xd7, 1, 2, 3];
        assert_eq!(
            payload_in_words(&flight),
            ["ChangeCipherSpec", "Finished (encrypted)"]
        );
        flight.splice(..6, [23, 3, 3, 0, 0]);
        assert_eq!(
            payload_in_words(&flight),
            ["application data", "Finished (encrypted)"]
        );
    }

    #[test]
    fn bytes_that_are_no_record_are_counted() {
        assert_eq!(payload_in_words(b"hello"), ["5 bytes"]);
        assert_eq!(payload_in_words(&[22, 3]), ["2 bytes"]);
        assert!(payload_in_words(&[]).is_empty());
    }

    #[test]
    fn what_is_not_tcp_is_said_to_be() {
        assert_eq!(packet_in_words(&[0x45]), "not TCP");
    }
}
