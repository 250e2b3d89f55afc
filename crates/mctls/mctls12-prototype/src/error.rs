//! What can go wrong, by who is at fault, and the alert that the other side is sent.
//!
//! Invariant: an error ends one session, never the program, and shows no key and no content.

use mctls::party::{ContextId, Position};

/// Why a session cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes that are no record or message of this format.
    #[error("no message of the prototype: {0}")]
    Malformed(#[from] Malformed),
    /// A message that has no place here, or a value that is not permitted.
    #[error("the other side broke the protocol: {0}")]
    Peer(#[from] Breach),
    /// A check of authenticity failed.
    #[error("{0}")]
    Forged(#[from] Check),
    /// Somebody does not want this session.
    #[error("{0}")]
    Policy(#[from] Policy),
    /// The caller asked for something that cannot be done.
    #[error("wrong use: {0}")]
    Caller(#[from] Misuse),
}

/// Why bytes are no record or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A record of no known type.
    #[error("a record of type {0}")]
    RecordType(u8),
    /// Another version than 0x0666.
    #[error("version {0:#06x}")]
    Version(u16),
    /// A record or message that is longer than permitted.
    #[error("a record or message of type {kind} with {length} bytes")]
    TooLong {
        /// The type.
        kind: u8,
        /// What its header says.
        length: usize,
    },
    /// A field ends after its message.
    #[error("a field that ends after its message")]
    Truncated,
    /// The message goes on after its last field.
    #[error("bytes after the last field")]
    TrailingBytes,
    /// A field with a value that this format does not have.
    #[error("a field with a value that this format does not have")]
    Value,
    /// A list of middleboxes and contexts that no session can have.
    #[error("a list of middleboxes and contexts that no session can have: {0}")]
    List(mctls12::error::Malformed),
    /// No certificate, or more than a chain can have.
    #[error("{0} certificates; a chain has 1 to 8")]
    Chain(usize),
    /// A group or a public value that is not safe to compute with.
    #[error("Diffie-Hellman parameters that are out of bounds")]
    Group,
}

/// Of records, which the paper's protocol frames alike.
impl From<mctls12::error::Malformed> for Malformed {
    fn from(malformed: mctls12::error::Malformed) -> Self {
        use mctls12::error::Malformed as Of;
        match malformed {
            Of::RecordType(kind) => Self::RecordType(kind),
            Of::Version(version) => Self::Version(version),
            Of::TooLong { kind, length } => Self::TooLong { kind, length },
            other => Self::List(other),
        }
    }
}

impl From<mctls12::error::Malformed> for Error {
    fn from(malformed: mctls12::error::Malformed) -> Self {
        Malformed::from(malformed).into()
    }
}

/// What a peer did that the protocol forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A handshake message that is not due.
    #[error("a handshake message of type {0} at the wrong time")]
    Message(u8),
    /// A record that is not due.
    #[error("a record of type {0} at the wrong time")]
    Record(u8),
    /// No suite or compression method in common.
    #[error("no suite or compression method in common")]
    Suite,
    /// No list of middleboxes in the client's hello.
    #[error("a hello without a list of middleboxes and contexts")]
    NoList,
    /// A list of middleboxes in which a middlebox does not find itself.
    #[error("a session of which this middlebox is no part")]
    NotListed,
    /// Key material for somebody else, or for other contexts than the session's.
    #[error("key material other than what was due")]
    KeyMaterial,
    /// A context that the session does not have.
    #[error("a record of slice {0}, which the session does not have")]
    Slice(u8),
    /// An alert of another form than two bytes.
    #[error("an alert that cannot be read")]
    Alert,
    /// A record after the direction was closed.
    #[error("a record after the end")]
    AfterClose,
    /// The connection ended before close_notify.
    #[error("the connection was cut before its end")]
    Truncated,
    /// More bytes than a record or message can have wait for its end.
    #[error("the other side sends more than was asked for")]
    Flood,
}

/// Which check found something that no honest party made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Check {
    /// The server's signature over its ephemeral key.
    #[error("the server did not prove the key of its certificate")]
    ServerSignature,
    /// A middlebox's signature over its ephemeral key.
    #[error("{0} did not prove the key of its certificate")]
    MiddleboxSignature(Position),
    /// Sealed key material that does not open.
    #[error("key material that does not open")]
    KeyMaterial,
    /// The hashes over all handshake messages.
    #[error("client and server have seen different handshakes")]
    Finished,
    /// The readers' MAC: a party without the context's keys has changed the record.
    #[error("a record of {0} was changed by a party without its keys")]
    ReaderMac(ContextId),
    /// The writers' MAC, where the readers' holds: a reader has changed it.
    #[error("a record of {0} was changed by a party that may only read it")]
    WriterMac(ContextId),
    /// A record between the endpoints.
    #[error("a record between the endpoints was changed")]
    EndpointMac,
}

/// Somebody's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Policy {
    /// The server's certificate does not verify.
    #[error("the server's certificate does not verify")]
    ServerCertificate,
    /// A middlebox's certificate does not verify.
    #[error("the certificate of {0} does not verify")]
    MiddleboxCertificate(Position),
    /// The other side ended the session. Nobody vouches for an alert of the handshake.
    #[error("the other side ended the session with alert {0}")]
    Alert(u8),
    /// A server does not want this session.
    #[error("the server refuses a session with these middleboxes and rights")]
    Refused,
}

