//! A site with its server, origin and volunteers, and honest clients.
//!
//! Is not: what dishonest ones can do (`tests/hostile`).

#[path = "../common/mod.rs"]
mod common;

mod certificates;
mod clients;
mod corpus;
mod in_process;
mod keys;
mod requests;
mod savings;
mod sharing;
