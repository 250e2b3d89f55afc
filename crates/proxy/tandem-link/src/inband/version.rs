//! Versions of the messages: which one two proxies use in a connection.
//!
//! Is: the number and the rule. Is not: its place in a message ([`super::option`],
//! [`super::frame`]).
//!
//! ```text
//!   SYN      presence: newest version that the client-side proxy speaks
//!   SYN/ACK  answer:   the newest that both speak, or none at all
//!   later    options and frames of the version in the answer, and of no other
//! ```
//!
//! Invariant: proxies that share no version rewrite nothing; those that share one use the newest of
//! them.

use tandem_delta::Encoding;

/// A version of the messages: 1 to 15, as half a byte has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u8);

impl Version {
    /// The first one.
    pub const ONE: Version = Version(1);

    /// The version of this number; `None` for 0, and what is beyond 15.
    pub fn new(number: u8) -> Option<Self> {
        (1..=15).contains(&number).then_some(Self(number))
    }

    /// Literals may be compressed: [`Encoding::Two`]. So a hint may name nothing.
    pub const TWO: Version = Version(2);

    /// The form of the deltas in its frames: the newest that both proxies know.
    pub fn encoding(self) -> Encoding {
        match self.0 {
            0 | 1 => Encoding::One,
            _ => Encoding::Two,
        }
    }

    /// Whether a hint may name nothing that is held. It says that somebody is there to rebuild.
    pub fn can_hint_nothing(self) -> bool {
        self.encoding().can_inflate()
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }
}

/// The versions that a proxy speaks: all from the oldest to the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoken {
    oldest: Version,
    newest: Version,
}

impl Spoken {
    /// Those of this crate.
    pub const HERE: Spoken = Spoken {
        oldest: Version::ONE,
        newest: Version::TWO,
    };

    /// All from one to another; `None` where they stand in the wrong order.
    pub fn between(oldest: Version, newest: Version) -> Option<Self> {
        (oldest <= newest).then_some(Self { oldest, newest })
    }

    /// The newest: what a client-side proxy offers.
    pub fn newest(self) -> Version {
        self.newest
    }

    /// What a server-side proxy answers to an offer: the newest version that both speak, as far as
    /// it can know. `None`: nothing.
    pub fn agree(self, offered: Version) -> Option<Version> {
        Some(offered.min(self.newest)).filter(|agreed| self.includes(*agreed))
    }

    /// Whether this version is spoken: a client-side proxy goes on with no other.
    pub fn includes(self, version: Version) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(oldest: u8, newest: u8) -> Spoken {
        let version = |number| Version::new(number).expect("a version");
        Spoken::between(version(oldest), version(newest)).expect("in order")
    }

    #[test]
    fn two_proxies_use_the_newest_version_that_both_speak() {
        // Client side, server side, what they use.
        let cases = [
            ((1, 1), (1, 1), Some(1)),
            ((1, 2), (1, 1), Some(1)),
            ((1, 1), (1, 2), Some(1)),
            ((1, 2), (1, 2), Some(2)),
            ((2, 4), (1, 3), Some(3)),
            ((1, 1), (2, 2), None),
            ((2, 2), (1, 1), None),
            ((3, 15), (1, 2), None),
        ];
        for (client, server, expected) in cases {
            let (client, server) = (spoken(client.0, client.1), spoken(server.0, server.1));
            let agreed = server
                .agree(client.newest())
                .filter(|agreed| client.includes(*agreed));
            assert_eq!(agreed.map(Version::number), expected);
        }
    }

    #[test]
    fn half_a_byte_has_room_for_fifteen_versions() {
        assert_eq!(Version::new(0), None);
        assert_eq!(Version::new(16), None);
        assert_eq!(Version::new(15).map(Version::number), Some(15));
        assert_eq!(Spoken::between(Version(2), Version(1)), None);
    }
}
