//! Middleboxes that DNS proposes: what its records say (`docs/mctls.md`), and what the user's
//! policy makes of it.
//!
//! Is not: trust in DNS, nor a resolver (`dns`, with the feature of that name). Invariants: a right
//! comes from [`Accepted`] alone, which the user wrote, never from a record; at most
//! [`MAX_RECORDS`] records of a domain are taken; what is taken of a record is the name of a host,
//! a port, an address and a word, so nothing in it can be carried out by a terminal or read as
//! another argument; every record that is not taken is told of, with the reason.

#[cfg(feature = "dns")]
pub mod dns;
#[cfg(feature = "dns")]
pub(crate) mod records;

use std::time::Duration;

use mctls::party::{MAX_MIDDLEBOXES, Position};
use mctls_io::{Error, Part, Via};
use serde::{Deserialize, Serialize};

use crate::error::McError;
use crate::layout::Kind;
use crate::via::{Grants, ViaArgument};

/// The label below which a domain's middleboxes stand (RFC 9460, section 2.3).
pub const LABEL: &str = "_mc13-box";
/// The key of a record in which a middlebox names its kind: one for private use (RFC 9460, section
/// 14.3.1), as none is registered.
pub const KIND_KEY: u16 = 65391;
/// Most records of a domain.
pub const MAX_RECORDS: usize = 8;
/// How long a domain may take.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The protocol of a client's leg, for the key `alpn`.
const PROTOCOL: &str = "mc13-leg";
/// Longest name of a host (RFC 1035, section 3.1, without the last dot).
const MAX_NAME_LEN: usize = 253;
/// Longest label of it.
const MAX_LABEL_LEN: usize = 63;

/// A middlebox that the user accepts where DNS proposes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    name: String,
    grants: Grants,
}

impl Accepted {
    /// One out of its text: `NAME[=GRANTS]`.
    ///
    /// # Errors
    /// What is wrong with the text, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, grants) = match text.split_once('=') {
            Some((name, grants)) => (name, Grants::parse(grants)?),
            None => (text, Grants::Some(Vec::new())),
        };
        Ok(Self {
            name: domain(name)?,
            grants,
        })
    }
}

/// A domain out of its text, in small letters, without a last dot.
///
/// # Errors
/// It is none.
pub fn domain(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    match is_host(&name) {
        true => Ok(name),
        false => Err(format!(
            "{text:?} is no domain; write one such as filter.example"
        )),
    }
}

/// Whether this is a name of a host, and no address.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_short = (1..=MAX_LABEL_LEN).contains(&label.len());
        is_short
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= MAX_NAME_LEN && name.split('.').all(is_label) && !is_number
}

/// What to do where an accepted middlebox is not on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Go on without it.
    #[default]
    Continue,
    /// Send nothing.
    Fail,
}

/// A middlebox that a record proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its place among the domain's: the lowest is the nearest to the client.
    pub place: u16,
    /// The name that its certificate has to have.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// What it says it is. Nothing follows from it.
    pub kind: Option<String>,
}

/// Why a record is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// `AliasMode`, which this use of SVCB does not have.
    #[error("a record with priority 0, which proposes nothing")]
    Alias,
    /// The target is no name of a host.
    #[error("a record whose target is no name of a host")]
    Target,
    /// There is none registered, so none is the default.
    #[error("a record of {0} without a port")]
    Port(String),
    /// Another version of the protocol.
    #[error("a record of {0} for another protocol than {PROTOCOL}")]
    Protocol(String),
    /// RFC 9460, section 8: such a record MUST be ignored.
    #[error("a record of {0} that insists on key{1}, which is not known here")]
    Mandatory(String, u16),
    /// No word of letters.
    #[error("a record of {0} whose kind is no word")]
    Kind(String),
    /// Two records for one place, of which neither is taken: which one comes first is chance.
    #[error("a record of {0} for the same place as another")]
    Place(String),
}

/// Why a domain proposes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// No record, or no such name.
    #[error("it proposes no middlebox")]
    Nothing,
    /// More than [`MAX_RECORDS`].
    #[error("{0} records; at most {MAX_RECORDS} are taken, so none is")]
    Many(usize),
    /// What the resolver says in place of an answer.
    #[error("the resolver says: {0}")]
    Refused(String),
    /// Nothing came.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late,
    /// The resolver cannot be asked, or its answer cannot be read.
    #[error("it could not be asked: {0}")]
    Broken(String),
}

/// What DNS said, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The name that was asked for.
    pub by: String,
    /// The middlebox's name; none where this is about a record that proposes none, or all of them.
    pub name: Option<String>,
    /// Where it is.
    pub address: Option<String>,
    /// What it says it is.
    pub kind: Option<String>,
    /// What became of it.
    pub fate: Fate,
    /// Why, in words, unless it was accepted.
    pub why: Option<String>,
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It is on the path, with the rights that the user wrote.
    Accepted,
    /// The user has not accepted it.
    Refused,
    /// It cannot be taken.
    Ignored,
    /// It was on the path, and no session came about with it.
    Dropped,
    /// The domain could not be asked, or proposes nothing.
    Failed,
}

/// What was discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Everything that DNS said.
    pub found: Vec<Found>,
    /// Whom the user accepts.
    pub accepted: Vec<Accepted>,
    /// What to do where an accepted middlebox is not on the path.
    pub missing: Missing,
}

