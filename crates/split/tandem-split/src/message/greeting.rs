//! The first message of either side about a client, or of a channel of misses: which version, what
//! kind of channel, which encodings.
//!
//! ```text
//!  | version (1) | channel (1) | encodings (2) | what a later version adds |
//! ```
//!
//! The volunteer says the newest version that it knows and the encodings that it can follow; the
//! origin answers with what they have in common, and writes nothing else afterwards. The volunteer
//! need not wait for the answer before it sends records; it says how far its client has come once
//! the answer has a version that knows of it. Is not: proof of who speaks; what carries the channel
//! sees to that.
//!
//! Invariant: an answer's version and encodings are among those of the question.

use super::{frame, kind};
use crate::error::{Breach, Malformed};
use crate::read::Reader;

/// The newest version that this crate knows. The first one knows no [`super::Progress`], the second
/// no [`super::Progress::Over`], the third no [`super::Progress::Coming`].
pub const PROTOCOL_VERSION: u8 = 4;

/// A later version may add to its greeting, not without end.
pub(super) const MAX_BODY_LEN: usize = 64;

/// What a channel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// One client's connection.
    Connection,
    /// Misses of all connections of a volunteer.
    Misses,
}

impl Channel {
    const fn number(self) -> u8 {
        match self {
            Self::Connection => 1,
            Self::Misses => 2,
        }
    }
}

/// Encodings of stubs beside the literal, which everybody follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encodings(u16);

impl Encodings {
    /// SHA-1 digests: encoding 2, as published.
    pub const SHA1: Self = Self(1 << 2);
    /// SHA-256 digests: encoding 3.
    pub const SHA256: Self = Self(1 << 3);
    /// Runs: encoding 4.
    pub const RUN: Self = Self(1 << 4);
    /// What is on unless told otherwise: SHA-256 and runs.
    pub const DEFAULT: Self = Self(Self::SHA256.0 | Self::RUN.0);

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of `other` are among these.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The volunteer's: the newest version that it knows. The origin's: the version in use.
    pub version: u8,
    /// What the channel is for.
    pub channel: Channel,
    /// The volunteer's: what it can follow. The origin's: what may come.
    pub encodings: Encodings,
}

impl Greeting {
    /// What a volunteer of this version says.
    #[must_use]
    pub const fn new(channel: Channel, encodings: Encodings) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            channel,
            encodings,
        }
    }

    /// The origin's answer to this one, if it wants to use `encodings`.
    #[must_use]
    pub fn answer(&self, encodings: Encodings) -> Self {
        Self {
            version: self.version.min(PROTOCOL_VERSION),
            channel: self.channel,
            encodings: self.encodings.common(encodings),
        }
    }

    /// Whether either side says how far a connection has come.
    #[must_use]
    pub const fn tells_progress(&self) -> bool {
        self.version >= 2 && matches!(self.channel, Channel::Connection)
    }

    /// Whether the channel may carry another client behind this one.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        self.version >= 3 && matches!(self.channel, Channel::Connection)
    }

    /// Whether an answer that has to come from the origin first may be announced.
    #[must_use]
    pub const fn tells_coming(&self) -> bool {
        self.version >= 4 && matches!(self.channel, Channel::Misses)
    }

    /// Whether `answer` is one to this.
    ///
    /// # Errors
    /// [`Breach::Version`] or [`Breach::Greeting`] where it claims what was not offered.
    pub fn accept(&self, answer: &Self) -> Result<(), Breach> {
        if answer.version > self.version {
            return Err(Breach::Version(answer.version));
        }
        if answer.channel != self.channel || !self.encodings.contains(answer.encodings) {
            return Err(Breach::Greeting);
        }
        Ok(())
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let version = reader.u8()?;
        let channel = reader.u8()?;
        let encodings = Encodings(reader.u16()?);
        if version == 0 {
            return Err(Malformed::Version(0));
        }
        if version <= PROTOCOL_VERSION {
            reader.finish()?;
        }
        let channel = match channel {
            1 => Channel::Connection,
            2 => Channel::Misses,
            other => return Err(Malformed::Miss(other)),
        };
        Ok(Self {
            version,
            channel,
            encodings,
        })
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        frame(out, kind::GREETING, |out| {
            out.extend_from_slice(&[self.version, self.channel.number()]);
            out.extend_from_slice(&self.encodings.0.to_be_bytes());
        });
    }
}
