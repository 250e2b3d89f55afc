//! Scans of hand-made streams.
