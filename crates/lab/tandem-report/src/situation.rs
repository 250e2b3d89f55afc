//! The cases of the thesis's table 2.2, and the assumptions behind them, as situations that an
//! experiment can put a connection in: one row of a table each.
//!
//! Is not: how a connection is put in one; the lab has a table of its own for that.
//!
//! Specification: McVeety 2009, section 2.3.4.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;

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

/// Whether the thesis's format is known to let wrong bytes reach the client's TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    None,
    Possible,
}

/// A situation's row.
struct Row {
    situation: Situation,
    name: &'static str,
    /// A and A' are client sides, B and B' server sides, Z is the chain, as in the thesis.
    about: &'static str,
    thesis: Harm,
}

/// The table.
const ROWS: [Row; Situation::COUNT] = [
    Row {
        situation: Situation::Case0,
        name: "case-0",
        about: "A holds Z",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::Case1,
        name: "case-1",
        about: "the reply comes through A', which holds Z",
        thesis: Harm::Possible,
    },
    Row {
        situation: Situation::Case2,
        name: "case-2",
        about: "A does not hold Z",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::Case3,
        name: "case-3",
        about: "A claims Z and has lost it",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::Case4,
        name: "case-4",
        about: "the reply comes through A', which does not hold Z",
        thesis: Harm::Possible,
    },
    Row {
        situation: Situation::Case5,
        name: "case-5",
        about: "B is killed between hello and reply, and comes back with nothing",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::ClientSideResets,
        name: "client-side-resets",
        about: "A is killed between hello and reply, and comes back with its store",
        thesis: Harm::Possible,
    },
    Row {
        situation: Situation::ReplyByOtherServerSide,
        name: "reply-by-other-server-side",
        about: "the reply leaves by B'; A holds Z",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::Roamed,
        name: "roamed",
        about: "A, which holds Z, has moved from B to B'",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::SecondClientSide,
        name: "second-client-side",
        about: "A and A' on one B, each with a store of its own",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::ChangedCertificate,
        name: "changed-certificate",
        about: "A holds Z; the server has a new leaf by the same issuers",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::TwoCertificates,
        name: "two-certificates",
        about: "the name has an RSA and an ECDSA chain; A holds both",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::NoServerName,
        name: "no-server-name",
        about: "the client names no server; A knows Z by the address",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::VirtualHosts,
        name: "virtual-hosts",
        about: "two names with a chain each at one address; A holds both",
        thesis: Harm::None,
    },
    Row {
        situation: Situation::Expired,
        name: "expired",
        about: "Z's leaf has expired; A has seen it",
        thesis: Harm::None,
    },
];

// A row stands at its situation's place.
const _: () = {
    let mut place = 0;
    while place < ROWS.len() {
        assert!(ROWS[place].situation as usize == place);
        place += 1;
    }
};

impl Situation {
    const COUNT: usize = Situation::Expired as usize + 1;

    /// All of them, in the order of tables.
    pub const ALL: [Situation; Situation::COUNT] = {
        let mut all = [Situation::Case0; Situation::COUNT];
        let mut place = 0;
        while place < Situation::COUNT {
            all[place] = ROWS[place].situation;
            place += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        const { &ROWS }
            .get(self as usize)
            .expect("each situation has a row at its place")
    }

    /// As files and tables say it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// In a few words. A and A' are client sides, B and B' server sides, Z is the chain, as in the
    /// thesis.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// Whether it is known that wrong bytes reach the client's TCP, so that a trial is no mistake
    /// that differs or fails: a client side that meets a flow in its middle hands the thesis's
    /// reference on, where it waits out of order. Linux puts the server's repeat in its place;
    /// no standard says that a TCP must.
    pub fn may_fail(self, arm: Arm) -> bool {
        arm == Arm::PacketMcveety && self.row().thesis == Harm::Possible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        for situation in Situation::ALL {
            let name = serde_json::to_string(&situation).unwrap();
            assert_eq!(name, format!("{:?}", situation.name()));
        }
    }
}
