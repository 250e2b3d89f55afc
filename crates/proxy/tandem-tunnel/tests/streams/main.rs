//! Tunnel mode on streams in memory: both proxies, the frames between them, real and generated
//! handshakes.

mod support;

mod captures;
mod hostile;
mod moves;
mod recorded;
mod relays;
mod renewals;
mod rules;
mod rustls;
mod sealed;
mod together;
