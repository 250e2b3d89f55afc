//! Where in a handshake lies what repeats: one kind of object a file, one row a kind.
//!
//! ```text
//! kind                  sent by          in the message        storage
//! chain                 server, client   Certificate           under its own name
//! staple                server           CertificateStatus     beside the chain
//! certificate request   server           CertificateRequest    beside the chain
//! given ticket          server           NewSessionTicket      for its lifetime
//! shown ticket          client           ClientHello           for its lifetime
//! ```
//!
//! A new kind is a file with its row, and the row's place in [`KINDS`]; reading, learning and
//! writing go by the rows.
//!
//! Is not: who holds an object (`peer`), nor what is written in its place (`rewrite`). Invariant:
//! pieces lie in the stream that was read, in order, record headers left out.

mod certificate_request;
mod chain;
mod flight;
mod staple;
pub mod ticket;

use std::ops::Range;

use tandem_wire::tls::{HandshakeType, MessageSpan};

pub use flight::Flight;

/// Who sends an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// How an object is held, and so what it is referred to by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// By itself, under its own name.
    Alone,
    /// With the others of its flight that are held so, in their order, for the site of its chain.
    BesideChain,
    /// By itself, for as long as it is good.
    ForItsLifetime,
}

/// Finds an object in its message, of which this is the stream.
type Find = fn(&MessageSpan, &[u8]) -> Option<Vec<Range<usize>>>;

/// A kind of object.
#[derive(Debug)]
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    /// Who sends it.
    pub senders: &'static [Sender],
    /// The message that it is in.
    pub message: HandshakeType,
    /// How it is held.
    pub storage: Storage,
    /// Where in that message it lies; `None` where there is none in it.
    find: Find,
}

/// All kinds.
pub static KINDS: [&Kind; 5] = [
    &chain::CHAIN,
    &staple::STAPLE,
    &certificate_request::CERTIFICATE_REQUEST,
    &ticket::GIVEN,
    &ticket::SHOWN,
];

/// An object in a stream.
#[derive(Debug)]
pub struct Object {
    /// What it is.
    pub kind: &'static Kind,
    /// The ranges of its sender's stream that hold it.
    pub pieces: Vec<Range<usize>>,
}

/// The kinds of which this message may hold an object.
fn kinds_in(sender: Sender, message: HandshakeType) -> impl Iterator<Item = &'static Kind> {
    KINDS
        .into_iter()
        .filter(move |kind| kind.message == message && kind.senders.contains(&sender))
}

/// The objects in these messages of a stream, in order.
pub(crate) fn of<'a>(
    sender: Sender,
    messages: &'a [MessageSpan],
    stream: &'a [u8],
) -> impl Iterator<Item = Object> + 'a {
    messages.iter().flat_map(move |span| {
        kinds_in(sender, span.msg_type).filter_map(|kind| {
            let pieces = (kind.find)(span, stream)?;
            Some(Object { kind, pieces })
        })
    })
}

/// All of a message, its header included: what is sent again as it stands.
fn whole(span: &MessageSpan, _stream: &[u8]) -> Option<Vec<Range<usize>>> {
    Some(span.pieces.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{
        apart, certificates, chain, client_hello, flight, message, noise, packed,
    };
    use crate::transcript::Handshake;

    /// The objects of a server's stream that was read this far.
    fn names(stream: &[u8]) -> Vec<&'static str> {
        let mut handshake = Handshake::new();
        handshake.client_sent(&client_hello(&[]));
        handshake.server_sent(stream);
        let objects = handshake.objects(Sender::Server, stream);
        objects.map(|object| object.kind.name).collect()
    }

    #[test]
    fn each_object_is_there_as_soon_as_its_message_is() {
        let mut messages = flight(&chain(&[300]));
        messages.insert(2, message(22, &noise(90, 7)));
        messages.insert(4, message(13, &noise(40, 8)));
        let expected = ["chain", "staple", "certificate request"];
        for stream in [apart(&messages), packed(&messages, 33)] {
            assert_eq!(names(&stream), expected);
            let mut seen = 0;
            for end in 0..stream.len() {
                let found = names(&stream[..end]);
                assert!(found.len() >= seen && found == expected[..found.len()]);
                seen = found.len();
            }
        }
        // None of them waits for the ServerHelloDone.
        messages.pop();
        assert_eq!(names(&apart(&messages)), expected);
    }

    #[test]
    fn an_object_lies_where_it_says() {
        let chain = chain(&[300, 200]);
        let stream = packed(&flight(&chain), 51);
        let mut handshake = Handshake::new();
        handshake.client_sent(&client_hello(&[]));
        handshake.server_sent(&stream);
        let object = handshake.objects(Sender::Server, &stream).next();
        let pieces = object.expect("a chain").pieces;
        let bytes = tandem_delta::pieces::gather(&pieces, &stream);
        assert_eq!(bytes, &certificates(&chain)[3..]);
    }
}
