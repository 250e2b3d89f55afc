//! Who takes part in a session: two endpoints, and middleboxes in order from the client to the
//! server.
//!
//! Is not: what a party may do ([`crate::config`]).

/// The number of middleboxes that a session may have at most.
pub const MAX_MIDDLEBOXES: usize = 16;

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Endpoint {
    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// The direction in which it sends.
    #[must_use]
    pub const fn sends(self) -> Direction {
        match self {
            Self::Client => Direction::ToServer,
            Self::Server => Direction::ToClient,
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Client),
            1 => Some(Self::Server),
            _ => None,
        }
    }
}

/// Where records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl Direction {
    /// The end that receives.
    #[must_use]
    pub const fn receiver(self) -> Endpoint {
        match self {
            Self::ToServer => Endpoint::Server,
            Self::ToClient => Endpoint::Client,
        }
    }

    /// The other one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::ToServer => 0,
            Self::ToClient => 1,
        }
    }
}

/// A middlebox's place on the path: 1 is next to the client, [`MAX_MIDDLEBOXES`] the last there
/// can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u8);

impl Position {
    /// The middlebox with this number; `None` where there can be none.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number == 0 || number as usize > MAX_MIDDLEBOXES {
            None
        } else {
            Some(Self(number))
        }
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its index in lists of middleboxes, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize - 1
    }

    /// The first so many positions, in order.
    pub fn all(count: usize) -> impl DoubleEndedIterator<Item = Self> {
        (1..=u8::try_from(count.min(MAX_MIDDLEBOXES)).unwrap_or(0)).map(Self)
    }

    /// Whether a record that goes in this direction passes `self` before `other`.
    #[must_use]
    pub const fn is_before(self, other: Self, direction: Direction) -> bool {
        match direction {
            Direction::ToServer => self.0 < other.0,
            Direction::ToClient => self.0 > other.0,
        }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "middlebox {}", self.0)
    }
}

/// Who made the bytes of a record as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The endpoint that sends in the record's direction.
    Endpoint,
    /// A middlebox that changed it.
    Middlebox(Position),
}

impl Author {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Endpoint => 0,
            Self::Middlebox(position) => position.number(),
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match (code, Position::new(code)) {
            (0, _) => Some(Self::Endpoint),
            (_, Some(position)) => Some(Self::Middlebox(position)),
            (_, None) => None,
        }
    }
}

/// A context's number. 0 is the endpoints' own ([`ContextId::END_TO_END`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(pub u8);

impl ContextId {
    /// What the endpoints say to each other, which no middlebox can read: closing, alerts.
    pub const END_TO_END: Self = Self(0);
}

impl std::fmt::Display for ContextId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "context {}", self.0)
    }
}
