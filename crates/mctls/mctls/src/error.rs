//! What can go wrong, by who is at fault, and the alert that the other side is told.
//!
//! Invariant: an error ends one session, never the program, and names no key and no content.

use crate::party::{ContextId, Position};

/// Why a session cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes that are no message or record of this protocol.
    #[error("no message of this protocol: {0}")]
    Malformed(#[from] Malformed),
    /// A message that has no place here, or says what cannot be.
    #[error("the other side broke the protocol: {0}")]
    Peer(#[from] Breach),
    /// A check of authenticity failed: somebody changed, forged, moved or replayed something.
    #[error("{0}")]
    Forged(#[from] Check),
    /// Somebody does not want this session.
    #[error("{0}")]
    Policy(#[from] Policy),
    /// The caller asked for what cannot be.
    #[error("wrong use: {0}")]
    Caller(#[from] Misuse),
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A message, frame or record of no known type.
    #[error("a message of type {0:#04x}")]
    Type(u8),
    /// A version of the framing that is not known.
    #[error("version {0:#06x} of the framing")]
    FrameVersion(u16),
    /// More than a message of this type can have.
    #[error("a message of type {kind:#04x} with {length} bytes")]
    TooLong {
        /// The type.
        kind: u8,
        /// What its header says.
        length: u16,
    },
    /// A field ends after its message.
    #[error("a field that ends after its message")]
    Truncated,
    /// The message goes on after its last field.
    #[error("bytes after the last field")]
    TrailingBytes,
    /// Text that is too long, or not printable ASCII, or an empty name or address.
    #[error("text that is empty, too long, or not printable ASCII")]
    Text,
    /// A number that is no endpoint's.
    #[error("endpoint {0}")]
    Endpoint(u8),
    /// A number that no middlebox can have.
    #[error("middlebox {0}; numbers go from 1 to 16")]
    Position(u8),
    /// A number that is no right.
    #[error("right {0}")]
    Right(u8),
    /// A number that is no purpose of a share.
    #[error("share for purpose {0}")]
    Purpose(u8),
    /// A flag that is neither 0 nor 1.
    #[error("flag {0}")]
    Flag(u8),
    /// More middleboxes than can be.
    #[error("{0} middleboxes; a session has 16 at most")]
    Middleboxes(usize),
    /// No context at all.
    #[error("no contexts")]
    NoContexts,
    /// Contexts that are not in ascending order, or twice the same, or context 0.
    #[error("{0} is out of order, or comes twice, or is not for applications")]
    ContextOrder(ContextId),
    /// No suite, or more than can be.
    #[error("{0} suites; an offer has 1 to 4")]
    Suites(usize),
    /// A part of a group that cannot be.
    #[error("part {0} of a group")]
    Part(u8),
    /// A step of a short record that is of no known type, or does nothing.
    #[error("step {0} of a short record")]
    Step(u8),
    /// More volumes than one end of a hop can name.
    #[error("{0} volumes; a middlebox names 64 at most")]
    Volumes(u8),
}

/// What a peer did that the protocol forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A message that this party does not send now.
    #[error("a message of type {0:#04x} at the wrong time")]
    Unexpected(u8),
    /// Another version of the protocol.
    #[error("version {0} of the protocol; both sides need the same release")]
    Version(u8),
    /// A suite that was not offered, or that is not known.
    #[error("suite {0:#06x}, which was not offered")]
    Suite(u16),
    /// The answer changes what a server may only reduce.
    #[error("an answer that grants more than the offer, or something else")]
    NotReduced,
    /// The answer takes the last right of a middlebox whose path the client requires.
    #[error("an answer that takes {0} out of {1}, whose path the client requires")]
    Stripped(Position, ContextId),
    /// A number of legs, shares or digests other than the configuration's.
    #[error("{found} where the configuration has {expected}")]
    Count {
        /// What the configuration has.
        expected: usize,
        /// What was there.
        found: usize,
    },
    /// The certificate shown on a leg is not the one in the configuration.
    #[error("{0} shows another certificate than the session's configuration says")]
    MiddleboxCertificate(Position),
    /// The server shows a middlebox another certificate than it shows the client.
    #[error("the server of this leg is not the server of the session")]
    ServerCertificate,
    /// A start for another position or from another endpoint than this leg's.
    #[error("a start that belongs to another leg")]
    Start,
    /// The two endpoints tell a middlebox of different sessions or configurations.
    #[error("client and server do not agree about the session")]
    StartsDiffer,
    /// A share for a context or purpose that was not granted, or one that lacks.
    #[error("shares other than those of the agreed rights")]
    Grant,
    /// A record out of its order: dropped, repeated, moved or replayed.
    #[error("record {found} where {expected} was due")]
    Sequence {
        /// What was due.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// A part of a group out of its order, or a group that changes its author or context.
    #[error("a part of a group that is out of order")]
    Part,
    /// A context that the configuration does not have.
    #[error("{0}, which the session does not have")]
    Context(ContextId),
    /// An author without the right to write in this context, or not on the path of this record.
    #[error("a record by {0}, which may not write it")]
    Author(Position),
    /// A record after the direction was closed.
    #[error("a record after the end")]
    AfterClose,
    /// A closing record whose final sequence number is not its own.
    #[error("a closing record with another sequence number than its own")]
    Final,
    /// The connection ended without a closing record.
    #[error("the connection was cut before its end")]
    Truncated,
    /// More bytes wait for a message's end than a message can have.
    #[error("the other side sends more than was asked for")]
    Flood,
    /// A short record refers to what this middlebox has not promised to hold.
    #[error("a short record that refers to what is not held here")]
    NotHeld,
    /// A short record becomes longer than a record can be.
    #[error("a short record that becomes longer than a record can be")]
    Expansion,
}

/// Which check found something that no honest party made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Check {
    /// A leg's key is not the one that its other end reports.
    #[error("the leg of {0} is not the same at both of its ends")]
    LegBinding(Position),
    /// A share that is not the one whose digest the other endpoint was given.
    #[error("a share that is not the one that was announced")]
    ShareDigest,
    /// The endpoints gave a middlebox different transcripts.
    #[error("client and server have different transcripts")]
    Transcript,
    /// A middlebox did not prove the keys that it should have.
    #[error("{0} did not prove the keys that it was granted")]
    Confirm(Position),
    /// The other endpoint did not prove the session's keys.
    #[error("the other endpoint did not prove the session's keys")]
    Ready,
    /// A record's AEAD tag.
    #[error("a record of {0} was changed by somebody without its key")]
    Aead(ContextId),
    /// A writer's tag: whoever made it may read at most.
    #[error("a record of {0} was changed by a party that may not write it")]
    WriterTag(ContextId),
    /// The endpoint's tag: a writer that hides, or a record moved or invented.
    #[error("a record of {0} was changed without saying by whom, or was never sent")]
    EndpointTag(ContextId),
    /// An author's tag: a record in the name of another middlebox.
    #[error("a record in the name of {0} that it did not write")]
    AuthorTag(Position),
    /// A required middlebox did not see the record.
    #[error("a record that {0} has not seen")]
    PathSkipped(Position),
    /// A stamp that its middlebox did not make for this record.
    #[error("a record on which the stamp of {0} is false")]
    PathStamp(Position),
    /// A hop's message that the pair of this middlebox did not make for this session.
    #[error("a short record or its beginning that the paired middlebox did not make")]
    Pair,
    /// What a short record becomes is not the record that it stands for.
    #[error("a short record of {0} that does not become the record that it stands for")]
    Restored(ContextId),
}

/// Somebody's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Policy {
    /// The server does not want a session of these terms.
    #[error("the server refuses a session with these middleboxes and rights")]
    Refused,
    /// The server leaves a middlebox less than this client makes do with.
    #[error("the server leaves {0} less in {1} than this client makes do with")]
    TooLittle(Position, ContextId),
    /// The other endpoint ended the session.
    #[error("the other endpoint ended the session: {0}")]
    PeerAlert(Alert),
    /// A middlebox ended the session.
    #[error("{0} ended the session: {1}")]
    MiddleboxAlert(Position, Alert),
}

/// What a caller did that cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// More than a record holds.
    #[error("{0} bytes, and a record holds 16384")]
    PayloadLength(usize),
    /// A context that the session does not have, or that is not for applications.
    #[error("{0} is not a context of this session")]
    Context(ContextId),
    /// A change by a middlebox that may not write.
    #[error("this middlebox may not write in {0}")]
    NotWriter(ContextId),
    /// More parts than a group can have.
    #[error("{0} parts, and a group has 1 to 8")]
    Parts(usize),
    /// The direction was closed.
    #[error("this direction is closed")]
    Closed,
    /// All sequence numbers are used up.
    #[error("the last sequence number is spent")]
    SequenceSpent,
    /// Shares, names or legs that do not fit the terms.
    #[error("{found} where the terms have {expected}")]
    Count {
        /// What the terms have.
        expected: usize,
        /// What was given.
        found: usize,
    },
}

/// What one party tells the others when it ends a session. Numbers are those of TLS (RFC 8446,
/// section 6) where TLS has the same; `Blocked` and `PathLost` have none there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Alert {
    /// A message came at the wrong time.
    #[error("unexpected message")]
    UnexpectedMessage,
    /// A check of authenticity failed.
    #[error("a record or proof did not verify")]
    BadRecord,
    /// Parameters could not be agreed on.
    #[error("the handshake failed")]
    HandshakeFailure,
    /// A field has an impossible value.
    #[error("a value that cannot be")]
    IllegalParameter,
    /// A message could not be read.
    #[error("a message could not be read")]
    DecodeError,
    /// A policy forbids the session.
    #[error("not permitted")]
    AccessDenied,
    /// The party itself failed.
    #[error("an internal error")]
    Internal,
    /// A middlebox does not let this exchange through.
    #[error("blocked")]
    Blocked,
    /// A neighbour on the path is gone, or did not answer in time.
    #[error("the path to the other side is lost")]
    PathLost,
    /// A number that this release does not know. It ends the session as every other does.
    #[error("reason {0}, which this release does not know")]
    Other(u8),
}

