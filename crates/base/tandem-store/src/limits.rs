//! How much a store may hold, with the reason for each default.
//!
//! Not here: how the limits are kept. Invariant: each of them bounds something that a stranger on
//! the network can grow.

use core::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Bounds of a store. Every field may be set by hand; zero means that nothing of that kind is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of everything held: parts, and an estimate of what indexing it takes. Default 64 MiB:
    /// about 8,000 chains of the web (measured on 198 of fourteen sites: 2.3 kB of DER each,
    /// since issuers are shared, and 36 names). Past it the least recently used go. Smaller:
    /// more misses; larger: slower start.
    pub bytes: u64,
    /// Bytes of parts kept in memory in front of a disk, and all that is held when there is none.
    /// Default 32 MiB: half of `bytes`, since the sites that are busy now are far fewer than
    /// those ever seen. Smaller: handshakes wait for the disk.
    pub front_bytes: u64,
    /// For how long an object seen at a site is expected there again. Default 30 days: certificates
    /// live 90 days or less by now, and the chains of a farm's members all come by within
    /// days.
    pub remember: Duration,
    /// How long after its end, if it has one, and after it was last seen, an object goes.
    /// Default 30 days: long enough that a wrong clock and a server that nobody renewed cost
    /// nothing.
    pub keep_expired: Duration,
    /// Names taken out of one leaf. Default 256: the public authorities stop at 100, content
    /// networks go somewhat above it.
    pub names_per_leaf: usize,
    /// Chains indexed under one name in certificates. Default 32; past it the one seen longest ago
    /// is no longer found by that name.
    pub objects_per_name: usize,
    /// Objects of one kind remembered for one site. Default 16: farms with a key each show more,
    /// but a hint has room for two.
    pub objects_per_site: usize,
    /// Sites remembered for one object. Default 256; past it the one seen longest ago is forgotten
    /// (its names still match).
    pub sites_per_object: usize,
    /// Parts of an object that is worth keeping. Default 32; chains of the web have two to five.
    pub parts_per_object: usize,
    /// Bytes of an object that is worth keeping. Default 256 KiB: OpenSSL's own default refuses
    /// chains above 100 kB (`SSL_MAX_CERT_LIST_DEFAULT`); post-quantum ones have 20 to 50.
    pub object_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            front_bytes: 32 << 20,
            remember: 30 * DAY,
            keep_expired: 30 * DAY,
            names_per_leaf: 256,
            objects_per_name: 32,
            objects_per_site: 16,
            sites_per_object: 256,
            parts_per_object: 32,
            object_bytes: 256 << 10,
        }
    }
}

impl Limits {
    /// No limit at all: for looking at what there is.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            bytes: u64::MAX,
            front_bytes: u64::MAX,
            remember: Duration::MAX,
            keep_expired: Duration::MAX,
            names_per_leaf: usize::MAX,
            objects_per_name: usize::MAX,
            objects_per_site: usize::MAX,
            sites_per_object: usize::MAX,
            parts_per_object: usize::MAX,
            object_bytes: usize::MAX,
        }
    }
}
