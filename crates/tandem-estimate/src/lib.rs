//! tandem-estimate.
