//! tandem-io.
