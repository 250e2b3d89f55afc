//! What every measurement on one machine stands on: hosts in network namespaces, an emulated link
//! between them, certificates, real programs at the ends, the proxies, and what can be read off
//! them.
//!
//! Nothing is simulated but the link. It decides nothing about TLS.
//!
//! Invariants: bytes are counted by the link alone; what is set up is taken down when it ends,
//! however it ends; nothing outside its own namespaces is changed.

pub mod accounts;
pub mod browser;
pub mod capture;
pub mod circumstances;
pub mod client;
pub mod command;
mod comment;
pub mod console;
pub mod describe;
pub mod effort;
pub mod emulator;
pub mod endpoints;
mod error;
mod forwarding;
mod go_tunnels;
pub mod installed;
pub mod interrupt;
pub mod lease;
pub mod links;
pub mod matrix;
pub mod moment;
pub mod netns;
pub mod nginx;
pub mod openssl;
pub mod other;
mod pcapng;
pub mod pki;
pub mod programs;
pub mod proxies;
pub mod rows;
pub mod server;
mod ssh;
pub mod topology;
pub mod tun;
mod wireguard;

pub use effort::Effort;
pub use error::LabError;
pub use links::LinkSpec;
