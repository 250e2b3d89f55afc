//! A server's certificates in two forms, as bytes: the format of `certificates-*.json`. How they
//! are drawn is in `plots`.
//!
//! ```text
//!   99 000030 | 16 bytes | 16 bytes | 16 bytes                                      CompressedCertificate, of the thesis (2.3.3)
//!   0b 000ab8 | 000ab5 | 00039e 308203 ... | 000384 308203 ... | 000384 308203 ...  Certificate (RFC 5246, section 7.4.2)
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::waterfall;
use crate::error::ReportError;

/// How such a file's name begins; it ends in `.json`.
pub(crate) const PREFIX: &str = "certificates-";

/// Handshake message type of Certificate (RFC 5246, section 7.4).
pub const CERTIFICATE: u8 = 0x0b;

/// Handshake message type of the thesis's CompressedCertificate (section 2.3.3).
pub const COMPRESSED_CERTIFICATE: u8 = 0x99;

/// Bytes of a message's header.
const HEADER: usize = 4;
/// Bytes of a certificate's length, and of the list's.
const LENGTH: usize = 3;
/// Bytes of a reference of the thesis's.
pub(crate) const REFERENCE: usize = 16;

/// Both messages of the same chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exhibit {
    /// The experiment's name.
    pub experiment: String,
    /// The link's name.
    pub link: String,
    /// The endpoints' name.
    pub endpoints: String,
    /// The message that crossed in place of the server's, hexadecimal.
    pub compressed: String,
    /// The server's, hexadecimal.
    pub normal: String,
}

/// A part of a message with what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// In words.
    pub(crate) what: String,
    /// As they crossed.
    pub(crate) bytes: Vec<u8>,
}

impl Exhibit {
    /// `names` of experiment, link and endpoints.
    pub fn new(names: [&str; 3], compressed: &[u8], normal: &[u8]) -> Self {
        let [experiment, link, endpoints] = names.map(str::to_owned);
        Self {
            experiment,
            link,
            endpoints,
            compressed: hexadecimal(compressed),
            normal: hexadecimal(normal),
        }
    }

    /// Writes it into a directory, under a name that a report finds.
    ///
    /// # Errors
    /// `Io`.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ReportError> {
        let name = waterfall::file_name([&self.experiment, &self.link, &self.endpoints]);
        let path = directory.join(format!("{PREFIX}{name}.json"));
        let write = || ReportError::io(format!("write {}", path.display()));
        let mut text = serde_json::to_string_pretty(self).map_err(|error| write()(error.into()))?;
        text.push('\n');
        fs::write(&path, text).map_err(write())?;
        Ok(path)
    }

    /// The parts of both messages, the compressed one's first; `None` where one is not what it
    /// should be.
    pub(crate) fn fields(&self) -> Option<[Vec<Field>; 2]> {
        let compressed = message(&self.compressed, COMPRESSED_CERTIFICATE)?;
        let normal = message(&self.normal, CERTIFICATE)?;
        Some([references(&compressed)?, certificates(&normal)?])
    }
}

fn references(message: &[u8]) -> Option<Vec<Field>> {
    let (head, body) = message.split_at_checked(HEADER)?;
    let mut fields = heads(head, "CompressedCertificate");
    let all = body.chunks_exact(REFERENCE);
    if !all.remainder().is_empty() {
        return None;
    }
    for (reference, number) in all.zip(1..) {
        fields.push(field(&format!("reference {number}"), reference));
    }
    Some(fields)
}

fn certificates(message: &[u8]) -> Option<Vec<Field>> {
    let (head, body) = message.split_at_checked(HEADER)?;
    let (list, mut rest) = body.split_at_checked(LENGTH)?;
    if number(list) != rest.len() {
        return None;
    }
    let mut fields = heads(head, "Certificate");
    fields.push(field(&format!("list, {} bytes", rest.len()), list));
    let mut count = 0;
    while !rest.is_empty() {
        count += 1;
        let (length, after) = rest.split_at_checked(LENGTH)?;
        let (certificate, after) = after.split_at_checked(number(length))?;
        fields.push(field(&format!("length {count}"), length));
        fields.push(field(&format!("certificate {count}"), certificate));
        rest = after;
    }
    Some(fields)
}

fn heads(head: &[u8], name: &str) -> Vec<Field> {
    let (kind, length) = head.split_at(1);
    vec![
        field(name, kind),
        field(&format!("length {}", number(length)), length),
    ]
}

fn field(what: &str, bytes: &[u8]) -> Field {
    Field {
        what: what.to_owned(),
        bytes: bytes.to_vec(),
    }
}

/// The bytes of a message of this type whose length is right.
fn message(text: &str, kind: u8) -> Option<Vec<u8>> {
    let bytes = from_hexadecimal(text)?;
    let (head, body) = bytes.split_at_checked(HEADER)?;
    let (found, length) = head.split_first()?;
    (*found == kind && number(length) == body.len()).then_some(bytes)
}

/// Big-endian, three bytes at most.
fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two certificates of 300 and 20 bytes, and two references.
    pub(crate) fn exhibit() -> Exhibit {
        let certificate = |length: u16| {
            let mut bytes = vec![0];
            bytes.extend(length.to_be_bytes());
            bytes.extend(std::iter::repeat_n(0x30, usize::from(length)));
            bytes
        };
        let list = [certificate(300), certificate(20)].concat();
        let normal = [&[0x0b, 0, 1, 0x49, 0, 1, 0x46][..], &list].concat();
        let compressed = [&[0x99, 0, 0, 0x20][..], &[0xab; 32]].concat();
        Exhibit::new(["fast", "tcdl-10", "three"], &compressed, &normal)
    }

    #[test]
    fn messages_are_taken_apart() {
        let fields = exhibit().fields();
        let sizes = fields.map(|both| {
            both.map(|fields| {
                fields
                    .iter()
                    .map(|field| field.bytes.len())
                    .collect::<Vec<_>>()
            })
        });
        assert_eq!(
            sizes,
            Some([vec![1, 3, 16, 16], vec![1, 3, 3, 3, 300, 3, 20]])
        );
    }

    #[test]
    fn damage_is_no_message() {
        for (from, to) in [("99000020", "99000021"), ("99", "98"), ("ab", "xx")] {
            let mut damaged = exhibit();
            damaged.compressed = damaged.compressed.replacen(from, to, 1);
            assert_eq!(damaged.fields(), None, "{from}");
        }
        let mut damaged = exhibit();
        damaged.normal = damaged.normal.replacen("00012c", "00012d", 1);
        assert_eq!(damaged.fields(), None);
    }
}
