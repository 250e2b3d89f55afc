//! tandem-packet.
