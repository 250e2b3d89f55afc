//! tandem-daemon: what every daemon needs: an admin port with metrics, locks, signals, the service
//! manager, a runtime, logging and exit codes; what its process uses; which headers reach a web
//! server.
//!
//! Is not: anything that one daemon alone does, nor a protocol.
//!
//! Invariants: reading metrics delays nobody; a lock ends with its process; without a service
//! manager nothing is sent to one.

#![forbid(unsafe_code)]

pub mod admin;
pub mod door;
pub mod error;
pub mod exit;
pub mod http;
pub mod listener;
pub mod lock;
pub mod logging;
pub mod metrics;
pub mod passing;
pub mod places;
pub mod process;
pub mod runtime;
pub mod service_manager;
pub mod signals;

pub use error::DaemonError;
