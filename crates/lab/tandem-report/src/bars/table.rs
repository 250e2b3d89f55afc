//! The bars, a row each: what is measured where, and what must hold.
//!
//! Is not: the holding of them against rows, which is `bars`.

use crate::arm::Arm;
use crate::cases::Measure;
use crate::verdict::{Bound, Unit};

/// Where a bar's figure comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// The arm by plain, in per cent, and the share that is allowed.
    Share { measure: Measure, bar: f64 },
    /// IP bytes of the handshake by its floor.
    Floor { bar: f64 },
    /// The arm above plain, in milliseconds: at most this, or at most this share of plain,
    /// whichever is more.
    AddedTime { milliseconds: f64, share: f64 },
    /// The arm alone, in milliseconds: one connection, after a rest.
    Processor { bar: f64 },
    /// The arm alone, in milliseconds: of one handshake of thousands, by the profile.
    Profile { bar: f64 },
    /// A line of the benches, in a unit of which one is so many of the bench's own.
    Bench {
        name: &'static str,
        unit: Unit,
        scale: f64,
        bound: Bound,
        bar: f64,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Bar {
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) case: &'static str,
    /// `None`: any.
    pub(super) link: Option<&'static str>,
    pub(super) endpoints: &'static [&'static str],
    /// Whose figure it is.
    pub(super) arm: Arm,
    pub(super) source: Source,
    pub(super) target: Option<f64>,
    pub(super) thesis: Option<&'static str>,
}

const NAMED: &[&str] = &["one", "three", "curl"];

