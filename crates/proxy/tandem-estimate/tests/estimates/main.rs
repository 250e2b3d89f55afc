//! What the estimate says of generated and of real captures.

mod support;

mod captures;
mod connections;
mod damage;
mod handshakes;
mod out_of_reach;
mod rendering;
mod savings;
mod tls13;
