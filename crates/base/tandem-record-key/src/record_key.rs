//! The key itself, and its datagram: written, and read with strict bounds.
//!
//! Is not: whose socket a datagram comes by. That it may be believed is proved by opening a record.

use std::fmt;

use zeroize::{Zeroize as _, Zeroizing};

use crate::suite::{MAX_KEY_LEN, Suite};

/// Length of a ClientHello's random in bytes (RFC 8446, section 4.1.2).
pub const CLIENT_RANDOM_LEN: usize = 32;

/// Length of a ServerHello's random in bytes (RFC 8446, section 4.1.3).
pub const SERVER_RANDOM_LEN: usize = 32;

/// Length of an IV in bytes: `iv_length` of every suite here (RFC 8446, section 5.3).
pub const IV_LEN: usize = 12;

/// Length of the longest datagram in bytes. A reader offers a buffer that is longer, so that a
/// datagram that is too long is not cut to one that looks good.
pub const MAX_DATAGRAM_LEN: usize = HEAD_LEN + MAX_KEY_LEN;

/// Version, direction, suite, both randoms, IV.
const HEAD_LEN: usize = 1 + 1 + 2 + CLIENT_RANDOM_LEN + SERVER_RANDOM_LEN + IV_LEN;

/// The version without the server random.
const PLAIN: u8 = 1;

/// The version with it.
const BOUND: u8 = 2;

/// Which end of a connection writes the records that a key protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client.
    FromClient,
    /// The server.
    FromServer,
}

impl Direction {
    const fn code(self) -> u8 {
        match self {
            Self::FromClient => 0,
            Self::FromServer => 1,
        }
    }
}

/// Why a key, or a datagram, is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordKeyError {
    /// The datagram is of a version that is not known.
    #[error("version {0} of the datagram is not known; use the same release on both ends")]
    Version(u8),
    /// The direction is neither of the two.
    #[error("direction {0} is not known")]
    Direction(u8),
    /// The suite is none whose keys can be released.
    #[error("cipher suite {0:#06x} is not supported")]
    Suite(u16),
    /// The datagram, or the key, has another length than its suite's.
    #[error("{0} bytes are not the length that the cipher suite calls for")]
    Length(usize),
}

/// The handshake record key and IV of one direction of one connection.
pub struct RecordKey {
    direction: Direction,
    suite: Suite,
    client_random: [u8; CLIENT_RANDOM_LEN],
    server_random: Option<[u8; SERVER_RANDOM_LEN]>,
    secret: Box<Secret>,
}

/// Lies in one place until it is overwritten.
struct Secret {
    iv: [u8; IV_LEN],
    /// The first bytes, as many as the suite's keys have.
    key: [u8; MAX_KEY_LEN],
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.iv.zeroize();
        self.key.zeroize();
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKey")
            .field("direction", &self.direction)
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

impl RecordKey {
    /// A key of this suite for what one end of the connection with this client random writes. The
    /// caller overwrites its own copy.
    ///
    /// # Errors
    /// The suite's keys have another length.
    pub fn new(
        direction: Direction,
        suite: Suite,
        client_random: [u8; CLIENT_RANDOM_LEN],
        iv: &[u8; IV_LEN],
        key: &[u8],
    ) -> Result<Self, RecordKeyError> {
        if key.len() != suite.key_len() {
            return Err(RecordKeyError::Length(key.len()));
        }
        let mut secret = Box::new(Secret {
            iv: [0; IV_LEN],
            key: [0; MAX_KEY_LEN],
        });
        secret.iv.copy_from_slice(iv);
        secret.key[..key.len()].copy_from_slice(key);
        Ok(Self {
            direction,
            suite,
            client_random,
            server_random: None,
            secret,
        })
    }

    /// The same, of the connection whose ServerHello has this random. Client randoms may repeat;
    /// both together name one connection.
    #[must_use]
    pub fn with_server_random(self, server_random: [u8; SERVER_RANDOM_LEN]) -> Self {
        Self {
            server_random: Some(server_random),
            ..self
        }
    }

    /// Reads a whole datagram. The caller overwrites its buffer.
    ///
    /// # Errors
    /// It is not exactly a datagram of a version, direction and suite that are known.
    pub fn from_datagram(datagram: &[u8]) -> Result<Self, RecordKeyError> {
        let length = RecordKeyError::Length(datagram.len());
        // The version says what the rest is, and how long.
        let (&version, rest) = datagram.split_first().ok_or(length)?;
        if ![PLAIN, BOUND].contains(&version) {
            return Err(RecordKeyError::Version(version));
        }
        let (&[direction, suite_high, suite_low], rest) = rest.split_first_chunk().ok_or(length)?;
        let direction = match direction {
            0 => Direction::FromClient,
            1 => Direction::FromServer,
            unknown => return Err(RecordKeyError::Direction(unknown)),
        };
        let number = u16::from_be_bytes([suite_high, suite_low]);
        let suite = Suite::from_number(number).ok_or(RecordKeyError::Suite(number))?;
        let (client_random, rest) = rest.split_first_chunk().ok_or(length)?;
        let (server_random, rest) = match version {
            BOUND => rest
                .split_first_chunk()
                .map(|(random, rest)| (Some(*random), rest))
                .ok_or(length)?,
            _ => (None, rest),
        };
        let (iv, key) = rest.split_first_chunk().ok_or(length)?;
        let key = Self::new(direction, suite, *client_random, iv, key).map_err(|_| length)?;
        Ok(Self {
            server_random,
            ..key
        })
    }

