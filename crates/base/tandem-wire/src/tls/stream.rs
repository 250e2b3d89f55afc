//! The reading of TLS, in three layers, for a stream that arrives in any pieces.
//!
//! ```text
//! bytes --records--> records --plaintext--> what is in clear --messages--> handshake messages
//! ```
//!
//! - [`records`]: framing; keeps nothing.
//! - [`plaintext`]: which records of a direction are in clear, and where protection begins, by
//!   version. A protected record that somebody opens joins again above it.
//! - [`messages`]: handshake messages across records.
//!
//! [`scan`] is all three for whoever keeps the stream: where the messages lie in it ([`spans`]).
//! The rewriter, the estimate and splitting read with these and have no reading of their own.
//!
//! Is not: a policy. Which records may come, and what a strange one means, is for each reader to
//! say. Invariant: no byte is looked at twice, but a record's header that arrives in pieces.

pub mod messages;
pub mod plaintext;
pub mod records;
pub mod scan;
pub mod spans;

pub use messages::{Message, MessageBuffer, MessageHeader, MessageReader, MessageTooLong, Piece};
pub use plaintext::{Content, Plaintext};
pub use records::{Framed, RecordReader};
pub use scan::{FirstProtected, HandshakeScan, HandshakeScanner, ScanEnd, UnfinishedMessage};
pub use spans::MessageSpan;
