//! How a connection is put in a situation: a row for each.
//!
//! It says who has seen what before, which way the connection goes, and what happens at
//! one moment: when the server has the whole ClientHello and has not answered yet. At that moment
//! the server program stands still, so that what happens then has happened before a byte of the
//! answer, whatever the machine's load.
//!
//! Is not: the doing of it, which is `stage`.
//!
//! Specification: McVeety 2009, section 2.3.4.

use tandem_report::situation::Situation;

use tandem_testbed::topology::{Gateways, Place};

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

impl Plan {
    /// What is to be done: the table of situations.
    pub(crate) fn of(situation: Situation) -> Plan {
        match situation {
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
    fn who_goes_another_way_has_the_hosts_for_it() {
        for situation in Situation::ALL {
            let plan = Plan::of(situation);
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
