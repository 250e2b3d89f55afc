//! tandem-link.
