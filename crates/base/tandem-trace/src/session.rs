//! One handshake, record by record, both sides, until each side's Finished.
//!
//! Not a TLS endpoint: nothing is verified, nothing decrypted. What counts as part of a handshake
//! is decided here; the estimate's `definitions.md` says it in words. Invariants: memory is bounded
//! by the limit given (an unfinished message for each side) and by small constants; every record
//! byte that is counted goes to the tally exactly once.
//!
//! ```text
//! TLS <= 1.2   clear --CCS--> protected --first handshake record--> Finished
//! TLS 1.3      clear -------------------------protected records---> Finished
//! ```
//!
//! RFC 5246, section 7.3 (the flights); RFC 8446, sections 2 and 4.1.2 to 4.2.10, appendix D.4 (CCS
//! in TLS 1.3).

mod clear;
mod encrypted;
mod hello;

use std::net::SocketAddr;

use tandem_wire::Seq;
use tandem_wire::tls::record::HEADER_LEN;
use tandem_wire::tls::stream::{Content, Message, MessageBuffer, Plaintext};
use tandem_wire::tls::{
    CertificateList, ContentType, HandshakeType, ProtocolVersion, RecordHeader,
};

use crate::opening::{Dialogue, Role};
use crate::tally::{Part, Tally};
use crate::tunnel::Tunnel;
use clear::ClearFlight;
use encrypted::EncryptedFlights;
use hello::{ClientFacts, ServerFacts};

pub use encrypted::Flight;

/// Bytes of a certificate's length in the list (RFC 5246, section 7.4.2).
const LENGTH: usize = 3;

const ALERT_WARNING: u8 = 1;
const ALERT_CLOSE_NOTIFY: u8 = 0;

/// How far one side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its Finished is still to come.
    Reading,
    /// Finished was seen.
    Finished,
    /// The rest is not read.
    Stopped(Stop),
}

/// Why a side is not read to its Finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// A fatal alert or a close in clear, or an encrypted alert instead of Finished.
    Alert,
    /// The other side answers with something that is not TLS.
    NoTls,
    /// Bytes that break TLS's syntax.
    BrokenTls,
    /// A message larger than is held.
    TooLarge,
}

/// One record of one side, at its place in the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) header: RecordHeader,
    /// All of it.
    pub(crate) bytes: &'a [u8],
    pub(crate) fragment: &'a [u8],
    /// Sequence number behind the record.
    pub(crate) end: Seq,
    /// Bytes of this side's stream up to the record's end.
    pub(crate) stream_end: u64,
    /// What the sender had received, by the segment that made the record whole.
    pub(crate) ack: Option<Seq>,
}

/// The server's chain, where it is in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerChain {
    /// Contents of the `certificate_list`: lengths and certificates.
    pub list: Vec<u8>,
    /// Of the list, bytes of the leaf with its length; what follows are its issuers.
    pub leaf_len: usize,
    /// DER bytes alone.
    pub der_bytes: u64,
    /// Bytes of the server's stream up to the end of the record that ends the message.
    pub ends_at: u64,
}

/// What the server sent in clear beside its chain and sends again: staples, a request for a
/// certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerExtras {
    /// The messages, headers included, one after the other.
    pub messages: Vec<u8>,
    /// Bytes of the server's stream up to the end of its flight.
    pub ends_at: u64,
}

/// How a handshake ended, as far as the capture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both Finished were seen.
    Completed,
    /// One side could not be read to its Finished.
    Stopped(Stop),
    /// The capture, or what of it could be read, ends before.
    Unfinished,
}

/// A row: all that was found of one handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's address and port.
    pub server: SocketAddr,
    /// The name in the client's hello, as it stands there.
    pub server_name: Option<String>,
    /// The version that the server chose; none where its hello is not in the capture.
    pub version: Option<ProtocolVersion>,
    /// The outermost tunnel that it was found in.
    pub tunnel: Option<Tunnel>,
    /// Its connection has no TCP timestamps (RFC 7323), as far as the capture shows.
    pub lacks_timestamps: bool,
    /// When its last packet was captured, microseconds since 1970.
    pub unix_micros: Option<u64>,
    /// The server's records from the first to the one that ends its first flight, as they came,
    /// where that flight is in clear. Empty where its end is not in the capture, or it is longer
    /// than 65,536 bytes.
    pub clear_flight: Vec<u8>,
    /// The plain-text dialogue before it, if there was one.
    pub dialogue: Option<Dialogue>,
    /// The client's hello has SSL 2.0's format.
    pub old_hello: bool,
    /// How it ended.
    pub ending: Ending,
    /// TLS 1.3, a draft of it or an experiment with it: certificates are encrypted.
    pub is_opaque: bool,
    /// A session or a pre-shared key was used again.
    pub is_resumed: bool,
    /// The capture shows one direction only.
    pub is_one_sided: bool,
    /// Its bytes by what they are.
    pub tally: Tally,
    /// The server's chain, where it is in clear.
    pub chain: Option<ServerChain>,
    /// What the server sent beside it.
    pub extras: Option<ServerExtras>,
    /// The client showed a certificate in clear.
    pub client_certificate: bool,
    /// DER bytes of the client's certificates in clear.
    pub client_der_bytes: u64,
    /// DER bytes in further Certificate messages of the server, which a handshake should not have.
    pub other_der_bytes: u64,
    /// The server's encrypted flight, where the version has one.
    pub server_flight: Flight,
}

