//! A ServerHello in a record of its own, as every stack sends it.
//!
//! Is not: what follows it.

use tandem_wire::tls::{ContentType, HandshakeType, Records};

/// Bytes of a handshake message's header.
const MESSAGE_HEADER: usize = 4;

/// A ServerHello, or a HelloRetryRequest, alone in the first record of a stream.
pub(crate) struct ServerHelloRecord<'a> {
    /// Without the message's header.
    pub(crate) body: &'a [u8],
    /// Where the record ends.
    pub(crate) end: usize,
}

impl<'a> ServerHelloRecord<'a> {
    pub(crate) fn first_in(stream: &'a [u8]) -> Option<Self> {
        let record = Records::new(stream).next()?.ok()?;
        let (header, body) = record.fragment.split_first_chunk::<MESSAGE_HEADER>()?;
        let [msg_type, high, middle, low] = *header;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let is_alone = record.header.content_type == ContentType::Handshake
            && msg_type == HandshakeType::SERVER_HELLO.0
            && usize::try_from(length) == Ok(body.len());
        is_alone.then_some(Self {
            body,
            end: record.range.end,
        })
    }
}
