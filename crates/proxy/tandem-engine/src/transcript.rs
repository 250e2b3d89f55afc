//! A handshake read along in both directions, as far as it is in clear: how far it is, and where
//! the chain lies.
//!
//! Is not: a TLS stack; nothing is verified here, the endpoints do that. The order of messages is
//! the full handshake's of RFC 5246, section 7.3, the same since SSL 3.0 (RFC 6101, section 5.5).
//!
//! Invariants: work is linear in the bytes read, however they are cut; what is not understood ends
//! in [`Stage::Pass`]; a chain is learned only after both sides have sent Finished, which vouches
//! for every byte of it.

use std::ops::Range;

use tandem_store::{HostName, Kind, ObjectId, Site, Store};
use tandem_wire::UnixTime;
use tandem_wire::tls::stream::FirstProtected;
use tandem_wire::tls::{
    ClientHello, ContentType, ExtensionType, HandshakeScanner, HandshakeType, MessageSpan, ScanEnd,
    ServerHello,
};

use crate::objects::hello::Hello;
use crate::objects::ticket::{GivenTicket, ShownTicket};
use crate::objects::{self, Flight, Object, Sender};
use crate::peer::intention::Intention;

/// Why a handshake holds nothing for the proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// The first bytes are no TLS record of a hello: another protocol, or an SSLv2 hello.
    NotTls,
    /// TLS 1.3: everything after ServerHello is encrypted.
    Tls13,
    /// An abbreviated handshake: no certificate is sent.
    Resumed,
    /// A full handshake without a server certificate.
    NoCertificate,
    /// TLS that cannot be read further.
    Malformed,
}

/// How far a handshake is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It goes on.
    Going,
    /// Both sides have sent Finished.
    Finished,
    /// There is nothing here to do.
    Pass(Pass),
}

/// A handshake, read along.
#[derive(Debug, Default)]
pub struct Handshake {
    client: Side,
    server: Side,
    server_name: Option<HostName>,
    ticket: Option<ShownTicket>,
    flight: Option<Flight>,
    shown: ClientCertificate,
    pass: Option<Pass>,
}

/// What a client has shown of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientCertificate {
    /// Its flight after the server's has not begun.
    #[default]
    NotYet,
    /// No certificate: it was not asked for one, has none (RFC 5246, section 7.4.6), or it cannot
    /// be read.
    None,
    /// A chain.
    Chain(Flight),
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    scanner: HandshakeScanner,
    /// Messages that have been looked at.
    seen: usize,
    finished: bool,
}

impl Handshake {
    /// Nothing has been read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the client's bytes: all of them, from its first.
    pub fn client_sent(&mut self, stream: &[u8]) {
        let scan = self.client.scanner.advance(stream);
        if let (0, Some(hello)) = (self.client.seen, scan.messages.first()) {
            match read_hello(hello, stream) {
                Ok((name, ticket)) => (self.server_name, self.ticket) = (name, ticket),
                Err(pass) => return self.pass(pass),
            }
        }
        // What follows the hello is the client's flight; a Certificate message comes
        // first in it or not at all.
        if let (ClientCertificate::NotYet, Some(first)) = (&self.shown, scan.messages.get(1)) {
            self.shown = shown(first, stream);
        }
        self.client.seen = scan.messages.len();
        self.after(Sender::Client);
    }

    /// Reads the server's bytes: all of them, from its first.
    pub fn server_sent(&mut self, stream: &[u8]) {
        let messages = self.server.scanner.advance(stream).messages.len();
        for index in self.server.seen..messages {
            if let Err(pass) = self.server_message(index, stream) {
                return self.pass(pass);
            }
        }
        self.server.seen = messages;
        self.after(Sender::Server);
    }

