//! What the server's TLS hands out: its records in their parts.
//!
//! Is not: a wire format. It crosses no process; it is how the parts leave the TLS library, whose
//! records have one payload each.
//!
//! ```text
//!   type | 03 03 | length | key length | key | MAC length | MAC | content      after ChangeCipherSpec
//!   type | 03 03 | length | content                                            up to it
//! ```
//!
//! The key that hides stands in the first record after ChangeCipherSpec alone. Application data
//! does not pass through the library: whoever sends it has its proofs made beside it.

use std::fmt;

use tandem_split::seal::{MAX_MAC_LEN, Mac};
use zeroize::Zeroizing;

/// The most that the parts add to the content: two lengths, the longest key, the longest MAC.
pub(super) const MAX_OVERHEAD: usize = 2 + 32 + MAX_MAC_LEN;
/// type, version, length (RFC 5246, 6.2.1).
const HEADER: usize = 5;
const CHANGE_CIPHER_SPEC: u8 = 20;

/// One record of the server.
pub enum Record {
    /// As the client is to get it: all up to and with ChangeCipherSpec.
    Clear(Vec<u8>),
    /// To be encrypted.
    Protected {
        /// The key that hides, with the first such record.
        key: Option<Zeroizing<Vec<u8>>>,
        /// The content type (RFC 5246, 6.2.1).
        content_type: u8,
        /// The plaintext.
        content: Vec<u8>,
        /// What vouches for it.
        mac: Mac,
    },
}

impl fmt::Debug for Record {
    /// Lengths only: contents are for no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clear(bytes) => write!(f, "Clear({} bytes)", bytes.len()),
            Self::Protected {
                content_type,
                content,
                ..
            } => write!(f, "Protected(type {content_type}, {} bytes)", content.len()),
        }
    }
}

/// Takes apart what the TLS library writes.
#[derive(Default)]
pub struct Records {
    buffer: Zeroizing<Vec<u8>>,
    after_change: bool,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Records({} bytes)", self.buffer.len())
    }
}

impl Records {
    /// Bytes that the library wrote, in order.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole record.
    pub fn pop(&mut self) -> Option<Record> {
        let header = self.buffer.get(..HEADER)?;
        let content_type = header[0];
        let len = HEADER + usize::from(u16::from_be_bytes([header[3], header[4]]));
        if self.buffer.len() < len {
            return None;
        }
        let record = Zeroizing::new(self.buffer.drain(..len).collect::<Vec<u8>>());
        if self.after_change {
            return split(content_type, &record[HEADER..]);
        }
        self.after_change = content_type == CHANGE_CIPHER_SPEC;
        Some(Record::Clear(record.to_vec()))
    }
}

fn split(content_type: u8, payload: &[u8]) -> Option<Record> {
    let (key, rest) = prefixed(payload)?;
    let (mac, content) = prefixed(rest)?;
    let mac = Mac::from_slice(mac)?;
    Some(Record::Protected {
        key: (!key.is_empty()).then(|| Zeroizing::new(key.to_vec())),
        content_type,
        content: content.to_vec(),
        mac,
    })
}

fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*len))
}

/// The payload of a record after ChangeCipherSpec. A key has at most 255 bytes, and none for every
/// record but the first.
pub(super) fn write(key: &[u8], mac: &[u8], content: &[u8], out: &mut dyn FnMut(&[u8])) {
    out(&[key.len() as u8]);
    out(key);
    out(&[mac.len() as u8]);
    out(mac);
    out(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_whole_in_order_and_in_their_parts() {
        let mut bytes = vec![22, 3, 3, 0, 2, 1, 2, 20, 3, 3, 0, 1, 1];
        let mut payload = Vec::new();
        write(b"key", &[7; 20], b"finished", &mut |part| {
            payload.extend_from_slice(part);
        });
        bytes.extend([22, 3, 3, 0, payload.len() as u8]);
        bytes.extend(&payload);
        bytes.extend([21, 3, 3, 0, 24, 0, 20]);
        bytes.extend([7; 20]);
        bytes.extend([1, 0]);

        let mut records = Records::default();
        let mut found = Vec::new();
        for byte in bytes {
            records.push(&[byte]);
            match records.pop() {
                Some(Record::Clear(bytes)) => found.push((0, None, bytes)),
                Some(Record::Protected {
                    key,
                    content_type,
                    content,
                    mac,
                }) => {
                    assert_eq!(mac.as_ref(), [7; 20]);
                    found.push((content_type, key.map(|key| key.to_vec()), content));
                }
                None => {}
            }
        }
        assert_eq!(
            found,
            [
                (0, None, vec![22, 3, 3, 0, 2, 1, 2]),
                (0, None, vec![20, 3, 3, 0, 1, 1]),
                (22, Some(b"key".to_vec()), b"finished".to_vec()),
                (21, None, vec![1, 0]),
            ]
        );
    }
}
