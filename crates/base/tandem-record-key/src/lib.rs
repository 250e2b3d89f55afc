//! A TLS 1.3 handshake record key with its IV (RFC 8446, section 7.3), as a program releases it to
//! its own proxy, and the datagram that carries it over a UNIX socket.
//!
//! Is not: cryptography, a socket, or a place for any other secret. A traffic secret, from which
//! Finished and application keys could follow, has no place in the datagram.
//!
//! Invariants:
//! - key and IV are overwritten when a [`RecordKey`] or its datagram is dropped, and moving either
//!   leaves no copy behind;
//! - `Debug` shows neither, nor a random;
//! - one key has one datagram: whatever is read is written again as the same bytes.
//!
//! ```text
//! datagram   version            1    1, or 2 with the server random
//!            direction          1    0 from the client, 1 from the server
//!            suite              2    TLS's number, big-endian: 0x1301, 0x1302, 0x1303
//!            client random     32    of the ClientHello on the wire
//!            server random     32    of the ServerHello; in version 2 only
//!            IV                12
//!            key            16 32    16 with AES-128-GCM, otherwise 32; it ends the datagram
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

#[doc(hidden)]
pub mod fuzzing;
mod record_key;
mod suite;

pub use record_key::{
    CLIENT_RANDOM_LEN, Direction, IV_LEN, MAX_DATAGRAM_LEN, RecordKey, RecordKeyError,
    SERVER_RANDOM_LEN,
};
pub use suite::{MAX_KEY_LEN, Suite};
