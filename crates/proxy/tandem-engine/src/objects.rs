//! Where in a flight lies what repeats from handshake to handshake.
//!
//! Is not: who holds it (`peer`), nor what is written in its place (`rewrite`).

mod flight;
pub mod ticket;

pub use flight::Flight;
