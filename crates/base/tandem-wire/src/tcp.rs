//! TCP's flags and options (RFC 9293, section 3.1 and 3.2).
//!
//! Not the header itself: that is [`crate::packet`]. Options are validated by [`TcpOptions::parse`]
//! and then iterate without error; a known kind with an unexpected length is [`TcpOption::Other`],
//! so that nothing is lost.

mod flags;
mod options;
mod options_buf;

pub use flags::TcpFlags;
pub use options::{TcpOption, TcpOptions, Timestamps, sack_ends};
pub use options_buf::OptionsBuf;

/// Longest options area: 15 words of header less 5 fixed ones (RFC 9293, section 3.1).
pub const MAX_OPTIONS_LEN: usize = 40;

/// Length of a TCP header without options.
pub const HEADER_LEN: usize = 20;
