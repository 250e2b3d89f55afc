//! What a three-way handshake needs beside TLS: a server's semi-static share, which clients keep
//! from an earlier connection, and a memory of the first flights that were answered.
//!
//! ```text
//!  hello of a client      empty: gives me a share if you have one
//!                         id 8 | following 2: my key exchange, ChangeCipherSpec, Finished and data
//!                         are the next `following` bytes, made with this share
//!  hello of a server      1 | id 8 | group 2 | key 1 + n | lifetime 4: keep this share
//!                         2 | key 0 + n: your first flight is accepted; my ephemeral key, if any
//! ```
//!
//! Extension 65363 of the range for private use (RFC 8447, section 5).
//!
//! **What it costs.** A first flight proves nothing about the present: whoever recorded it can send
//! it again, and each server that has the share and no memory of it accepts it, data included
//! ([`Freshness`]). Whoever learns the share's private key, even later, opens each first flight
//! that was made with it; and the whole connection, where the server adds no ephemeral key
//! ([`Secrecy`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use tandem_wire::UnixTime;
use tandem_wire::tls::ExtensionType;

use crate::error::{Breach, Misuse};
use crate::exchange::{Group, KeyPair};
use crate::read::Reader;

/// The extension.
pub(crate) const EXTENSION: ExtensionType = ExtensionType(0xff53);

/// Longest time for which a client keeps a share, seconds: a week, as tickets of TLS 1.3 (RFC 8446,
/// section 4.6.1).
pub const MAX_LIFETIME: u32 = 7 * 24 * 60 * 60;

const PUBLISHED: u8 = 1;
const ACCEPTED: u8 = 2;

/// The name of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareId(pub [u8; 8]);

/// A server's share with its private key: of one server, or of several.
#[derive(Debug)]
pub struct Share {
    pub(crate) id: ShareId,
    pub(crate) pair: KeyPair,
    pub(crate) lifetime: u32,
}

impl Share {
    /// A share on X25519. `lifetime` is how many seconds clients may keep it, at most
    /// [`MAX_LIFETIME`].
    ///
    /// # Errors
    /// [`Misuse::Entropy`]: not a private key.
    pub fn new(id: ShareId, private: &[u8; 32], lifetime: u32) -> Result<Self, Misuse> {
        Ok(Self {
            id,
            pair: KeyPair::new(Group::X25519, private)?,
            lifetime: lifetime.min(MAX_LIFETIME),
        })
    }
}

/// Whether a first flight may be one that was answered before.
pub trait Freshness: Send + Sync {
    /// Whether no first flight with this random value was answered. Asked once for each that is
    /// about to be: the value counts as known from then on.
    fn is_new(&self, client_random: &[u8; 32]) -> bool;
}

/// No protection: each first flight is taken for a new one.
#[derive(Debug, Clone, Copy)]
pub struct Unprotected;

impl Freshness for Unprotected {
    fn is_new(&self, _: &[u8; 32]) -> bool {
        true
    }
}

/// The random values of the first flights that were answered with one share. It lasts as long as
/// the share; when it is full, nothing is new any more, and clients fall back to full handshakes.
#[derive(Debug, Clone)]
pub struct Answered {
    randoms: BTreeSet<[u8; 32]>,
    capacity: usize,
}

impl Answered {
    /// An empty memory for so many flights: 32 bytes each, and what a tree takes.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            randoms: BTreeSet::new(),
            capacity,
        }
    }

    /// As [`Freshness::is_new`].
    pub fn is_new(&mut self, client_random: &[u8; 32]) -> bool {
        self.randoms.len() < self.capacity && self.randoms.insert(*client_random)
    }
}

/// Whether the data behind a first flight outlives the share's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// Keys follow from the share alone, as the proposal has it: one agreement at the server.
    Static,
    /// The server adds an ephemeral key: what follows the first flight stays secret.
    Ephemeral,
}

/// What a server needs for three-way handshakes.
#[derive(Clone)]
pub struct ThreeWay {
    /// The share.
    pub share: Arc<Share>,
    /// What it knows about first flights.
    pub freshness: Arc<dyn Freshness>,
    /// How long secrets last.
    pub secrecy: Secrecy,
}

impl std::fmt::Debug for ThreeWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreeWay")
            .field("id", &self.share.id)
            .field("secrecy", &self.secrecy)
            .finish_non_exhaustive()
    }
}

