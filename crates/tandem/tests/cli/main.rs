//! Tests of the command line: help, errors, files, pages and the life of a daemon.
//!
//! Is not: what the daemons do to connections (`../real`, `../tunnel`, `../split`).

#[path = "../support/mod.rs"]
mod support;

mod daemon;
mod dashboard;
mod doctor;
mod failures;
mod generated;
mod help;
mod keygen;
mod page;
mod pair;
mod store;
mod top;
