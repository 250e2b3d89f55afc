//! How much of an open site one network may have: places in the roster, looks, room in answers of
//! DNS and in the signed list.
//!
//! Why networks: keys cost nothing, and a customer of IPv6 has more addresses than a roster has
//! places. A network of one's own costs something ([`Network::wide`], [`Network::narrow`]).
//!
//! Is not: how often a network may ask ([`crate::admission`]). A site that lists its volunteers'
//! keys ([`Policy::Listed`]) shares out nothing but answers and looks: who runs it knows them.
//!
//! [`Network::wide`]: tandem_wire::Network::wide
//! [`Network::narrow`]: tandem_wire::Network::narrow
//! [`Policy::Listed`]: crate::admission::Policy::Listed

use crate::list::MAX_MEMBERS;

/// Most members of a /16 or /48: a sixteenth of the roster, so that sixteen such networks have to
/// be full of members that are well before there is no room for a volunteer from another.
pub const ROSTER_WIDE: usize = MAX_MEMBERS / 16;

/// Most members of a /64: an eighth of its /48's, enough for the volunteers of one LAN.
pub const ROSTER_NARROW: usize = ROSTER_WIDE / 8;

/// Most addresses of a /16 or /48 in one answer, while another network is well: a quarter of a full
/// answer (8), which four networks fill.
pub const ANSWER_WIDE: usize = 2;

/// Most addresses of a /64 in one answer, while another network is well: two of one machine's
/// addresses are no more use to a browser than one.
pub const ANSWER_NARROW: usize = 1;

/// Members of a /16 or /48 that the list always has room for, if others are well; more only as far
/// as all others together have as many. Who is not in the list gets nothing of other volunteers, so
/// honest ones at one provider must fit; liars among so many are soon known to each volunteer, as
/// each is not asked again for minutes.
pub const LIST_WIDE: usize = 64;

/// The same of a /64: a quarter of its /48's, enough for the volunteers of one LAN.
pub const LIST_NARROW: usize = LIST_WIDE / 4;

/// Most looks of one turn at members that are well. At 20 s a turn and 1.4 kB a look they cost the
/// origin 9 kB a second; and made 64 at a time, with the 10 s that a slow one may take, they end
/// within a turn.
pub const LOOKS_WELL: usize = 128;

/// The same at members that are not: half as many, as a flood of them serves nobody. All are made
/// at once, so that none waits for another's 10 s.
pub const LOOKS_UNPROVEN: usize = 64;
