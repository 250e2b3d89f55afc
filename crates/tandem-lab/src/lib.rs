//! The lab: four hosts in network namespaces, an emulated link between them, real programs at the ends, and what is measured there.
//!
//! Nothing is simulated but the link. It decides nothing about TLS; it reads handshakes only to say what they cost.
//!
//! Invariants: bytes are counted by the link alone; what a lab sets up is taken down when it ends, however it ends, or by `down`;
//! nothing outside its own namespaces is changed.

pub mod arm;
pub mod capture;
pub mod client;
mod command;
mod describe;
pub mod emulator;
pub mod endpoints;
mod error;
pub mod exchange;
pub mod floor;
mod interrupt;
pub mod lane;
mod lease;
mod links;
pub mod moment;
pub mod netns;
mod pcapng;
pub mod phases;
pub mod pki;
pub mod proxies;
pub mod row;
pub mod server;
pub mod topology;
mod tun;

pub use error::LabError;
pub use links::LinkSpec;
