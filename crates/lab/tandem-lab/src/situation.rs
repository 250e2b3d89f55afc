//! The cases of the thesis's table 2.2, and the assumptions behind them, as situations that an
//! experiment can put a connection in.
//!
//! A situation says who has seen what before, which way the connection goes, and what happens at
//! one moment: when the server has the whole ClientHello and has not answered yet. At that moment
//! the server program stands still, so that what happens then has happened before a byte of the
//! answer, whatever the machine's load.
//!
//! Is not: the doing of it, which is `stage`.
//!
//! Specification: McVeety 2009, section 2.3.4.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::topology::{Gateways, Place};

/// What may be the matter with the proxies, or with what the server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Situation {
    /// Table 2.2: the client side holds the chain.
    #[serde(rename = "case-0")]
    Case0,
    /// The reply comes through another client side, which holds the chain too.
    #[serde(rename = "case-1")]
    Case1,
    /// The client side holds nothing.
    #[serde(rename = "case-2")]
    Case2,
    /// The client side claims the chain and has lost it.
    #[serde(rename = "case-3")]
    Case3,
    /// The reply comes through another client side, which does not hold the chain.
    #[serde(rename = "case-4")]
    Case4,
    /// The server side is killed and comes back with nothing, between hello and reply.
    #[serde(rename = "case-5")]
    Case5,
    /// The client side is killed and comes back with its store, between hello and reply.
    ClientSideResets,
    /// The reply leaves by another server side.
    ReplyByOtherServerSide,
    /// The client side has moved to another server side since it learned the chain.
    Roamed,
    /// A second client side on the same server side, each with a store of its own.
    SecondClientSide,
    /// The server has a new leaf by the same issuers.
    ChangedCertificate,
    /// The name is served by an RSA and an ECDSA chain.
    TwoCertificates,
    /// The client names no server.
    NoServerName,
    /// Two names with a chain each at one address.
    VirtualHosts,
    /// The leaf has expired, and the client does not mind.
    Expired,
}

/// What is done in a situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The hosts that it takes.
    pub(crate) gateways: Gateways,
    /// Connections that are not measured, for the stores to learn from. First of all stores are
    /// empty.
    pub(crate) before: &'static [Visit],
    /// How often they are made.
    pub(crate) renewed: Renewed,
    /// The measured connection.
    pub(crate) visit: Visit,
    /// What happens when the server has the hello.
    pub(crate) harm: Harm,
    /// Whether the client sides have lost what they claim.
    pub(crate) stores: Stores,
}

/// One connection: which way, to what, asked how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) client_side: Place,
    pub(crate) server_side: Place,
    pub(crate) shown: Shown,
    pub(crate) asked: Asked,
}

/// What the server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The chain of the experiment's endpoints.
    Usual,
    /// Another leaf by the same issuers, under the same name.
    Renewed,
    /// A chain of the other kind of key, under the same name.
    OtherKey,
    /// Two names, each with a chain of its own.
    TwoNames,
    /// A chain whose leaf has expired.
    Expired,
}

/// What the client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The usual name.
    Usual,
    /// The second one of [`Shown::TwoNames`].
    Second,
    /// The usual server, without naming it.
    Nobody,
}

/// How often the stores are emptied and the connections before made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// Once: a trial changes nothing that matters to the next.
    Once,
    /// Before each trial.
    Always,
}

/// What happens when the server has the hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// Nothing.
    None,
    /// The link leads to the other client side from here on.
    ReplyThroughOtherClientSide,
    /// The server's answers leave by the other server side from here on.
    ReplyByOtherServerSide,
    /// SIGKILL, and a new start with its store.
    ClientSideResets,
    /// SIGKILL, and a new start with an empty store.
    ServerSideResets,
}

/// What the client sides can do with what they know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Everything.
    Whole,
    /// Name it, and no more.
    NamesOnly,
}

const VISIT: Visit = Visit {
    client_side: Place::First,
    server_side: Place::First,
    shown: Shown::Usual,
    asked: Asked::Usual,
};

