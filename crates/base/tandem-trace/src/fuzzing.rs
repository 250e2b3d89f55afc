//! The body of the fuzz target, kept here so that the tests run it too.
//!
//! Not an API: hidden from the documentation.

use crate::{Handshake, Limits, Rows, read};

/// A function that checks invariants on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("trace_capture", trace_capture)];

/// Reads `data` as a capture, with small limits too, so that they are reached, and checks what
/// holds for any input.
///
/// # Panics
/// Where a row contradicts itself or the counts.
pub fn trace_capture(data: &[u8]) {
    let small = Limits {
        connections: 4,
        direction_bytes: 8192,
        total_bytes: 16_384,
    };
    for limits in [Limits::default(), small] {
        let mut counted = Counted::default();
        if let Ok(trace) = read(data, limits, &mut counted, &mut |_| {}) {
            let facts = trace.facts;
            assert!(facts.connections_already_open <= facts.connections);
            assert!(facts.one_sided_handshakes <= counted.handshakes);
            assert!(counted.handshakes + counted.ssl2 <= facts.connections);
            assert!(facts.tcp_packets <= facts.frames);
        }
    }
}

#[derive(Default)]
struct Counted {
    handshakes: u64,
    ssl2: u64,
}

impl Rows for Counted {
    fn handshake(&mut self, handshake: &Handshake) {
        self.handshakes += 1;
        if let Some(chain) = &handshake.chain {
            assert!(chain.leaf_len <= chain.list.len());
            assert!(chain.der_bytes <= chain.list.len() as u64);
            assert!(chain.list.len() as u64 <= handshake.tally.bytes());
        }
        assert!(handshake.clear_flight.len() <= 65_536);
        if let Some(extras) = &handshake.extras {
            assert!(extras.messages.len() as u64 <= handshake.tally.bytes());
        }
    }

    fn ssl2_connection(&mut self) {
        self.ssl2 += 1;
    }
}
