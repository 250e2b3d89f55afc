//! UDP through the tunnel: a flow is a stream of its own kind, and what crosses beside it.
//!
//! ```text
//! stream, client to server:  open message*      end or reset: the flow is over
//! stream, server to client:       message*
//! datagram of the transport:  stream(varint) payload
//!
//! open    = an Open without a client, 0x40 more in its first byte: where the datagrams go
//! message = length(varint) payload{length}     a datagram that crosses on the stream
//! ```
//!
//! A payload crosses either way. `stream` is the number of the flow's stream, as in RFC 9297,
//! section 2.1: a number is not used again while the connection lasts, so what comes late belongs
//! to no other flow. A datagram of no bytes at all is a question of the transport's (`nudge.rs`).
//!
//! Is: the bytes. Is not: which way a payload takes (`tandem-tunnel`).
//!
//! Invariants: each message has one encoding; no more is kept than one message.

use tandem_delta::varint;

use super::open::{Open, OpenDecoder};
use super::{Malformed, Target};

/// In the first byte of a flow's stream, above the forms of an `Open` and below a DNS query's.
const FLOW: u8 = 0x40;
/// What tells the kinds of streams.
const KINDS: u8 = 0xc0;

/// Longest payload of UDP: its length has 16 bits, its header 8 bytes (RFC 768).
pub const MAX_PAYLOAD: usize = 65_535 - 8;

/// Most bytes of a length: three hold 21 bits.
const MAX_LENGTH_LEN: usize = 3;

/// The first message on a flow's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowOpen {
    /// Where the datagrams go.
    pub target: Target,
}

impl FlowOpen {
    /// Whether a stream that begins with these bytes is a flow.
    pub fn begins(stream: &[u8]) -> bool {
        stream.first().is_some_and(|first| first & KINDS == FLOW)
    }

    /// Appends the message. `None`, and nothing written, for a target that may not cross.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        Open::to(self.target.clone()).write(out)?;
        if let Some(first) = out.get_mut(start) {
            *first |= FLOW;
        }
        Some(())
    }
}

/// Reads the first message in any pieces.
#[derive(Debug, Default)]
pub struct FlowOpenDecoder {
    has_begun: bool,
    inner: OpenDecoder,
}

impl FlowOpenDecoder {
    /// As [`OpenDecoder::next`].
    ///
    /// # Errors
    /// [`Malformed`] for what is no such message; there is no reading on then.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<FlowOpen>, Malformed> {
        if !self.has_begun
            && let Some((&first, rest)) = input.split_first()
        {
            if !FlowOpen::begins(&[first]) {
                return Err(Malformed);
            }
            self.has_begun = true;
            *input = rest;
            self.inner.next(&mut &[first & !FLOW][..])?;
        }
        match self.inner.next(input)? {
            Some(open) if open.client().is_some() => Err(Malformed),
            Some(open) => Ok(Some(FlowOpen {
                target: open.target,
            })),
            None => Ok(None),
        }
    }
}

/// Appends a payload as a message. `None`, and nothing written, for one that UDP cannot have.
pub fn write_message(payload: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let length = u32::try_from(payload.len()).ok()?;
    if payload.len() > MAX_PAYLOAD {
        return None;
    }
    varint::write(out, length);
    out.extend_from_slice(payload);
    Some(())
}

/// Reads messages in any pieces.
#[derive(Debug, Default)]
pub struct MessageDecoder {
    /// The length, as far as it has come.
    head: Vec<u8>,
    /// What has come of the payload, once its length is known.
    body: Option<Body>,
}

#[derive(Debug)]
struct Body {
    length: usize,
    payload: Vec<u8>,
}

