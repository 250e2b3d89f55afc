//! `tandem estimate`: what Tandem would have carried and saved on traffic that was captured.
//!
//! Not a protocol analyser, and not the proxies: nothing is rewritten, no packet leaves. It reads
//! pcap and pcapng (plain or in gzip) from anything that reads, follows the TLS handshakes in it,
//! and gives a [`Report`] of plain numbers.
//!
//! ```text
//! capture -> link_type -> segment -> tracker -> connection -> session -> ledger -> report -> render
//!  frames    IP packets   TCP        table      order, hello   handshake   totals
//! ```
//!
//! Invariants: memory is bounded by [`Limits`] whatever the capture holds; any input gives an
//! outcome or an error, never a panic; what could not be read is in [`Outcome::damage`], never
//! silently missing.
#![doc = include_str!("../definitions.md")]
#![forbid(unsafe_code)]

mod capture;
mod connection;
mod damage;
mod datagram;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod ledger;
mod link_type;
mod opening;
mod options;
mod render;
mod report;
mod segment;
mod session;
mod survey;
mod tally;
mod tracker;

use std::io::Read;

pub use damage::{Damage, DamageClass};
pub use error::EstimateError;
pub use ledger::{
    CHAIN_REFERENCE_BYTES, DELTA_FRAME_BYTES, FIRST_WINDOW_BYTES, REWRITTEN_CHAIN_BYTES,
};
pub use options::{BitRate, Limits, Options};
pub use render::render;
pub use report::{
    Assumptions, CaptureFacts, LinkTimes, OptIn, OutOfReach, Outcome, Report, Share, SiteRow,
    Unreached, VersionRow,
};

/// Reads a capture to its end and says what it holds.
///
/// `progress` is called with the bytes of `reader` read so far (compressed ones where it is
/// compressed), about once in a mebibyte and once at the end.
///
/// # Errors
/// Only where nothing can be read: see [`EstimateError`]. A capture that is damaged half-way is an
/// [`Outcome`].
pub fn estimate(
    reader: impl Read,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, EstimateError> {
    let mut damage = damage::DamageLog::default();
    let mut survey = survey::Survey::new(*options, progress);
    let raw_bytes = capture::read(reader, &mut survey, &mut damage)?;
    let report = survey.finish(raw_bytes, &mut damage);
    Ok(Outcome {
        report,
        damage: damage.into_list(),
    })
}