/// What a caller did that cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// More than a record holds.
    #[error("{0} bytes, and a record holds 16384")]
    PayloadLength(usize),
    /// A context that the session does not have.
    #[error("{0} is not a context of this session")]
    Context(ContextId),
    /// A change by a middlebox that may not write.
    #[error("this middlebox may not write in {0}")]
    NotWriter(ContextId),
    /// The direction was closed.
    #[error("this direction is closed")]
    Closed,
    /// More contexts than the prototype's messages have room for.
    #[error("{count} contexts; the prototype's messages have room for {max}")]
    Contexts {
        /// How many.
        count: usize,
        /// How many there is room for.
        max: usize,
    },
    /// The caller's key does not sign.
    #[error("the private key does not sign")]
    Signing,
    /// A certificate's key that cannot seal.
    #[error("a certificate whose RSA key is too short or too long")]
    Sealing,
}

/// The alert that ends a direction (RFC 5246, section 7.2).
pub(crate) const CLOSE_NOTIFY: u8 = 0;

impl Error {
    /// The number of the alert that tells the other side (RFC 5246, section 7.2). `None`: the other
    /// side ended the session itself.
    #[must_use]
    pub const fn alert(&self) -> Option<u8> {
        const UNEXPECTED_MESSAGE: u8 = 10;
        const BAD_RECORD_MAC: u8 = 20;
        const HANDSHAKE_FAILURE: u8 = 40;
        const BAD_CERTIFICATE: u8 = 42;
        const ILLEGAL_PARAMETER: u8 = 47;
        const ACCESS_DENIED: u8 = 49;
        const DECODE_ERROR: u8 = 50;
        const DECRYPT_ERROR: u8 = 51;
        const INTERNAL_ERROR: u8 = 80;
        Some(match self {
            Self::Malformed(_) => DECODE_ERROR,
            Self::Peer(breach) => match breach {
                Breach::Message(_) | Breach::Record(_) | Breach::AfterClose | Breach::Flood => {
                    UNEXPECTED_MESSAGE
                }
                Breach::Suite | Breach::NoList | Breach::NotListed => HANDSHAKE_FAILURE,
                Breach::KeyMaterial | Breach::Slice(_) => ILLEGAL_PARAMETER,
                Breach::Alert => DECODE_ERROR,
                Breach::Truncated => CLOSE_NOTIFY,
            },
            Self::Forged(check) => match check {
                Check::ServerSignature
                | Check::MiddleboxSignature(_)
                | Check::KeyMaterial
                | Check::Finished => DECRYPT_ERROR,
                Check::ReaderMac(_) | Check::WriterMac(_) | Check::EndpointMac => BAD_RECORD_MAC,
            },
            Self::Policy(policy) => match policy {
                Policy::ServerCertificate | Policy::MiddleboxCertificate(_) => BAD_CERTIFICATE,
                Policy::Alert(_) => return None,
                Policy::Refused => ACCESS_DENIED,
            },
            Self::Caller(_) => INTERNAL_ERROR,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fault_has_its_alert() {
        let table: [(Error, Option<u8>); 9] = [
            (Malformed::Truncated.into(), Some(50)),
            (Breach::Message(1).into(), Some(10)),
            (Breach::NotListed.into(), Some(40)),
            (Breach::KeyMaterial.into(), Some(47)),
            (Check::Finished.into(), Some(51)),
            (Check::WriterMac(ContextId(1)).into(), Some(20)),
            (Policy::ServerCertificate.into(), Some(42)),
            (Policy::Alert(40).into(), None),
            (Misuse::Closed.into(), Some(80)),
        ];
        for (error, alert) in table {
            assert_eq!(error.alert(), alert, "{error}");
        }
    }
}
