//! tandem-netsim.
