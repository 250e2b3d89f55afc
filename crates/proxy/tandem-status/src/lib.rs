//! What a running proxy says of itself, in both modes: the one form that its admin port answers
//! with and that the command line and the page read; and the page.
//!
//! Is not: the asking, nor a counter's meaning.
//!
//! Invariants: what is kept of sites and connections is bounded ([`Activity`]); a status of an
//! older proxy, which lacks fields, is read all the same.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod activity;
mod page;
mod status;

pub use activity::{Activity, Flow, Mark, Report, SiteRow};
pub use page::{PAGE, POLICY};
pub use status::{Status, TunnelState};
