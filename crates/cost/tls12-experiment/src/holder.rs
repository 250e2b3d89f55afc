//! A client's certificate that goes ahead, and the proxy that holds it until the server asks
//! (McVeety 2009, appendix B: "server-transparent round alteration").
//!
//! ```text
//!  client                            holder                     server, unmodified
//!   | hello, certificate ------------> | hello ------------------> |
//!   | <----------------------- hello, ..., certificate request, done
//!   | key exchange, verify, ... -----> | certificate, key exchange, verify, ... --> |
//! ```
//!
//! Is not: sockets. The proxy ends TCP on both sides, so that sequence numbers need no change.
//!
//! Invariants: the server sees a handshake of TLS 1.2 as the RFC has it; a certificate that it
//! does not ask for is dropped; one certificate of at most [`MAX_HELD`] bytes is held, and bytes
//! that do not look like this pass unchanged.

use tandem_wire::tls::record::{HEADER_LEN, parse_header};
use tandem_wire::tls::stream::MessageBuffer;
use tandem_wire::tls::{ContentType, HandshakeType, handshake};

use crate::record::MAX_MESSAGE_LEN;

/// Longest record that is held, with its header, in bytes.
pub const MAX_HELD: usize = (1 << 14) + HEADER_LEN;

/// The state of one connection.
#[derive(Debug)]
pub struct Holder {
    up: Up,
    up_bytes: Vec<u8>,
    held: Vec<u8>,
    down: Option<Down>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Up {
    /// The hello's record is due.
    Hello,
    /// A record with a certificate may follow.
    Certificate,
    /// The client's next flight is due.
    Flight,
    /// Nothing is looked at any more.
    Through,
}

/// The server's flight, as far as it was read.
#[derive(Debug)]
struct Down {
    bytes: Vec<u8>,
    messages: MessageBuffer,
    asks: bool,
}

impl Default for Holder {
    fn default() -> Self {
        Self::new()
    }
}

impl Holder {
    /// A connection that has just come.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            up: Up::Hello,
            up_bytes: Vec::new(),
            held: Vec::new(),
            down: Some(Down {
                bytes: Vec::new(),
                messages: MessageBuffer::new(MAX_MESSAGE_LEN),
                asks: false,
            }),
        }
    }

    /// Takes bytes of the client, and appends what the server is to get.
    pub fn to_server(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.up_bytes.extend_from_slice(bytes);
        while let Some(record) = self.next_up(out) {
            match self.up {
                Up::Hello => {
                    out.extend_from_slice(&record);
                    self.up = Up::Certificate;
                }
                Up::Certificate if is_certificate(&record) => {
                    self.held = record;
                    self.up = Up::Flight;
                }
                Up::Certificate => {
                    out.extend_from_slice(&record);
                    self.up = Up::Through;
                }
                Up::Flight => {
                    // The client waits for the whole of the server's flight before it goes on.
                    if self.down.as_ref().is_some_and(|down| down.asks) {
                        out.append(&mut self.held);
                    }
                    out.extend_from_slice(&record);
                    self.up = Up::Through;
                }
                Up::Through => out.extend_from_slice(&record),
            }
        }
    }

    /// The next record of the client; where nothing is looked at, all there is goes to `out`.
    fn next_up(&mut self, out: &mut Vec<u8>) -> Option<Vec<u8>> {
        if self.up == Up::Through {
            out.append(&mut self.up_bytes);
            return None;
        }
        match parse_header(&self.up_bytes) {
            Ok(Some(header)) if header.record_len() <= MAX_HELD => {
                let is_whole = self.up_bytes.len() >= header.record_len();
                is_whole.then(|| self.up_bytes.drain(..header.record_len()).collect())
            }
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => {
                self.up = Up::Through;
                out.append(&mut self.up_bytes);
                None
            }
        }
    }

    /// Reads bytes of the server, which pass unchanged.
    pub fn to_client(&mut self, bytes: &[u8]) {
        if self.up == Up::Through {
            self.down = None;
        }
        let Some(down) = &mut self.down else { return };
        down.bytes.extend_from_slice(bytes);
        let mut at = 0;
        while let Ok(Some(header)) = parse_header(down.bytes.get(at..).unwrap_or_default())
            && let Some(fragment) = down.bytes.get(at + HEADER_LEN..at + header.record_len())
        {
            at += header.record_len();
            if header.content_type != ContentType::Handshake {
                continue;
            }
            let asks = &mut down.asks;
            let pushed = down.messages.push(fragment, |message| {
                *asks |= message.msg_type == HandshakeType::CERTIFICATE_REQUEST;
            });
            if pushed.is_err() {
                self.down = None;
                return;
            }
        }
        down.bytes.drain(..at);
        // What is no record is not waited for.
        if down.bytes.len() > tandem_wire::tls::record::MAX_FRAGMENT_LEN + HEADER_LEN {
            self.down = None;
        }
    }
}

/// Whether a record has one whole Certificate message and nothing else.
fn is_certificate(record: &[u8]) -> bool {
    let Some((header, fragment)) = record.split_at_checked(HEADER_LEN) else {
        return false;
    };
    let Some(message) = fragment.first_chunk::<{ handshake::HEADER_LEN }>() else {
        return false;
    };
    let [kind, a, b, c] = *message;
    let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    header.first() == Some(&ContentType::Handshake.as_u8())
        && kind == HandshakeType::CERTIFICATE.0
        && handshake::HEADER_LEN + length == fragment.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{message, write_clear};

    fn record(kind: HandshakeType) -> Vec<u8> {
        let mut out = Vec::new();
        write_clear(&mut out, &message(kind, &[7; 20]).expect("it fits"));
        out
    }

    fn seen_by_server(server: &[HandshakeType], piece: usize) -> Vec<u8> {
        let first = [
            record(HandshakeType::CLIENT_HELLO),
            record(HandshakeType::CERTIFICATE),
        ];
        let mut holder = Holder::new();
        let mut out = Vec::new();
        for bytes in first.concat().chunks(piece) {
            holder.to_server(bytes, &mut out);
        }
        for kind in server {
            holder.to_client(&record(*kind));
        }
        for bytes in record(HandshakeType::CLIENT_KEY_EXCHANGE).chunks(piece) {
            holder.to_server(bytes, &mut out);
        }
        out
    }

    #[test]
    fn a_certificate_waits_for_the_server_s_request() {
        let asking = [
            HandshakeType::SERVER_HELLO,
            HandshakeType::CERTIFICATE_REQUEST,
            HandshakeType::SERVER_HELLO_DONE,
        ];
        let hello = record(HandshakeType::CLIENT_HELLO);
        let exchange = record(HandshakeType::CLIENT_KEY_EXCHANGE);
        let played = [
            hello.clone(),
            record(HandshakeType::CERTIFICATE),
            exchange.clone(),
        ];
        let dropped = [hello, exchange];
        for piece in [1, 7, 1000] {
            assert_eq!(seen_by_server(&asking, piece), played.concat());
            let silent = seen_by_server(&asking[..1], piece);
            assert_eq!(silent, dropped.concat(), "nobody asked");
        }
    }

    #[test]
    fn what_is_something_else_passes_unchanged() {
        let mut holder = Holder::new();
        let mut out = Vec::new();
        holder.to_server(b"GET / HTTP/1.0\r\n\r\n", &mut out);
        assert_eq!(out, b"GET / HTTP/1.0\r\n\r\n");
    }
}
