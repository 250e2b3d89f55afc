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

/// A protocol between endpoints and middleboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The one to use.
    Mctls13,
    /// The paper's own.
    Mctls12,
}

impl Protocol {
    /// The protocol with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<Self, &'static str> {
        match name {
            "mctls13" => Ok(Self::Mctls13),
            "mctls12" => Ok(Self::Mctls12),
            _ => Err("the protocols are mctls13, and for research mctls12"),
        }
    }
}

/// What everybody is told who uses this protocol.
pub const WARNING: &str = "\
warning: mctls12 is the research protocol of 2015 and is not safe. Whoever controls the network can
deceive a middlebox about its session, or route data around it, and nobody notices. Use it to
measure and to study (docs/mctls12.md); otherwise use mctls13.";

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
