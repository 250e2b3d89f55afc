//! Flights written against what the far side holds, and rebuilt from what is held here.
//!
//! Is not: what is known of the far side (`peer`), nor where objects lie (`objects`). The delta
//! itself is `tandem-delta`'s.

mod client_flight;
mod ground;
mod hello;
mod miss;
mod server_flight;
mod source;
pub mod thesis;

pub(crate) use client_flight::plan_client_flight;
pub use ground::{Ground, Outgoing};
pub(crate) use hello::{KnownHello, KnownTicket};
pub use miss::Miss;
pub use server_flight::plan_flight;
pub(crate) use server_flight::{plan_after, plan_numbered};
pub use source::StoreSource;
pub(crate) use source::{FlightSource, LocalSource};
