//! Made-up rows for tests. Not results: nothing here was measured.

use super::waterfall::{Waterfall, WaterfallArm, WaterfallDirection, WaterfallPacket};
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

/// Those of every experiment that is not about peers.
pub(super) const ARMS: [Arm; 11] = [
    Arm::Plain,
    Arm::PassThrough,
    Arm::PacketCold,
    Arm::PacketNone,
    Arm::PacketFilter,
    Arm::Packet,
    Arm::PacketCii,
    Arm::PacketMcveety,
    Arm::Tunnel,
    Arm::TunnelAsleep,
    Arm::TunnelCold,
];

/// Twenty trials of these arms on every link with every pair of endpoints.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (link, least, per_byte) in LINKS {
        for (endpoints, plain, warm) in ENDPOINTS {
            for arm in ARMS {
                let (bytes, added) = match arm {
                    Arm::Plain => (plain, 0.0),
                    Arm::PassThrough => (plain, 0.0006),
                    Arm::PacketCold => (plain + 24, 0.0014),
                    Arm::Packet => (warm, 0.0012),
                    Arm::PacketMcveety => (warm + 60, 0.0012),
                    Arm::Tunnel => (warm - 250, 0.0012),
                    Arm::TunnelAsleep => (warm - 240, 0.0014),
                    Arm::TunnelCold => (plain + 4_800, 0.0020),
                    Arm::PacketCii | Arm::PacketFilter | Arm::PacketNone => (warm, 0.0013),
                    Arm::Quic
                    | Arm::Ssh
                    | Arm::QuicZstd
                    | Arm::Hysteria
                    | Arm::Wireguard
                    | Arm::Resumption
                    | Arm::ResumptionId
                    | Arm::PacketResumption
                    | Arm::Tls13
                    | Arm::PacketTls13
                    | Arm::TunnelTls13
                    | Arm::TunnelConsent
                    | Arm::TunnelClientConsent
                    | Arm::TunnelClientBytes
                    | Arm::Rfc8879 => continue,
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
    let proxies = u64::from(arm.has_proxies());
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
                client_certificates: Vec::new(),
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
                tls_bytes_up: None,
                tls_bytes_down: None,
                option_bytes: None,
                floor_bytes: Some(790),
                parts: None,
                proxy_cpu_us: proxies * (420 + 5 * u64::from(trial)),
                proxy_memory_kib: proxies * 6_200,
                situation: None,
                coming: None,
                clients: None,
                endpoint_repeats: None,
                crossed: None,
                client_crossed: None,
                staging_seconds: None,
            };
            set_bytes(&mut row, 2_000);
            row
        })
        .collect()
}

fn set_bytes(row: &mut Row, tls: u64) {
    let is_seen = !row.arm.is_tunnel();
    let shown = |bytes| is_seen.then_some(bytes);
    (row.tls_bytes_up, row.tls_bytes_down) = (shown(400), shown(tls - 400));
    row.option_bytes = shown(0);
    row.handshake_bytes_up = 700;
    row.handshake_bytes_down = tls + 100;
    row.link_bytes_up = 1_100;
    row.link_bytes_down = tls + 900;
}

/// As an experiment writes them.
pub(super) fn lines(rows: &[Row]) -> String {
    rows.iter()
        .map(|row| serde_json::to_string(row).expect("JSON") + "\n")
        .collect()
}

/// Two arms on a link of 256 bytes a second and half a second each way: binary fractions, which
/// read back as they were written.
pub(super) fn waterfall() -> Waterfall {
    let hello = (WaterfallDirection::Up, "ClientHello");
    let ends = [
        (
            WaterfallDirection::Up,
            150,
            "ClientKeyExchange, ChangeCipherSpec, Finished (encrypted)",
        ),
        (
            WaterfallDirection::Down,
            100,
            "ChangeCipherSpec, Finished (encrypted)",
        ),
        (WaterfallDirection::Up, 140, "application data"),
        (WaterfallDirection::Down, 300, "application data"),
    ];
    let arm = |arm, middle: &[(WaterfallDirection, u64, &str)]| {
        let mut talk = Talk::default();
        talk.say(WaterfallDirection::Up, 60, "SYN");
        talk.say(WaterfallDirection::Down, 60, "SYN, ACK");
        talk.say(WaterfallDirection::Up, 52, "ACK");
        talk.say(hello.0, 290, hello.1);
        for (direction, bytes, label) in middle.iter().chain(&ends) {
            talk.say(*direction, *bytes, label);
        }
        WaterfallArm {
            arm,
            first_byte_seconds: Some(talk.heard),
            packets: talk.packets,
        }
    };
    let mut waterfall = Waterfall {
        experiment: "handshake".to_owned(),
        link: "iridium".to_owned(),
        endpoints: "three".to_owned(),
        arms: vec![
            arm(
                Arm::Plain,
                &[
                    (WaterfallDirection::Down, 1_500, "ServerHello, Certificate"),
                    (WaterfallDirection::Down, 1_500, "1448 bytes"),
                    (
                        WaterfallDirection::Down,
                        410,
                        "ServerKeyExchange, ServerHelloDone",
                    ),
                    (WaterfallDirection::Up, 52, "ACK"),
                ],
            ),
            arm(
                Arm::Packet,
                &[(
                    WaterfallDirection::Down,
                    560,
                    "ServerHello, CompressedCertificate, ServerKeyExchange",
                )],
            ),
        ],
    };
    waterfall.arms[0].packets.insert(
        2,
        WaterfallPacket {
            at_seconds: 1.0,
            arrived_seconds: None,
            air_seconds: None,
            direction: WaterfallDirection::Up,
            bytes: 60,
            label: "SYN".to_owned(),
        },
    );
    waterfall
}

/// Who speaks next answers what was heard last; who goes on speaking waits for the link.
#[derive(Default)]
struct Talk {
    packets: Vec<WaterfallPacket>,
    heard: f64,
    /// When the link has sent what the last speaker said.
    sent: f64,
}

impl Talk {
    fn say(&mut self, direction: WaterfallDirection, bytes: u64, label: &str) {
        let goes_on = self
            .packets
            .last()
            .filter(|last| last.direction == direction)
            .map(|last| last.at_seconds);
        let at = goes_on.unwrap_or(self.heard);
        let air = bytes as f64 / 256.0;
        self.sent = goes_on.map_or(at, |_| self.sent) + air;
        self.heard = self.sent + 0.5;
        self.packets.push(WaterfallPacket {
            at_seconds: at,
            arrived_seconds: Some(self.heard),
            air_seconds: Some(air),
            direction,
            bytes,
            label: label.to_owned(),
        });
    }
}