    /// The datagram that hands the key over. It is overwritten when it is dropped.
    #[must_use]
    pub fn to_datagram(&self) -> Zeroizing<Vec<u8>> {
        // All of it has room at once, so that no shorter copy is left behind.
        let mut datagram = Zeroizing::new(Vec::with_capacity(MAX_DATAGRAM_LEN));
        let version = self.server_random.map_or(PLAIN, |_| BOUND);
        datagram.extend([version, self.direction.code()]);
        datagram.extend(self.suite.number().to_be_bytes());
        datagram.extend(self.client_random);
        datagram.extend(self.server_random.into_iter().flatten());
        datagram.extend_from_slice(self.iv());
        datagram.extend_from_slice(self.key());
        datagram
    }

    /// Whose records it protects.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The suite that the connection uses.
    #[must_use]
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// The random of the connection's ClientHello.
    #[must_use]
    pub const fn client_random(&self) -> &[u8; CLIENT_RANDOM_LEN] {
        &self.client_random
    }

    /// The random of its ServerHello, where whoever released the key knew it.
    #[must_use]
    pub const fn server_random(&self) -> Option<&[u8; SERVER_RANDOM_LEN]> {
        self.server_random.as_ref()
    }

    /// The IV: `[sender]_write_iv`.
    #[must_use]
    pub const fn iv(&self) -> &[u8; IV_LEN] {
        &self.secret.iv
    }

    /// The key: `[sender]_write_key`.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.secret.key[..self.suite.key_len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(direction: Direction, suite: Suite) -> RecordKey {
        let key: Vec<u8> = (0xa0..).take(suite.key_len()).collect();
        RecordKey::new(
            direction,
            suite,
            [0x11; CLIENT_RANDOM_LEN],
            &[0x77; 12],
            &key,
        )
        .expect("the suite's length")
    }

    #[test]
    fn every_kind_of_key_comes_back_out_of_its_datagram() {
        for direction in [Direction::FromClient, Direction::FromServer] {
            for suite in Suite::ALL {
                let sent = key(direction, suite);
                let datagram = sent.to_datagram();
                let read = RecordKey::from_datagram(&datagram).expect("our own datagram");
                assert_eq!((read.direction(), read.suite()), (direction, suite));
                assert_eq!(read.client_random(), sent.client_random());
                assert_eq!(read.server_random(), None);
                assert_eq!((read.iv(), read.key()), (sent.iv(), sent.key()));
                let bound = sent.with_server_random([0x22; SERVER_RANDOM_LEN]);
                let datagram = bound.to_datagram();
                let read = RecordKey::from_datagram(&datagram).expect("our own datagram");
                assert_eq!(read.server_random(), bound.server_random());
                assert_eq!(*read.to_datagram(), *datagram);
                assert!(datagram.len() <= MAX_DATAGRAM_LEN);
            }
        }
    }

    #[test]
    fn the_layout_stays_as_it_is() {
        let datagram = key(Direction::FromServer, Suite::Aes128Gcm).to_datagram();
        let expected = [
            &[1, 1, 0x13, 0x01][..],
            &[0x11; 32],
            &[0x77; 12],
            &[
                0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad,
                0xae, 0xaf,
            ],
        ]
        .concat();
        assert_eq!(*datagram, expected);
        let bound = key(Direction::FromServer, Suite::Aes128Gcm).with_server_random([0x22; 32]);
        let (head, tail) = expected.split_at(36);
        let expected = [&[2], &head[1..], &[0x22; 32], tail].concat();
        assert_eq!(*bound.to_datagram(), expected);
    }

    #[test]
    fn a_datagram_of_any_other_length_is_refused() {
        for suite in Suite::ALL {
            let plain = key(Direction::FromClient, suite);
            let bound = key(Direction::FromClient, suite).with_server_random([0x22; 32]);
            for datagram in [plain.to_datagram(), bound.to_datagram()] {
                for length in 0..datagram.len() {
                    assert_eq!(
                        RecordKey::from_datagram(&datagram[..length]).err(),
                        Some(RecordKeyError::Length(length))
                    );
                }
                let longer = [&datagram[..], &[0]].concat();
                assert_eq!(
                    RecordKey::from_datagram(&longer).err(),
                    Some(RecordKeyError::Length(longer.len()))
                );
            }
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let good = key(Direction::FromClient, Suite::Aes256Gcm).to_datagram();
        for (at, value, refusal) in [
            (0, 3, RecordKeyError::Version(3)),
            (1, 2, RecordKeyError::Direction(2)),
            (3, 4, RecordKeyError::Suite(0x1304)),
        ] {
            let mut datagram = good.clone();
            datagram[at] = value;
            assert_eq!(RecordKey::from_datagram(&datagram).err(), Some(refusal));
        }
    }

    #[test]
    fn a_key_of_another_suite_s_length_is_refused() {
        let made = RecordKey::new(
            Direction::FromServer,
            Suite::Aes128Gcm,
            [0; CLIENT_RANDOM_LEN],
            &[0; IV_LEN],
            &[0; 32],
        );
        assert_eq!(made.err(), Some(RecordKeyError::Length(32)));
    }

    #[test]
    fn debug_output_shows_no_byte_of_the_connection() {
        let shown = format!("{:?}", key(Direction::FromServer, Suite::ChaCha20Poly1305));
        assert_eq!(
            shown,
            "RecordKey { direction: FromServer, suite: ChaCha20Poly1305, .. }"
        );
    }
}
