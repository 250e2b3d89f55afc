//! tandem-engine.
