//! Why a TCP connection through the tunnel ended before its time: the code of a stream that is
//! reset, or whose sender is asked to stop.
//!
//! Is: the codes. Is not: how each reaches an endpoint; that is the adapter's.
//!
//! Invariant: a code that is not known counts as a reset, so that a later version may add some.

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// An endpoint reset the connection, or left it.
    Reset,
    /// The server refused the connection.
    Refused,
    /// The server's host cannot be reached.
    HostUnreachable,
    /// The server's network cannot be reached.
    NetworkUnreachable,
    /// The server did not answer in time.
    TimedOut,
    /// The server-side proxy may not connect to this target.
    NotAllowed,
    /// The target's name has no address.
    NameNotFound,
    /// The peer sent what is not defined.
    Malformed,
    /// The proxy has too many connections.
    Overloaded,
    /// The proxy is being stopped.
    ShuttingDown,
}

impl Ending {
    /// One of each, by code.
    pub const ALL: [Self; 10] = [
        Self::Reset,
        Self::Refused,
        Self::HostUnreachable,
        Self::NetworkUnreachable,
        Self::TimedOut,
        Self::NotAllowed,
        Self::NameNotFound,
        Self::Malformed,
        Self::Overloaded,
        Self::ShuttingDown,
    ];

    /// The code on the wire.
    pub fn code(self) -> u32 {
        match self {
            Self::Reset => 0,
            Self::Refused => 1,
            Self::HostUnreachable => 2,
            Self::NetworkUnreachable => 3,
            Self::TimedOut => 4,
            Self::NotAllowed => 5,
            Self::NameNotFound => 6,
            Self::Malformed => 7,
            Self::Overloaded => 8,
            Self::ShuttingDown => 9,
        }
    }

    /// What a code means; [`Ending::Reset`] for one that is not known.
    pub fn from_code(code: u64) -> Self {
        Self::ALL
            .into_iter()
            .find(|ending| u64::from(ending.code()) == code)
            .unwrap_or(Self::Reset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_survives_its_code_and_unknown_codes_are_resets() {
        for (index, ending) in Ending::ALL.into_iter().enumerate() {
            assert_eq!(ending.code() as usize, index);
            assert_eq!(Ending::from_code(u64::from(ending.code())), ending);
        }
        for code in [10, 256, 1 << 32, u64::MAX] {
            assert_eq!(Ending::from_code(code), Ending::Reset);
        }
    }
}
