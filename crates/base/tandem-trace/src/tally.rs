//! What a handshake is made of, byte by byte: each record byte of a handshake is filed under
//! exactly one part.
//!
//! Not a report: whoever adds parts up gets the handshake's bytes, since none is filed twice.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::opening::Role;

/// Something that handshakes are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A handshake message in clear, its 4-byte header included; by type number and sender.
    Message(Role, u8),
    /// The 5 bytes before each record.
    RecordHeader,
    /// Content of ChangeCipherSpec records.
    ChangeCipherSpec,
    /// TLS 1.2 and older: the first encrypted handshake record, which holds Finished.
    EncryptedFinished,
    /// TLS 1.3: content of the encrypted records up to this side's Finished, tags included.
    EncryptedFlight(Role),
    /// A hello in SSL 2.0's format.
    OldHello,
    /// The beginning of a message whose end is not in the capture.
    Incomplete,
}

impl Part {
    /// Its name in reports. Message types as the registry "TLS HandshakeType" has them.
    pub fn name(self) -> Cow<'static, str> {
        let name = match self {
            Self::Message(role, number) => return message_name(role, number),
            Self::RecordHeader => "record_headers",
            Self::ChangeCipherSpec => "change_cipher_spec",
            Self::EncryptedFinished => "encrypted_finished",
            Self::EncryptedFlight(Role::Client) => "encrypted_client_flight",
            Self::EncryptedFlight(Role::Server) => "encrypted_server_flight",
            Self::OldHello => "ssl2_client_hello",
            Self::Incomplete => "incomplete",
        };
        Cow::Borrowed(name)
    }
}

fn message_name(role: Role, number: u8) -> Cow<'static, str> {
    Cow::Borrowed(match (role, number) {
        (_, 0) => "hello_request",
        (_, 1) => "client_hello",
        (_, 2) => "server_hello",
        (_, 4) => "new_session_ticket",
        (_, 6) => "hello_retry_request",
        (Role::Server, 11) => "certificate",
        (Role::Client, 11) => "client_certificate",
        (_, 12) => "server_key_exchange",
        (_, 13) => "certificate_request",
        (_, 14) => "server_hello_done",
        (_, 15) => "certificate_verify",
        (_, 16) => "client_key_exchange",
        (_, 20) => "finished",
        (_, 21) => "client_certificate_url",
        (_, 22) => "certificate_status",
        (_, 23) => "supplemental_data",
        (_, number) => return Cow::Owned(format!("message_{number}")),
    })
}

/// Count and bytes of one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartTally {
    /// How many.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Counts and bytes of all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<Part, PartTally>);

impl Tally {
    /// Files one more of `part`.
    pub(crate) fn file(&mut self, part: Part, bytes: usize) {
        self.file_many(part, 1, bytes as u64);
    }

    /// Files `count` more of `part` with `bytes` together.
    pub(crate) fn file_many(&mut self, part: Part, count: u64, bytes: u64) {
        let tally = self.0.entry(part).or_default();
        tally.count += count;
        tally.bytes += bytes;
    }

    /// All bytes filed.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|tally| tally.bytes).sum()
    }

    /// All parts.
    pub fn parts(&self) -> impl Iterator<Item = (Part, PartTally)> {
        self.0.iter().map(|(&part, &tally)| (part, tally))
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        for (part, tally) in other.parts() {
            self.file_many(part, tally.count, tally.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ_where_parts_do() {
        let mut names = BTreeSet::new();
        let parts = [
            Part::RecordHeader,
            Part::ChangeCipherSpec,
            Part::EncryptedFinished,
            Part::EncryptedFlight(Role::Client),
            Part::EncryptedFlight(Role::Server),
            Part::OldHello,
            Part::Incomplete,
            Part::Message(Role::Client, 11),
        ];
        let messages = (0..=255).map(|number| Part::Message(Role::Server, number));
        let count = parts
            .into_iter()
            .chain(messages)
            .filter(|part| !names.insert(part.name()))
            .count();
        assert_eq!(count, 0);
        assert!(names.contains("message_99") && names.contains("certificate"));
    }

    #[test]
    fn a_tally_adds_up() {
        let mut one = Tally::default();
        one.file(Part::RecordHeader, 5);
        one.file(Part::RecordHeader, 5);
        let mut other = Tally::default();
        other.file_many(Part::Incomplete, 1, 7);
        one.add(&other);
        assert_eq!(one.bytes(), 17);
        let parts: Vec<_> = one.parts().collect();
        let headers = PartTally {
            count: 2,
            bytes: 10,
        };
        let incomplete = PartTally { count: 1, bytes: 7 };
        assert_eq!(
            parts,
            [
                (Part::RecordHeader, headers),
                (Part::Incomplete, incomplete)
            ]
        );
    }
}
