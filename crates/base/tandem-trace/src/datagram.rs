//! What goes beside TLS over TCP and is not read: QUIC and DTLS handshakes, counted so that nobody
//! takes their absence from the figures for their absence from the link.
//!
//! Not a parser: first bytes only. RFC 9000, section 17.2.2; RFC 9369, section 3.2; RFC 6347,
//! section 4.1.

const UDP: u8 = 17;
const UDP_HEADER_LEN: usize = 8;
const QUIC_V1: u32 = 1;
const QUIC_V2: u32 = 0x6b33_43cf;

/// A datagram that starts a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// A QUIC Initial packet.
    QuicInitial,
    /// A DTLS ClientHello.
    DtlsClientHello,
}

/// What an IP packet that is not TCP starts, if anything.
pub(crate) fn look(packet: &[u8]) -> Option<Beside> {
    let first = packet.first()?;
    let (protocol, header_len) = match first >> 4 {
        4 => (packet.get(9)?, usize::from(first & 0x0f) * 4),
        6 => (packet.get(6)?, 40),
        _ => return None,
    };
    if *protocol != UDP {
        return None;
    }
    let payload = packet.get(header_len + UDP_HEADER_LEN..)?;
    if is_quic_initial(payload) {
        Some(Beside::QuicInitial)
    } else if is_dtls_client_hello(payload) {
        Some(Beside::DtlsClientHello)
    } else {
        None
    }
}

/// | 1, 1, type 2 bit, 4 bit | version 4 | ...
fn is_quic_initial(payload: &[u8]) -> bool {
    let Some(&[first, v0, v1, v2, v3]) = payload.first_chunk::<5>() else {
        return false;
    };
    let packet_type = (first >> 4) & 0b11;
    let initial = match u32::from_be_bytes([v0, v1, v2, v3]) {
        QUIC_V1 => 0,
        QUIC_V2 => 1,
        _ => return false,
    };
    first & 0xc0 == 0xc0 && packet_type == initial
}

/// | 22 | version 0xfeff or 0xfefd | epoch 2 | sequence number 6 | length 2 | message type 1 | ...
fn is_dtls_client_hello(payload: &[u8]) -> bool {
    matches!(payload, [22, 0xfe, 0xff | 0xfd, ..]) && payload.get(13) == Some(&1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45; 20];
        packet[9] = UDP;
        packet.extend([0; UDP_HEADER_LEN]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn handshakes_over_udp_are_told_apart() {
        let dtls = [22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50, 1];
        assert_eq!(look(&udp(&dtls)), Some(Beside::DtlsClientHello));
        assert_eq!(
            look(&udp(&[0xc3, 0, 0, 0, 1, 8])),
            Some(Beside::QuicInitial)
        );
        assert_eq!(
            look(&udp(&[0xd3, 0x6b, 0x33, 0x43, 0xcf, 8])),
            Some(Beside::QuicInitial)
        );
        for other in [
            &[0xe3, 0, 0, 0, 1, 8][..],
            &[0x43, 0, 0, 0, 1],
            &[22, 3, 3, 0, 1],
            &[],
        ] {
            assert_eq!(look(&udp(other)), None);
        }
        let mut tcp = udp(&dtls);
        tcp[9] = 6;
        assert_eq!(look(&tcp), None);
        let whole = udp(&dtls);
        for len in 0..whole.len() {
            assert_eq!(look(&whole[..len]), None);
        }
    }
}
