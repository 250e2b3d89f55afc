//! What the tests of the store on disk share.
//!
//! Is not: a test. Certificates and what is learned of them are those of the store in memory.

#[path = "../../../../tandem-store/tests/support/certificate.rs"]
pub(crate) mod certificate;
pub(crate) mod disk;
pub(crate) mod filled;
pub(crate) mod mounts;
#[path = "../../../../tandem-store/tests/support/stores.rs"]
pub(crate) mod stores;
