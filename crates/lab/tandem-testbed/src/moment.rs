//! The wall clock, on the scale on which the kernel stamps captured packets.

use std::time::{SystemTime, UNIX_EPOCH};

use tandem_trace::Moment;

/// What time it is.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Moment::from_duration(since.unwrap_or_default())
}