const THROUGH_OTHER: Visit = Visit {
    client_side: Place::Other,
    ..VISIT
};

const PLAN: Plan = Plan {
    gateways: Gateways::One,
    before: &[VISIT],
    renewed: Renewed::Once,
    visit: VISIT,
    harm: Harm::None,
    stores: Stores::Whole,
};

impl Situation {
    /// All of them, in the order of tables.
    pub const ALL: [Situation; 15] = [
        Situation::Case0,
        Situation::Case1,
        Situation::Case2,
        Situation::Case3,
        Situation::Case4,
        Situation::Case5,
        Situation::ClientSideResets,
        Situation::ReplyByOtherServerSide,
        Situation::Roamed,
        Situation::SecondClientSide,
        Situation::ChangedCertificate,
        Situation::TwoCertificates,
        Situation::NoServerName,
        Situation::VirtualHosts,
        Situation::Expired,
    ];

    /// As files and tables say it.
    pub fn name(self) -> &'static str {
        match self {
            Situation::Case0 => "case-0",
            Situation::Case1 => "case-1",
            Situation::Case2 => "case-2",
            Situation::Case3 => "case-3",
            Situation::Case4 => "case-4",
            Situation::Case5 => "case-5",
            Situation::ClientSideResets => "client-side-resets",
            Situation::ReplyByOtherServerSide => "reply-by-other-server-side",
            Situation::Roamed => "roamed",
            Situation::SecondClientSide => "second-client-side",
            Situation::ChangedCertificate => "changed-certificate",
            Situation::TwoCertificates => "two-certificates",
            Situation::NoServerName => "no-server-name",
            Situation::VirtualHosts => "virtual-hosts",
            Situation::Expired => "expired",
        }
    }

    /// In a few words. A and A' are client sides, B and B' server sides, Z is the chain, as in the
    /// thesis.
    pub fn about(self) -> &'static str {
        match self {
            Situation::Case0 => "A holds Z",
            Situation::Case1 => "the reply comes through A', which holds Z",
            Situation::Case2 => "A does not hold Z",
            Situation::Case3 => "A claims Z and has lost it",
            Situation::Case4 => "the reply comes through A', which does not hold Z",
            Situation::Case5 => "B is killed between hello and reply, and comes back with nothing",
            Situation::ClientSideResets => {
                "A is killed between hello and reply, and comes back with its store"
            }
            Situation::ReplyByOtherServerSide => "the reply leaves by B'; A holds Z",
            Situation::Roamed => "A, which holds Z, has moved from B to B'",
            Situation::SecondClientSide => "A and A' on one B, each with a store of its own",
            Situation::ChangedCertificate => {
                "A holds Z; the server has a new leaf by the same issuers"
            }
            Situation::TwoCertificates => "the name has an RSA and an ECDSA chain; A holds both",
            Situation::NoServerName => "the client names no server; A knows Z by the address",
            Situation::VirtualHosts => "two names with a chain each at one address; A holds both",
            Situation::Expired => "Z's leaf has expired; A has seen it",
        }
    }

    /// Whether it is known that wrong bytes reach the client's TCP, so that a trial is no mistake
    /// that differs or fails: a client side that meets a flow in its middle hands the thesis's
    /// reference on, where it waits out of order. Linux puts the server's repeat in its place;
    /// no standard says that a TCP must.
    pub fn may_fail(self, arm: Arm) -> bool {
        match (self, arm) {
            (
                Situation::Case1 | Situation::Case4 | Situation::ClientSideResets,
                Arm::PacketMcveety,
            ) => true,
            (
                Situation::Case0
                | Situation::Case1
                | Situation::Case2
                | Situation::Case3
                | Situation::Case4
                | Situation::Case5
                | Situation::ClientSideResets
                | Situation::ReplyByOtherServerSide
                | Situation::Roamed
                | Situation::SecondClientSide
                | Situation::ChangedCertificate
                | Situation::TwoCertificates
                | Situation::NoServerName
                | Situation::VirtualHosts
                | Situation::Expired,
                Arm::Plain
                | Arm::PassThrough
                | Arm::PacketCold
                | Arm::Packet
                | Arm::PacketCii
                | Arm::PacketFilter
                | Arm::PacketNone
                | Arm::PacketMcveety
                | Arm::Resumption
                | Arm::ResumptionId
                | Arm::PacketResumption
                | Arm::Tls13
                | Arm::Rfc8879,
            ) => false,
        }
    }

    /// What is to be done.
    pub(crate) fn plan(self) -> Plan {
        match self {
            Situation::Case0 => PLAN,
            Situation::Case1 => Plan {
                gateways: Gateways::Two,
                before: &[VISIT, THROUGH_OTHER],
                harm: Harm::ReplyThroughOtherClientSide,
                ..PLAN
            },
            Situation::Case2 => Plan {
                before: &[],
                renewed: Renewed::Always,
                ..PLAN
            },
            Situation::Case3 => Plan {
                stores: Stores::NamesOnly,
                ..PLAN
            },
            Situation::Case4 => Plan {
                gateways: Gateways::Two,
                harm: Harm::ReplyThroughOtherClientSide,
                ..PLAN
            },
            Situation::Case5 => Plan {
                harm: Harm::ServerSideResets,
                ..PLAN
            },
            Situation::ClientSideResets => Plan {
                harm: Harm::ClientSideResets,
                ..PLAN
            },
            Situation::ReplyByOtherServerSide => Plan {
                gateways: Gateways::Two,
                harm: Harm::ReplyByOtherServerSide,
                ..PLAN
            },
            Situation::Roamed => Plan {
                gateways: Gateways::Two,
                visit: Visit {
                    server_side: Place::Other,
                    ..VISIT
                },
                ..PLAN
            },
            Situation::SecondClientSide => Plan {
                gateways: Gateways::Two,
                before: &[VISIT, THROUGH_OTHER],
                visit: THROUGH_OTHER,
                ..PLAN
            },
            Situation::ChangedCertificate => Plan {
                renewed: Renewed::Always,
                visit: Visit {
                    shown: Shown::Renewed,
                    ..VISIT
                },
                ..PLAN
            },
            Situation::TwoCertificates => Plan {
                before: &[
                    VISIT,
                    Visit {
                        shown: Shown::OtherKey,
                        ..VISIT
                    },
                ],
                ..PLAN
            },
            Situation::NoServerName => {
                const NAMELESS: Visit = Visit {
                    asked: Asked::Nobody,
                    ..VISIT
                };
                Plan {
                    before: &[NAMELESS],
                    visit: NAMELESS,
                    ..PLAN
                }
            }
            Situation::VirtualHosts => {
                const FIRST: Visit = Visit {
                    shown: Shown::TwoNames,
                    ..VISIT
                };
                Plan {
                    before: &[
                        FIRST,
                        Visit {
                            asked: Asked::Second,
                            ..FIRST
                        },
                    ],
                    visit: FIRST,
                    ..PLAN
                }
            }
            Situation::Expired => {
                const EXPIRED: Visit = Visit {
                    shown: Shown::Expired,
                    ..VISIT
                };
                Plan {
                    before: &[EXPIRED],
                    visit: EXPIRED,
                    ..PLAN
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        for situation in Situation::ALL {
            let name = serde_json::to_string(&situation).unwrap_or_default();
            assert_eq!(name, format!("{:?}", situation.name()));
        }
    }

    #[test]
    fn who_goes_another_way_has_the_hosts_for_it() {
        for situation in Situation::ALL {
            let plan = situation.plan();
            let visits = plan.before.iter().chain([&plan.visit]);
            let elsewhere = visits
                .flat_map(|visit| [visit.client_side, visit.server_side])
                .any(|place| place == Place::Other)
                || matches!(
                    plan.harm,
                    Harm::ReplyThroughOtherClientSide | Harm::ReplyByOtherServerSide
                );
            assert_eq!(
                elsewhere,
                plan.gateways == Gateways::Two,
                "{}",
                situation.name()
            );
        }
    }
}
