//! Tunnel mode with both proxies as processes, on loopback or in network namespaces.
//!
//! Is not: the way two machines get their key (`../cli/pair.rs`).

#[path = "../support/mod.rs"]
mod support;

mod client_certificates;
mod dns;
mod down;
mod endings;
mod failures;
mod fleet;
mod hooks;
mod hostile;
mod key_log;
mod link;
mod loopback;
mod renewals;
mod rules;
mod sealed;
mod secrets;
mod tariff;
mod udp;
mod udp_link;
mod ways;
