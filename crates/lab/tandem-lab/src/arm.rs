//! What stands between the endpoints in an experiment, or what they do instead, so that arms can be
//! compared.
//!
//! Most arms leave the ends alone. The *peers* change them: they are what endpoints can do without
//! proxies, session resumption and compressed certificates.

use serde::{Deserialize, Serialize};

use crate::endpoints::{Certificates, ClientProgram, Endpoints, ServerProgram, Sessions, Version};
use crate::proxies::{Mode, Strategy};

/// One way to carry the same handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Routed: the gateways forward and do nothing else.
    Plain,
    /// Both daemons take every packet into the queue and let it go untouched.
    PassThrough,
    /// Packet mode in the safe format; the client side holds the chain (one handshake went before).
    /// Of clients' own chains the client side remembers what has passed (`persistent`).
    Packet,
    /// The same with clients that announce their chains (`cii`).
    PacketCii,
    /// The same with a filter that the server side publishes (`filter`).
    PacketFilter,
    /// The same with clients' chains left as they are (`none`).
    PacketNone,
    /// The same with empty stores before every trial: first contact.
    PacketCold,
    /// Packet mode in the thesis's format; the client side holds the chain. Clients announce
    /// theirs, as in the thesis.
    PacketMcveety,
    /// A peer, routed: the client returns with a ticket (RFC 5077), so that the handshake is an
    /// abbreviated one.
    Resumption,
    /// A peer, routed: the client returns with a session identifier that the server remembers (RFC
    /// 5246, section 7.3).
    ResumptionId,
    /// The client returns with a ticket, and packet mode in the safe format is in between. Each
    /// trial is a second visit.
    PacketResumption,
    /// Routed, TLS 1.3: what RFC 8879 is to be compared with.
    Tls13,
    /// A peer, routed: TLS 1.3, and both ends compress certificates with Brotli (RFC 8879).
    Rfc8879,
}

impl Arm {
    /// Every arm, in the order of tables.
    pub const ALL: [Arm; 13] = [
        Arm::Plain,
        Arm::PassThrough,
        Arm::PacketCold,
        Arm::PacketNone,
        Arm::Packet,
        Arm::PacketCii,
        Arm::PacketFilter,
        Arm::PacketMcveety,
        Arm::Resumption,
        Arm::ResumptionId,
        Arm::PacketResumption,
        Arm::Tls13,
        Arm::Rfc8879,
    ];

    /// As files and tables say it.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Plain => "plain",
            Arm::PassThrough => "pass-through",
            Arm::Packet => "packet",
            Arm::PacketCold => "packet-cold",
            Arm::PacketCii => "packet-cii",
            Arm::PacketFilter => "packet-filter",
            Arm::PacketNone => "packet-none",
            Arm::PacketMcveety => "packet-mcveety",
            Arm::Resumption => "resumption",
            Arm::ResumptionId => "resumption-id",
            Arm::PacketResumption => "packet-resumption",
            Arm::Tls13 => "tls13",
            Arm::Rfc8879 => "rfc8879",
        }
    }

    /// What the daemons do; `None` where there are none.
    pub(crate) fn mode(self) -> Option<Mode> {
        match self {
            Arm::Plain | Arm::Resumption | Arm::ResumptionId | Arm::Tls13 | Arm::Rfc8879 => None,
            Arm::PassThrough => Some(Mode::PassThrough),
            Arm::Packet
            | Arm::PacketCold
            | Arm::PacketCii
            | Arm::PacketFilter
            | Arm::PacketNone
            | Arm::PacketResumption => Some(Mode::Safe),
            Arm::PacketMcveety => Some(Mode::Mcveety),
        }
    }

    /// What the daemons do with clients' own chains.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Arm::Plain
            | Arm::PassThrough
            | Arm::Packet
            | Arm::PacketCold
            | Arm::Resumption
            | Arm::ResumptionId
            | Arm::PacketResumption
            | Arm::Tls13
            | Arm::Rfc8879 => Strategy::Persistent,
            Arm::PacketCii | Arm::PacketMcveety => Strategy::Cii,
            Arm::PacketFilter => Strategy::Filter,
            Arm::PacketNone => Strategy::None,
        }
    }

    /// What the stores hold when a trial begins.
    pub(crate) fn store(self) -> StoreState {
        match self {
            Arm::Plain
            | Arm::PassThrough
            | Arm::Resumption
            | Arm::ResumptionId
            | Arm::Tls13
            | Arm::Rfc8879 => StoreState::None,
            Arm::PacketCold => StoreState::Cold,
            Arm::Packet
            | Arm::PacketCii
            | Arm::PacketFilter
            | Arm::PacketNone
            | Arm::PacketMcveety
            | Arm::PacketResumption => StoreState::Warm,
        }
    }

    /// Whether it is here for comparison: what endpoints can do by themselves, or do through the
    /// proxies as well.
    pub(crate) fn is_peer(self) -> bool {
        match self {
            Arm::Plain
            | Arm::PassThrough
            | Arm::Packet
            | Arm::PacketCold
            | Arm::PacketCii
            | Arm::PacketFilter
            | Arm::PacketNone
            | Arm::PacketMcveety => false,
            Arm::Resumption
            | Arm::ResumptionId
            | Arm::PacketResumption
            | Arm::Tls13
            | Arm::Rfc8879 => true,
        }
    }

    /// What the ends do in this arm, where a file has them do `usual`.
    pub(crate) fn endpoints(self, usual: &Endpoints) -> Endpoints {
        let mut endpoints = usual.clone();
        match self {
            Arm::Plain
            | Arm::PassThrough
            | Arm::Packet
            | Arm::PacketCold
            | Arm::PacketCii
            | Arm::PacketFilter
            | Arm::PacketNone
            | Arm::PacketMcveety => {}
            Arm::Resumption | Arm::PacketResumption => endpoints.sessions = Sessions::Tickets,
            Arm::ResumptionId => endpoints.sessions = Sessions::Identifiers,
            Arm::Tls13 => endpoints.version = Version::Tls13,
            Arm::Rfc8879 => {
                endpoints.version = Version::Tls13;
                endpoints.certificates = Certificates::Compressed;
            }
        }
        endpoints
    }

    /// Why these endpoints cannot do it; `None` where they can.
    pub(crate) fn obstacle(self, usual: &Endpoints) -> Option<&'static str> {
        match self {
            Arm::Plain
            | Arm::PassThrough
            | Arm::Packet
            | Arm::PacketCold
            | Arm::PacketCii
            | Arm::PacketFilter
            | Arm::PacketNone
            | Arm::PacketMcveety => None,
            Arm::Resumption | Arm::ResumptionId | Arm::PacketResumption => {
                let can = usual.client == ClientProgram::SClient
                    && usual.server == ServerProgram::Nginx
                    && usual.version != Version::Tls13;
                (!can).then_some("needs s_client, which can keep a session, nginx and TLS 1.2")
            }
            Arm::Tls13 => usual
                .suites
                .is_some()
                .then_some("has no use for cipher suites of TLS 1.2"),
            Arm::Rfc8879 => {
                let can =
                    usual.client == ClientProgram::Rustls && usual.server == ServerProgram::Rustls;
                (!can).then_some("needs rustls at both ends")
            }
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
