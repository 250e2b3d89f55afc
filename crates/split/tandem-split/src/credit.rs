//! Credit: how far one side of a connection runs ahead of what the other has taken.
//!
//! ```text
//!  origin     | sealed: run 1 MiB | run 1 MiB |             volunteer
//!             |<-- taken -->|<------ at most CONTENT ------>|
//!  volunteer <-- stubs --- origin        volunteer --- taken: 131072, 655360, ... --> origin
//!  volunteer --- records -> origin       volunteer <-- taken: 65536, 131072, ... ---- origin
//! ```
//!
//! A client that reads nothing costs the origin a window of work, and a client that sends what
//! nobody reads fills a window of its memory. The second is also why the first can be said at all:
//! since the origin has room for whatever it gave credit for, it always hears how much its own
//! content has been taken.
//!
//! Is: counting. Is not: who waits, nor what is counted ([`crate::message::Progress`]).
//!
//! Invariants: what is sent and not taken is never more than the window where the sender asks
//! [`Window::has_room`]; a receiver that has taken all leaves room for what the sender waits with
//! (the constants below are checked for it), so that neither waits for the other.

use crate::cut::PIECE_LEN;
use crate::error::Breach;
use crate::message::MAX_MESSAGE_LEN;

/// Bytes of content that an origin seals ahead of what the client has taken, but for a head: with
/// all heads less than two megabytes, and almost a megabyte beside a piece.
pub const CONTENT: u64 = 1_980_000;
/// Bytes of the client's records that a volunteer sends ahead of what the origin has taken.
pub const RECORDS: u64 = 256 << 10;
/// Room that a volunteer wants for what it reads at once from a client: a record that is whole now,
/// and more.
pub const RECORDS_AT_ONCE: u64 = 64 << 10;

/// When a volunteer first says what its client has taken: early in a first piece, so that a second
/// is sealed while that one is written.
const FIRST_CONTENT: u64 = 128 << 10;
/// After how much more it says so again: twice in a piece.
const CONTENT_STEP: u64 = 512 << 10;
/// After how much an origin says what it has taken.
const RECORDS_STEP: u64 = 64 << 10;

const _: () = assert!(
    CONTENT >= PIECE_LEN as u64 + CONTENT_STEP && FIRST_CONTENT <= CONTENT_STEP,
    "what is not said yet leaves room for a piece"
);
const _: () = assert!(
    RECORDS >= RECORDS_AT_ONCE + RECORDS_STEP && RECORDS_AT_ONCE >= MAX_MESSAGE_LEN as u64,
    "what is not said yet leaves room for a record"
);

/// What one side has sent, and the other taken.
#[derive(Clone, Debug)]
pub struct Window {
    len: u64,
    sent: u64,
    taken: u64,
}

impl Window {
    /// One of so many bytes.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        Self {
            len,
            sent: 0,
            taken: 0,
        }
    }

    /// Whether so many bytes more may be sent.
    #[must_use]
    pub const fn has_room(&self, bytes: u64) -> bool {
        self.ahead().saturating_add(bytes) <= self.len
    }

    /// Bytes that were sent and not taken.
    const fn ahead(&self) -> u64 {
        self.sent - self.taken
    }

    /// So many more have been sent.
    pub const fn note_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Hears how many have been taken since the beginning.
    ///
    /// # Errors
    /// [`Breach::Taken`] if it is less than before, or more than was sent.
    pub const fn note_taken(&mut self, total: u64) -> Result<(), Breach> {
        if total < self.taken || total > self.sent {
            return Err(Breach::Taken(total));
        }
        self.taken = total;
        Ok(())
    }

    /// Supposes that so many more have been taken, where nobody says.
    pub fn suppose_taken(&mut self, bytes: u64) {
        self.taken = self.sent.min(self.taken.saturating_add(bytes));
    }
}

/// What one side has taken, and when it is time to say so: in coarse steps.
#[derive(Clone, Debug)]
pub struct Receipts {
    taken: u64,
    next: u64,
    step: u64,
}

