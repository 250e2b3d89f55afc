//! Barnraising: who the volunteers of a site are, which of them are well, and who of them keeps
//! what.
//!
//! Is: the URI by which a volunteer is told of a site ([`uri`]), the broker's record of volunteers
//! ([`roster`]) with its rules for joining ([`admission`]), for health ([`health`]) and for what
//! one network may have of it all ([`shares`]), the addresses that DNS shows in turn ([`turns`]),
//! the signed list that every volunteer may check ([`list`]), and where in it a payload belongs
//! ([`placement`]); how both talk ([`talk`]). At the origin: how much work volunteers cause and in
//! which order it is done ([`work`]), and what clients refuse ([`refusals`]). Is not: DNS, HTTP, a
//! database, sockets, or SSL splitting itself.
//!
//! ```text
//!   volunteer -- join --> broker: roster --+-- healthy members --> the site's addresses in DNS
//!                                          +-- signed list ------> volunteers: whom to ask for a payload
//! ```
//!
//! Invariants of the whole crate:
//! - nobody here is trusted with content: a wrong list or a lying member costs speed, never a wrong
//!   byte at a client;
//! - a list counts only under the broker's signature, for its site, and never after a newer one or
//!   after its end;
//! - any input is safe: no panic, work linear in the input, memory bounded by the constants.
//!
//! Specifications: Lesniewski-Laas 2003 ("the thesis"), chapter 4; Thaler and Ravishankar 1998
//! (rendezvous hashing).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod admission;
pub mod certificate_policy;
#[doc(hidden)]
pub mod fuzzing;
pub mod health;
pub mod list;
pub mod member;
pub mod placement;
pub mod places;
pub mod refusals;
pub mod roster;
pub mod shares;
pub mod talk;
pub mod turns;
pub mod uri;
pub mod work;

pub use list::{List, ListError};
pub use member::{Family, Member, Peer, PublicKey};
pub use roster::Roster;
pub use uri::SiteUri;
