//! tandem-store.
