//! Views on and writers of what crosses the link: IPv4 and IPv6 packets that carry TCP or
//! UDP, one direction of a TCP stream, TLS records, and the handshake messages that are in clear.
//!
//! It is not a TCP or TLS stack: nothing here decides anything, keeps time, or knows a key.
//!
//! Invariants of the whole crate:
//! - any input is safe: no panic, work linear in the input, memory bounded by the constants named
//!   in each module;
//! - a view is validated once and then has infallible accessors;
//! - what was parsed and is written again is the same bytes; what could not be written again byte
//!   for byte is refused, and its owner leaves it untouched.
//!
//! Specifications: RFC 791, 8200, 9293, 7323, 2018, 6994 (packets); RFC 6101, 2246, 4346, 5246,
//! 8446, 6066, 6961 (TLS). Beside them: parts of the address space, which shares are counted for.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod checksum;
pub mod clock;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
mod ip;
pub mod network;
pub mod packet;
pub mod seq;
pub mod stream;
pub mod tcp;
pub mod tls;
pub mod udp;

pub use clock::{Instant, UnixTime};
pub use error::{NoRoom, PacketError, TlsError};
pub use network::Network;
pub use packet::{Edit, SegmentRepr, TcpPacket, Template};
pub use seq::Seq;
pub use stream::{Assembler, Inserted};
pub use tcp::{OptionsBuf, TcpFlags, TcpOption, TcpOptions, Timestamps};