/// What the connection knows of a handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    pub(crate) tunnel: Option<Tunnel>,
    pub(crate) lacks_timestamps: bool,
    pub(crate) unix_micros: Option<u64>,
}

/// A handshake that is going on.
#[derive(Debug)]
pub(crate) struct Session {
    client_address: SocketAddr,
    server_address: SocketAddr,
    server_name: Option<String>,
    dialogue: Option<Dialogue>,
    old_hello: bool,
    tally: Tally,
    client: Side,
    server: Side,
    client_facts: Option<ClientFacts>,
    server_facts: ServerFacts,
    client_key_exchange: bool,
    full_handshake: bool,
    server_changed: bool,
    chain: Option<ServerChain>,
    /// The messages beside the chain, one after the other.
    beside: Vec<u8>,
    extras: Option<ServerExtras>,
    clear_flight: ClearFlight,
    client_der_bytes: u64,
    client_certificate: bool,
    other_der_bytes: u64,
    flights: EncryptedFlights,
}

#[derive(Debug)]
struct Side {
    phase: Phase,
    plaintext: Plaintext,
    /// `None` before the first message.
    messages: Option<MessageBuffer>,
    seen: bool,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            phase: Phase::Reading,
            plaintext: Plaintext::new(),
            messages: None,
            seen: false,
        }
    }
}

impl Side {
    /// Bytes of the message that is not whole.
    fn held(&self) -> usize {
        self.messages
            .as_ref()
            .map_or(0, |messages| messages.held().len())
    }
}

impl Session {
    /// A handshake between these two, of which nothing was read yet.
    pub(crate) fn new(client: SocketAddr, server: SocketAddr, dialogue: Option<Dialogue>) -> Self {
        Self {
            client_address: client,
            server_address: server,
            server_name: None,
            dialogue,
            old_hello: false,
            tally: Tally::default(),
            client: Side::default(),
            server: Side::default(),
            client_facts: None,
            server_facts: ServerFacts::default(),
            client_key_exchange: false,
            full_handshake: false,
            server_changed: false,
            chain: None,
            beside: Vec::new(),
            extras: None,
            clear_flight: ClearFlight::default(),
            client_der_bytes: 0,
            client_certificate: false,
            other_der_bytes: 0,
            flights: EncryptedFlights::default(),
        }
    }

    /// The client began with a hello of `len` bytes in SSL 2.0's format.
    pub(crate) fn take_old_hello(&mut self, len: usize) {
        self.old_hello = true;
        self.client.seen = true;
        self.tally.file(Part::OldHello, len);
    }

    /// Whether it follows a plain-text dialogue.
    pub(crate) fn has_dialogue(&self) -> bool {
        self.dialogue.is_some()
    }

    /// Whether an endpoint ended it, so that the other side has nothing to add.
    pub(crate) fn has_failed(&self) -> bool {
        [&self.client, &self.server]
            .into_iter()
            .any(|side| matches!(side.phase, Phase::Stopped(Stop::Alert | Stop::NoTls)))
    }

    /// Whether this side is read to its end, or cannot be.
    pub(crate) fn is_over(&self, role: Role) -> bool {
        match self.side(role).phase {
            Phase::Reading => false,
            Phase::Finished | Phase::Stopped(_) => true,
        }
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        let chain = self.chain.as_ref().map_or(0, |chain| chain.list.len());
        let extras = self
            .extras
            .as_ref()
            .map_or(0, |extras| extras.messages.len());
        self.client.held()
            + self.server.held()
            + self.beside.len()
            + self.clear_flight.held()
            + chain
            + extras
    }

    /// Reads no more of this side. The first reason stays.
    pub(crate) fn stop(&mut self, role: Role, reason: Stop) {
        let side = self.side_mut(role);
        side.seen = true;
        match side.phase {
            Phase::Reading => side.phase = Phase::Stopped(reason),
            Phase::Finished | Phase::Stopped(_) => {}
        }
    }

