//! What stands between the endpoints in an experiment, so that arms can be compared.

use serde::{Deserialize, Serialize};

use crate::proxies::Mode;

/// One way to carry the same handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Routed: the gateways forward and do nothing else.
    Plain,
    /// Both daemons take every packet into the queue and let it go untouched.
    PassThrough,
    /// Packet mode in the safe format; the client side holds the chain (one handshake went before).
    Packet,
    /// The same with empty stores before every trial: first contact.
    PacketCold,
    /// Packet mode in the thesis's format; the client side holds the chain.
    PacketMcveety,
}

impl Arm {
    /// Every arm, in the order of tables.
    pub const ALL: [Arm; 5] = [
        Arm::Plain,
        Arm::PassThrough,
        Arm::PacketCold,
        Arm::Packet,
        Arm::PacketMcveety,
    ];

    /// As files and tables say it.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Plain => "plain",
            Arm::PassThrough => "pass-through",
            Arm::Packet => "packet",
            Arm::PacketCold => "packet-cold",
            Arm::PacketMcveety => "packet-mcveety",
        }
    }

    /// What the daemons do; `None` where there are none.
    pub(crate) fn mode(self) -> Option<Mode> {
        match self {
            Arm::Plain => None,
            Arm::PassThrough => Some(Mode::PassThrough),
            Arm::Packet | Arm::PacketCold => Some(Mode::Safe),
            Arm::PacketMcveety => Some(Mode::Mcveety),
        }
    }

    /// What the stores hold when a trial begins.
    pub(crate) fn store(self) -> StoreState {
        match self {
            Arm::Plain | Arm::PassThrough => StoreState::None,
            Arm::PacketCold => StoreState::Cold,
            Arm::Packet | Arm::PacketMcveety => StoreState::Warm,
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
