//! tandem-firewall: what a daemon of Tandem needs to set rules in the firewall of its network
//! namespace, and the routes that some of them need, keep them in force, and take them away again;
//! its link, its locks, its capabilities.
//!
//! Is not: any rule. Each mode of the proxies brings its own, as a [`RuleSet`].
//!
//! Invariants: every rule stands in a chain whose name tells its daemon, or is a jump to one, so
//! that rules of a killed daemon are found by name; no other rule is ever touched.

pub mod lock;
pub mod privilege;

mod delivery;
mod error;
mod family;
mod firewall;
mod guard;
mod keeper;
mod link;
#[cfg(test)]
mod own_network;
mod program;
mod rules;
mod survey;

pub use error::FirewallError;
pub use family::Family;
pub use firewall::{Cleared, Firewall, InstalledRules, Sight};
pub use keeper::RulesKeeper;
pub use link::{Link, LinkName};
pub use rules::{LeftBehind, Owner, RuleSet, Table, TableRules, Trial, port_lists};
pub use survey::{Foreign, InForce, Survey, Trouble};
