//! The key by which the volunteer encrypts the server's records from here on.
//!
//! ```text
//!  | suite (2) | key length (2) | key | IV length (2) | IV |
//! ```
//!
//! Is: figure 3-3 of the thesis with the suite in front, which it left the proxy to find out. It
//! stands between the server's ChangeCipherSpec and its first record under keys; in TLS 1.3 it
//! stands before the first record behind the ServerHello. Is not: a MAC key, ever. The IV is empty:
//! since TLS 1.1 each record has its own (RFC 4346), and the volunteer chooses it.
//!
//! Invariant: the key has the length that its suite says, which is 0 for the suites that do not
//! encrypt.

use std::fmt;

use super::{frame, kind, put_vec16};
use crate::error::{Error, Malformed, Misuse};
use crate::read::Reader;
use crate::suite::Suite;

/// Longest key.
const MAX_KEY_LEN: usize = 32;

pub(super) const MAX_BODY_LEN: usize = 2 + 2 + MAX_KEY_LEN + 2;

/// A suite and the server's encryption key under it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyExpose {
    suite: Suite,
    /// The first [`Suite::key_len`] bytes.
    key: [u8; MAX_KEY_LEN],
}

impl KeyExpose {
    /// The message for this suite.
    ///
    /// # Errors
    /// [`Misuse::KeyLength`] where the suite's key has another length.
    pub fn new(suite: Suite, key: &[u8]) -> Result<Self, Error> {
        if key.len() != suite.key_len() {
            return Err(Misuse::KeyLength {
                expected: suite.key_len(),
                found: key.len(),
            }
            .into());
        }
        let mut own = [0; MAX_KEY_LEN];
        own[..key.len()].copy_from_slice(key);
        Ok(Self { suite, key: own })
    }

    /// The suite.
    #[must_use]
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// The server's encryption key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key[..self.suite.key_len()]
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let number = reader.u16()?;
        let key = reader.vec16()?;
        let iv = reader.vec16()?;
        reader.finish()?;
        let suite = Suite::from_u16(number).ok_or(Malformed::Suite(number))?;
        if !iv.is_empty() {
            return Err(Malformed::KeyLength(iv.len()));
        }
        Self::new(suite, key).map_err(|_| Malformed::KeyLength(key.len()))
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        frame(out, kind::KEY_EXPOSE, |out| {
            out.extend_from_slice(&self.suite.as_u16().to_be_bytes());
            put_vec16(out, self.key());
            put_vec16(out, &[]);
        });
    }
}

impl fmt::Debug for KeyExpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyExpose({}, ..)", self.suite)
    }
}
