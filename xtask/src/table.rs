//! The table of layers: every crate of the workspace, its kind, and the arrows it may have.
//!
//! Crates stand in order, lowest first: an allowed arrow always points up the list (a unit test
//! holds that), so no cycle and no upward arrow can be allowed by mistake. A new crate is a new
//! row here; a changed arrow is a decision of weight and is explained in `ARCHITECTURE.md`.

/// What a crate may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No socket, thread, file, clock, environment, global random source; no unsafe code.
    Core,
    /// Talks to the outside world and makes no protocol decision. Unsafe code with its reason.
    Adapter,
    /// Wires things up. May use the standard library as it likes; no unsafe code.
    Program,
    /// Helps tests to run. Every crate's tests may use it, and nothing but tests.
    Testkit,
}

/// One crate's row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    /// The package's name.
    pub(crate) name: &'static str,
    /// Its folder from the workspace's root.
    pub(crate) folder: &'static str,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Crates of the workspace that it may depend on.
    pub(crate) may_use: &'static [&'static str],
    /// Crates of the workspace that its tests may use besides.
    pub(crate) tests_may_use: &'static [&'static str],
}

impl Layer {
    pub(crate) const fn new(
        name: &'static str,
        folder: &'static str,
        kind: Kind,
        may_use: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            folder,
            kind,
            may_use,
            tests_may_use: &[],
        }
    }
}

const WIRE: &str = "tandem-wire";
const DELTA: &str = "tandem-delta";
const RECORD_KEY: &str = "tandem-record-key";
const KEY_LOG: &str = "tandem-key-log";
const KEY_SOCKET: &str = "tandem-key-socket";
const DAEMON: &str = "tandem-daemon";
const CLI: &str = "tandem-cli";
const CHANNEL: &str = "tandem-channel";
const FILE: &str = "tandem-file";
const STORE: &str = "tandem-store";
const STORE_SQLITE: &str = "tandem-store-sqlite";
const TRACE: &str = "tandem-trace";
const NETSIM: &str = "tandem-netsim";
const ENGINE: &str = "tandem-engine";
const SEAL: &str = "tandem-seal";
const LINK: &str = "tandem-link";
const PACKET: &str = "tandem-packet";
const PAIR: &str = "tandem-pair";
const TUNNEL: &str = "tandem-tunnel";
const SHA1_LANES: &str = "tandem-sha1-lanes";
const SPLIT: &str = "tandem-split";
const ESTIMATE: &str = "tandem-estimate";
const BARNRAISING: &str = "tandem-barnraising";
const FIREWALL: &str = "tandem-firewall";
const STATUS: &str = "tandem-status";
const QUEUE: &str = "tandem-queue";
const IO: &str = "tandem-packet-io";
const TUNNEL_IO: &str = "tandem-tunnel-io";
const SHARED_STORE: &str = "tandem-shared-store";
const REPORT: &str = "tandem-report";
const TESTBED: &str = "tandem-testbed";
const SPLIT_LAB: &str = "tandem-split-lab";
const SPLIT_SIM: &str = "tandem-split-sim";
const COST_LAB: &str = "tandem-cost-lab";
const MCTLS_LAB: &str = "tandem-mctls-lab";
const LAB: &str = "tandem-lab";
const SPLIT_IO: &str = "tandem-split-io";
const SPLIT_DEMO: &str = "tandem-split-demo";
const BROKER_DNS: &str = "tandem-broker-dns";
const BROKER: &str = "tandem-broker";
const MCTLS: &str = "mctls";
const MCTLS12: &str = "mctls12";
const MCTLS12_IO: &str = "mctls12-io";
const MCTLS12_PROTOTYPE: &str = "mctls12-prototype";
const MCTLS_IO: &str = "mctls-io";
const DHT: &str = "tandem-dht";
const REMEDIES: &str = "tls12-experiment";
const REMEDIES_IO: &str = "tls12-experiment-io";
const MEASURE: &str = "tandem-measure";
const MEASURE_IO: &str = "tandem-measure-io";
const KEYSERVER: &str = "tandem-keyserver";
const KEYCLIENT: &str = "tandem-keyclient";
const PROVIDER: &str = "tandem-openssl-provider";

