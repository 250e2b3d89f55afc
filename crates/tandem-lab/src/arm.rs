//! What stands between the endpoints in an experiment, so that arms can be compared.

use serde::{Deserialize, Serialize};

use crate::proxies::{Mode, Strategy};

/// One way to carry the same handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Routed: the gateways forward and do nothing else.
    Plain,
    /// Both daemons take every packet into the queue and let it go untouched.
    PassThrough,
    /// Packet mode in the safe format; the client side holds the chain (one handshake went before). Of clients' own chains the client
    /// side remembers what has passed (`persistent`).
    Packet,
    /// The same with clients that announce their chains (`cii`).
    PacketCii,
    /// The same with clients' chains left as they are (`none`).
    PacketNone,
    /// The same with empty stores before every trial: first contact.
    PacketCold,
    /// Packet mode in the thesis's format; the client side holds the chain. Clients announce theirs, as in the thesis.
    PacketMcveety,
}

impl Arm {
    /// Every arm, in the order of tables.
    pub const ALL: [Arm; 7] = [
        Arm::Plain,
        Arm::PassThrough,
        Arm::PacketCold,
        Arm::PacketNone,
        Arm::Packet,
        Arm::PacketCii,
        Arm::PacketMcveety,
    ];

    /// As files and tables say it.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Plain => "plain",
            Arm::PassThrough => "pass-through",
            Arm::Packet => "packet",
            Arm::PacketCold => "packet-cold",
            Arm::PacketCii => "packet-cii",
            Arm::PacketNone => "packet-none",
            Arm::PacketMcveety => "packet-mcveety",
        }
    }

    /// What the daemons do; `None` where there are none.
    pub(crate) fn mode(self) -> Option<Mode> {
        match self {
            Arm::Plain => None,
            Arm::PassThrough => Some(Mode::PassThrough),
            Arm::Packet | Arm::PacketCold | Arm::PacketCii | Arm::PacketNone => Some(Mode::Safe),
            Arm::PacketMcveety => Some(Mode::Mcveety),
        }
    }

    /// What the daemons do with clients' own chains.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Arm::Plain | Arm::PassThrough | Arm::Packet | Arm::PacketCold => Strategy::Persistent,
            Arm::PacketCii | Arm::PacketMcveety => Strategy::Cii,
            Arm::PacketNone => Strategy::None,
        }
    }

    /// What the stores hold when a trial begins.
    pub(crate) fn store(self) -> StoreState {
        match self {
            Arm::Plain | Arm::PassThrough => StoreState::None,
            Arm::PacketCold => StoreState::Cold,
            Arm::Packet | Arm::PacketCii | Arm::PacketNone | Arm::PacketMcveety => StoreState::Warm,
        }
    }
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
