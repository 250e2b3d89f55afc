//! Made-up rows for tests. Not results: nothing here was measured.

use super::waterfall::{Waterfall, WaterfallArm, WaterfallPacket, Way};
use crate::arm::Arm;
use crate::row::Row;

/// Links with what a plain handshake takes there at the least, and what a byte adds, seconds.
pub(super) const LINKS: [(&str, f64, f64); 5] = [
    ("iridium", 3.2, 1.0 / 300.0),
    ("inmarsat-64", 2.65, 1.0 / 8_000.0),
    ("milstar", 3.6, 1.0 / 900.0),
    ("tcdl-10", 0.004, 1.0 / 1_250_000.0),
    ("cell-modem", 0.55, 1.0 / 60_000.0),
];

/// Endpoints with TLS bytes of plain and of a warm packet mode.
pub(super) const ENDPOINTS: [(&str, u64, u64); 3] = [
    ("one", 1_840, 870),
    ("three", 3_660, 1_010),
    ("curl", 4_020, 1_270),
];

/// Twenty trials of every arm on every link with every pair of endpoints.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (link, least, per_byte) in LINKS {
        for (endpoints, plain, warm) in ENDPOINTS {
            for arm in Arm::ALL {
                let (bytes, added) = match arm {
                    Arm::Plain => (plain, 0.0),
                    Arm::PassThrough => (plain, 0.0006),
                    Arm::PacketCold => (plain + 24, 0.0014),
                    Arm::Packet => (warm, 0.0012),
                    Arm::PacketMcveety => (warm + 60, 0.0012),
                };
                let seconds: Vec<f64> = (0..20)
                    .map(|trial| {
                        let noise = f64::from(trial * 7 % 20) / 20.0;
                        least * (1.0 + 0.01 * noise) + added + bytes as f64 * per_byte
                    })
                    .collect();
                let mut of_arm = arm_rows(link, endpoints, arm, &seconds);
                for row in &mut of_arm {
                    set_bytes(row, bytes);
                }
                rows.extend(of_arm);
            }
        }
    }
    rows
}

/// A trial for each of some times to the first byte.
pub(super) fn arm_rows(link: &str, endpoints: &str, arm: Arm, seconds: &[f64]) -> Vec<Row> {
    let proxies = match arm {
        Arm::Plain => 0,
        Arm::PassThrough | Arm::PacketCold | Arm::Packet | Arm::PacketMcveety => 1,
    };
    seconds
        .iter()
        .zip(1..)
        .map(|(seconds, trial)| {
            let mut row = Row {
                experiment: "handshake".to_owned(),
                link: link.to_owned(),
                endpoints: endpoints.to_owned(),
                version: "1.2".to_owned(),
                key: "rsa-2048".to_owned(),
                certificates: match endpoints {
                    "one" => vec![926],
                    _ => vec![926, 900, 900],
                },
                arm,
                store: arm.store(),
                trial,
                ok: true,
                identical: true,
                error: None,
                seconds_handshake: Some(seconds * 0.95),
                seconds_first_byte: Some(*seconds),
                link_bytes_up: 0,
                link_bytes_down: 0,
                link_packets_up: 10,
                link_packets_down: 9,
                handshake_bytes_up: 0,
                handshake_bytes_down: 0,
                tls_bytes_up: 0,
                tls_bytes_down: 0,
                option_bytes: 0,
                floor_bytes: Some(790),
                proxy_cpu_us: proxies * (420 + 5 * u64::from(trial)),
                proxy_memory_kib: proxies * 6_200,
            };
            set_bytes(&mut row, 2_000);
            row
        })
        .collect()
}

fn set_bytes(row: &mut Row, tls: u64) {
    row.tls_bytes_up = 400;
    row.tls_bytes_down = tls - 400;
    row.handshake_bytes_up = 700;
    row.handshake_bytes_down = tls + 100;
    row.link_bytes_up = 1_100;
    row.link_bytes_down = tls + 900;
}

/// As an experiment writes them.
pub(super) fn lines(rows: &[Row]) -> String {
    rows.iter()
        .map(|row| serde_json::to_string(row).unwrap() + "\n")
        .collect()
}

/// Two arms on iridium.
pub(super) fn waterfall() -> Waterfall {
    let packet = |at, arrived, direction, bytes, label: &str| WaterfallPacket {
        at_seconds: at,
        arrived_seconds: arrived,
        direction,
        bytes,
        label: label.to_owned(),
    };
    Waterfall {
        experiment: "handshake".to_owned(),
        link: "iridium".to_owned(),
        endpoints: "three".to_owned(),
        arms: vec![
            WaterfallArm {
                arm: Arm::Plain,
                first_byte_seconds: Some(15.2),
                packets: vec![
                    packet(0.0, Some(0.6), Way::Up, 60, "SYN"),
                    packet(0.6, Some(1.2), Way::Down, 60, "SYN, ACK"),
                    packet(1.0, None, Way::Up, 60, "SYN"),
                    packet(1.21, Some(1.79), Way::Up, 52, "ACK"),
                    packet(1.22, Some(2.8), Way::Up, 290, "ClientHello"),
                    packet(2.81, Some(8.2), Way::Down, 1500, "ServerHello, Certificate"),
                    packet(2.81, Some(12.5), Way::Down, 1500, "1448 bytes"),
                    packet(
                        2.82,
                        Some(13.2),
                        Way::Down,
                        410,
                        "ServerKeyExchange, ServerHelloDone",
                    ),
                    packet(12.51, Some(13.1), Way::Up, 52, "ACK"),
                    packet(
                        13.21,
                        Some(14.0),
                        Way::Up,
                        145,
                        "ClientKeyExchange, ChangeCipherSpec, Finished",
                    ),
                    packet(
                        14.01,
                        Some(14.7),
                        Way::Down,
                        103,
                        "ChangeCipherSpec, Finished",
                    ),
                    packet(14.71, Some(15.5), Way::Up, 140, "application data"),
                ],
            },
            WaterfallArm {
                arm: Arm::Packet,
                first_byte_seconds: Some(7.4),
                packets: vec![
                    packet(0.0, Some(0.6), Way::Up, 60, "SYN"),
                    packet(0.6, Some(1.2), Way::Down, 60, "SYN, ACK"),
                    packet(1.21, Some(1.79), Way::Up, 52, "ACK"),
                    packet(
                        1.22,
                        Some(2.8),
                        Way::Up,
                        310,
                        "ClientHello, proxies' option",
                    ),
                    packet(2.81, Some(5.2), Way::Down, 560, "ServerHello, 330 bytes"),
                    packet(
                        5.21,
                        Some(6.1),
                        Way::Up,
                        145,
                        "ClientKeyExchange, ChangeCipherSpec, Finished",
                    ),
                    packet(
                        6.11,
                        Some(6.8),
                        Way::Down,
                        103,
                        "ChangeCipherSpec, Finished",
                    ),
                    packet(6.81, Some(7.6), Way::Up, 140, "application data"),
                ],
            },
        ],
    }
}
