//! TLS inside tunnels and tags: found, or named.

use tandem_trace::{Damage, Handshake, Limits, Rows, Trace, Tunnel, read};
use tandem_wire::{SegmentRepr, Seq, TcpFlags};

#[derive(Default)]
struct Kept(Vec<Handshake>);

impl Rows for Kept {
    fn handshake(&mut self, handshake: &Handshake) {
        self.0.push(handshake.clone());
    }

    fn ssl2_connection(&mut self) {}
}

const ETHERNET: u32 = 1;
const RAW: u32 = 101;

fn capture(link_type: u32, frames: &[Vec<u8>]) -> (Vec<Handshake>, Trace) {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    bytes.extend([0; 8]);
    bytes.extend(262_144u32.to_le_bytes());
    bytes.extend(link_type.to_le_bytes());
    for frame in frames {
        let len = frame.len() as u32;
        for field in [1, 0, len, len] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(frame);
    }
    let mut rows = Kept::default();
    let trace = read(&bytes[..], Limits::default(), &mut rows, &mut |_| {}).expect("a capture");
    (rows.0, trace)
}

fn packet(flags: TcpFlags, (seq, ack): (u32, u32), is_client: bool, payload: &[u8]) -> Vec<u8> {
    let client = "192.0.2.1:1000".parse().expect("an address");
    let server = "198.51.100.1:443".parse().expect("an address");
    SegmentRepr {
        source: if is_client { client } else { server },
        destination: if is_client { server } else { client },
        seq: Seq(seq),
        ack: Seq(ack),
        flags,
        window: 65_535,
        options: Vec::new(),
        payload: payload.to_vec(),
        hop_limit: 64,
    }
    .build()
}

/// A ClientHello in a record.
fn hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([0x11; 32]);
    body.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    let mut record = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    record.extend(body);
    record
}

/// A connection that gets as far as its hello.
fn packets() -> Vec<Vec<u8>> {
    let syn_ack = TcpFlags::SYN.with(TcpFlags::ACK);
    vec![
        packet(TcpFlags::SYN, (99, 0), true, &[]),
        packet(syn_ack, (499, 100), false, &[]),
        packet(TcpFlags::ACK, (100, 500), true, &hello()),
    ]
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0xfd; 32]);
    packet.extend(payload);
    packet
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = 40_000u16.to_be_bytes().to_vec();
    datagram.extend(port.to_be_bytes());
    datagram.extend(((8 + payload.len()) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ipv4(17, &datagram)
}

fn ethernet(ethertype: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[2; 12], ethertype, payload].concat()
}

