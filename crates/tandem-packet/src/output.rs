//! What goes into and comes out of the packet engine: tickets, verdicts, injected packets, events.
//!
//! Is not: a decision; these are the words that the engine and its adapter share.
//!
//! Invariant: an adapter that carries out every [`Output`] in the order in which it is polled needs to know nothing of TCP or TLS.

/// The name of one queued packet. The engine owes it exactly one [`Verdict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Which way a packet crosses the proxy, told by the link interface alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The packet leaves by the link: what it carries may be written as a delta.
    ToLink,
    /// The packet arrived by the link: what it carries may have to be rebuilt.
    FromLink,
}

/// What becomes of a queued packet.
#[must_use = "a ticket is owed its verdict"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The packet goes on as it is.
    Accept,
    /// The packet goes on with these bytes: a whole IP packet, all checksums right.
    Replace(Vec<u8>),
    /// The packet ends here.
    Drop,
    /// The packet goes on as it is, and its connection leaves the queue for good (a connection mark).
    Leave,
}

/// One thing for the adapter to do. The order matters.
#[must_use = "outputs are carried out in order"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The verdict on a ticket.
    Verdict(Ticket, Verdict),
    /// A whole IP packet to send, past the queue: over the link, or towards the near endpoint.
    Inject(Direction, Vec<u8>),
    /// Something happened that a log, a counter or a test may want to know.
    Event(Event),
}

/// Why the engine wants to be called at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wakeup {
    /// A held flight has waited long enough and is let go.
    HoldExpires,
    /// A flow has been idle long enough to be forgotten.
    FlowExpires,
}

/// Something that happened, declared once for logs, metrics and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// A flow was first seen.
    FlowOpened,
}

impl Event {
    /// The name of the event's counter, without prefix: lower case, digits and underscores.
    pub fn name(self) -> &'static str {
        match self {
            Event::FlowOpened => "flows_opened",
        }
    }

    /// How much the event adds to its counter: 1, or a number of bytes.
    pub fn amount(self) -> u64 {
        match self {
            Event::FlowOpened => 1,
        }
    }
}
