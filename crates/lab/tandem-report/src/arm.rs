//! The arms of experiments: ways to carry the same handshake, which are compared. One row of a
//! table each.
//!
//! Is not: how an arm is carried out; the lab has a table of its own for that.
//!
//! Colours are Okabe and Ito's (Color Universal Design, 2008), which most colour-blind readers can
//! tell apart, and a grey for plain; shades of our own for the peers. Marks and labels say the same
//! without colour. An arm looks the same in every plot and table.

use serde::{Deserialize, Serialize};

use crate::svg::Shape;

/// One way to carry the same handshake, in the order of tables.
///
/// Most arms leave the endpoints alone. The *peers* are what else could be done: by the endpoints
/// without proxies, or through the proxies as well, and by other proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Routed: the gateways forward and do nothing else.
    Plain,
    /// Both daemons take every packet into the queue and let it go untouched.
    PassThrough,
    /// Packet mode in the safe format with empty stores before every trial: first contact.
    PacketCold,
    /// As [`Arm::Packet`], with clients' own chains left as they are (`none`).
    PacketNone,
    /// Packet mode in the safe format; the client side holds the chain (one handshake went before).
    /// Of clients' own chains the client side remembers what has passed (`persistent`).
    Packet,
    /// The same with clients that announce their chains (`cii`).
    PacketCii,
    /// The same with a filter that the server side publishes (`filter`).
    PacketFilter,
    /// Packet mode in the thesis's format; the client side holds the chain. Clients announce
    /// theirs, as in the thesis.
    PacketMcveety,
    /// Tunnel mode: the connection between the proxies is up, and the client side holds the chain
    /// (one handshake went before).
    Tunnel,
    /// As [`Arm::Tunnel`], after a rest in which every timer of the daemons and of their hosts has
    /// run out: the first data after an hour.
    TunnelAsleep,
    /// Tunnel mode with daemons that have just been started and hold nothing: the connection
    /// between them is set up within the trial.
    TunnelCold,
    /// A tunnel of the same proxies that carries every byte as it is: what QUIC brings alone. The
    /// connection between them is up.
    Quic,
    /// OpenSSH with compression between the gateways forwards the connections. Its own connection
    /// is up, and one handshake with the server went through it.
    Ssh,
    /// One QUIC stream between the gateways carries the connections, and zstd compresses it as a
    /// whole. Its connection is up, and one handshake with the server went through it.
    QuicZstd,
    /// Hysteria 2 between the gateways, likewise.
    Hysteria,
    /// WireGuard between the gateways: packets cross encrypted, the endpoints' own TCP in them. One
    /// handshake with the server went through it.
    Wireguard,
    /// Routed: the client returns with a ticket (RFC 5077), so that the handshake is an abbreviated
    /// one.
    Resumption,
    /// Routed: the client returns with a session identifier that the server remembers (RFC 5246,
    /// section 7.3).
    ResumptionId,
    /// The client returns with a ticket, and packet mode in the safe format is in between. Each
    /// trial is a second visit.
    PacketResumption,
    /// Routed, TLS 1.3: what RFC 8879 is to be compared with.
    Tls13,
    /// TLS 1.3, and packet mode in the safe format is in between.
    PacketTls13,
    /// TLS 1.3 through the tunnel, as [`Arm::Tunnel`].
    TunnelTls13,
    /// The same with a server that releases its handshake keys to the server side.
    TunnelConsent,
    /// The same with a client that releases them to the client side, and a server that does not.
    /// They are asked for where that is faster: `--prefer time`.
    TunnelClientConsent,
    /// The same, and they are asked for wherever that spares bytes: `--prefer bytes`.
    TunnelClientBytes,
    /// Routed: TLS 1.3, and both ends compress certificates with Brotli (RFC 8879).
    Rfc8879,
}

/// What the proxies' stores hold when a trial begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreState {
    /// There is no store in use.
    None,
    /// Nothing.
    Cold,
    /// What a handshake with the same server left there.
    Warm,
}

/// How an arm looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// For areas, lines and marks; never for text.
    pub colour: &'static str,
    /// For points.
    pub shape: Shape,
    /// What readers call it.
    pub label: &'static str,
}

/// What is compared with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The endpoints do what they always do; daemons may be in between.
    Usual,
    /// The endpoints do something else, or the proxies are not Tandem as it is.
    Peer,
}

/// Whether there are daemons in between, and what the link carries with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// None.
    Routed,
    /// The endpoints' own TCP connection crosses.
    Proxies,
    /// The endpoints' TCP ends at the daemons; what crosses is the daemons' own, and sealed.
    Tunnel,
}

/// An arm's row.
struct Row {
    arm: Arm,
    name: &'static str,
    kind: Kind,
    between: Between,
    store: StoreState,
    needs: &'static str,
    look: Look,
}

const fn look(colour: &'static str, shape: Shape, label: &'static str) -> Look {
    Look {
        colour,
        shape,
        label,
    }
}

/// What a warm arm takes.
const EARLIER: &str = "proxies; an earlier handshake of any client behind them with this server";

