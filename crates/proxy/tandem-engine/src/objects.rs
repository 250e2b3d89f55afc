//! Where in a handshake lies what repeats: a file for each kind of object.
//!
//! ```text
//! kind      sent by          in the message        storage
//! chain     server, client   Certificate           under its own name
//! staple    server           CertificateStatus     beside the chain
//!           server           ServerHello           beside the chain
//! request   server           CertificateRequest    beside the chain
//! ticket    server           NewSessionTicket      for its lifetime
//!           client           ClientHello
//! ```
//!
//! Which kinds there are is the store's table ([`tandem_store::KINDS`]). A new kind is a row there
//! and a file here, for which the compiler asks in [`places_of`]; reading, learning and writing go
//! by the places.
//!
//! Is not: who holds an object (`peer`), nor what is written in its place (`rewrite`). Invariant:
//! pieces lie in the stream that was read, in order, record headers left out.

mod certificate_request;
mod chain;
mod flight;
pub(crate) mod hello;
mod staple;
pub mod ticket;

use std::ops::Range;

use tandem_record_key::Direction;
use tandem_store::{KINDS, Kind};
use tandem_wire::tls::{HandshakeType, MessageSpan};

pub use flight::Flight;
pub(crate) use flight::OpenedMessage;

/// Who sends an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Sender {
    /// What its records are protected by, in a handshake of TLS 1.3.
    pub(crate) fn direction(self) -> Direction {
        match self {
            Self::Client => Direction::FromClient,
            Self::Server => Direction::FromServer,
        }
    }
}

/// How an object is held, and so what it is referred to by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// By itself, under its own name.
    Alone,
    /// With the others of its flight that are held so, in their order, for the site of its chain.
    BesideChain,
    /// By itself, for as long as it is good.
    ForItsLifetime,
}

/// Finds an object in its message, of which this is the stream.
type Find = fn(&MessageSpan, &[u8]) -> Option<Vec<Range<usize>>>;

/// Where objects of a kind lie.
#[derive(Debug)]
struct Place {
    /// Who sends them.
    senders: &'static [Sender],
    /// The message that they are in.
    message: HandshakeType,
    /// How they are held.
    storage: Storage,
    /// Where in that message one lies; `None` where there is none in it.
    find: Find,
}

/// Where objects of this kind lie.
const fn places_of(kind: Kind) -> &'static [Place] {
    match kind {
        Kind::Chain => chain::PLACES,
        Kind::Staple => staple::PLACES,
        Kind::Request => certificate_request::PLACES,
        Kind::Ticket => ticket::PLACES,
        // Made of what lies in those places.
        Kind::Issuers | Kind::Certificate | Kind::Messages => &[],
        // Not sent in a handshake.
        Kind::Template | Kind::Dictionary => &[],
    }
}

/// An object in a stream.
#[derive(Debug)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// The ranges of its sender's stream that hold it.
    pub pieces: Vec<Range<usize>>,
}

/// The places of all kinds, flat: they are gone through for each message.
static PLACES: [(Kind, &Place); count_places()] = {
    let mut all = [(Kind::Chain, &chain::PLACES[0]); count_places()];
    let (mut row, mut at) = (0, 0);
    while row < KINDS.len() {
        let places = places_of(KINDS[row].kind);
        let mut place = 0;
        while place < places.len() {
            all[at] = (KINDS[row].kind, &places[place]);
            (place, at) = (place + 1, at + 1);
        }
        row += 1;
    }
    all
};

const fn count_places() -> usize {
    let (mut row, mut count) = (0, 0);
    while row < KINDS.len() {
        count += places_of(KINDS[row].kind).len();
        row += 1;
    }
    count
}

/// The places that this message has, each with the kind of what lies there.
fn places_in(
    sender: Sender,
    message: HandshakeType,
) -> impl Iterator<Item = &'static (Kind, &'static Place)> {
    PLACES
        .iter()
        .filter(move |(_, place)| place.message == message && place.senders.contains(&sender))
}

/// The objects in these messages of a stream, in order.
pub(crate) fn of<'a>(
    sender: Sender,
    messages: &'a [MessageSpan],
    stream: &'a [u8],
) -> impl Iterator<Item = Object> + 'a {
    messages.iter().flat_map(move |span| {
        places_in(sender, span.msg_type).filter_map(|(kind, place)| {
            let pieces = (place.find)(span, stream)?;
            Some(Object {
                kind: *kind,
                pieces,
            })
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
    fn kinds(stream: &[u8]) -> Vec<Kind> {
        let mut handshake = Handshake::new();
        handshake.client_sent(&client_hello(&[]));
        handshake.server_sent(stream);
        let objects = handshake.objects(Sender::Server, stream);
        objects.map(|object| object.kind).collect()
    }

    #[test]
    fn each_object_is_there_as_soon_as_its_message_is() {
        let mut messages = flight(&chain(&[300]));
        messages.insert(2, message(22, &noise(90, 7)));
        messages.insert(4, message(13, &noise(40, 8)));
        let expected = [Kind::Chain, Kind::Staple, Kind::Request];
        for stream in [apart(&messages), packed(&messages, 33)] {
            assert_eq!(kinds(&stream), expected);
            let mut seen = 0;
            for end in 0..stream.len() {
                let found = kinds(&stream[..end]);
                assert!(found.len() >= seen && found == expected[..found.len()]);
                seen = found.len();
            }
        }
        // None of them waits for the ServerHelloDone.
        messages.pop();
        assert_eq!(kinds(&apart(&messages)), expected);
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
