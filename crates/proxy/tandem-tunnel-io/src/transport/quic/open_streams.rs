//! How many streams the server side permits in a tunnel: few at first, more once many are open.
//!
//! quinn makes room for every stream that is permitted, before one is opened: 70 bytes each, which
//! is 700 kB for the 10,000 that a tunnel may have, and a server side may have thousands of
//! tunnels.
//!
//! Invariant: while fewer are open than a tunnel may have, more are permitted than are open; a
//! client side that opens more than twice as many at once as are open waits for a round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::parameters::MAX_STREAMS;

/// Streams that are permitted at first. A hash table of 512 places holds as many.
pub(super) const AT_FIRST: u32 = 448;

/// The streams of a tunnel.
#[derive(Debug)]
pub(super) struct OpenStreams {
    open: AtomicU32,
    permitted: AtomicU32,
}

impl Default for OpenStreams {
    fn default() -> Self {
        Self {
            open: AtomicU32::new(0),
            permitted: AtomicU32::new(AT_FIRST),
        }
    }
}

impl OpenStreams {
    /// How many are to be permitted from now on, where that changes. To be asked by the one task
    /// that takes streams in.
    pub(super) fn to_permit(&self) -> Option<u32> {
        let permitted = self.permitted.load(Ordering::Relaxed);
        let open = self.open.load(Ordering::Relaxed);
        if permitted >= MAX_STREAMS || open < permitted / 2 {
            return None;
        }
        let more = (permitted * 2).min(MAX_STREAMS);
        self.permitted.store(more, Ordering::Relaxed);
        Some(more)
    }
}

/// Counts as open until it is dropped.
#[derive(Debug)]
pub(super) struct OpenStream(Arc<OpenStreams>);

impl OpenStream {
    pub(super) fn new(streams: &Arc<OpenStreams>) -> Self {
        streams.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(streams))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_are_permitted_as_soon_as_half_of_them_are_open_and_never_too_many() {
        let streams = Arc::<OpenStreams>::default();
        let mut open = Vec::new();
        let mut permitted = vec![AT_FIRST];
        for _ in 0..MAX_STREAMS {
            open.push(OpenStream::new(&streams));
            permitted.extend(streams.to_permit());
            let now = permitted.last().copied().unwrap_or(0) as usize;
            assert!(open.len() < now || now == MAX_STREAMS as usize);
        }
        assert_eq!(permitted, [448, 896, 1_792, 3_584, 7_168, MAX_STREAMS]);
        open.clear();
        assert_eq!(streams.to_permit(), None);
        assert_eq!(streams.open.load(Ordering::Relaxed), 0);
    }
}
