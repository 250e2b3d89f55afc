//! A simulation of a split site with very many clients and volunteers: what the origin's line
//! carries when all want the same page at once.
//!
//! Is: a discrete-event simulation. Its calibration (bytes and round trips of a request) is
//! measured elsewhere; everything else is a scenario, and assumed. Is not: a measurement, nor a
//! simulation of packets: nothing is lost, and TCP's windows are in the calibration alone.
//!
//! Invariants: no I/O, no clock; the same arguments always have the same outcome.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod chance;
mod events;
mod line;
mod model;
mod outcome;
mod pieces;
mod simulation;
mod time;
mod volunteer;

pub use chance::Shape;
pub use line::{Line, Sent};
pub use model::{
    Caches, Calibration, Choice, Churn, Delivery, Rules, Scenario, Sharing, SizeCost, Unfit,
};
pub use outcome::{LineBytes, Outcome, Percentiles, Pieces, Sample, WITHIN};
pub use simulation::simulate;
pub use time::Time;
