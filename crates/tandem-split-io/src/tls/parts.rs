//! What the server's TLS hands out: its records in their parts.
//!
//! Is not: a wire format. It crosses no process; it is how the parts leave the TLS library, whose records have one payload each.
//!
//! ```text
//!   type | 03 03 | length | key length | key | MAC length | MAC | content      after ChangeCipherSpec
//!   type | 03 03 | length | content                                            up to it
//! ```
//!
//! The key stands in the first record after ChangeCipherSpec alone: the place of a key-expose message.

use std::fmt;

/// The most that the parts add to the content: two lengths, the longest key, the longest MAC.
pub(super) const MAX_OVERHEAD: usize = 2 + 32 + 48;
/// type, version, length (RFC 5246, 6.2.1).
const HEADER: usize = 5;
const CHANGE_CIPHER_SPEC: u8 = 20;

/// One record of the server.
#[derive(Clone, PartialEq, Eq)]
pub enum Record {
    /// In clear, as the client is to get it: all up to and with ChangeCipherSpec.
    Clear(Vec<u8>),
    /// Authenticated, to be encrypted by whoever holds the key.
    Authenticated {
        /// The server's encryption key, with the first such record.
        key: Option<Vec<u8>>,
        /// The content type (RFC 5246, 6.2.1).
        content_type: u8,
        /// Over sequence number, header and content.
        mac: Vec<u8>,
        /// The plaintext.
        content: Vec<u8>,
    },
}

impl fmt::Debug for Record {
    /// Lengths only: keys and contents are for no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clear(bytes) => write!(f, "Clear({} bytes)", bytes.len()),
            Self::Authenticated {
                content_type,
                content,
                ..
            } => write!(
                f,
                "Authenticated(type {content_type}, {} bytes)",
                content.len()
            ),
        }
    }
}

/// Takes apart what the TLS library writes.
#[derive(Default)]
pub struct Records {
    buffer: Vec<u8>,
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
        let record: Vec<u8> = self.buffer.drain(..len).collect();
        if self.after_change {
            return split(content_type, &record[HEADER..]);
        }
        self.after_change = content_type == CHANGE_CIPHER_SPEC;
        Some(Record::Clear(record))
    }
}

fn split(content_type: u8, payload: &[u8]) -> Option<Record> {
    let (key, rest) = prefixed(payload)?;
    let (mac, content) = prefixed(rest)?;
    Some(Record::Authenticated {
        key: (!key.is_empty()).then(|| key.to_vec()),
        content_type,
        mac: mac.to_vec(),
        content: content.to_vec(),
    })
}

fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*len))
}

/// Bytes that [`write`] writes.
pub(super) fn len(key: &[u8], mac: &[u8], content: usize) -> usize {
    2 + key.len() + mac.len() + content
}

/// The payload of a record after ChangeCipherSpec. Key and MAC have at most 255 bytes.
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
        write(b"key", b"mac", b"finished", &mut |part| {
            payload.extend_from_slice(part);
        });
        assert_eq!(payload.len(), len(b"key", b"mac", 8));
        bytes.extend([22, 3, 3, 0, payload.len() as u8]);
        bytes.extend(&payload);
        bytes.extend([23, 3, 3, 0, 5, 0, 1, b'm', b'h', b'i']);

        let mut records = Records::default();
        let mut found = Vec::new();
        for byte in bytes {
            records.push(&[byte]);
            found.extend(records.pop());
        }
        assert_eq!(
            found,
            [
                Record::Clear(vec![22, 3, 3, 0, 2, 1, 2]),
                Record::Clear(vec![20, 3, 3, 0, 1, 1]),
                Record::Authenticated {
                    key: Some(b"key".to_vec()),
                    content_type: 22,
                    mac: b"mac".to_vec(),
                    content: b"finished".to_vec(),
                },
                Record::Authenticated {
                    key: None,
                    content_type: 23,
                    mac: b"m".to_vec(),
                    content: b"hi".to_vec(),
                },
            ]
        );
    }
}