    fn server_message(&mut self, index: usize, stream: &[u8]) -> Result<(), Pass> {
        let messages = &self.server.scanner.scan().messages;
        let span = &messages[index];
        match span.msg_type {
            HandshakeType::SERVER_HELLO => {
                let body = span.body(stream);
                let hello = ServerHello::parse(&body).map_err(|_| Pass::Malformed)?;
                if hello.is_tls13_or_later() {
                    return Err(Pass::Tls13);
                }
            }
            // A server may ask for a hello at any time (RFC 5246, section 7.4.1.1); the first
            // flight begins with that one.
            HandshakeType::HELLO_REQUEST => {}
            _ if messages[..index]
                .iter()
                .all(|earlier| earlier.msg_type != HandshakeType::SERVER_HELLO) =>
            {
                return Err(Pass::Malformed);
            }
            HandshakeType::SERVER_HELLO_DONE if self.flight.is_none() => {
                let flight = Flight::of(Sender::Server, &messages[..index], stream)
                    .ok_or(Pass::NoCertificate)?;
                if !flight.has_certificates(stream) {
                    return Err(Pass::Malformed);
                }
                self.flight = Some(flight);
            }
            _ => {}
        }
        Ok(())
    }

    /// What the end of a scan says beyond the messages.
    fn after(&mut self, who: Sender) {
        let resumed = self.flight.is_none();
        let side = match who {
            Sender::Client => &mut self.client,
            Sender::Server => &mut self.server,
        };
        let scan = side.scanner.scan();
        match scan.end {
            ScanEnd::NeedMore => {}
            ScanEnd::NotTls(_) | ScanEnd::ChangeCipherSpec | ScanEnd::Encrypted
                if side.seen == 0 =>
            {
                self.pass(Pass::NotTls)
            }
            ScanEnd::ChangeCipherSpec if who == Sender::Server && resumed => {
                self.pass(Pass::Resumed)
            }
            // One ChangeCipherSpec, and the next record is Finished, encrypted (RFC 5246, section
            // 7.1). Anything else is an alert, most often: somebody did not like what was sent.
            ScanEnd::ChangeCipherSpec => match side.scanner.first_protected() {
                FirstProtected::None | FirstProtected::Begun(ContentType::Handshake) => {}
                FirstProtected::Whole(ContentType::Handshake) => side.finished = true,
                FirstProtected::Begun(_) | FirstProtected::Whole(_) | FirstProtected::NotTls(_) => {
                    self.pass(Pass::Malformed)
                }
            },
            ScanEnd::NotTls(_) | ScanEnd::Encrypted | ScanEnd::Limit => self.pass(Pass::Malformed),
        }
    }

    fn pass(&mut self, pass: Pass) {
        self.pass.get_or_insert(pass);
    }

    /// How far the handshake is.
    pub fn stage(&self) -> Stage {
        match self.pass {
            Some(pass) => Stage::Pass(pass),
            None if self.client.finished && self.server.finished => Stage::Finished,
            None => Stage::Going,
        }
    }

    /// Whether the whole ClientHello was read.
    pub fn hello_is_complete(&self) -> bool {
        self.client.seen > 0
    }

    /// The name in the ClientHello's server_name extension (RFC 6066, section 3), if there was one.
    pub fn server_name(&self) -> Option<&HostName> {
        self.server_name.as_ref()
    }

