//! The file that stands where a web server's settings name a private key: a public key under a
//! label of its own, so that OpenSSL asks this provider for it.
//!
//! ```text
//!   -----BEGIN TANDEM KEY SERVER KEY-----
//!   MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE...      the SubjectPublicKeyInfo of the certificate
//!   -----END TANDEM KEY SERVER KEY-----
//! ```
//!
//! Is not: a secret. Read line by line, since other providers read on from where this one stopped.
//!
//! Specification: RFC 7468, section 3.

use data_encoding::BASE64;

use crate::public_key::{PublicKey, only};

const BEGIN: &[u8] = b"-----BEGIN TANDEM KEY SERVER KEY-----";
const END: &[u8] = b"-----END TANDEM KEY SERVER KEY-----";
const ANY: &[u8] = b"-----BEGIN ";

/// Most characters between the two labels: an RSA key of 16,384 bits has 2,800.
const MAX_LEN: usize = 8_192;

/// Most bytes of what [`wrapped`] returns, and more than that.
pub(crate) const MAX_WRAPPED: usize = MAX_LEN;

/// Stands before a key on its way from the decoder of files to that of keys: an ordinary public key
/// must not be taken for one of a key server.
const MARK: &[u8] = b"\x0c\x15TANDEM KEY SERVER KEY";

/// The key with its mark: SEQUENCE { UTF8String, SubjectPublicKeyInfo }.
pub(crate) fn wrapped(der: &[u8]) -> Option<Vec<u8>> {
    let [high, low] = u16::try_from(MARK.len() + der.len()).ok()?.to_be_bytes();
    // DER has the shortest form of a length.
    let head = match high {
        0 if low < 0x80 => vec![0x30, low],
        0 => vec![0x30, 0x81, low],
        _ => vec![0x30, 0x82, high, low],
    };
    Some([&head, MARK, der].concat())
}

/// The key behind its mark; `None` for all that [`wrapped`] has not made.
pub(crate) fn unwrapped(bytes: &[u8]) -> Option<PublicKey> {
    let marked = only(bytes, 0x30)?;
    PublicKey::read(marked.strip_prefix(MARK)?)
}

/// What is known after a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next line is needed.
    More,
    /// Another label: this is for other providers.
    Foreign,
    /// A key, and its bytes.
    Key(PublicKey, Vec<u8>),
    /// The label is right and what it labels is wrong.
    Wrong(&'static str),
}

/// Reads one block.
#[derive(Debug, Default)]
pub(crate) struct KeyFile {
    text: Option<Vec<u8>>,
}

impl KeyFile {
    /// With the next line, or the next part of a long one.
    pub(crate) fn push(&mut self, line: &[u8]) -> Step {
        let line = line.trim_ascii();
        let Some(text) = &mut self.text else {
            if line == BEGIN {
                self.text = Some(Vec::new());
            } else if line.starts_with(ANY) {
                return Step::Foreign;
            }
            return Step::More;
        };
        if line == END {
            let Ok(der) = BASE64.decode(text) else {
                return Step::Wrong("is not base64");
            };
            return match PublicKey::read(&der) {
                Some(key) => Step::Key(key, der),
                None => Step::Wrong("is no public key of a kind that key servers have"),
            };
        }
        if text.len() + line.len() > MAX_LEN {
            return Step::Wrong("is too long");
        }
        text.extend_from_slice(line);
        Step::More
    }

    /// The file is over.
    pub(crate) fn end(&self) -> Step {
        match self.text {
            Some(_) => Step::Wrong("has no end"),
            None => Step::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_key::tests::ED25519;

    fn read(text: &str) -> Step {
        let mut file = KeyFile::default();
        for line in text.split_inclusive('\n') {
            match file.push(line.as_bytes()) {
                Step::More => {}
                step => return step,
            }
        }
        file.end()
    }

    fn labelled(text: &str) -> String {
        format!(
            "-----BEGIN TANDEM KEY SERVER KEY-----\n{text}\n-----END TANDEM KEY SERVER KEY-----\n"
        )
    }

    #[test]
    fn a_key_is_read_and_other_labels_are_left_alone() {
        let text = labelled(&BASE64.encode(ED25519));
        let key = PublicKey::read(ED25519).expect("a key");
        assert_eq!(read(&text), Step::Key(key.clone(), ED25519.to_vec()));
        let crlf = format!("for the shop\r\n{}", text.replace('\n', "\r\n"));
        assert_eq!(read(&crlf), Step::Key(key.clone(), ED25519.to_vec()));
        assert_eq!(unwrapped(&wrapped(ED25519).expect("short")), Some(key));
        assert_eq!(unwrapped(ED25519), None, "an ordinary public key");
        assert_eq!(
            read(&text.replace("TANDEM KEY SERVER", "PRIVATE")),
            Step::Foreign
        );
        assert_eq!(read("no key\n"), Step::Foreign);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = labelled(&BASE64.encode(ED25519));
        for (text, wrong) in [
            (labelled("!!!!"), "is not base64"),
            (
                labelled(&BASE64.encode(b"\x30\x00")),
                "is no public key of a kind that key servers have",
            ),
            (labelled(&"A".repeat(MAX_LEN + 1)), "is too long"),
            (text[..90].to_owned(), "has no end"),
        ] {
            assert_eq!(read(&text), Step::Wrong(wrong));
        }
    }
}