impl Receipts {
    /// Those of a volunteer, for the content that its client takes.
    #[must_use]
    pub const fn of_content() -> Self {
        Self::new(FIRST_CONTENT, CONTENT_STEP)
    }

    /// Those of an origin, for the records of a client.
    #[must_use]
    pub const fn of_records() -> Self {
        Self::new(RECORDS_STEP, RECORDS_STEP)
    }

    const fn new(next: u64, step: u64) -> Self {
        Self {
            taken: 0,
            next,
            step,
        }
    }

    /// So many have been taken since the beginning.
    pub fn note_taken(&mut self, total: u64) {
        self.taken = self.taken.max(total);
    }

    /// So many more have been taken.
    pub const fn add(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Whether [`Self::poll`] has something to say.
    #[must_use]
    pub const fn are_due(&self) -> bool {
        self.taken >= self.next
    }

    /// What is to be said now, once.
    pub fn poll(&mut self) -> Option<u64> {
        if !self.are_due() {
            return None;
        }
        let steps = (self.taken - self.next) / self.step + 1;
        self.next = self.next.saturating_add(steps.saturating_mul(self.step));
        Some(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_have_been_taken_is_refused() {
        let mut window = Window::new(10);
        window.note_sent(7);
        assert!(window.has_room(3) && !window.has_room(4) && !window.has_room(u64::MAX));
        assert_eq!(window.note_taken(8), Err(Breach::Taken(8)));
        assert_eq!(window.note_taken(5), Ok(()));
        assert_eq!(window.note_taken(4), Err(Breach::Taken(4)));
        assert!(window.has_room(8) && !window.has_room(9));
        window.suppose_taken(u64::MAX);
        assert_eq!(window.ahead(), 0);
    }

    #[test]
    fn a_megabyte_is_told_of_twice_and_a_page_not_at_all() {
        let mut receipts = Receipts::of_content();
        let told = (1..=PIECE_LEN as u64 / 1000).filter(|taken| {
            receipts.note_taken(taken * 1000);
            receipts.poll().is_some()
        });
        assert_eq!(told.count(), 2);
        let mut receipts = Receipts::of_content();
        receipts.note_taken(130_000);
        assert_eq!(receipts.poll(), None);
        receipts.note_taken(u64::MAX / 2);
        assert!(receipts.are_due());
        assert_eq!(receipts.poll(), Some(u64::MAX / 2));
        assert_eq!((receipts.poll(), receipts.are_due()), (None, false));
    }

    proptest! {
        /// A sender that has room for a whole piece, or for what it reads at once, goes on as often
        /// as it likes; whatever the pieces and the reads of the client are, it never runs further
        /// ahead than the window, and all arrives.
        #[test]
        fn the_sender_is_bounded_and_never_waits_for_a_receiver_that_waits_for_it(
            is_content: bool,
            pieces in prop::collection::vec((1_u64..=PIECE_LEN as u64, 1_u64..400_000), 1..60),
        ) {
            let (len, most, mut receipts) = if is_content {
                (CONTENT, PIECE_LEN as u64, Receipts::of_content())
            } else {
                (RECORDS, RECORDS_AT_ONCE, Receipts::of_records())
            };
            let mut window = Window::new(len);
            let (mut arrived, mut read) = (0, 0);
            for (piece, at_once) in pieces {
                let piece = piece.min(most);
                while !window.has_room(piece) {
                    prop_assert!(read < arrived, "both wait");
                    read = arrived.min(read + at_once);
                    receipts.note_taken(read);
                    if let Some(taken) = receipts.poll() {
                        prop_assert!(taken <= arrived);
                        prop_assert_eq!(window.note_taken(taken), Ok(()));
                    }
                }
                window.note_sent(piece);
                arrived += piece;
                prop_assert!(window.ahead() <= len);
                prop_assert!(arrived - read <= len);
            }
        }
    }
}
