//! Where a TLS handshake ends in the two streams of a connection, and where application data
//! begins.
//!
//! Reads record headers and clear handshake messages; decides nothing. For TLS 1.0 to 1.2 a
//! handshake ends with the record behind ChangeCipherSpec, which is Finished. For TLS 1.3 all that
//! can be told from outside is the client's first encrypted record.
//!
//! Specification: RFC 5246, section 7.3; RFC 8446, section 5.1.

use tandem_trace::{Exchange, Moment};
use tandem_wire::tls::{
    ContentType, HandshakeScan, HandshakeType, ProtocolVersion, Record, Records, ServerHello,
    stream,
};

/// One-way flights of a full handshake of TLS 1.2 and before.
pub(crate) const FULL_FLIGHTS: usize = 4;

/// A handshake's ends, as offsets in the payload streams and as moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// What the server chose.
    pub version: ProtocolVersion,
    /// Behind the client's Finished.
    pub up_end: usize,
    /// Behind the server's Finished. In TLS 1.3: what the client had when it sent its own.
    pub down_end: usize,
    /// When the client had the server's Finished. In TLS 1.3: when the client sent its own, which
    /// it does at once, or, behind a certificate of the client's, when the server had it.
    pub finished: Moment,
    /// When the client had the first byte of application data. In TLS 1.3 that cannot be told from
    /// session tickets: `None`.
    pub first_byte: Option<Moment>,
    /// One-way flights until both had finished.
    pub flights: usize,
}

impl Phases {
    /// `None` where the handshake did not come to its end.
    pub fn of(exchange: &Exchange) -> Option<Self> {
        let down = exchange.down.received.bytes();
        let scan = stream::scan::messages(down);
        let version = selected_version(&scan, down)?;
        if version.0 >= ProtocolVersion::TLS1_3.0 {
            Self::of_tls13(exchange, version)
        } else {
            Self::of_tls12(exchange, version)
        }
    }

    fn of_tls12(exchange: &Exchange, version: ProtocolVersion) -> Option<Self> {
        let up = finished_record(exchange.up.sent.bytes())?;
        let received = &exchange.down.received;
        let down = finished_record(received.bytes())?;
        let first = first_of(received.bytes(), ContentType::ApplicationData);
        let finished = received.time_of(down.range.end)?;
        // A full handshake has four flights. In an abbreviated one the server finishes first, and
        // there are three.
        let server_first = exchange
            .up
            .sent
            .time_of(up.range.end)
            .is_some_and(|sent| finished <= sent);
        Some(Self {
            version,
            up_end: up.range.end,
            down_end: down.range.end,
            finished,
            // The first byte behind the record's header.
            first_byte: first
                .and_then(|record| received.time_of(record.fragment_range().start + 1)),
            flights: if server_first { 3 } else { FULL_FLIGHTS },
        })
    }

    fn of_tls13(exchange: &Exchange, version: ProtocolVersion) -> Option<Self> {
        /// A protected Finished without padding, with SHA-256 and SHA-384: the message's header,
        /// the inner type and the tag around it (RFC 8446, sections 4.4.4 and 5.2).
        const FINISHED: [usize; 2] = [4 + 32 + 1 + 16, 4 + 48 + 1 + 16];
        let sent = &exchange.up.sent;
        let first = first_of(sent.bytes(), ContentType::ApplicationData)?;
        // In front of it a client may show a certificate, in records of their own. That crosses the
        // link, too, so that the handshake is over where the server has it.
        let mut records = Records::new(sent.bytes()).map_while(Result::ok);
        let last = records.find(|record| {
            record.header.content_type == ContentType::ApplicationData
                && FINISHED.contains(&record.fragment.len())
        });
        let up_end = last.map_or(first.range.end, |record| record.range.end);
        let finished = match up_end == first.range.end {
            true => sent.time_of(up_end)?,
            false => exchange.up.received.time_of(up_end)?,
        };
        Some(Self {
            version,
            up_end,
            down_end: exchange.down.received.length_at(finished),
            finished,
            first_byte: None,
            flights: 3,
        })
    }
}

/// The version that a ServerHello in clear settles.
fn selected_version(scan: &HandshakeScan, stream: &[u8]) -> Option<ProtocolVersion> {
    let message = scan
        .messages
        .iter()
        .find(|message| message.msg_type == HandshakeType::SERVER_HELLO)?;
    let body = message.body(stream);
    ServerHello::parse(&body)
        .ok()
        .map(|hello| hello.selected_version())
}

/// The record behind ChangeCipherSpec.
pub(crate) fn finished_record(stream: &[u8]) -> Option<Record<'_>> {
    Records::new(stream)
        .map_while(Result::ok)
        .skip_while(|record| record.header.content_type != ContentType::ChangeCipherSpec)
        .find(|record| record.header.content_type == ContentType::Handshake)
}

fn first_of(stream: &[u8], content_type: ContentType) -> Option<Record<'_>> {
    Records::new(stream).map_while(Result::ok).find(|record| {
        // An empty fragment in front of the data is a counter-measure of TLS 1.0 (BEAST); it comes
        // in the same segment.
        record.header.content_type == content_type && !record.fragment.is_empty()
    })
}
