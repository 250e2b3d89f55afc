//! DNS for a site whose volunteers come and go: browsers are sent to those that are well, and no
//! volunteer can get a certificate.
//!
//! Is: an authoritative server for one zone, signed, over UDP and TCP (`server`); the same zone for
//! a PowerDNS that a site already runs (`powerdns`); and the look at a name from outside, whether
//! its volunteers could get a certificate for it ([`check`]). Is not: who is well (the broker
//! knows), a recursive resolver, or a general name server: what is in the zone is written in
//! `zone`.
//!
//! ```text
//!   watch::Receiver<Arc<Answers>> --+
//!   challenge file, once a second --+--> keeper: Zone, signed anew --+--> server: UDP, TCP
//!   clock, for signatures and keys -+                               +--> powerdns: unix socket
//! ```
//!
//! **Why not an authority of hickory's.** Its zones are changed record by record under a lock, and
//! sign what is in them; ours is a dozen small sets that all follow from one list of addresses, of
//! which each answer shows another part. So each change builds and signs a new zone, which is then
//! only read: every answer is of one moment, none waits, and signing costs nothing per query.
//! Hickory's protocol types do the reading, writing and signing of records.
//!
//! Specifications: RFC 1035, 4033 to 4035 (DNSSEC), 6891 (EDNS), 7344 (CDS), 7583 (changes of
//! keys), 7766 (TCP), 8482 (ANY), 8657 and 8659 (CAA), 9460 (HTTPS records).
#![forbid(unsafe_code)]

mod absolute;
pub mod check;
pub mod copied;
mod error;
mod file;
mod keeper;
mod key;
mod keys;
mod limit;
mod places;
mod powerdns;
mod reply;
mod rollover;
mod server;
mod settings;
mod zone;

use std::net::IpAddr;

use tandem_barnraising::uri::Name;

pub use error::DnsError;
pub use server::Dns;
pub use settings::Settings;

/// What the zone above a site's has to show, as [`Dns::ds`], without listening. The zone's key is
/// made if there is none.
///
/// # Errors
/// A setting is wrong, or the key cannot be read or made.
pub fn ds(site: &Name, settings: &Settings) -> Result<String, DnsError> {
    let shape = settings.shape(site)?;
    settings.zone_keys(keeper::unix_time())?.ds(&shape.zone)
}

/// Where browsers are to be sent: the healthy volunteers, or the origin where none is.
///
/// In any order and number; each answer shows at most eight of a family, other ones each time. A
/// family without an address is answered as empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// Whose they are, and so how they take turns.
    pub whose: Whose,
}

/// Whose addresses an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Whose {
    /// The origin's own: each is shown as often as any other.
    #[default]
    Origin,
    /// Volunteers': their networks take turns ([`tandem_barnraising::turns`]).
    Volunteers,
}
