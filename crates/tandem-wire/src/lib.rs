//! tandem-wire.