/// The table.
const ROWS: [Row; Arm::COUNT] = [
    Row {
        arm: Arm::Plain,
        name: "plain",
        kind: Kind::Usual,
        between: Between::Routed,
        store: StoreState::None,
        needs: "nothing",
        look: look("#7F7F7F", Shape::Square, "plain (routed)"),
    },
    Row {
        arm: Arm::PassThrough,
        name: "pass-through",
        kind: Kind::Usual,
        between: Between::Proxies,
        store: StoreState::None,
        needs: "proxies, which do nothing",
        look: look("#CC79A7", Shape::Diamond, "pass-through queue"),
    },
    Row {
        arm: Arm::PacketCold,
        name: "packet-cold",
        kind: Kind::Usual,
        between: Between::Proxies,
        store: StoreState::Cold,
        needs: "proxies; first contact of anybody behind them",
        look: look("#56B4E9", Shape::Ring, "packet, cold"),
    },
    Row {
        arm: Arm::PacketNone,
        name: "packet-none",
        kind: Kind::Usual,
        between: Between::Proxies,
        store: StoreState::Warm,
        needs: EARLIER,
        look: look("#D55E00", Shape::Plus, "packet, clients’ chains left"),
    },
    Row {
        arm: Arm::Packet,
        name: "packet",
        kind: Kind::Usual,
        between: Between::Proxies,
        store: StoreState::Warm,
        needs: EARLIER,
        look: look("#0072B2", Shape::Disc, "packet, warm"),
    },
    Row {
        arm: Arm::PacketCii,
        name: "packet-cii",
        kind: Kind::Usual,
        between: Between::Proxies,
        store: StoreState::Warm,
        needs: EARLIER,
        look: look("#009E73", Shape::Wedge, "packet, announced (cii)"),
    },
    Row {
        arm: Arm::PacketFilter,
        name: "packet-filter",
        kind: Kind::Usual,
        between: Between::Proxies,
        store: StoreState::Warm,
        needs: EARLIER,
        look: look("#882255", Shape::Post, "packet, filter"),
    },
    Row {
        arm: Arm::PacketMcveety,
        name: "packet-mcveety",
        kind: Kind::Usual,
        between: Between::Proxies,
        store: StoreState::Warm,
        needs: EARLIER,
        look: look("#E69F00", Shape::Triangle, "packet, thesis's format"),
    },
    Row {
        arm: Arm::Tunnel,
        name: "tunnel",
        kind: Kind::Usual,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "proxies with a tunnel that is up; an earlier handshake of any client behind them with this server",
        look: look("#5D3A9B", Shape::Pentagon, "tunnel, awake and warm"),
    },
    Row {
        arm: Arm::TunnelAsleep,
        name: "tunnel-asleep",
        kind: Kind::Usual,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "as awake; nothing has crossed the link for more than two minutes",
        look: look("#C2185B", Shape::Moon, "tunnel, asleep and warm"),
    },
    Row {
        arm: Arm::TunnelCold,
        name: "tunnel-cold",
        kind: Kind::Usual,
        between: Between::Tunnel,
        store: StoreState::Cold,
        needs: "proxies that have just been started; the tunnel's set-up is counted",
        look: look(
            "#B58BE0",
            Shape::PentagonRing,
            "tunnel, cold, set-up counted",
        ),
    },
    Row {
        arm: Arm::Quic,
        name: "quic",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "proxies with a QUIC connection that is up; every byte crosses as it is",
        look: look("#00838F", Shape::MoonRing, "QUIC alone, no deltas"),
    },
    Row {
        arm: Arm::Ssh,
        name: "ssh",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "OpenSSH at both gateways, its connection up and compressed; what went before is in its window of 32 KiB",
        look: look("#8D6E00", Shape::Bar, "OpenSSH, compressed"),
    },
    Row {
        arm: Arm::QuicZstd,
        name: "quic-zstd",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "a program at both gateways, its QUIC connection up; what went before is in zstd's window of 8 MiB",
        look: look("#2F6B2F", Shape::Star, "QUIC, compressed with zstd"),
    },
    Row {
        arm: Arm::Hysteria,
        name: "hysteria",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "Hysteria 2 at both gateways, its connection up; every byte crosses as it is",
        look: look("#B0413E", Shape::StarRing, "Hysteria 2"),
    },
    Row {
        arm: Arm::Wireguard,
        name: "wireguard",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "WireGuard at both gateways; every packet crosses as it is, encrypted",
        look: look("#5B6770", Shape::Tower, "WireGuard"),
    },
    Row {
        arm: Arm::Resumption,
        name: "resumption",
        kind: Kind::Peer,
        between: Between::Routed,
        store: StoreState::None,
        needs: "an earlier visit of this client, which keeps the server's ticket; tickets expire",
        look: look("#44AA66", Shape::SquareRing, "resumption, ticket"),
    },
    Row {
        arm: Arm::ResumptionId,
        name: "resumption-id",
        kind: Kind::Peer,
        between: Between::Routed,
        store: StoreState::None,
        needs: "an earlier visit of this client; the server keeps every session",
        look: look("#F0E442", Shape::DiamondRing, "resumption, session id"),
    },
    Row {
        arm: Arm::PacketResumption,
        name: "packet-resumption",
        kind: Kind::Peer,
        between: Between::Proxies,
        store: StoreState::Warm,
        needs: "as by ticket, and proxies: what they still find to save",
        look: look("#004A73", Shape::TriangleRing, "resumption, ticket, packet"),
    },
    Row {
        arm: Arm::Tls13,
        name: "tls13",
        kind: Kind::Peer,
        between: Between::Routed,
        store: StoreState::None,
        needs: "TLS 1.3 at both ends; certificates are encrypted, so packet mode leaves them",
        look: look("#333333", Shape::Cross, "TLS 1.3"),
    },
    Row {
        arm: Arm::PacketTls13,
        name: "packet-tls13",
        kind: Kind::Peer,
        between: Between::Proxies,
        store: StoreState::Warm,
        needs: "TLS 1.3 at both ends, and proxies: they find nothing to save, and show themselves",
        look: look("#8888CC", Shape::WedgeRing, "TLS 1.3, packet"),
    },
    Row {
        arm: Arm::TunnelTls13,
        name: "tunnel-tls13",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "TLS 1.3 at both ends, and a tunnel that is up; certificates cross, encrypted",
        look: look("#A15FB0", Shape::HexagonRing, "TLS 1.3, tunnel"),
    },
    Row {
        arm: Arm::TunnelConsent,
        name: "tunnel-consent",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "the same, and a server that releases its handshake keys; an earlier handshake with it",
        look: look("#6A0DAD", Shape::Hexagon, "TLS 1.3, tunnel, server agrees"),
    },
    Row {
        arm: Arm::TunnelClientConsent,
        name: "tunnel-client-consent",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "the same, and a client that releases its handshake keys; two earlier handshakes with that \
                server; a round trip more where that is faster",
        look: look("#1B7FBD", Shape::Chevron, "TLS 1.3, tunnel, client agrees"),
    },
    Row {
        arm: Arm::TunnelClientBytes,
        name: "tunnel-client-bytes",
        kind: Kind::Peer,
        between: Between::Tunnel,
        store: StoreState::Warm,
        needs: "the same; a round trip more wherever that spares bytes",
        look: look(
            "#0B4F6C",
            Shape::Tick,
            "TLS 1.3, tunnel, client agrees, for bytes",
        ),
    },
    Row {
        arm: Arm::Rfc8879,
        name: "rfc8879",
        kind: Kind::Peer,
        between: Between::Routed,
        store: StoreState::None,
        needs: "TLS 1.3 and RFC 8879 at both ends; works at first contact",
        look: look("#9C6644", Shape::Dash, "TLS 1.3, RFC 8879"),
    },
];

