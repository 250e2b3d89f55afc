//! What happens to objects, declared once for logs, metrics and tests.
//!
//! Is not: what happens to packets; that is the data plane's.

/// Why a key that was released opened nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnusedKey {
    /// It came after the ServerHello of its connection, whose flight had begun to pass.
    Late,
    /// No connection had its random.
    Unknown,
    /// Too many others came.
    Displaced,
    /// It is of a client's direction, and the handshake showed no certificate of a client, or its
    /// server's flight was not opened; or it came from a server.
    Direction,
    /// At the client's side: it does not name the random of its ServerHello, so that it may be
    /// another connection's.
    Unbound,
}

/// Why a flight for which a key was there could not be opened to its end: at the server's side a
/// server's, at the client's side a client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotOpened {
    /// No key of its connection opened its first record, or there was none.
    Unproved,
    /// A later record did not open.
    Record,
    /// What was in its records is no flight with a chain: a resumption, a client without a
    /// certificate, or a form that is not read.
    Form,
}

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
    /// An endpoint of this side released its key of a sealed handshake.
    KeyReleased,
    /// A key opened the first record of its flight, or sealed it again.
    KeyUsed,
    /// At the client's side: the far side was told that a client may hand in its key.
    KeyOffered,
    /// At the server's side: a flight was held, and the far side asked for its key.
    KeyAsked,
    /// At the server's side: no key was asked for, since too little would have been spared.
    KeyNotWorth,
    /// At the client's side: a client's key was handed over, for its server's flight, or that of
    /// its own direction with its own.
    KeyHandedOver,
    /// One that was asked for had not come in time; or, at the client's side, that of the client's
    /// direction was not there when the client answered a server that asks for a certificate.
    KeyMissing,
    /// Such a key was not of use.
    KeyUnused(UnusedKey),
    /// A flight of TLS 1.3 was opened: at the server's side a server's, at the client's side a
    /// client's.
    FlightOpened,
    /// One for which a key was there passes as it is.
    FlightNotOpened(NotOpened),
    /// A flight was sealed again, and has its sender's bytes: at the client's side a server's, at
    /// the server's side a client's.
    FlightSealed,
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
    pub const ALL: [Self; 36] = [
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
        Self::KeyUsed,
        Self::KeyOffered,
        Self::KeyAsked,
        Self::KeyNotWorth,
        Self::KeyHandedOver,
        Self::KeyMissing,
        Self::KeyUnused(UnusedKey::Late),
        Self::KeyUnused(UnusedKey::Unknown),
        Self::KeyUnused(UnusedKey::Displaced),
        Self::KeyUnused(UnusedKey::Direction),
        Self::KeyUnused(UnusedKey::Unbound),
        Self::FlightOpened,
        Self::FlightNotOpened(NotOpened::Unproved),
        Self::FlightNotOpened(NotOpened::Record),
        Self::FlightNotOpened(NotOpened::Form),
        Self::FlightSealed,
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
            Self::KeyUsed => "record_keys_used",
            Self::KeyOffered => "record_keys_offered",
            Self::KeyAsked => "record_keys_asked",
            Self::KeyNotWorth => "record_keys_not_worth",
            Self::KeyHandedOver => "record_keys_handed_over",
            Self::KeyMissing => "record_keys_missing",
            Self::KeyUnused(why) => match why {
                UnusedKey::Late => "record_keys_unused_late",
                UnusedKey::Unknown => "record_keys_unused_unknown",
                UnusedKey::Displaced => "record_keys_unused_displaced",
                UnusedKey::Direction => "record_keys_unused_direction",
                UnusedKey::Unbound => "record_keys_unused_unbound",
            },
            Self::FlightOpened => "flights_opened",
            Self::FlightNotOpened(why) => match why {
                NotOpened::Unproved => "flights_not_opened_unproved",
                NotOpened::Record => "flights_not_opened_record",
                NotOpened::Form => "flights_not_opened_form",
            },
            Self::FlightSealed => "flights_sealed",
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
            | Self::KeyUsed
            | Self::KeyOffered
            | Self::KeyAsked
            | Self::KeyNotWorth
            | Self::KeyHandedOver
            | Self::KeyMissing
            | Self::KeyUnused(_)
            | Self::FlightOpened
            | Self::FlightNotOpened(_)
            | Self::FlightSealed
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