type Wrapped = (&'static str, u32, Option<Tunnel>, fn(&[u8]) -> Vec<u8>);

const READ: [Wrapped; 19] = [
    ("IPIP", RAW, Some(Tunnel::IpInIp), |p| ipv4(4, p)),
    ("4in6", RAW, Some(Tunnel::IpInIp), |p| ipv6(4, p)),
    ("4in6 behind options", RAW, Some(Tunnel::IpInIp), |p| {
        ipv6(60, &[&[4, 0, 4, 1, 4, 1, 0, 0], p].concat())
    }),
    ("4in6in4", RAW, Some(Tunnel::IpInIp), |p| {
        ipv4(41, &ipv6(4, p))
    }),
    ("GRE", RAW, Some(Tunnel::Gre), |p| {
        ipv4(47, &[&[0, 0, 8, 0], p].concat())
    }),
    ("GRE, all fields", RAW, Some(Tunnel::Gre), |p| {
        ipv4(47, &[&[0xb0, 0, 8, 0][..], &[7; 12], p].concat())
    }),
    ("GRE with Ethernet", RAW, Some(Tunnel::Gre), |p| {
        ipv4(
            47,
            &[&[0, 0, 0x65, 0x58][..], &ethernet(&[8, 0], p)].concat(),
        )
    }),
    ("PPTP", RAW, Some(Tunnel::Pptp), |p| {
        let head = [0x30, 0x81, 0x88, 0x0b, 0, 9, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1];
        ipv4(47, &[&head[..], &[0xff, 3, 0, 0x21], p].concat())
    }),
    ("MPLS on the link", ETHERNET, None, |p| {
        ethernet(&[0x88, 0x47, 0, 1, 1, 64], p)
    }),
    ("MPLS in IP", RAW, Some(Tunnel::Mpls), |p| {
        ipv4(137, &[&[0, 1, 1, 64], p].concat())
    }),
    ("MPLS in UDP", RAW, Some(Tunnel::Mpls), |p| {
        udp(6635, &[&[0, 1, 1, 64], p].concat())
    }),
    ("GTP-U", RAW, Some(Tunnel::GtpU), |p| {
        udp(2152, &[&[0x30, 255, 0, 9, 0, 0, 0, 1], p].concat())
    }),
    ("GTP-U with an extension", RAW, Some(Tunnel::GtpU), |p| {
        let head = [0x34, 255, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0];
        udp(2152, &[&head[..], p].concat())
    }),
    ("VXLAN", RAW, Some(Tunnel::Vxlan), |p| {
        udp(
            4789,
            &[&[8, 0, 0, 0, 0, 0, 5, 0][..], &ethernet(&[8, 0], p)].concat(),
        )
    }),
    ("Geneve", RAW, Some(Tunnel::Geneve), |p| {
        let head = [1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 0];
        udp(6081, &[&head[..], &ethernet(&[8, 0], p)].concat())
    }),
    ("CAPWAP with Ethernet", RAW, Some(Tunnel::Capwap), |p| {
        let head = [0, 0x10, 0, 0, 0, 0, 0, 0];
        udp(5247, &[&head[..], &ethernet(&[8, 0], p)].concat())
    }),
    ("CAPWAP with Wi-Fi", RAW, Some(Tunnel::Capwap), |p| {
        let head = [0, 0x10, 0x03, 0, 0, 0, 0, 0];
        let wifi = [&[0x88, 0x01][..], &[5; 22], &[0, 0]].concat();
        udp(
            5247,
            &[&head[..], &wifi, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], p].concat(),
        )
    }),
    (
        "CAPWAP with swapped Wi-Fi",
        RAW,
        Some(Tunnel::Capwap),
        |p| {
            let head = [0, 0x10, 0x03, 0, 0, 0, 0, 0];
            let wifi = [&[0x01, 0x08][..], &[5; 22]].concat();
            udp(
                5247,
                &[&head[..], &wifi, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], p].concat(),
            )
        },
    ),
    ("a security group tag", ETHERNET, None, |p| {
        ethernet(&[0x89, 0x09, 1, 1, 0, 1, 0, 7, 8, 0], p)
    }),
];

#[test]
fn tls_in_each_tunnel_that_is_read_is_found_and_says_where() {
    for (name, link_type, tunnel, wrap) in READ {
        let frames: Vec<Vec<u8>> = packets().iter().map(|packet| wrap(packet)).collect();
        let (rows, trace) = capture(link_type, &frames);
        assert_eq!(trace.damage, [], "{name}");
        let found: Vec<_> = rows.iter().map(|row| row.tunnel).collect();
        assert_eq!(found, [tunnel], "{name}");
        assert_eq!(trace.facts.tcp_packets, 3, "{name}");
        // Cut anywhere, nothing panics and nothing is silently lost.
        let whole = &frames[2];
        for len in 0..whole.len() {
            let (rows, _) = capture(link_type, &[whole[..len].to_vec()]);
            assert!(rows.len() <= 1, "{name}");
        }
    }
}

