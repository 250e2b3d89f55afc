//! The layer between: which records of one direction are in clear, and where protection begins.
//!
//! ```text
//! SSL 3.0 to TLS 1.2   Clear --ChangeCipherSpec--> Protected
//! TLS 1.3              Clear --ServerHello-------> Protected      a ChangeCipherSpec means nothing
//! ```
//!
//! It is not a policy: whether a record may come where it comes is for the reader to say. A
//! protected record is handed on as one: who has its key and IV opens it, and gives what is inside
//! to [`super::messages`], which does not ask where its bytes come from.
//!
//! Invariant: two flags are all that is kept.
//!
//! Specifications: RFC 5246, section 7.1; RFC 8446, section 5 and appendix D.4.

use crate::tls::record::ContentType;

/// What a record of one direction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Handshake messages in clear, or parts of them.
    Handshake,
    /// An alert in clear.
    Alert,
    /// A heartbeat in clear.
    Heartbeat,
    /// A ChangeCipherSpec: all that follows is protected.
    ChangeCipherSpec,
    /// A ChangeCipherSpec that is sent for the sake of middleboxes and means nothing.
    Compatibility,
    /// A protected record; in TLS 1.3 its type is inside.
    Protected,
}

/// What one direction has in clear.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plaintext {
    is_protected: bool,
    ignores_change: bool,
}

impl Plaintext {
    /// A direction of which nothing was read yet: all is in clear.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            is_protected: false,
            ignores_change: false,
        }
    }

    /// Whether a ChangeCipherSpec with the one content that is allowed (RFC 8446, section 5) means
    /// nothing from here on.
    pub const fn ignore_change(&mut self, ignores: bool) {
        self.ignores_change = ignores;
    }

    /// All that follows is protected, without a record that says so.
    pub const fn protect(&mut self) {
        self.is_protected = true;
    }

    /// Whether all that follows is protected.
    #[must_use]
    pub const fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// What the next record of this direction holds, which says that it is of this type.
    #[inline]
    pub fn take(&mut self, content_type: ContentType, fragment: &[u8]) -> Content {
        match content_type {
            ContentType::ChangeCipherSpec if self.ignores_change && fragment == [1] => {
                Content::Compatibility
            }
            _ if self.is_protected => Content::Protected,
            ContentType::ChangeCipherSpec => {
                self.is_protected = true;
                Content::ChangeCipherSpec
            }
            ContentType::Handshake => Content::Handshake,
            ContentType::Alert => Content::Alert,
            ContentType::Heartbeat => Content::Heartbeat,
            ContentType::ApplicationData => Content::Protected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::record::Records;

    fn contents(plaintext: &mut Plaintext, stream: &[u8]) -> Vec<Content> {
        Records::new(stream)
            .map(|record| {
                let record = record.expect("a record");
                plaintext.take(record.header.content_type, record.fragment)
            })
            .collect()
    }

    const STREAM: [u8; 19] = [21, 3, 3, 0, 1, 9, 22, 3, 3, 0, 0, 20, 3, 3, 0, 1, 1, 22, 3];

    #[test]
    fn a_change_of_cipher_spec_ends_what_is_in_clear_or_means_nothing() {
        let stream = [&STREAM[..], &[3, 0, 0, 23, 3, 3, 0, 0]].concat();
        let found = contents(&mut Plaintext::new(), &stream);
        let protected = [
            Content::Alert,
            Content::Handshake,
            Content::ChangeCipherSpec,
            Content::Protected,
            Content::Protected,
        ];
        assert_eq!(found, protected);
        let mut plaintext = Plaintext::new();
        plaintext.ignore_change(true);
        let found = contents(&mut plaintext, &stream);
        assert_eq!(found[2..4], [Content::Compatibility, Content::Handshake]);
        assert!(!plaintext.is_protected());
        plaintext.protect();
        let found = contents(&mut plaintext, &stream);
        assert_eq!(found[1..3], [Content::Protected, Content::Compatibility]);
    }

    /// RFC 8446, section 5: any other content is no ChangeCipherSpec of TLS 1.3.
    #[test]
    fn only_the_one_allowed_content_means_nothing() {
        let mut plaintext = Plaintext::new();
        plaintext.ignore_change(true);
        let found = contents(&mut plaintext, &[20, 3, 3, 0, 1, 2]);
        assert_eq!(found, [Content::ChangeCipherSpec]);
    }
}
