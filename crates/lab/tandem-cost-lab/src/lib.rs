//! tandem-cost-lab: what TLS costs at real servers. Starts those that are installed with equal
//! settings, drives each with the load generator, and reads from the kernel what it took.
//!
//! Is not: the generator (`tandem-measure-io`), nor what is said of the rows (`tandem-report`).
//!
//! Invariants: everything is on the loopback interface; each server has one processor, and the
//! generator the others, where there are several; what is started ends with the run. A server that
//! is missing or does not start is a row, and no error.

mod arms;
mod bars;
mod keys;
mod load;
mod run;
mod servers;
mod site;
mod stage;
mod timed;
mod usage;

pub use run::{CostOptions, Part, cost};