#[test]
fn what_may_hold_tls_and_is_not_read_is_named() {
    let table: [Wrapped; 9] = [
        ("IPsec (ESP)", RAW, None, |p| ipv4(50, p)),
        ("IPsec (AH)", RAW, None, |p| ipv6(51, p)),
        ("IPsec in UDP (port 4500)", RAW, None, |p| udp(4500, p)),
        ("WireGuard (UDP port 51820)", RAW, None, |p| {
            udp(51820, &[&[4, 0, 0, 0], p].concat())
        }),
        ("mirrored frames (ERSPAN)", RAW, None, |p| {
            ipv4(47, &[&[0, 0, 0x88, 0xbe], p].concat())
        }),
        ("CAPWAP data in DTLS", RAW, None, |p| {
            udp(5247, &[&[1, 0, 0, 0], p].concat())
        }),
        ("encrypted PPP", RAW, None, |p| {
            ipv4(
                47,
                &[&[0x20, 1, 0x88, 0x0b, 0, 9, 0, 1, 0, 0x53], p].concat(),
            )
        }),
        ("VN-Tag", ETHERNET, None, |p| {
            ethernet(&[0x89, 0x26, 0, 0, 0, 0, 8, 0], p)
        }),
        ("too many tunnels in one another", RAW, None, |p| {
            (0..9).fold(p.to_vec(), |inner, _| ipv4(4, &inner))
        }),
    ];
    for (inside, link_type, _, wrap) in table {
        let frames: Vec<Vec<u8>> = packets().iter().map(|packet| wrap(packet)).collect();
        let (rows, trace) = capture(link_type, &frames);
        assert_eq!(rows, [], "{inside}");
        assert_eq!(trace.damage, [Damage::Unread { inside, packets: 3 }]);
    }
}

#[test]
fn a_datagram_from_a_tunnels_port_to_a_resolver_is_no_tunnel() {
    let mut answer = udp(53, &[0; 30]);
    answer[20..22].copy_from_slice(&4500u16.to_be_bytes());
    let (_, trace) = capture(RAW, &[answer]);
    assert_eq!(trace.damage, []);
}

#[test]
fn fragments_of_a_tunnels_packets_are_counted() {
    let mut fragment = ipv4(47, &[&[0, 0, 8, 0], &packets()[0][..]].concat());
    fragment[6] = 0x20;
    let (_, trace) = capture(RAW, &[fragment]);
    assert_eq!(trace.damage, [Damage::Fragments { packets: 1 }]);
}

#[test]
fn a_fast_open_answered_with_two_numbers_is_one_connection() {
    let syn_ack = TcpFlags::SYN.with(TcpFlags::ACK);
    let end = 100 + hello().len() as u32;
    let frames = [
        packet(TcpFlags::SYN, (99, 0), true, &hello()),
        // The whole SYN is acknowledged; then, by a server that forgot, its number alone.
        packet(syn_ack, (499, end), false, &[]),
        packet(syn_ack, (8999, 100), false, &[]),
        packet(TcpFlags::ACK, (100, 9000), true, &hello()),
        packet(TcpFlags::ACK, (9000, end), false, &[21, 3, 3, 0, 2, 2, 40]),
    ];
    let (rows, trace) = capture(RAW, &frames);
    assert_eq!((rows.len(), trace.facts.connections), (1, 1));
    // The answer is read under the second number.
    assert!(!rows[0].is_one_sided);
    assert_eq!(trace.damage, []);
}

#[test]
fn a_proxy_line_before_the_hello_is_told_apart_from_a_dialogue() {
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 1000 443\r\n".to_vec();
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x21, 0x11, 0, 12]);
    header.extend([1; 12]);
    for (prefix, pieces) in [(line.clone(), 1), (header, 1), (line, 3)] {
        let stream = [&prefix[..], &hello()].concat();
        let mut frames = packets();
        frames.truncate(2);
        for (index, piece) in stream.chunks(stream.len().div_ceil(pieces)).enumerate() {
            let at = (index * stream.len().div_ceil(pieces)) as u32;
            frames.push(packet(TcpFlags::ACK, (100 + at, 500), true, piece));
        }
        let (rows, trace) = capture(RAW, &frames);
        let dialogues: Vec<_> = rows
            .iter()
            .map(|row| row.dialogue.map(tandem_trace::Dialogue::name))
            .collect();
        assert_eq!(dialogues, [Some("proxy_protocol")]);
        assert_eq!(trace.damage, []);
    }
}
