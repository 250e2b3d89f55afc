//! Why a flight could not be rebuilt here.
//!
//! Is not: sent; the far side is told that there was a miss, and sends the bytes.

use tandem_delta::DeltaError;

/// Why a flight could not be rebuilt here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Miss {
    /// It refers to what is not held here, or not any more.
    NotHeld,
    /// It was rebuilt, and the check over it failed: it was made with another key, or something
    /// else is held here under the same name.
    WrongKey,
    /// It is not what a proxy writes, or came in more or longer pieces than are kept.
    Malformed,
}

impl Miss {
    /// One of each.
    pub const ALL: [Self; 3] = [Self::NotHeld, Self::WrongKey, Self::Malformed];
}

impl From<DeltaError> for Miss {
    fn from(error: DeltaError) -> Self {
        match error {
            DeltaError::Miss(_) => Self::NotHeld,
            DeltaError::Malformed | DeltaError::TooLong { .. } | DeltaError::OutOfRange(_) => {
                Self::Malformed
            }
        }
    }
}
