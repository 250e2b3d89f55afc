//! What the server's TLS hands out: its records in their parts.
//!
//! Is not: a wire format. It crosses no process; it is how the parts leave the TLS library, whose records have one payload each.
//!
//! ```text
//!   type | 03 03 | length | MAC key length | MAC key | key length | key | content      after ChangeCipherSpec
//!   type | 03 03 | length | content                                                    up to it
//! ```
//!
//! The keys stand in the first record after ChangeCipherSpec alone.

use std::fmt;

use zeroize::Zeroizing;

/// The most that the parts add to the content: two lengths, the longest keys.
pub(super) const MAX_OVERHEAD: usize = 2 + 32 + 48;
/// type, version, length (RFC 5246, 6.2.1).
const HEADER: usize = 5;
const CHANGE_CIPHER_SPEC: u8 = 20;

/// The keys of the server's direction.
pub struct ServerKeys {
    /// Authenticates; never leaves the origin.
    pub mac: Zeroizing<Vec<u8>>,
    /// Encrypts; whoever puts the records together needs it.
    pub cipher: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for ServerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerKeys(..)")
    }
}

/// One record of the server.
pub enum Record {
    /// As the client is to get it: all up to and with ChangeCipherSpec.
    Clear(Vec<u8>),
    /// To be authenticated and encrypted.
    Protected {
        /// With the first such record.
        keys: Option<ServerKeys>,
        /// The content type (RFC 5246, 6.2.1).
        content_type: u8,
        /// The plaintext.
        content: Vec<u8>,
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
    let (mac, rest) = prefixed(payload)?;
    let (cipher, content) = prefixed(rest)?;
    let keys = (!mac.is_empty()).then(|| ServerKeys {
        mac: Zeroizing::new(mac.to_vec()),
        cipher: Zeroizing::new(cipher.to_vec()),
    });
    Some(Record::Protected {
        keys,
        content_type,
        content: content.to_vec(),
    })
}

fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*len))
}

/// The payload of a record after ChangeCipherSpec. A key has at most 255 bytes, and none for every record but the first.
pub(super) fn write(mac: &[u8], cipher: &[u8], content: &[u8], out: &mut dyn FnMut(&[u8])) {
    out(&[mac.len() as u8]);
    out(mac);
    out(&[cipher.len() as u8]);
    out(cipher);
    out(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_whole_in_order_and_in_their_parts() {
        let mut bytes = vec![22, 3, 3, 0, 2, 1, 2, 20, 3, 3, 0, 1, 1];
        let mut payload = Vec::new();
        write(b"mac", b"key", b"finished", &mut |part| {
            payload.extend_from_slice(part);
        });
        bytes.extend([22, 3, 3, 0, payload.len() as u8]);
        bytes.extend(&payload);
        bytes.extend([23, 3, 3, 0, 4, 0, 0, b'h', b'i']);

        let mut records = Records::default();
        let mut found = Vec::new();
        for byte in bytes {
            records.push(&[byte]);
            match records.pop() {
                Some(Record::Clear(bytes)) => found.push((0, None, bytes)),
                Some(Record::Protected {
                    keys,
                    content_type,
                    content,
                }) => {
                    let keys = keys.map(|keys| (keys.mac.to_vec(), keys.cipher.to_vec()));
                    found.push((content_type, keys, content));
                }
                None => {}
            }
        }
        let keys = Some((b"mac".to_vec(), b"key".to_vec()));
        assert_eq!(
            found,
            [
                (0, None, vec![22, 3, 3, 0, 2, 1, 2]),
                (0, None, vec![20, 3, 3, 0, 1, 1]),
                (22, keys, b"finished".to_vec()),
                (23, None, b"hi".to_vec()),
            ]
        );
    }
}
