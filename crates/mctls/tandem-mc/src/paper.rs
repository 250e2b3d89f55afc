//! The same server, client and middleboxes over the paper's own protocol, `mctls12`: for research,
//! and not safe.
//!
//! Is not: `mctls13`, and does not become it: what this protocol cannot tell (which writer has
//! changed something, who has blocked, what a server has withheld) is not told.
//!
//! Invariant: whoever uses it has been warned ([`WARNING`]).

pub mod get;
pub mod middlebox;
pub mod serve;

use mctls::config::{Context, Middlebox, PathMode, Terms};
use mctls12::list::MiddleboxList;
use mctls12_io::prototype::Session as Open;

use crate::error::McError;

/// A protocol between endpoints and middleboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The one to use.
    Mctls13,
    /// The paper's own.
    Mctls12(Format),
}

/// A wire format of the paper's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// This project's own.
    Own,
    /// That of the authors' prototype, which is weaker still.
    Prototype,
}

impl Protocol {
    /// The protocol with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<Self, &'static str> {
        match name {
            "mctls13" => Ok(Self::Mctls13),
            "mctls12" => Ok(Self::Mctls12(Format::Own)),
            _ => Err("the protocols are mctls13, and for research mctls12"),
        }
    }

    /// The protocol in the prototype's format.
    ///
    /// # Errors
    /// It has none.
    pub fn of_prototype(self) -> Result<Self, McError> {
        match self {
            Self::Mctls12(_) => Ok(Self::Mctls12(Format::Prototype)),
            Self::Mctls13 => {
                let why = "--prototype: belongs to --protocol mctls12";
                Err(McError::Argument(why.into()))
            }
        }
    }
}

/// What everybody is told who uses this protocol.
pub const WARNING: &str = "\
warning: mctls12 is the research protocol of 2015 and is not safe. Whoever controls the network can
deceive a middlebox about its session, or route data around it, and nobody notices. Use it to
measure and to study (docs/mctls12.md); otherwise use mctls13.";

/// What everybody is told who uses the prototype's format.
pub const PROTOTYPE_WARNING: &str = "\
warning: --prototype speaks the wire format of the authors' prototype, in which almost nothing is
protected, as far as its public source tells it; it was never run against the prototype itself.
Records can be dropped, repeated, moved, and sent back to their author, and nobody notices. Keys are
sealed with RSA: whoever gets a certificate's key later reads everything. A server cannot tell
middleboxes by name. Use it with data that everybody may read and change (docs/mctls12.md).";

impl Format {
    /// The warnings that belong to it.
    #[must_use]
    pub fn warnings(self) -> Vec<&'static str> {
        match self {
            Self::Own => vec![WARNING],
            Self::Prototype => vec![WARNING, PROTOTYPE_WARNING],
        }
    }
}

/// What is the same of a session in both formats.
fn open(session: mctls12_io::Session) -> Open {
    Open {
        list: session.list,
        sender: session.sender,
        receiver: session.receiver,
    }
}

/// A list as mctls13 would have it, for what is the same in both: the division of HTTP, and a
/// server's settings. There are no digests of certificates in it.
fn terms(list: &MiddleboxList) -> Option<Terms> {
    let middleboxes = list.middleboxes().iter().map(|place| Middlebox {
        name: place.name.clone(),
        certificate: [0; 32],
    });
    let contexts = list.contexts().iter().map(|context| Context {
        id: context.id,
        purpose: context.purpose.clone(),
        path: PathMode::Off,
        rights: context.rights.clone(),
    });
    Terms::new([0; 32], middleboxes.collect(), contexts.collect()).ok()
}