impl Discovery {
    /// Puts what a domain proposes on the path, as far as it is accepted, behind what is there.
    pub fn take(
        &mut self,
        by: &str,
        answer: Result<Vec<Result<Proposal, Wrong>>, Silence>,
        via: &mut Vec<ViaArgument>,
    ) {
        let blank = |fate, why: String| Found {
            by: by.to_owned(),
            name: None,
            address: None,
            kind: None,
            fate,
            why: Some(why),
        };
        let all = match answer {
            Ok(all) => all,
            Err(silence) => {
                self.found.push(blank(Fate::Failed, silence.to_string()));
                return;
            }
        };
        for one in all {
            self.found.push(match one {
                Err(wrong) => blank(Fate::Ignored, wrong.to_string()),
                Ok(proposal) => {
                    let (fate, why) = placed(by, &proposal, &self.accepted, via);
                    Found {
                        by: by.to_owned(),
                        name: Some(proposal.name),
                        address: Some(proposal.address),
                        kind: proposal.kind,
                        fate,
                        why,
                    }
                }
            });
        }
    }

    /// Whether the path is one that the user's policy permits.
    ///
    /// # Errors
    /// [`McError::Discovery`]: an accepted middlebox is missing, and the policy is not to go on.
    pub fn check(&self, via: &[ViaArgument]) -> Result<(), McError> {
        if self.missing == Missing::Continue {
            return Ok(());
        }
        let missing = self
            .accepted
            .iter()
            .find(|one| !via.iter().any(|argument| argument.via.name == one.name));
        let Some(missing) = missing else {
            return Ok(());
        };
        let failed = self.found.iter().filter_map(|found| match found.fate {
            Fate::Failed | Fate::Ignored => {
                Some(format!("; {}: {}", found.by, found.why.as_deref()?))
            }
            Fate::Accepted | Fate::Refused | Fate::Dropped => None,
        });
        Err(McError::Discovery(format!(
            "DNS does not propose {}, and --when-missing is fail; nothing was sent{}",
            missing.name,
            failed.collect::<String>()
        )))
    }

    /// Takes discovered middleboxes off the path, with which no session came about: the one that is
    /// to blame, or all of them. Whether there was one.
    pub(crate) fn drop_from(
        &mut self,
        via: &mut Vec<ViaArgument>,
        blamed: Option<usize>,
        why: &str,
    ) -> bool {
        let is_found = |at: usize, via: &[ViaArgument]| {
            via.get(at)
                .is_some_and(|argument| argument.found_by.is_some())
        };
        let blamed = blamed.filter(|at| is_found(*at, via));
        let before = via.len();
        let mut at = 0;
        via.retain(|argument| {
            let goes = argument.found_by.is_some() && blamed.is_none_or(|one| one == at);
            at += 1;
            if goes {
                let name = Some(argument.via.name.as_str());
                let of_it = self
                    .found
                    .iter_mut()
                    .filter(|found| found.name.as_deref() == name && found.fate == Fate::Accepted);
                for found in of_it {
                    found.fate = Fate::Dropped;
                    found.why = Some(why.to_owned());
                }
            }
            !goes
        });
        via.len() < before
    }
}

/// Puts a proposal on the path, or says why not.
fn placed(
    by: &str,
    proposal: &Proposal,
    accepted: &[Accepted],
    via: &mut Vec<ViaArgument>,
) -> (Fate, Option<String>) {
    let Some(accepted) = accepted.iter().find(|one| one.name == proposal.name) else {
        let kind = proposal.kind.as_deref().and_then(Kind::named);
        let grants = kind.map_or("GRANTS", Kind::name);
        let option = format!("to accept it: --accept {}={grants}", proposal.name);
        return (Fate::Refused, Some(option));
    };
    if via
        .iter()
        .any(|argument| argument.via.name == proposal.name)
    {
        return (Fate::Ignored, Some("it is on the path already".into()));
    }
    if via.len() >= MAX_MIDDLEBOXES {
        let why = format!("a session has {MAX_MIDDLEBOXES} middleboxes at most");
        return (Fate::Ignored, Some(why));
    }
    via.push(ViaArgument {
        via: Via {
            address: proposal.address.clone(),
            name: proposal.name.clone(),
        },
        grants: accepted.grants.clone(),
        found_by: Some(by.to_owned()),
    });
    (Fate::Accepted, None)
}

/// Which middlebox an error names, from 0: the nearest where the connection to it failed.
pub(crate) fn blamed(error: &Error) -> Option<usize> {
    use mctls::error::{Check, Policy};
    let position = match error {
        Error::Tls {
            part: Part::Leg(position),
            ..
        }
        | Error::TimedOut(Part::Leg(position), _)
        | Error::Name(position, _) => *position,
        Error::Session(mctls::Error::Policy(
            Policy::MiddleboxAlert(position, _) | Policy::TooLittle(position, _),
        ))
        | Error::Session(mctls::Error::Forged(
            Check::LegBinding(position) | Check::Confirm(position),
        )) => *position,
        Error::Io(_) | Error::TimedOut(Part::NextHop, _) => Position::new(1)?,
        _ => return None,
    };
    Some(usize::from(position.number()) - 1)
}

#[cfg(all(test, feature = "dns"))]
mod tests;
