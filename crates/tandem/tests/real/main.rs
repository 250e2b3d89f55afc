//! Packet mode and the store with real programs and the real kernel, in network namespaces: each
//! row of the table of faults that concerns them is a test here.
//!
//! Is not: tunnel mode (`../tunnel`), nor packet mode on a simulated link (`tandem-packet`).

#[path = "../support/mod.rs"]
mod support;

mod faults;
mod guide;
mod handshakes;
mod load;
mod off;
mod package;
mod partners;
mod paths;
mod resumption;
mod service;
mod starts;
mod store;
mod strangers;