// A row stands at its arm's place.
const _: () = {
    let mut place = 0;
    while place < ROWS.len() {
        assert!(ROWS[place].arm as usize == place);
        place += 1;
    }
};

impl Arm {
    const COUNT: usize = Arm::Rfc8879 as usize + 1;

    /// Every arm, in the order of tables.
    pub const ALL: [Arm; Arm::COUNT] = {
        let mut all = [Arm::Plain; Arm::COUNT];
        let mut place = 0;
        while place < Arm::COUNT {
            all[place] = ROWS[place].arm;
            place += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        const { &ROWS }
            .get(self as usize)
            .expect("each arm has a row at its place")
    }

    /// As files and tables say it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What the stores hold when a trial begins.
    pub fn store(self) -> StoreState {
        self.row().store
    }

    /// Whether it is here for comparison: what endpoints can do by themselves, or do through the
    /// proxies as well, and what other proxies do.
    pub fn is_peer(self) -> bool {
        self.row().kind == Kind::Peer
    }

    /// Whether daemons are in between.
    pub fn has_proxies(self) -> bool {
        match self.row().between {
            Between::Routed => false,
            Between::Proxies | Between::Tunnel => true,
        }
    }

    /// Whether the endpoints' TCP ends at the daemons. The link then carries nothing in which their
    /// TLS could be seen.
    pub fn is_tunnel(self) -> bool {
        self.row().between == Between::Tunnel
    }

    /// What it takes besides a client and a server.
    pub(crate) fn needs(self) -> &'static str {
        self.row().needs
    }

    pub(crate) fn look(self) -> Look {
        self.row().look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        for arm in Arm::ALL {
            let name = serde_json::to_string(&arm).expect("a name");
            assert_eq!(name, format!("{:?}", arm.name()));
        }
    }

    #[test]
    fn no_two_arms_look_alike() {
        for (index, arm) in Arm::ALL.into_iter().enumerate() {
            for other in Arm::ALL.into_iter().skip(index + 1) {
                let (a, b) = (arm.look(), other.look());
                assert!(
                    a.colour != b.colour && a.shape != b.shape && a.label != b.label,
                    "{arm:?}, {other:?}"
                );
            }
        }
    }
}
