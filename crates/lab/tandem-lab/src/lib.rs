//! The lab: hosts in network namespaces, an emulated link between them, real programs at the ends,
//! and what is measured there.
//!
//! Nothing is simulated but the link. It decides nothing about TLS; it reads handshakes only to say
//! what they cost.
//!
//! Invariants: bytes are counted by the link alone; what a lab sets up is taken down when it ends,
//! however it ends, or by `down`; nothing outside its own namespaces is changed.

mod accounts;
pub mod capture;
mod circumstances;
pub mod client;
mod command;
mod comment;
mod console;
pub mod crowd;
mod demo;
mod describe;
pub mod emulator;
pub mod endpoints;
mod error;
pub mod exchange;
mod exhibits;
pub mod experiment;
pub mod floor;
mod interop;
mod interrupt;
pub mod lane;
mod lease;
mod links;
mod losing;
pub mod moment;
pub mod netns;
mod pcapng;
pub mod phases;
pub mod pki;
mod plan;
mod profile;
pub mod programs;
pub mod proxies;
mod runner;
mod schedule;
pub mod server;
mod setup;
mod soak;
mod split_clients;
mod splitting;
mod stage;
mod standing;
pub mod topology;
mod tun;
mod waterfalls;

pub use demo::{DemoOptions, demo};
pub use error::LabError;
pub use experiment::Effort;
pub use interop::{InteropOptions, InteropSummary, interop};
pub use links::LinkSpec;
pub use losing::{LosingOptions, losing_proxy};
pub use profile::{ProfileOptions, profile};
pub use runner::{Captures, RunOptions, RunSummary, run_experiment, run_experiments};
pub use soak::{SoakOptions, SoakSummary, soak};
pub use split_clients::{SplitClientsOptions, SplitClientsSummary, split_clients};
pub use splitting::{SplitOptions, split};
pub use standing::{
    DownOptions, DownScope, LinkEnd, LinkOptions, ShellOptions, UpOptions, down, link, shell, up,
};