impl Alert {
    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::UnexpectedMessage => 10,
            Self::BadRecord => 20,
            Self::HandshakeFailure => 40,
            Self::IllegalParameter => 47,
            Self::AccessDenied => 49,
            Self::DecodeError => 50,
            Self::Internal => 80,
            Self::Blocked => 224,
            Self::PathLost => 225,
            Self::Other(code) => code,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Self {
        match code {
            10 => Self::UnexpectedMessage,
            20 => Self::BadRecord,
            40 => Self::HandshakeFailure,
            47 => Self::IllegalParameter,
            49 => Self::AccessDenied,
            50 => Self::DecodeError,
            80 => Self::Internal,
            224 => Self::Blocked,
            225 => Self::PathLost,
            other => Self::Other(other),
        }
    }
}

impl Error {
    /// What the others are told of it. `None`: they ended the session themselves.
    #[must_use]
    pub const fn alert(&self) -> Option<Alert> {
        Some(match self {
            Self::Malformed(_) => Alert::DecodeError,
            Self::Forged(_) => Alert::BadRecord,
            Self::Peer(breach) => match breach {
                Breach::Unexpected(_) | Breach::AfterClose | Breach::Flood => {
                    Alert::UnexpectedMessage
                }
                Breach::Version(_)
                | Breach::Suite(_)
                | Breach::MiddleboxCertificate(_)
                | Breach::ServerCertificate => Alert::HandshakeFailure,
                Breach::NotReduced
                | Breach::Stripped(..)
                | Breach::Count { .. }
                | Breach::Start
                | Breach::StartsDiffer
                | Breach::Grant
                | Breach::Context(_)
                | Breach::Author(_)
                | Breach::Final
                | Breach::NotHeld
                | Breach::Expansion => Alert::IllegalParameter,
                Breach::Sequence { .. } | Breach::Part => Alert::BadRecord,
                Breach::Truncated => Alert::PathLost,
            },
            Self::Policy(policy) => match policy {
                Policy::Refused | Policy::TooLittle(..) => Alert::AccessDenied,
                Policy::PeerAlert(_) | Policy::MiddleboxAlert(..) => return None,
            },
            Self::Caller(_) => Alert::Internal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fault_has_its_alert() {
        let position = Position::new(1).expect("as the test has it");
        let table: [(Error, Option<Alert>); 8] = [
            (Malformed::Truncated.into(), Some(Alert::DecodeError)),
            (Check::Ready.into(), Some(Alert::BadRecord)),
            (Breach::Version(9).into(), Some(Alert::HandshakeFailure)),
            (Breach::NotReduced.into(), Some(Alert::IllegalParameter)),
            (Breach::Truncated.into(), Some(Alert::PathLost)),
            (Policy::Refused.into(), Some(Alert::AccessDenied)),
            (
                Policy::MiddleboxAlert(position, Alert::Blocked).into(),
                None,
            ),
            (Misuse::Closed.into(), Some(Alert::Internal)),
        ];
        for (error, alert) in table {
            assert_eq!(error.alert(), alert, "{error}");
        }
    }

    #[test]
    fn an_alert_is_read_as_what_was_written() {
        let read = (0..=255).map(|code| (code, Alert::from_code(code)));
        let (other, known): (Vec<_>, Vec<_>) =
            read.partition(|(code, alert)| *alert == Alert::Other(*code));
        assert_eq!(known.len(), 9);
        assert!(
            known
                .iter()
                .chain(&other)
                .all(|(code, alert)| alert.code() == *code)
        );
    }
}
