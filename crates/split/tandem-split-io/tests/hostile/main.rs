//! What strangers can do to a site, one module for each way; each was found from outside.
//!
//! | attack | tested in |
//! |---|---|
//! | redirects into the clear | `heads` |
//! | clients that read nothing, pause, or break off | `credit`, `fairness` |
//! | floods of channels and clients | `places` |
//! | a name for which volunteers can get certificates | `tandem/tests/split/names.rs`, `tandem-broker/src/names/tests.rs` |
//! | volunteers by the thousand from one network | `tandem-barnraising/src/roster/tests/flood.rs` |
//! | DNS queries by the thousand, and rubbish | `tandem-broker-dns/tests/flood.rs` |
//! | seeks that make the origin send a warm file again | `ranges` |
//! | a volunteer that changes what it passes on | `records`, `tandem/tests/split/broker.rs` |
//! | the same with Chromium and Firefox; redirects, cut answers, wrong certificates | `browsers` |
//! | private pages and secrets of clients | `heads`, `records` |
//! | requests that two programs read differently, or that are too long | `requests`, `tandem-split-io/src/origin/chunks.rs` |
//! | other volunteers that lie, are silent or give half | `tests/site/sharing.rs` |
//! | a full disk, a key that everybody may read | `tandem/tests/split/faults.rs`, `site.rs` |
//!
//! Is not: what a site does for honest ones (`tests/site`).

#[path = "../common/mod.rs"]
mod common;

mod browsers;
mod credit;
mod fairness;
mod heads;
mod places;
mod ranges;
mod records;
mod requests;