    /// The objects in what this end has sent so far, each as soon as its message is whole.
    pub fn objects<'a>(
        &'a self,
        sender: Sender,
        stream: &'a [u8],
    ) -> impl Iterator<Item = Object> + 'a {
        let side = match sender {
            Sender::Client => &self.client,
            Sender::Server => &self.server,
        };
        objects::of(sender, &side.scanner.scan().messages, stream)
    }

    /// The client's hello, once all of it was read: from its stream's first byte to the message's
    /// last.
    pub(crate) fn hello<'s>(&self, client_stream: &'s [u8]) -> Option<Hello<'s>> {
        let span = self.client.scanner.scan().messages.first()?;
        Hello::of(span, client_stream)
    }

    /// The random of the client's hello, once all of it was read (RFC 8446, section 4.1.2).
    pub(crate) fn client_random(&self, client_stream: &[u8]) -> Option<[u8; 32]> {
        let span = self.client.scanner.scan().messages.first()?;
        let body = span.body(client_stream);
        ClientHello::parse(&body).ok().map(|hello| *hello.random())
    }

    /// Where in the client's stream an answer to the server begins that is no early data. `None`
    /// where the hello offers early data (RFC 8446, section 4.2.10), or was not read.
    pub(crate) fn answer_start(&self, client_stream: &[u8]) -> Option<usize> {
        let span = self.client.scanner.scan().messages.first()?;
        let body = span.body(client_stream);
        let hello = ClientHello::parse(&body).ok()?;
        let offers = hello
            .extensions()
            .is_some_and(|it| it.contains(ExtensionType::EARLY_DATA));
        (!offers).then_some(span.extent().end)
    }

    /// The session ticket that the client shows in its hello.
    pub fn shown_ticket(&self) -> Option<&ShownTicket> {
        self.ticket.as_ref()
    }

    /// The session ticket that the server gives.
    pub fn given_ticket<'s>(&self, server_stream: &'s [u8]) -> Option<GivenTicket<'s>> {
        let messages = &self.server.scanner.scan().messages;
        let span = messages
            .iter()
            .rfind(|span| span.msg_type == HandshakeType::NEW_SESSION_TICKET)?;
        GivenTicket::of(span, server_stream)
    }

    /// What the client says in its hello, in the extension of this number, of the chain that it may
    /// show.
    pub fn intention(&self, client_stream: &[u8], extension: u16) -> Option<Intention> {
        let hello = self.client.scanner.scan().messages.first()?;
        Intention::of(&hello.body(client_stream), extension)
    }

    /// The server's first flight, once its ServerHelloDone was read.
    pub fn flight(&self) -> Option<&Flight> {
        self.flight.as_ref()
    }

    /// The server's first flight, once its ServerHelloDone was read: its stream from the first byte
    /// to that message's last.
    pub(crate) fn flight_bytes<'s>(&self, server_stream: &'s [u8]) -> Option<&'s [u8]> {
        let messages = &self.server.scanner.scan().messages;
        let is_done = |span: &&MessageSpan| span.msg_type == HandshakeType::SERVER_HELLO_DONE;
        let done = messages.iter().find(is_done)?;
        server_stream.get(..done.extent().end)
    }

    /// Whether the server's first flight was read and asks the client for a certificate.
    pub fn asks_for_certificate(&self) -> bool {
        let messages = &self.server.scanner.scan().messages;
        self.flight.is_some()
            && messages
                .iter()
                .any(|span| span.msg_type == HandshakeType::CERTIFICATE_REQUEST)
    }

    /// What the client has shown of itself.
    pub fn client_certificate(&self) -> &ClientCertificate {
        &self.shown
    }

    /// The client's flight after the server's, once its Finished was read, if it shows a chain.
    pub fn client_flight(&self) -> Option<&Flight> {
        match &self.shown {
            ClientCertificate::Chain(flight) if self.client.finished => Some(flight),
            ClientCertificate::Chain(_) | ClientCertificate::NotYet | ClientCertificate::None => {
                None
            }
        }
    }

    /// Bytes of memory that the map of messages takes, about; the streams are the caller's.
    pub fn footprint(&self) -> usize {
        let pieces: usize = [&self.client, &self.server]
            .into_iter()
            .map(|side| {
                let scan = side.scanner.scan();
                let known: usize = scan.messages.iter().map(|span| span.pieces.len()).sum();
                // A record has six bytes at least, and gives an unfinished message at most one
                // piece.
                let more = side.scanner.unfinished();
                known + more.map_or(0, |more| more.present.min(scan.consumed_records / 6))
            })
            .sum();
        pieces * size_of::<Range<usize>>()
    }

    /// Puts the server's chain into the store, its issuers for themselves, and what came beside it.
    /// `false`, and nothing stored, before both Finished were read; `false`, too, where the
    /// chain is beyond the store's limits.
    pub fn learn(
        &self,
        server_stream: &[u8],
        store: &mut impl Store,
        site: &Site,
        now: UnixTime,
    ) -> bool {
        let (Some(flight), Stage::Finished) = (&self.flight, self.stage()) else {
            return false;
        };
        let Some(chain) = flight.certificates(server_stream) else {
            return false;
        };
        let chain: Vec<&[u8]> = chain.iter().map(|der| &**der).collect();
        let extras = flight.extras(server_stream);
        learn_flight(&chain, extras.as_deref(), store, site, now)
    }

    /// Puts the client's chain into the store, and names it. `None`, and nothing stored, before
    /// both Finished were read, where the client showed none, and where it is beyond the
    /// store's limits.
    pub fn learn_client(
        &self,
        client_stream: &[u8],
        store: &mut impl Store,
        now: UnixTime,
    ) -> Option<ObjectId> {
        match (self.client_flight(), self.stage()) {
            (Some(flight), Stage::Finished) => {
                learn_client_chain(flight, client_stream, store, now)
            }
            _ => None,
        }
    }
}

