//! Sites and times for tests of whole stores.
//!
//! Not here: certificates, disks.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use tandem_store::{HostName, Kind, ObjectId, Site, Store};
use tandem_wire::clock::UnixTime;

/// Noon of 15 June 2025.
pub(crate) const NOW: UnixTime = UnixTime(1_749_988_800);
/// Seconds in a day.
pub(crate) const DAY: u64 = 24 * 60 * 60;

/// A point in time some days after [`NOW`], or before.
pub(crate) fn days(days: i64) -> UnixTime {
    let seconds = days.unsigned_abs() * DAY;
    UnixTime(if days < 0 {
        NOW.0 - seconds
    } else {
        NOW.0 + seconds
    })
}

/// A site by its name.
pub(crate) fn site(name: &str) -> Site {
    Site::Name(HostName::new(name).expect("a host name"))
}

/// Learns a chain of owned certificates.
pub(crate) fn learn(
    store: &mut dyn Store,
    site: &Site,
    chain: &[Vec<u8>],
    now: UnixTime,
) -> ObjectId {
    let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
    store.learn(Kind::Chain, Some(site), &chain, now)
}

/// Learns an object of one part, of any kind.
pub(crate) fn learn_part(
    store: &mut dyn Store,
    kind: Kind,
    site: &Site,
    part: &[u8],
    now: UnixTime,
) -> ObjectId {
    store.learn(kind, Some(site), &[part], now)
}