pub(super) const BARS: [Bar; 19] = [
    Bar {
        id: "tls-bytes-one",
        what: "TLS bytes on the link, warm",
        case: "one, any link",
        link: None,
        endpoints: &["one"],
        arm: Arm::Packet,
        source: Source::Share {
            measure: Measure::TlsBytes,
            bar: 52.0,
        },
        target: Some(45.0),
        thesis: Some("50 %"),
    },
    Bar {
        id: "tls-bytes-three",
        what: "TLS bytes on the link, warm",
        case: "three, any link",
        link: None,
        endpoints: &["three"],
        arm: Arm::Packet,
        source: Source::Share {
            measure: Measure::TlsBytes,
            bar: 33.0,
        },
        target: Some(25.0),
        thesis: None,
    },
    Bar {
        id: "tls-bytes-curl",
        what: "TLS bytes on the link, warm",
        case: "curl, any link",
        link: None,
        endpoints: &["curl"],
        arm: Arm::Packet,
        source: Source::Share {
            measure: Measure::TlsBytes,
            bar: 36.0,
        },
        target: Some(28.0),
        thesis: None,
    },
    Bar {
        id: "time-iridium-one",
        what: "Time to the first byte, warm",
        case: "one, iridium",
        link: Some("iridium"),
        endpoints: &["one"],
        arm: Arm::Packet,
        source: Source::Share {
            measure: Measure::FirstByte,
            bar: 72.0,
        },
        target: Some(65.0),
        thesis: Some("70 %"),
    },
    Bar {
        id: "time-iridium-three",
        what: "Time to the first byte, warm",
        case: "three, iridium",
        link: Some("iridium"),
        endpoints: &["three"],
        arm: Arm::Packet,
        source: Source::Share {
            measure: Measure::FirstByte,
            bar: 50.0,
        },
        target: Some(45.0),
        thesis: None,
    },
    Bar {
        id: "added-time-tcdl-10",
        what: "Time added to routed, warm",
        case: "one, three or curl, tcdl-10",
        link: Some("tcdl-10"),
        endpoints: NAMED,
        arm: Arm::Packet,
        source: Source::AddedTime {
            milliseconds: 2.0,
            share: 0.05,
        },
        target: Some(1.0),
        thesis: Some("440 ms"),
    },
    Bar {
        id: "cpu-under-load",
        what: "CPU of both proxies",
        case: "one after the other, tcdl-10",
        link: None,
        endpoints: &[],
        arm: Arm::Packet,
        source: Source::Profile { bar: 1.0 },
        target: Some(0.4),
        thesis: Some("200 ms"),
    },
    Bar {
        id: "cpu-both-proxies",
        what: "CPU of both proxies",
        case: "one after a rest, tcdl-10",
        link: Some("tcdl-10"),
        endpoints: NAMED,
        arm: Arm::Packet,
        source: Source::Processor { bar: 1.0 },
        target: None,
        thesis: Some("200 ms"),
    },
    Bar {
        id: "engine-alone",
        what: "Engine alone, both roles",
        case: "one core, chain of three",
        link: None,
        endpoints: &[],
        arm: Arm::Packet,
        source: Source::Bench {
            name: "engine",
            unit: Unit::HandshakesPerSecond,
            scale: 1.0,
            bound: Bound::AtLeast,
            bar: 10_000.0,
        },
        target: Some(50_000.0),
        thesis: None,
    },
    Bar {
        id: "memory-handshaking",
        what: "Memory of a flow",
        case: "in its handshake",
        link: None,
        endpoints: &[],
        arm: Arm::Packet,
        source: Source::Bench {
            name: "memory_handshaking_flow",
            unit: Unit::Kibibytes,
            scale: 1024.0,
            bound: Bound::AtMost,
            bar: 64.0,
        },
        target: None,
        thesis: None,
    },
    Bar {
        id: "memory-finished",
        what: "Memory of a flow",
        case: "after its handshake",
        link: None,
        endpoints: &[],
        arm: Arm::Packet,
        source: Source::Bench {
            name: "memory_finished_flow",
            unit: Unit::Kibibytes,
            scale: 1024.0,
            bound: Bound::AtMost,
            bar: 2.0,
        },
        target: None,
        thesis: None,
    },
    Bar {
        id: "bulk",
        what: "Bulk after the handshake",
        case: "against routed, median of 10",
        link: None,
        endpoints: &[],
        arm: Arm::Packet,
        source: Source::Bench {
            name: "bulk_percent_of_routed",
            unit: Unit::PercentOfRouted,
            scale: 1.0,
            bound: Bound::AtLeast,
            bar: 90.0,
        },
        target: Some(98.0),
        thesis: None,
    },
    Bar {
        id: "bulk-100",
        what: "Bulk of 100 connections at once",
        case: "against routed, median of 10",
        link: None,
        endpoints: &[],
        arm: Arm::Packet,
        source: Source::Bench {
            name: "bulk_100_flows_percent_of_routed",
            unit: Unit::PercentOfRouted,
            scale: 1.0,
            bound: Bound::AtLeast,
            bar: 90.0,
        },
        target: Some(98.0),
        thesis: None,
    },
    Bar {
        id: "tunnel-bytes-three",
        what: "IP bytes until Finished, tunnel",
        case: "three, any link",
        link: None,
        endpoints: &["three"],
        arm: Arm::Tunnel,
        source: Source::Share {
            measure: Measure::HandshakeBytes,
            bar: 25.0,
        },
        target: None,
        thesis: None,
    },
    Bar {
        id: "tunnel-floor-three",
        what: "IP bytes until Finished, tunnel, by the floor",
        case: "three, any link",
        link: None,
        endpoints: &["three"],
        arm: Arm::Tunnel,
        source: Source::Floor { bar: 1.6 },
        target: Some(1.25),
        thesis: None,
    },
    Bar {
        id: "tunnel-time-iridium-one",
        what: "Time to the first byte, tunnel awake",
        case: "one, iridium",
        link: Some("iridium"),
        endpoints: &["one"],
        arm: Arm::Tunnel,
        source: Source::Share {
            measure: Measure::FirstByte,
            bar: 45.0,
        },
        target: Some(36.0),
        thesis: None,
    },
    Bar {
        id: "tunnel-time-iridium-three",
        what: "Time to the first byte, tunnel awake",
        case: "three, iridium",
        link: Some("iridium"),
        endpoints: &["three"],
        arm: Arm::Tunnel,
        source: Source::Share {
            measure: Measure::FirstByte,
            bar: 28.0,
        },
        target: Some(20.0),
        thesis: None,
    },
    Bar {
        id: "tunnel-time-iridium-mutual",
        what: "Time to the first byte, tunnel awake",
        case: "mutual with three each way, iridium",
        link: Some("iridium"),
        endpoints: &["mutual"],
        arm: Arm::Tunnel,
        source: Source::Share {
            measure: Measure::FirstByte,
            bar: 30.0,
        },
        target: Some(20.0),
        thesis: Some("about 50 %"),
    },
    Bar {
        id: "tunnel-added-time-tcdl-10",
        what: "Time added to routed, tunnel awake",
        case: "one, three or curl, tcdl-10",
        link: Some("tcdl-10"),
        endpoints: NAMED,
        arm: Arm::Tunnel,
        source: Source::AddedTime {
            milliseconds: 2.0,
            share: 0.05,
        },
        target: Some(1.0),
        thesis: Some("440 ms"),
    },
];