    /// Reads one record.
    pub(crate) fn take(&mut self, role: Role, record: Record<'_>, limit: usize) {
        let ignores_change = self.ignores_change(role);
        let side = self.side_mut(role);
        side.seen = true;
        if side.phase != Phase::Reading {
            return;
        }
        if role == Role::Server {
            self.clear_flight.add(record.bytes);
        }
        let side = self.side_mut(role);
        side.plaintext.ignore_change(ignores_change);
        let content_type = record.header.content_type;
        match side.plaintext.take(content_type, record.fragment) {
            Content::Handshake => self.take_clear(role, record, limit),
            Content::Alert => self.take_alert(role, record),
            Content::Heartbeat => {}
            Content::Compatibility => self.file(Part::ChangeCipherSpec, record),
            Content::ChangeCipherSpec => {
                self.file(Part::ChangeCipherSpec, record);
                self.server_changed |= role == Role::Server;
            }
            Content::Protected => self.take_protected(role, record),
        }
    }

    /// TLS 1.3 sends a ChangeCipherSpec for the sake of middleboxes; it means nothing there.
    fn ignores_change(&self, role: Role) -> bool {
        let is_early = role == Role::Client
            && self.server_facts.version.is_none()
            && !self.client_key_exchange
            && self
                .client_facts
                .as_ref()
                .is_some_and(|facts| facts.early_data);
        self.server_facts.is_opaque || is_early
    }

    fn take_protected(&mut self, role: Role, record: Record<'_>) {
        match record.header.content_type {
            ContentType::Handshake => {
                self.file(Part::EncryptedFinished, record);
                self.side_mut(role).phase = Phase::Finished;
            }
            ContentType::ApplicationData => self.take_encrypted(role, record),
            ContentType::Alert => self.take_alert(role, record),
            ContentType::ChangeCipherSpec => self.file(Part::ChangeCipherSpec, record),
            ContentType::Heartbeat => {}
        }
    }

    fn take_clear(&mut self, role: Role, record: Record<'_>, limit: usize) {
        self.tally.file(Part::RecordHeader, HEADER_LEN);
        let messages = self.side_mut(role).messages.take();
        let mut messages = messages.unwrap_or_else(|| MessageBuffer::new(limit));
        let pushed = messages.push(record.fragment, |message| {
            let part = Part::Message(role, message.msg_type.0);
            self.tally.file(part, message.bytes.len());
            self.take_message(role, message, record);
        });
        self.side_mut(role).messages = Some(messages);
        if pushed.is_err() {
            self.stop(role, Stop::TooLarge);
        }
    }

    fn take_message(&mut self, role: Role, message: Message<'_>, record: Record<'_>) {
        let body = message.body();
        match (role, message.msg_type) {
            (Role::Client, HandshakeType::CLIENT_HELLO) => self.take_client_hello(body),
            (Role::Server, HandshakeType::SERVER_HELLO | HandshakeType::HELLO_RETRY_REQUEST) => {
                self.take_server_hello(message.msg_type, body, record);
            }
            (_, HandshakeType::CERTIFICATE) => self.take_certificates(role, body, record),
            // An abbreviated handshake has neither.
            (Role::Server, HandshakeType::SERVER_KEY_EXCHANGE) => self.full_handshake = true,
            (Role::Server, HandshakeType::SERVER_HELLO_DONE) => {
                self.full_handshake = true;
                self.end_flight(record);
            }
            (
                Role::Server,
                HandshakeType::CERTIFICATE_STATUS | HandshakeType::CERTIFICATE_REQUEST,
            ) if self.extras.is_none() => {
                self.beside.extend_from_slice(message.bytes);
            }
            (Role::Client, HandshakeType::CLIENT_KEY_EXCHANGE) => self.client_key_exchange = true,
            _ => {}
        }
    }

    fn take_client_hello(&mut self, body: &[u8]) {
        match ClientFacts::of(body) {
            // The second hello after a HelloRetryRequest names the same server (RFC 8446, section
            // 4.1.2).
            Some(facts) => {
                if facts.server_name.is_some() {
                    self.server_name.clone_from(&facts.server_name);
                }
                self.client_facts = Some(facts);
            }
            None => self.stop(Role::Client, Stop::BrokenTls),
        }
    }

    fn take_server_hello(&mut self, message_type: HandshakeType, body: &[u8], record: Record<'_>) {
        let Some(facts) = ServerFacts::of(message_type, body) else {
            self.stop(Role::Server, Stop::BrokenTls);
            return;
        };
        self.server_facts = facts;
        if facts.is_opaque {
            self.clear_flight = ClearFlight::Refused;
        }
        if facts.is_final && facts.is_opaque {
            self.flights.server_hello(record.end, record.ack);
        }
    }