/// Puts the chain of a client's flight into the store, and names it; `None` where it is not held
/// then. Whether a Finished vouches for it is the caller's.
pub(crate) fn learn_client_chain(
    flight: &Flight,
    stream: &[u8],
    store: &mut impl Store,
    now: UnixTime,
) -> Option<ObjectId> {
    let chain = flight.certificates(stream)?;
    let chain: Vec<&[u8]> = chain.iter().map(|der| &**der).collect();
    let id = store.learn(Kind::Chain, None, &chain, now);
    store.holds(Kind::Chain, &id).then_some(id)
}

/// Puts what a server's flight has shown into the store: the chain, its issuers, and the messages
/// beside it. Says whether the chain is held then. Whether a Finished vouches for it is the
/// caller's.
pub fn learn_flight(
    chain: &[&[u8]],
    extras: Option<&[u8]>,
    store: &mut impl Store,
    site: &Site,
    now: UnixTime,
) -> bool {
    let id = store.learn(Kind::Chain, Some(site), chain, now);
    if let [_, issuers @ ..] = chain
        && !issuers.is_empty()
    {
        store.learn(Kind::Issuers, Some(&Site::Any), issuers, now);
    }
    // Any server can be asked for any name: what is beside a chain is the site's where the chain
    // is.
    let is_expected = store.expected(Kind::Chain, site, now, 1).first() == Some(&id);
    if let Some(extras) = extras.filter(|_| is_expected) {
        store.learn(Kind::Messages, Some(site), &[extras], now);
    }
    store.holds(Kind::Chain, &id)
}

/// What the first message of the client's flight says.
fn shown(first: &MessageSpan, stream: &[u8]) -> ClientCertificate {
    let Some(flight) = Flight::of(Sender::Client, std::slice::from_ref(first), stream) else {
        return ClientCertificate::None;
    };
    if flight.has_certificates(stream) {
        ClientCertificate::Chain(flight)
    } else {
        ClientCertificate::None
    }
}

/// The name and the ticket in a client's first message.
fn read_hello(
    span: &MessageSpan,
    stream: &[u8],
) -> Result<(Option<HostName>, Option<ShownTicket>), Pass> {
    if span.msg_type != HandshakeType::CLIENT_HELLO {
        return Err(Pass::NotTls);
    }
    let body = span.body(stream);
    let hello = ClientHello::parse(&body).map_err(|_| Pass::Malformed)?;
    let name = hello
        .server_name()
        .and_then(|name| HostName::new(name).ok());
    Ok((name, ShownTicket::of(&hello, span)))
}

#[cfg(test)]
mod tests;
