//! Session tickets (RFC 5077) that are names: what they stand for is kept at the origin, as for a
//! session identifier.
//!
//! Is not: an encrypted state, of some 200 bytes, that would cross the origin's thin line with each
//! full handshake. A name has 16. Some clients, Go's among them, resume by tickets alone.
//!
//! Invariants: a ticket tells nothing but that a client has come before, which volunteers see; what
//! is kept is bounded, and gone with the process.

use std::fmt;
use std::sync::Arc;

use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions as _};

/// Bytes of a ticket: random, so that nobody comes upon another's.
const LEN: usize = 16;
/// How long clients are told to keep one, in seconds: half a day. It may be forgotten earlier.
const LIFETIME: u32 = 12 * 3600;

/// See above.
pub(super) struct Tickets {
    sessions: Arc<ServerSessionMemoryCache>,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

impl Tickets {
    /// For so many sessions at most.
    pub(super) fn new(most: usize) -> Self {
        Self {
            sessions: ServerSessionMemoryCache::new(most),
        }
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut name = [0; LEN];
        getrandom::fill(&mut name).ok()?;
        let is_kept = self.sessions.put(name.to_vec(), plain.to_vec());
        is_kept.then(|| name.to_vec())
    }

    fn decrypt(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.sessions.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_a_name_and_stands_for_what_it_was_made_of() {
        let tickets = Tickets::new(1000);
        let all: Vec<Vec<u8>> = (0..10)
            .map(|number| tickets.encrypt(&[number; 100]).expect("there is room"))
            .collect();
        for (number, ticket) in all.iter().enumerate() {
            assert_eq!(ticket.len(), LEN);
            assert_eq!(tickets.decrypt(ticket), Some(vec![number as u8; 100]));
        }
        assert_eq!(tickets.decrypt(&[0; LEN]), None);
        assert_eq!(tickets.decrypt(b""), None);
    }
}
