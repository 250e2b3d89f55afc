//! Records as they go to the client: made of a plaintext, a MAC that somebody else has made, and
//! the encryption key.
//!
//! ```text
//!  clear       | header | plaintext |
//!  TLS 1.2     | header | IV (16) | E(plaintext | MAC | padding) |      padding: n + 1 bytes of value n
//!  TLS 1.3     | 23 3 3 length | plaintext | type | MAC |
//! ```
//!
//! Is not: a MAC key in sight. IV and padding are outside the MAC: this side chooses them, a random
//! IV and the shortest padding.
//!
//! Specifications: RFC 5246, section 6.2.3.2; RFC 8446, section 5.2; RFC 9150, section 6.

use tandem_wire::tls::record::HEADER_LEN;

use crate::aes_cbc::{BLOCK_LEN, CbcKey, Lane};
use crate::error::Error;
use crate::message::KeyExpose;
use crate::suite::{Format, RecordType};

/// What becomes of a record before it goes to the client.
pub(crate) enum Protection {
    /// Nothing: there are no keys yet.
    Clear,
    /// AES in CBC mode, with the records that are written and not encrypted yet.
    Cbc(CbcKey, Vec<Lane>),
    /// The MAC goes behind it.
    Integrity,
}

impl Protection {
    /// As the origin says.
    pub(crate) fn new(keys: &KeyExpose) -> Result<Self, Error> {
        Ok(match keys.suite().format() {
            Format::Cbc => Self::Cbc(CbcKey::new(keys.suite().key_len(), keys.key())?, Vec::new()),
            Format::Integrity => Self::Integrity,
        })
    }

    /// Appends a record whose plaintext is `parts` in order, at most 2^14 bytes together. It is
    /// done with [`Protection::finish`].
    pub(crate) fn write<'a>(
        &mut self,
        out: &mut Vec<u8>,
        record_type: RecordType,
        parts: impl Iterator<Item = &'a [u8]>,
        mac: &[u8],
        iv: impl FnOnce() -> [u8; BLOCK_LEN],
    ) {
        let start = out.len();
        out.extend_from_slice(&[record_type.as_u8(), 3, 3, 0, 0]);
        match self {
            Self::Clear => parts.for_each(|part| out.extend_from_slice(part)),
            Self::Cbc(_, lanes) => {
                let iv = iv();
                out.extend_from_slice(&iv);
                let plaintext = out.len();
                parts.for_each(|part| out.extend_from_slice(part));
                out.extend_from_slice(mac);
                let padding = BLOCK_LEN - (out.len() - plaintext) % BLOCK_LEN;
                let value = u8::try_from(padding - 1).expect("less than a block");
                out.resize(out.len() + padding, value);
                lanes.push(Lane {
                    iv,
                    range: plaintext..out.len(),
                });
            }
            Self::Integrity => {
                out[start] = RecordType::ApplicationData.as_u8();
                parts.for_each(|part| out.extend_from_slice(part));
                out.push(record_type.as_u8());
                out.extend_from_slice(mac);
            }
        }
        let length = out.len() - start - HEADER_LEN;
        let length = u16::try_from(length).expect("a record's parts fit in a record");
        out[start + 3..start + HEADER_LEN].copy_from_slice(&length.to_be_bytes());
    }

    /// Encrypts what was appended to `out` since the last call. Before it `out` must not leave, nor
    /// this be given up.
    pub(crate) fn finish(&mut self, out: &mut [u8]) {
        match self {
            Self::Clear | Self::Integrity => {}
            Self::Cbc(key, lanes) => {
                key.encrypt(out, lanes);
                lanes.clear();
            }
        }
    }
}