/// The whole table, lowest layer first.
pub(crate) const LAYERS: &[Layer] = &[
    Layer::new(
        "tandem-testkit",
        "crates/base/tandem-testkit",
        Kind::Testkit,
        &[],
    ),
    Layer::new(WIRE, "crates/base/tandem-wire", Kind::Core, &[]),
    Layer::new(RECORD_KEY, "crates/base/tandem-record-key", Kind::Core, &[]),
    Layer::new(
        KEY_LOG,
        "crates/base/tandem-key-log",
        Kind::Core,
        &[RECORD_KEY],
    ),
    Layer::new(
        KEY_SOCKET,
        "crates/base/tandem-key-socket",
        Kind::Adapter,
        &[RECORD_KEY],
    ),
    Layer::new(DAEMON, "crates/base/tandem-daemon", Kind::Adapter, &[WIRE]),
    Layer::new(CLI, "crates/base/tandem-cli", Kind::Adapter, &[DAEMON]),
    Layer::new(FILE, "crates/base/tandem-file", Kind::Adapter, &[]),
    Layer::new(
        CHANNEL,
        "crates/base/tandem-channel",
        Kind::Adapter,
        &[FILE],
    ),
    Layer::new(DELTA, "crates/base/tandem-delta", Kind::Core, &[]),
    Layer::new(NETSIM, "crates/lab/tandem-netsim", Kind::Core, &[WIRE]),
    Layer::new(STORE, "crates/base/tandem-store", Kind::Core, &[WIRE]),
    Layer::new(
        STORE_SQLITE,
        "crates/base/tandem-store-sqlite",
        Kind::Adapter,
        &[STORE, WIRE],
    ),
    Layer::new(TRACE, "crates/base/tandem-trace", Kind::Core, &[WIRE]),
    Layer::new(
        SEAL,
        "crates/proxy/tandem-seal",
        Kind::Core,
        &[DELTA, RECORD_KEY, WIRE],
    ),
    Layer::new(
        ENGINE,
        "crates/proxy/tandem-engine",
        Kind::Core,
        &[DELTA, RECORD_KEY, SEAL, STORE, WIRE],
    ),
    Layer::new(LINK, "crates/proxy/tandem-link", Kind::Core, &[DELTA, WIRE]),
    Layer {
        tests_may_use: &[NETSIM],
        ..Layer::new(
            PACKET,
            "crates/proxy/tandem-packet",
            Kind::Core,
            &[DELTA, ENGINE, LINK, STORE, WIRE],
        )
    },
    Layer {
        tests_may_use: &[RECORD_KEY, SEAL],
        ..Layer::new(
            TUNNEL,
            "crates/proxy/tandem-tunnel",
            Kind::Core,
            &[DELTA, ENGINE, LINK, STORE, WIRE],
        )
    },
    Layer::new(
        PAIR,
        "crates/proxy/tandem-pair",
        Kind::Adapter,
        &[LINK, CHANNEL, DAEMON, WIRE],
    ),
    Layer::new(
        SHA1_LANES,
        "crates/split/tandem-sha1-lanes",
        Kind::Adapter,
        &[],
    ),
    Layer::new(SPLIT, "crates/split/tandem-split", Kind::Core, &[WIRE]),
    Layer::new(
        ESTIMATE,
        "crates/proxy/tandem-estimate",
        Kind::Core,
        &[ENGINE, LINK, PACKET, STORE, TRACE, WIRE],
    ),
    Layer::new(
        BARNRAISING,
        "crates/split/tandem-barnraising",
        Kind::Core,
        &[WIRE],
    ),
    Layer::new(STATUS, "crates/proxy/tandem-status", Kind::Core, &[]),
    Layer::new(
        FIREWALL,
        "crates/proxy/tandem-firewall",
        Kind::Adapter,
        &[DAEMON],
    ),
    Layer::new(
        QUEUE,
        "crates/proxy/tandem-queue",
        Kind::Adapter,
        &[FIREWALL],
    ),
    Layer::new(
        IO,
        "crates/proxy/tandem-packet-io",
        Kind::Adapter,
        &[
            STATUS,
            QUEUE,
            FIREWALL,
            DAEMON,
            PACKET,
            LINK,
            ENGINE,
            STORE_SQLITE,
            STORE,
            WIRE,
        ],
    ),
    Layer::new(
        SHARED_STORE,
        "crates/proxy/tandem-shared-store",
        Kind::Adapter,
        &[TUNNEL, ENGINE, CHANNEL],
    ),
    Layer {
        tests_may_use: &[RECORD_KEY, NETSIM, SHARED_STORE],
        ..Layer::new(
            TUNNEL_IO,
            "crates/proxy/tandem-tunnel-io",
            Kind::Adapter,
            &[
                STATUS,
                TUNNEL,
                QUEUE,
                FIREWALL,
                CHANNEL,
                DAEMON,
                LINK,
                KEY_SOCKET,
                ENGINE,
                STORE_SQLITE,
                STORE,
                WIRE,
            ],
        )
    },
    Layer::new(
        SPLIT_IO,
        "crates/split/tandem-split-io",
        Kind::Adapter,
        &[BARNRAISING, SPLIT, SHA1_LANES, CHANNEL, DAEMON, WIRE],
    ),
    Layer::new(MCTLS, "crates/mctls/mctls", Kind::Core, &[]),
    Layer::new(MCTLS12, "crates/mctls/mctls12", Kind::Core, &[MCTLS]),
    Layer::new(
        MCTLS12_PROTOTYPE,
        "crates/mctls/mctls12-prototype",
        Kind::Core,
        &[MCTLS12, MCTLS],
    ),
    Layer::new(MCTLS_IO, "crates/mctls/mctls-io", Kind::Adapter, &[MCTLS]),
    Layer::new(
        MCTLS12_IO,
        "crates/mctls/mctls12-io",
        Kind::Adapter,
        &[MCTLS12_PROTOTYPE, MCTLS12, MCTLS_IO, MCTLS],
    ),
    Layer::new(
        "tandem-mc",
        "crates/mctls/tandem-mc",
        Kind::Adapter,
        &[MCTLS12_IO, MCTLS12, MCTLS_IO, MCTLS, CLI, DAEMON],
    ),
    Layer::new(REPORT, "crates/lab/tandem-report", Kind::Adapter, &[]),
    Layer::new(
        TESTBED,
        "crates/lab/tandem-testbed",
        Kind::Adapter,
        &[REPORT, IO, NETSIM, LINK, ENGINE, TRACE, WIRE],
    ),
    Layer::new(SPLIT_SIM, "crates/lab/tandem-split-sim", Kind::Core, &[]),
    Layer::new(
        SPLIT_LAB,
        "crates/lab/tandem-split-lab",
        Kind::Adapter,
        &[
            SPLIT_SIM, TESTBED, REPORT, SPLIT_IO, CHANNEL, DAEMON, STORE, NETSIM,
        ],
    ),
    Layer::new(
        "tandem-cost-tap",
        "crates/cost/tandem-cost-tap",
        Kind::Adapter,
        &[],
    ),
    Layer::new(
        REMEDIES,
        "crates/cost/tls12-experiment",
        Kind::Core,
        &[WIRE],
    ),
    Layer::new(
        REMEDIES_IO,
        "crates/cost/tls12-experiment-io",
        Kind::Adapter,
        &[REMEDIES, CHANNEL, WIRE],
    ),
    Layer::new(MEASURE, "crates/cost/tandem-measure", Kind::Core, &[]),
    Layer::new(
        MEASURE_IO,
        "crates/cost/tandem-measure-io",
        Kind::Adapter,
        &[MEASURE, REPORT, CHANNEL, CLI, DAEMON, WIRE],
    ),
    Layer {
        tests_may_use: &[CHANNEL],
        ..Layer::new(
            COST_LAB,
            "crates/lab/tandem-cost-lab",
            Kind::Adapter,
            &[TESTBED, REPORT, MEASURE_IO, MEASURE],
        )
    },
    Layer::new(
        MCTLS_LAB,
        "crates/lab/tandem-mctls-lab",
        Kind::Adapter,
        &[
            TESTBED, REPORT, MCTLS12_IO, MCTLS12, MCTLS_IO, MCTLS, NETSIM,
        ],
    ),
    Layer {
        tests_may_use: &[CHANNEL],
        ..Layer::new(
            LAB,
            "crates/lab/tandem-lab",
            Kind::Adapter,
            &[
                MCTLS_LAB, COST_LAB, SPLIT_LAB, TESTBED, REPORT, IO, CLI, DAEMON, NETSIM, PACKET,
                STORE, TRACE, TUNNEL, WIRE,
            ],
        )
    },
    Layer::new(KEYSERVER, "crates/cost/tandem-keyserver", Kind::Core, &[]),
    Layer::new(
        KEYCLIENT,
        "crates/cost/tandem-keyclient",
        Kind::Adapter,
        &[KEYSERVER, CHANNEL],
    ),
    Layer::new(
        PROVIDER,
        "crates/cost/tandem-openssl-provider",
        Kind::Adapter,
        &[KEYCLIENT, KEYSERVER],
    ),
    Layer {
        tests_may_use: &[PROVIDER, KEYCLIENT],
        ..Layer::new(
            "tandem-keyserver-io",
            "crates/cost/tandem-keyserver-io",
            Kind::Adapter,
            &[KEYSERVER, CHANNEL, CLI, DAEMON],
        )
    },
    Layer::new(
        DHT,
        "crates/split/tandem-dht",
        Kind::Adapter,
        &[SPLIT_IO, BARNRAISING, CHANNEL, DAEMON],
    ),
    Layer::new(
        BROKER_DNS,
        "crates/split/tandem-broker-dns",
        Kind::Adapter,
        &[BARNRAISING, FILE, WIRE],
    ),
    Layer::new(
        BROKER,
        "crates/split/tandem-broker",
        Kind::Adapter,
        &[BROKER_DNS, SPLIT_IO, BARNRAISING, CHANNEL, DAEMON, WIRE],
    ),
    Layer::new(
        SPLIT_DEMO,
        "crates/split/tandem-split-demo",
        Kind::Adapter,
        &[BROKER, SPLIT_IO, BARNRAISING, CHANNEL, DAEMON],
    ),
    Layer {
        tests_may_use: &[CHANNEL, TESTBED, NETSIM, STATUS],
        ..Layer::new(
            "tandem",
            "crates/tandem",
            Kind::Program,
            &[
                SPLIT_DEMO,
                SHARED_STORE,
                BROKER_DNS,
                BROKER,
                DHT,
                SPLIT_IO,
                BARNRAISING,
                CLI,
                DAEMON,
                FILE,
                TUNNEL_IO,
                TUNNEL,
                PAIR,
                IO,
                FIREWALL,
                ESTIMATE,
                STORE_SQLITE,
                STORE,
                WIRE,
            ],
        )
    },
    Layer {
        tests_may_use: &[SEAL, WIRE],
        ..Layer::new(
            "tandem-keytap",
            "crates/proxy/tandem-keytap",
            Kind::Adapter,
            &[KEY_LOG, RECORD_KEY],
        )
    },
    Layer::new(
        "tandem-key-relay",
        "crates/proxy/tandem-key-relay",
        Kind::Program,
        &[CHANNEL, CLI, DAEMON, KEY_LOG, KEY_SOCKET, LINK, RECORD_KEY],
    ),
    Layer::new("xtask", "xtask", Kind::Program, &[]),
];

/// The row of the crate with this name.
pub(crate) fn layer(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_point_to_lower_rows_only() {
        for (row, layer) in LAYERS.iter().enumerate() {
            for used in layer.may_use.iter().chain(layer.tests_may_use) {
                let lower = LAYERS[..row].iter().any(|other| other.name == *used);
                assert!(
                    lower,
                    "{} may not use {used}: it does not stand below",
                    layer.name
                );
            }
        }
    }

    #[test]
    fn a_core_uses_cores_only() {
        for core in LAYERS.iter().filter(|layer| layer.kind == Kind::Core) {
            for used in core.may_use.iter().chain(core.tests_may_use) {
                assert_eq!(
                    layer(used).map(|used| used.kind),
                    Some(Kind::Core),
                    "{}",
                    core.name
                );
            }
        }
    }
}
