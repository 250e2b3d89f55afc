//! What happens to objects, declared once for logs, metrics and tests.
//!
//! Is not: what happens to packets; that is the data plane's.

/// Something that happened to what the proxies hold, or know of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A chain was put into the store.
    ChainLearned,
    /// A client's chain was put into the store; or noted to be in the far side's, where this side
    /// keeps none.
    ClientChainLearned,
    /// A session ticket that was given or taken is remembered.
    TicketLearned,
    /// A hello crossed with a reference in place of its session ticket, where hellos are not
    /// remembered themselves.
    TicketReferred,
    /// Such a hello was not rebuilt, and its originals were sent.
    TicketMissed,
    /// A hello that both sides have seen is remembered as a template.
    HelloLearned,
    /// A hello crossed as a delta against earlier hellos, its session ticket, or both.
    HelloShortened,
    /// Such a hello was not rebuilt, and its original was sent.
    HelloMissed,
    /// A server's first flight that both sides have seen is remembered as a template.
    FlightLearned,
    /// At the server's side: a flight crossed as a delta against the earlier one that the far side
    /// has told of.
    FlightRecalled,
    /// At the server's side: only the far side holds the earlier one.
    FlightNotRecalled,
    /// At the server's side: a server released its key of a sealed handshake.
    KeyReleased,
    /// Such a key was not of use: no flight came for it, or came too early.
    KeyUnused,
    /// At the server's side: a server's flight of TLS 1.3 was opened.
    FlightOpened,
    /// One for which a key was there could not be opened to its end, and passes as it is.
    FlightNotOpened,
    /// A client named its chain in its hello, and some of it is held here, at the server's side.
    IntentionHeld,
    /// A client named its chain in its hello, and nothing of it is held here, at the server's side.
    IntentionNotHeld,
    /// The far side holds some of the chain that a client named in its hello.
    IntentionConfirmed,
    /// Nothing is held for the site that a client asked for; of others, perhaps, issuers.
    NothingHeld,
    /// A filter of what is held here was published; bytes of the packet.
    FilterPublished(u64),
    /// One would have been of use, and cost more than publications may.
    FilterHeldBack,
    /// The far side published what it holds.
    FilterReceived,
    /// At the client's side: a site's next chain was put into the store before its next visit.
    RenewalLearned,
}

impl Event {
    /// One of each, amounts zero.
    pub const ALL: [Self; 23] = [
        Self::ChainLearned,
        Self::ClientChainLearned,
        Self::TicketLearned,
        Self::TicketReferred,
        Self::TicketMissed,
        Self::HelloLearned,
        Self::HelloShortened,
        Self::HelloMissed,
        Self::FlightLearned,
        Self::FlightRecalled,
        Self::FlightNotRecalled,
        Self::KeyReleased,
        Self::KeyUnused,
        Self::FlightOpened,
        Self::FlightNotOpened,
        Self::IntentionHeld,
        Self::IntentionNotHeld,
        Self::IntentionConfirmed,
        Self::NothingHeld,
        Self::FilterPublished(0),
        Self::FilterHeldBack,
        Self::FilterReceived,
        Self::RenewalLearned,
    ];

    /// The name of the event's counter, without prefix: lower case, digits and underscores.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChainLearned => "chains_learned",
            Self::ClientChainLearned => "client_chains_learned",
            Self::TicketLearned => "session_tickets_learned",
            Self::TicketReferred => "session_tickets_referred",
            Self::TicketMissed => "session_tickets_missed",
            Self::HelloLearned => "hellos_learned",
            Self::HelloShortened => "hellos_shortened",
            Self::HelloMissed => "hellos_missed",
            Self::FlightLearned => "flights_learned",
            Self::FlightRecalled => "flights_recalled",
            Self::FlightNotRecalled => "flights_not_recalled",
            Self::KeyReleased => "record_keys_released",
            Self::KeyUnused => "record_keys_unused",
            Self::FlightOpened => "flights_opened",
            Self::FlightNotOpened => "flights_not_opened",
            Self::IntentionHeld => "intentions_held",
            Self::IntentionNotHeld => "intentions_not_held",
            Self::IntentionConfirmed => "intentions_confirmed",
            Self::NothingHeld => "hellos_nothing_held",
            Self::FilterPublished(_) => "filters_published_bytes",
            Self::FilterHeldBack => "filters_held_back",
            Self::FilterReceived => "filters_received",
            Self::RenewalLearned => "renewals_learned",
        }
    }

    /// How much the event adds to its counter.
    pub fn amount(self) -> u64 {
        match self {
            Self::FilterPublished(bytes) => bytes,
            Self::ChainLearned
            | Self::ClientChainLearned
            | Self::TicketLearned
            | Self::TicketReferred
            | Self::TicketMissed
            | Self::HelloLearned
            | Self::HelloShortened
            | Self::HelloMissed
            | Self::FlightLearned
            | Self::FlightRecalled
            | Self::FlightNotRecalled
            | Self::KeyReleased
            | Self::KeyUnused
            | Self::FlightOpened
            | Self::FlightNotOpened
            | Self::IntentionHeld
            | Self::IntentionNotHeld
            | Self::IntentionConfirmed
            | Self::NothingHeld
            | Self::FilterHeldBack
            | Self::FilterReceived
            | Self::RenewalLearned => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_event_has_a_counter_of_its_own() {
        let names: BTreeSet<&str> = Event::ALL.iter().map(|event| event.name()).collect();
        assert_eq!(names.len(), Event::ALL.len());
        // Each arm of `name` gives one literal: as many as there are events.
        let body = include_str!("event.rs").split("pub fn name(self)").nth(1);
        let body = body.and_then(|rest| rest.split("pub fn amount").next());
        let arms = body.map(|body| body.matches("=> \"").count());
        assert_eq!(arms, Some(Event::ALL.len()));
    }
}
