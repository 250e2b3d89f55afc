//! `tandem split` with real processes: origins, volunteers, brokers, name servers and curl.

#[path = "../support/mod.rs"]
mod support;

mod broker;
mod check;
mod faults;
mod names;
mod site;
