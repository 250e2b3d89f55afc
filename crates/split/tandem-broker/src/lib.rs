//! tandem-broker: the broker of a site's volunteers, with its sockets, files and tasks; and a
//! volunteer's access to one.
//!
//! Is: the door at which volunteers join (`door`), what is known of them and outlives a restart
//! (`keeper`, `database`), the looks at how they do (`look`), the page that shows it (`page`), a
//! second broker of the site (`pair`), and the other end: a volunteer's membership ([`member`]), an
//! origin's reports ([`report`]). Is not: who may join, who counts as well, what a list says: that
//! is decided in `tandem-barnraising`; nor a name server, which takes what is [`Published`]
//! (`names`).
//!
//! Invariants: a volunteer is known by the key of its channel and the address from which it comes;
//! what was given out in a list never comes back older; a broker that is gone costs speed, and
//! nothing that a client gets depends on it.

pub mod broker;
pub mod config;
mod database;
mod door;
pub mod error;
mod keeper;
mod look;
pub mod member;
mod moment;
mod names;
mod page;
mod pair;
mod pair_status;
mod places;
pub mod report;
mod tables;

pub use broker::Broker;
pub use config::Config;
pub use error::BrokerError;
pub use keeper::Published;
pub use member::Membership;
