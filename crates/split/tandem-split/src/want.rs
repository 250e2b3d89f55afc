//! What a splicer lacks, and its caller may find.
//!
//! Is not: where to look for it.

use std::fmt;

use crate::name::{ObjectName, PayloadName};

/// What the splicer needs in order to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// A payload: [`crate::Splicer::give`].
    Payload(PayloadName),
    /// An object's list: [`crate::Splicer::give_list`].
    List {
        /// The object.
        object: ObjectName,
        /// The first chunk that the run needs: whoever has to ask the origin for the list may ask
        /// for chunks with it.
        first_chunk: u32,
        /// How many chunks the run needs.
        chunks: u32,
    },
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payload(name) => write!(f, "the payload {name}"),
            Self::List { object, .. } => write!(f, "the list of {object}"),
        }
    }
}
