//! Session tickets of TLS 1.2 and older (RFC 5077): given in clear by the server, shown in clear by
//! the client that comes back.
//!
//! Is: where a ticket lies in either direction, and the delta for a hello that shows one. Is not:
//! what is held where (`peer`). TLS 1.3 seals what it gives, and its clients show what
//! they were given once (RFC 8446, section C.4); a hello that only it would read has no ticket in
//! this extension.
//!
//! ```text
//!   ClientHello:       ... | type 35: 2 | length: 2 | ticket | ...       section 3.2
//!   NewSessionTicket:  lifetime hint in seconds: 4 | length: 2 | ticket  section 3.3
//! ```
//!
//! Invariant: a ticket is bytes, never opened; one that is believed to be held and is not costs a
//! miss, never a byte.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use tandem_delta::pieces::{cut, gather};
use tandem_delta::{Planner, Reference};
use tandem_store::Digest;
use tandem_wire::tls::record::{self, parse_header};
use tandem_wire::tls::{
    ClientHello, ContentType, ExtensionType, HandshakeType, MessageSpan, client_hello, handshake,
};

use super::{Place, Sender, Storage};

/// Bytes of a given ticket's lifetime, and of its length.
const LIFETIME: usize = 4;
const LENGTH: usize = 2;

/// Bytes of an extension's type and length.
const EXTENSION_HEADER: usize = 4;

/// What a server gives, and what a client shows.
pub(super) const PLACES: &[Place] = &[
    Place {
        senders: &[Sender::Server],
        message: HandshakeType::NEW_SESSION_TICKET,
        storage: Storage::ForItsLifetime,
        find: |span, stream| GivenTicket::place(&span.body(stream), span),
    },
    Place {
        senders: &[Sender::Client],
        message: HandshakeType::CLIENT_HELLO,
        storage: Storage::ForItsLifetime,
        find: |span, stream| {
            let body = span.body(stream);
            let hello = ClientHello::parse(&body).ok()?;
            Some(ShownTicket::of(&hello, span)?.pieces)
        },
    },
];

/// Where the ticket lies that a hello shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownTicket {
    pieces: Vec<Range<usize>>,
}

/// A ticket that a server gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenTicket<'s> {
    /// The ticket.
    pub bytes: Cow<'s, [u8]>,
    /// For how long the server means to take it; `None`: it does not say.
    pub lifetime: Option<Duration>,
}

impl ShownTicket {
    /// The ticket in `hello`, whose message is `span`; `None` where there is none: no extension, or
    /// an empty one, which asks for a ticket.
    pub(crate) fn of(hello: &ClientHello<'_>, span: &MessageSpan) -> Option<Self> {
        let mut found = hello
            .extensions()?
            .iter()
            .filter(|extension| extension.extension_type == ExtensionType::SESSION_TICKET);
        let extension = found
            .next()
            .filter(|extension| !extension.data.is_empty())?;
        if found.next().is_some() {
            return None;
        }
        let Range { start, end } = extension.range();
        Some(Self {
            pieces: cut(span.body_pieces(), start + EXTENSION_HEADER..end),
        })
    }

    /// The ticket itself.
    pub fn bytes<'s>(&self, stream: &'s [u8]) -> Cow<'s, [u8]> {
        gather(&self.pieces, stream)
    }

    /// The plan of what the client has sent, its hello, with a name in place of the ticket.
    pub fn plan_hello<'t>(&self, stream: &'t [u8], reference: Reference) -> Planner<'t> {
        let mut plan = Planner::new(stream);
        plan.copy(reference, 0, self.pieces.iter().cloned());
        plan
    }
}

impl<'s> GivenTicket<'s> {
    /// Out of a NewSessionTicket message; `None` where it is malformed, or the ticket empty: the
    /// server gives none after all.
    pub(crate) fn of(span: &MessageSpan, stream: &'s [u8]) -> Option<Self> {
        let body = span.body(stream);
        let pieces = Self::place(&body, span)?;
        let lifetime = u32::from_be_bytes(*body.first_chunk()?);
        Some(Self {
            // Section 3.3: zero says nothing.
            lifetime: (lifetime > 0).then(|| Duration::from_secs(u64::from(lifetime))),
            bytes: gather(&pieces, stream),
        })
    }

    /// Where the ticket lies of a message with this body.
    fn place(body: &[u8], span: &MessageSpan) -> Option<Vec<Range<usize>>> {
        let (_, rest) = body.split_first_chunk::<LIFETIME>()?;
        let (length, ticket) = rest.split_first_chunk::<LENGTH>()?;
        if usize::from(u16::from_be_bytes(*length)) != ticket.len() || ticket.is_empty() {
            return None;
        }
        Some(cut(span.body_pieces(), LIFETIME + LENGTH..span.body_len()))
    }
}

/// The name by which a ticket is referred to.
pub fn name_of(ticket: &[u8]) -> Reference {
    Reference(Digest::of(ticket).prefix16())
}

/// Whether a hello of which this is the front, and no more than its first record, shows a ticket:
/// all of it or its first bytes.
pub fn begins(stream: &[u8]) -> bool {
    let Ok(Some(record)) = parse_header(stream) else {
        return false;
    };
    let fragment = stream
        .get(record::HEADER_LEN..stream.len().min(record.record_len()))
        .unwrap_or_default();
    let body = fragment.get(handshake::HEADER_LEN..).unwrap_or_default();
    record.content_type == ContentType::Handshake
        && fragment.first() == Some(&HandshakeType::CLIENT_HELLO.0)
        && client_hello::extension_len_in_front(body, ExtensionType::SESSION_TICKET)
            .is_some_and(|length| length > 0)
}

#[cfg(test)]
mod tests;
