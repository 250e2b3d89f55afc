//! `tandem estimate`: what Tandem would have carried and saved on traffic that was captured.
//!
//! Not a protocol analyser, and not the proxies: no packet leaves. `tandem-trace` reads the
//! capture; each handshake that it finds goes through the engine that the proxies run, and what
//! comes of it is a [`Report`] of plain numbers.
//!
//! ```text
//! tandem-trace -> ledger -> report -> render
//!  handshakes     totals    figures    text
//!                   |
//!              packet_mode: the real store, engine and formats of the link
//! ```
//!
//! Invariants: memory is bounded by [`Limits`] whatever the capture holds; any input gives an
//! outcome or an error, never a panic; what could not be read is in [`Outcome::damage`], never
//! silently missing.
#![doc = include_str!("../definitions.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

#[doc(hidden)]
pub mod fuzzing;
mod ledger;
mod options;
mod packet_mode;
mod render;
mod report;

use std::io::Read;

pub use ledger::REWRITTEN_CHAIN_BYTES;
pub use options::{BitRate, Limits, Options};
pub use packet_mode::FIRST_WINDOW_BYTES;
pub use render::render;
pub use report::{
    Assumptions, LinkTimes, OptIn, OutOfReach, Outcome, Report, Share, SiteRow, Unreached,
    VersionRow,
};
pub use tandem_trace::{CaptureFacts, Damage, DamageClass, TraceError};

/// Reads a capture to its end and says what it holds.
///
/// `progress` is called with the bytes of `reader` read so far (compressed ones where it is
/// compressed), about once in a mebibyte and once at the end.
///
/// # Errors
/// Only where nothing can be read: see [`TraceError`]. A capture that is damaged half-way is an
/// [`Outcome`].
pub fn estimate(
    reader: impl Read,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, TraceError> {
    let mut ledger = ledger::Ledger::new(&options.limits);
    let trace = tandem_trace::read(reader, options.limits.trace, &mut ledger, progress)?;
    let mut damage = trace.damage;
    let report = ledger.into_report(trace.facts, options, &mut damage);
    Ok(Outcome { report, damage })
}
