//! SSL splitting, measured: the thesis's evaluation redone, and which clients can use a split site,
//! through honest volunteers and dishonest ones.
//!
//! Is not: a proof of what splitting promises; the tests of `tandem-split-io` are.

mod split_clients;
mod split_sim;
mod splitting;

pub use split_clients::{SplitClientsOptions, SplitClientsSummary, split_clients};
pub use split_sim::{SplitSimOptions, split_sim};
pub use splitting::{SplitOptions, split};