    fn take_certificates(&mut self, role: Role, body: &[u8], record: Record<'_>) {
        let Ok(list) = CertificateList::parse(body) else {
            self.stop(role, Stop::BrokenTls);
            return;
        };
        let der_bytes: u64 = list.iter().map(|item| item.der.len() as u64).sum();
        match role {
            Role::Client => {
                self.client_der_bytes += der_bytes;
                self.client_certificate |= der_bytes > 0;
            }
            Role::Server => {
                self.full_handshake = true;
                if self.chain.is_some() {
                    self.other_der_bytes += der_bytes;
                    return;
                }
                let contents = body.get(list.range()).unwrap_or_default();
                let leaf_len = list.iter().next().map_or(0, |leaf| LENGTH + leaf.der.len());
                self.chain = Some(ServerChain {
                    list: contents.to_vec(),
                    leaf_len,
                    der_bytes,
                    ends_at: record.stream_end,
                });
            }
        }
    }

    /// The server's first flight is whole.
    fn end_flight(&mut self, record: Record<'_>) {
        self.clear_flight.end();
        let messages = std::mem::take(&mut self.beside);
        if !messages.is_empty() && self.extras.is_none() {
            self.extras = Some(ServerExtras {
                messages,
                ends_at: record.stream_end,
            });
        }
    }

    fn take_alert(&mut self, role: Role, record: Record<'_>) {
        // A warning does not end a handshake (an unknown server name is one); anything else does,
        // so does an encrypted one.
        let goes_on = matches!(record.fragment, &[ALERT_WARNING, description] if description != ALERT_CLOSE_NOTIFY);
        if !goes_on {
            self.stop(role, Stop::Alert);
        }
    }

    fn take_encrypted(&mut self, role: Role, record: Record<'_>) {
        if self.server_facts.version.is_some() && !self.server_facts.is_opaque {
            self.stop(role, Stop::BrokenTls);
            return;
        }
        let early_data = self
            .client_facts
            .as_ref()
            .is_some_and(|facts| facts.early_data);
        if self.flights.take(role, record, early_data) {
            self.side_mut(role).phase = Phase::Finished;
        }
        if self.flights.server_is_over() {
            self.side_mut(Role::Server).phase = Phase::Finished;
        }
    }

    fn file(&mut self, part: Part, record: Record<'_>) {
        self.tally.file(Part::RecordHeader, HEADER_LEN);
        self.tally.file(part, record.fragment.len());
    }

    /// All that was found, and the end of it.
    pub(crate) fn finish(mut self, circumstances: Circumstances) -> Handshake {
        for side in [&self.client, &self.server] {
            if side.held() > 0 {
                self.tally.file(Part::Incomplete, side.held());
            }
        }
        let (client_flight, server_flight) =
            (self.flights.client_flight(), self.flights.server_flight());
        client_flight.file(Role::Client, &mut self.tally);
        server_flight.file(Role::Server, &mut self.tally);
        let opaque = self.server_facts.is_opaque;
        Handshake {
            ending: self.ending(client_flight),
            is_resumed: if opaque {
                self.server_facts.pre_shared_key
            } else {
                self.server_changed && !self.full_handshake
            },
            is_opaque: opaque,
            is_one_sided: !(self.client.seen && self.server.seen),
            client: self.client_address,
            server: self.server_address,
            tunnel: circumstances.tunnel,
            lacks_timestamps: circumstances.lacks_timestamps,
            unix_micros: circumstances.unix_micros,
            clear_flight: self.clear_flight.whole(),
            server_name: self.server_name,
            version: self.server_facts.version,
            dialogue: self.dialogue,
            old_hello: self.old_hello,
            tally: self.tally,
            chain: self.chain,
            extras: self.extras,
            client_certificate: self.client_certificate,
            client_der_bytes: self.client_der_bytes,
            other_der_bytes: self.other_der_bytes,
            server_flight,
        }
    }

    fn ending(&self, client_flight: Flight) -> Ending {
        let stop = [&self.client, &self.server]
            .into_iter()
            .find_map(|side| match side.phase {
                Phase::Stopped(reason) => Some(reason),
                Phase::Reading | Phase::Finished => None,
            });
        match (stop, self.client.phase, self.server.phase) {
            (Some(reason), ..) => Ending::Stopped(reason),
            (None, Phase::Finished, Phase::Finished) => Ending::Completed,
            // Nobody but the client says where the server's encrypted flight ends, and it did.
            (None, ..) if self.server_facts.is_opaque && client_flight.records > 0 => {
                Ending::Completed
            }
            (None, ..) => Ending::Unfinished,
        }
    }

    fn side(&self, role: Role) -> &Side {
        match role {
            Role::Client => &self.client,
            Role::Server => &self.server,
        }
    }

    fn side_mut(&mut self, role: Role) -> &mut Side {
        match role {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        }
    }
}