impl MessageDecoder {
    /// The next payload, its bytes taken off the front of `input`; `None` where that is used up.
    ///
    /// # Errors
    /// [`Malformed`] for a length that no datagram has; there is no reading on then.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        while self.body.is_none() {
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(None);
            };
            *input = rest;
            self.head.push(byte);
            if byte < 0x80 {
                let length = varint::read(&mut self.head.as_slice()).ok_or(Malformed)?;
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                if length > MAX_PAYLOAD {
                    return Err(Malformed);
                }
                self.head.clear();
                let payload = Vec::new();
                self.body = Some(Body { length, payload });
            } else if self.head.len() >= MAX_LENGTH_LEN {
                return Err(Malformed);
            }
        }
        let Some(Body { length, payload }) = &mut self.body else {
            return Ok(None);
        };
        let missing = length.saturating_sub(payload.len()).min(input.len());
        let (bytes, rest) = input.split_at(missing);
        payload.extend_from_slice(bytes);
        *input = rest;
        if payload.len() < *length {
            return Ok(None);
        }
        Ok(self.body.take().map(|body| body.payload))
    }

    /// Bytes that are kept of a message that is not whole.
    pub fn kept(&self) -> usize {
        self.head.len() + self.body.as_ref().map_or(0, |body| body.payload.len())
    }
}

/// Appends a payload as a datagram that belongs to the flow of this stream.
pub fn write_datagram(stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    varint::write(out, stream);
    out.extend_from_slice(payload);
}

/// A datagram: to which stream it belongs, and the payload. `None` for what is none.
pub fn parse_datagram(mut datagram: &[u8]) -> Option<(u32, &[u8])> {
    let stream = varint::read(&mut datagram)?;
    (datagram.len() <= MAX_PAYLOAD).then_some((stream, datagram))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opened(host: &str, port: u16) -> Vec<u8> {
        let target = Target::new(host, port).expect("a target");
        let mut out = Vec::new();
        FlowOpen { target }.write(&mut out).expect("it may cross");
        out
    }

    #[test]
    fn messages_have_the_bytes_of_their_layout() {
        assert_eq!(opened("192.0.2.1", 443), [0x40, 192, 0, 2, 1]);
        assert_eq!(opened("a.test", 53), b"\x46\x06a.test\x00\x35");
        let mut out = Vec::new();
        write_message(&[7; 300], &mut out).expect("it fits");
        assert_eq!(out[..3], [0xac, 2, 7]);
        let mut out = Vec::new();
        write_datagram(300, b"abc", &mut out);
        assert_eq!(out, b"\xac\x02abc");
        assert_eq!(parse_datagram(&out), Some((300, &b"abc"[..])));
    }

    #[test]
    fn a_flow_is_told_from_a_connection_and_a_dns_query_by_its_first_byte() {
        for first in 0..=u8::MAX {
            assert_eq!(FlowOpen::begins(&[first]), (0x40..0x80).contains(&first));
        }
        assert!(!FlowOpen::begins(&[]));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bad in [
            &[0x00, 192, 0, 2, 1][..],
            &[0x80, 1],
            &[0x43],
            // A client of IPv4 behind it.
            &[0x48, 192, 0, 2, 1, 10, 0, 0, 1, 1, 1],
            // Port 0.
            &[0x44, 192, 0, 2, 1, 0, 0],
        ] {
            let read = FlowOpenDecoder::default().next(&mut &*bad);
            assert_eq!(read, Err(Malformed), "{bad:?}");
        }
        // One more than UDP can have; not the shortest form; a length without end.
        for bad in [&[0xf8, 0xff, 3][..], &[0x80, 0], &[0xff, 0xff, 0xff]] {
            let read = MessageDecoder::default().next(&mut &*bad);
            assert_eq!(read, Err(Malformed), "{bad:?}");
        }
        assert_eq!(write_message(&[0; MAX_PAYLOAD + 1], &mut Vec::new()), None);
        assert_eq!(parse_datagram(&[]), None);
        assert_eq!(parse_datagram(&[0x80]), None);
    }

    proptest! {
        #[test]
        fn payloads_are_read_as_they_were_written_in_any_pieces(
            payloads in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..300), 0..8),
            piece in 1..64_usize,
        ) {
            let mut stream = Vec::new();
            for payload in &payloads {
                write_message(payload, &mut stream).expect("it fits");
            }
            let mut decoder = MessageDecoder::default();
            let mut read = Vec::new();
            for mut piece in stream.chunks(piece) {
                while let Some(payload) = decoder.next(&mut piece).expect("well-formed") {
                    read.push(payload);
                }
            }
            prop_assert_eq!(decoder.kept(), 0);
            prop_assert_eq!(read, payloads);
        }
    }
}
