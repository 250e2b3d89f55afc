//! What can go wrong, by who is at fault, and the alert that the other side is sent.
//!
//! Invariant: an error ends one connection, never the program, and shows no key and no content.

use tandem_wire::TlsError;

/// Why a connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes that are not TLS.
    #[error("no TLS: {0}")]
    Malformed(#[from] TlsError),
    /// A message that has no place here, or a value that is not permitted.
    #[error("the other side broke the protocol: {0}")]
    Peer(#[from] Breach),
    /// A check of authenticity failed.
    #[error("{0}")]
    Forged(#[from] Check),
    /// Somebody does not want this connection.
    #[error("{0}")]
    Policy(#[from] Policy),
    /// The caller asked for something that cannot be done.
    #[error("wrong use: {0}")]
    Caller(#[from] Misuse),
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
    /// A message that is longer than is held.
    #[error("a handshake message of {0} bytes")]
    TooLong(usize),
    /// Another version than TLS 1.2.
    #[error("version {0:#06x}")]
    Version(u16),
    /// A cipher suite that was not offered, or that does not fit the key.
    #[error("suite {0:#06x}, which was not offered or does not fit")]
    Suite(u16),
    /// An extension in an answer that was not asked for, or with a wrong content.
    #[error("extension {0}, which was not asked for or has a wrong content")]
    Extension(u16),
    /// A group that was not offered.
    #[error("group {0}, which was not offered")]
    Group(u16),
    /// A signature scheme that was not offered.
    #[error("signature scheme {0:#06x}, which was not offered")]
    Scheme(u16),
    /// A key that is no point of the group.
    #[error("a public key that is no point of its group")]
    Point,
    /// A first flight of another length than its hello says.
    #[error("a first flight of another length than its hello says")]
    FirstFlight,
    /// More bytes after the end of the direction.
    #[error("a record after the end")]
    AfterClose,
}

/// Which check found something that no honest party made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Check {
    /// The server's signature over its key.
    #[error("the server did not prove the key of its certificate")]
    Signature,
    /// A certificate that stands for a cached one but has another hash.
    #[error("the server refers to certificates that were not offered")]
    Fingerprint,
    /// A record's tag.
    #[error("a record was changed or moved")]
    Record,
    /// The hash over all handshake messages.
    #[error("client and server have seen different handshakes")]
    Finished,
}

/// Somebody's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Policy {
    /// The server's certificate does not verify.
    #[error("the server's certificate does not verify")]
    Certificate,
    /// No suite, group or signature scheme in common.
    #[error("client and server have no suite, group or signature scheme in common")]
    NothingInCommon,
    /// The other side ended the connection.
    #[error("the other side ended the connection with alert {0}")]
    Alert(u8),
}

/// What a caller did that cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// Random bytes that are no private key: one draw in four billion.
    #[error("random bytes that are no private key; draw again")]
    Entropy,
    /// The key does not sign.
    #[error("the private key does not sign")]
    Signing,
    /// Data before the handshake permits it, or after the end.
    #[error("the connection takes no data now")]
    NotOpen,
    /// Something is longer than its message permits.
    #[error("something is longer than its message permits")]
    TooLong,
    /// The connection has failed before.
    #[error("the connection has failed before")]
    Failed,
}

impl Error {
    /// The number of the alert that tells the other side (RFC 5246, section 7.2). `None`: the other
    /// side ended the connection itself.
    #[must_use]
    pub const fn alert(&self) -> Option<u8> {
        const UNEXPECTED_MESSAGE: u8 = 10;
        const BAD_RECORD_MAC: u8 = 20;
        const HANDSHAKE_FAILURE: u8 = 40;
        const BAD_CERTIFICATE: u8 = 42;
        const ILLEGAL_PARAMETER: u8 = 47;
        const DECODE_ERROR: u8 = 50;
        const DECRYPT_ERROR: u8 = 51;
        const PROTOCOL_VERSION: u8 = 70;
        const INTERNAL_ERROR: u8 = 80;
        const UNSUPPORTED_EXTENSION: u8 = 110;
        Some(match self {
            Self::Malformed(_) => DECODE_ERROR,
            Self::Peer(breach) => match breach {
                Breach::Message(_)
                | Breach::Record(_)
                | Breach::AfterClose
                | Breach::FirstFlight => UNEXPECTED_MESSAGE,
                Breach::TooLong(_) => DECODE_ERROR,
                Breach::Version(_) => PROTOCOL_VERSION,
                Breach::Extension(_) => UNSUPPORTED_EXTENSION,
                Breach::Suite(_) | Breach::Group(_) | Breach::Scheme(_) | Breach::Point => {
                    ILLEGAL_PARAMETER
                }
            },
            Self::Forged(check) => match check {
                Check::Signature | Check::Finished | Check::Fingerprint => DECRYPT_ERROR,
                Check::Record => BAD_RECORD_MAC,
            },
            Self::Policy(policy) => match policy {
                Policy::Certificate => BAD_CERTIFICATE,
                Policy::NothingInCommon => HANDSHAKE_FAILURE,
                Policy::Alert(_) => return None,
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
            (TlsError::Truncated.into(), Some(50)),
            (Breach::Message(1).into(), Some(10)),
            (Breach::Version(0x0301).into(), Some(70)),
            (Breach::Suite(1).into(), Some(47)),
            (Check::Finished.into(), Some(51)),
            (Check::Record.into(), Some(20)),
            (Policy::Certificate.into(), Some(42)),
            (Policy::Alert(40).into(), None),
            (Misuse::NotOpen.into(), Some(80)),
        ];
        for (error, alert) in table {
            assert_eq!(error.alert(), alert, "{error}");
        }
    }
}