/// A share as a client keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownShare {
    pub(crate) id: ShareId,
    pub(crate) group: Group,
    pub(crate) public: Vec<u8>,
    pub(crate) expires: UnixTime,
}

/// What a client's hello says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It would keep a share.
    Share,
    /// A first flight follows.
    FirstFlight { id: ShareId, following: u16 },
}

impl Asked {
    pub(crate) fn write(self) -> Vec<u8> {
        match self {
            Self::Share => Vec::new(),
            Self::FirstFlight { id, following } => [&id.0[..], &following.to_be_bytes()].concat(),
        }
    }

    pub(crate) fn parse(data: &[u8]) -> Result<Self, Breach> {
        if data.is_empty() {
            return Ok(Self::Share);
        }
        let read = |mut reader: Reader<'_>| {
            let id = ShareId(reader.array()?);
            let following = reader.u16()?;
            reader.finish()?;
            Ok(Self::FirstFlight { id, following })
        };
        read(Reader::new(data)).map_err(|_: tandem_wire::TlsError| Breach::Extension(EXTENSION.0))
    }
}

/// What a server's hello says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A share to keep.
    Published {
        id: ShareId,
        group: Group,
        public: Vec<u8>,
        lifetime: u32,
    },
    /// The first flight is accepted; the ephemeral key, if there is one.
    Accepted { ephemeral: Vec<u8> },
}

impl Answer {
    pub(crate) fn publish(share: &Share) -> Self {
        Self::Published {
            id: share.id,
            group: share.pair.group(),
            public: share.pair.public().to_vec(),
            lifetime: share.lifetime,
        }
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>, Misuse> {
        Ok(match self {
            Self::Published {
                id,
                group,
                public,
                lifetime,
            } => {
                let len = u8::try_from(public.len()).map_err(|_| Misuse::TooLong)?;
                [
                    &[PUBLISHED][..],
                    &id.0,
                    &group.code().to_be_bytes(),
                    &[len],
                    public,
                    &lifetime.to_be_bytes(),
                ]
                .concat()
            }
            Self::Accepted { ephemeral } => [&[ACCEPTED][..], ephemeral].concat(),
        })
    }

    pub(crate) fn parse(data: &[u8]) -> Result<Self, Breach> {
        let wrong = || Breach::Extension(EXTENSION.0);
        let read = |mut reader: Reader<'_>| -> Result<Option<Self>, tandem_wire::TlsError> {
            let id = ShareId(reader.array()?);
            let group = Group::from_code(reader.u16()?);
            let public = reader.vec8()?.to_vec();
            let lifetime = u32::from_be_bytes(reader.array()?);
            reader.finish()?;
            Ok(group.map(|group| Self::Published {
                id,
                group,
                public,
                lifetime,
            }))
        };
        match data.split_first() {
            Some((&ACCEPTED, ephemeral)) => Ok(Self::Accepted {
                ephemeral: ephemeral.to_vec(),
            }),
            Some((&PUBLISHED, rest)) => read(Reader::new(rest))
                .map_err(|_| wrong())?
                .ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hellos_extensions_are_read_as_they_were_written() {
        let id = ShareId([1, 2, 3, 4, 5, 6, 7, 8]);
        let following = 700;
        for asked in [Asked::Share, Asked::FirstFlight { id, following }] {
            assert_eq!(Asked::parse(&asked.write()), Ok(asked));
        }
        let share = Share::new(id, &[9; 32], u32::MAX).expect("a key");
        assert_eq!(share.lifetime, MAX_LIFETIME);
        let ephemeral = vec![5; 32];
        for answer in [Answer::publish(&share), Answer::Accepted { ephemeral }] {
            let written = answer.write().expect("it fits");
            assert_eq!(Answer::parse(&written), Ok(answer));
        }
        for wrong in [&[3][..], &[1, 2], &[]] {
            assert_eq!(Answer::parse(wrong), Err(Breach::Extension(EXTENSION.0)));
        }
        assert_eq!(Asked::parse(&[1]), Err(Breach::Extension(EXTENSION.0)));
    }

    #[test]
    fn a_flight_is_new_once_and_a_full_memory_knows_nothing_new() {
        let mut answered = Answered::new(2);
        assert!(answered.is_new(&[1; 32]));
        assert!(!answered.is_new(&[1; 32]), "it was answered");
        assert!(answered.is_new(&[2; 32]));
        assert!(!answered.is_new(&[3; 32]), "there is no room to remember");
    }
}
