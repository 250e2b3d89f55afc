//! What can go wrong, by who is at fault.
//!
//! Is not: why a client's record did not open, which has one answer for all causes
//! ([`crate::open::BadRecord`]).
//!
//! Invariant: an error ends one connection or one channel, and names no key and no content.

use crate::want::Want;

/// Why a connection or a channel cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The other side wrote what is no message.
    #[error("no message of this protocol: {0}")]
    Malformed(#[from] Malformed),
    /// The other side wrote a message that has no place here.
    #[error("the other side broke the protocol: {0}")]
    Peer(#[from] Breach),
    /// Nobody has what a stub refers to.
    #[error("nobody has {0}")]
    Missing(Want),
    /// The caller asked for what cannot be.
    #[error("wrong use: {0}")]
    Caller(#[from] Misuse),
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No message begins like this.
    #[error("a message of type {0:#04x}")]
    Type(u8),
    /// A version that the record layer does not have.
    #[error("version {0:#06x}")]
    Version(u16),
    /// More than a message of this type can have.
    #[error("a message of type {kind:#04x} with {length} bytes")]
    TooLong {
        /// The type.
        kind: u8,
        /// What its header says.
        length: u16,
    },
    /// A field ends after the message.
    #[error("a field that ends after its message")]
    Truncated,
    /// The message goes on after its last field.
    #[error("bytes after the last field")]
    TrailingBytes,
    /// An encoding without a meaning.
    #[error("encoding {0}")]
    Encoding(u16),
    /// An identifier with another length than its encoding has.
    #[error("an identifier of {0} bytes")]
    IdLength(usize),
    /// A MAC with a length that no suite has.
    #[error("a MAC of {0} bytes")]
    MacLength(usize),
    /// A plaintext that no record can hold.
    #[error("a plaintext of {0} bytes")]
    PlaintextLength(usize),
    /// A run without records, or with record lengths that cannot be.
    #[error("a run that cannot be")]
    Run,
    /// A suite that cannot be split, or is not known.
    #[error("suite {0:#06x}")]
    Suite(u16),
    /// A key or IV with another length than its suite has.
    #[error("a key of {0} bytes")]
    KeyLength(usize),
    /// A number without a meaning in a message about misses.
    #[error("a miss of kind {0}")]
    Miss(u8),
    /// A part of a list that lies outside it, or a list too long to be taken.
    #[error("a part of a list that cannot be")]
    ListPart,
    /// What should be a list of chunks is none.
    #[error("no list of chunks")]
    List,
}

/// What a peer did that the protocol forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A message that this side of a channel does not send.
    #[error("a message of type {0:#04x} from the wrong side")]
    Direction(u8),
    /// A greeting in the middle, or something else at the beginning.
    #[error("a greeting that is missing or comes again")]
    Greeting,
    /// The versions have nothing in common.
    #[error("version {0} of the protocol")]
    Version(u8),
    /// A record in clear after the key was exposed: the volunteer has the key, it would protect
    /// nothing.
    #[error("a verbatim record after the key")]
    VerbatimAfterKey,
    /// A second key for one connection: renegotiation is off.
    #[error("a second key")]
    SecondKey,
    /// A stub with a MAC before there are keys, or without one when there are.
    #[error("a MAC of {found} bytes where one of {expected} belongs")]
    Mac {
        /// What the suite has; 0 before there are keys.
        expected: usize,
        /// What the stub has.
        found: usize,
    },
    /// A run of anything but application data under keys.
    #[error("a run that is not application data")]
    RunType,
    /// A run that ends after its object.
    #[error("a run beyond the end of its object")]
    RunBeyondObject,
    /// An encoding that was not agreed on.
    #[error("encoding {0}, which was not agreed on")]
    Encoding(u16),
    /// The connection ends in the middle of a message.
    #[error("an end in the middle of a message")]
    CutMessage,
    /// More is said to have been taken than was sent, or less than before.
    #[error("{0} bytes that cannot have been taken")]
    Taken(u64),
    /// Bytes that have not the digest that names them.
    #[error("bytes with another digest")]
    Digest,
}

/// What a caller did that cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// More than a record holds.
    #[error("a plaintext of {0} bytes, and a record holds 16384")]
    PlaintextLength(usize),
    /// All sequence numbers are used up.
    #[error("the last sequence number is spent")]
    SequenceSpent,
    /// A key with another length than the suite has.
    #[error("a key of {found} bytes where {expected} are due")]
    KeyLength {
        /// What the suite has.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// A MAC with a length that no suite has, or not the length of those before it.
    #[error("a MAC of {0} bytes")]
    MacLength(usize),
    /// A run that goes on after a short record, or over what one message holds.
    #[error("a run that is full, or that had its last record")]
    RunOver,
    /// A run of records longer than a record, or of none.
    #[error("a run with records of {0} bytes")]
    RunLength(usize),
    /// An object longer than a list has room for.
    #[error("an object over 1 GiB: cut it into several")]
    ObjectTooLong,
    /// An operation of a suite with another format.
    #[error("a suite of the other format")]
    Format,
}
