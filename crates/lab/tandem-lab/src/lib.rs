//! The lab: hosts in network namespaces, an emulated link between them, real programs at the ends,
//! and what is measured there.
//!
//! Nothing is simulated but the link. It decides nothing about TLS; it reads handshakes only to say
//! what they cost.
//!
//! Invariants: bytes are counted by the link alone; what a lab sets up is taken down when it ends,
//! however it ends, or by `down`; nothing outside its own namespaces is changed.

mod anatomy;
pub mod crowd;
mod demo;
mod exhibits;
pub mod experiment;
pub mod floor;
mod hosts;
mod interop;
pub mod lane;
mod losing;
pub mod phases;
mod plan;
mod profile;
mod runner;
mod schedule;
mod setup;
mod soak;
mod stage;
mod standing;
mod survive;
#[cfg(test)]
mod synthetic;
mod visits;
mod waterfalls;

pub use demo::{DemoOptions, demo};
pub use interop::{InteropOptions, InteropSummary, interop};
pub use losing::{LosingOptions, losing_proxy};
pub use profile::{ProfileOptions, profile};
pub use runner::{Captures, RunOptions, RunSummary, run_experiment, run_experiments};
pub use soak::{SoakOptions, SoakSummary, Through, soak};
pub use standing::{
    DownOptions, DownScope, LinkEnd, LinkOptions, ShellOptions, UpOptions, down, link, shell, up,
};
pub use survive::{SurviveOptions, survive};
pub use visits::{VisitsOptions, visits};
