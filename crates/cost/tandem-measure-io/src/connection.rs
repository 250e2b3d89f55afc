//! One connection, with TLS or without, and requests on it, each phase with its time and bytes.
//!
//! Is not: what is counted as what; see `tandem-measure`.
//!
//! Invariant: each moment ends one phase and begins the next, so that nothing is left out.

use std::io::{self, Read, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::{ClientConfig, ClientConnection};
use rustls::{HandshakeKind, ProtocolVersion};
use tandem_measure::{
    EarlyData, Fault, Handshake, HandshakeForm, Means, Offer, OfferOutcome, Reading,
    ResponseReader, ServerFacts, Step, handshake_round_trips,
};
use tandem_wire::tls::client_hello::extension_len_in_front;
use tandem_wire::tls::extension::ExtensionType;
use tokio::net::TcpStream;

use crate::chain;
use crate::failure::Failure;
use crate::security::{Clear, Security};
use crate::sessions::Sessions;
use crate::target::Target;

/// Bytes of headers in front of a ClientHello's body: the record's, the message's.
const BEFORE_HELLO: usize = 5 + 4;
/// How much of an answer is read at a time.
const PIECE: usize = 16_384;
/// How long the other side may take to close after the last answer.
const LINGER: Duration = Duration::from_secs(1);

/// How far a connection is, for the kind of a time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// TCP.
    Connecting,
    /// TLS.
    Handshaking,
    /// A request is on its way.
    Asking,
}

impl Stage {
    /// What it is when the time is over.
    pub(crate) fn time_out(self) -> Fault {
        match self {
            Self::Connecting => Fault::ConnectTimedOut,
            Self::Handshaking => Fault::HandshakeTimedOut,
            Self::Asking => Fault::AnswerTimedOut,
        }
    }
}

/// What one connection begins with.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) target: &'a Target,
    pub(crate) config: &'a Arc<ClientConfig>,
    pub(crate) sessions: &'a Sessions,
    /// The first request, which may go with the hello.
    pub(crate) request: &'a [u8],
}

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    /// The end of the phase before.
    mark: Mark,
    /// Whether the first request has gone with the hello, and was taken.
    has_asked: bool,
    /// What the handshake was.
    pub(crate) handshake: Handshake,
}

/// An answer that is whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: u64,
    /// Bytes before encryption, the head too.
    pub(crate) plain: u64,
    /// First byte, transfer.
    pub(crate) steps: [Step; 2],
    /// When it was whole.
    pub(crate) done: Instant,
    /// Whether no further request can follow.
    pub(crate) closes: bool,
}

/// A moment between two phases.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    sent: u64,
    received: u64,
}

impl Mark {
    fn step_since(&self, before: &Self, round_trips: u32) -> Step {
        Step {
            time: self.at.saturating_duration_since(before.at),
            sent: self.sent - before.sent,
            received: self.received - before.received,
            round_trips,
        }
    }
}

/// TLS or nothing over TCP, with every byte counted.
#[derive(Debug)]
struct Wire {
    tcp: TcpStream,
    security: Security,
    /// Bytes of TLS that are on their way to TCP.
    pending: Vec<u8>,
    sent: u64,
    received: u64,
    /// When bytes last came, with what had been sent by then.
    last_read: Mark,
}

impl Connection {
    /// Connects and shakes hands. `stage` follows. Whether an earlier session is to be offered is
    /// asked when the hello is written, and what the hello offers told at once: between the two no
    /// other connection has its turn.
    pub(crate) async fn open(
        opening: &Opening<'_>,
        started: Instant,
        stage: &std::cell::Cell<Stage>,
        wanted: impl FnOnce() -> Offer,
        opened: impl FnOnce(Offer),
    ) -> Result<Self, Failure> {
        stage.set(Stage::Connecting);
        let tcp = TcpStream::connect(opening.target.address).await?;
        tcp.set_nodelay(true)?;
        let connected = Mark {
            at: Instant::now(),
            sent: 0,
            received: 0,
        };
        let tcp_step = Step {
            time: connected.at.saturating_duration_since(started),
            round_trips: 1,
            ..Step::default()
        };
        let Some(name) = opening.target.name.clone() else {
            opened(Offer::New);
            return Ok(Self::without_tls(tcp, connected, tcp_step));
        };
        stage.set(Stage::Handshaking);
        let wanted = wanted();
        opening.sessions.arm(wanted);
        let mut tls = ClientConnection::new(Arc::clone(opening.config), name)?;
        let offer = opening.sessions.opened_with();
        opened(offer);
        let is_early = match tls.early_data() {
            Some(mut early) if early.bytes_left() >= opening.request.len() => {
                early.write_all(opening.request)?;
                true
            }
            // A server that takes less than the request takes none of it.
            Some(_) | None => false,
        };
        let mut wire = Wire {
            tcp,
            security: Security::Tls(Box::new(tls)),
            pending: Vec::new(),
            sent: 0,
            received: 0,
            last_read: connected,
        };
        wire.collect()?;
        let has_ticket = wire
            .pending
            .get(BEFORE_HELLO..)
            .and_then(|hello| extension_len_in_front(hello, ExtensionType::SESSION_TICKET))
            .is_some_and(|length| length > 0);
        let (flight, flights) = wire.shake_hands().await?;
        // The client's last flight leaves with the request, and belongs to the handshake.
        wire.collect()?;
        let done = wire.mark(Instant::now());
        let tls = wire.security.tls();
        let version = tls.and_then(|tls| tls.protocol_version());
        let kind = tls.and_then(|tls| tls.handshake_kind());
        let form = match (version, kind) {
            (Some(ProtocolVersion::TLSv1_3), Some(HandshakeKind::FullWithHelloRetryRequest)) => {
                HandshakeForm::Tls13Retried
            }
            (Some(ProtocolVersion::TLSv1_3), _) => HandshakeForm::Tls13,
            _ => HandshakeForm::Tls12,
        };
        let flight = match form {
            HandshakeForm::Tls12 => flight.unwrap_or(wire.last_read),
            HandshakeForm::Tls13 | HandshakeForm::Tls13Retried => wire.last_read,
        };
        let [trips, more] = handshake_round_trips(form, flights);
        let is_resumed = kind == Some(HandshakeKind::Resumed);
        let means = match form {
            HandshakeForm::Tls13 | HandshakeForm::Tls13Retried => Means::Psk,
            HandshakeForm::Tls12 if has_ticket => Means::Ticket,
            HandshakeForm::Tls12 => Means::Id,
        };
        let offer = match (wanted, offer) {
            (_, Offer::Earlier) if is_resumed => OfferOutcome::Taken(means),
            (_, Offer::Earlier) => OfferOutcome::Refused,
            (Offer::Earlier, Offer::New) => OfferOutcome::NothingThere,
            (Offer::New, Offer::New) => OfferOutcome::NotWanted,
        };
        let is_accepted = tls.is_some_and(ClientConnection::is_early_data_accepted);
        let early_data = match (is_early, is_accepted) {
            (false, _) => EarlyData::NotSent,
            (true, true) => EarlyData::Taken,
            (true, false) => EarlyData::Refused,
        };
        let handshake = Handshake {
            offer,
            early_data,
            steps: [
                tcp_step,
                flight.step_since(&connected, trips),
                done.step_since(&flight, more),
            ],
        };
        Ok(Self {
            wire,
            mark: done,
            has_asked: early_data == EarlyData::Taken,
            handshake,
        })
    }

    fn without_tls(tcp: TcpStream, connected: Mark, tcp_step: Step) -> Self {
        Self {
            wire: Wire {
                tcp,
                security: Security::Nothing(Clear::default()),
                pending: Vec::new(),
                sent: 0,
                received: 0,
                last_read: connected,
            },
            mark: connected,
            has_asked: false,
            handshake: Handshake {
                offer: OfferOutcome::WithoutTls,
                early_data: EarlyData::NotSent,
                steps: [tcp_step, Step::default(), Step::default()],
            },
        }
    }

    /// Asks, unless the request has gone with the hello, and reads the answer to its end.
    pub(crate) async fn ask(
        &mut self,
        request: &[u8],
        buffer: &std::cell::RefCell<Vec<u8>>,
    ) -> Result<Answer, Failure> {
        let has_gone = std::mem::take(&mut self.has_asked);
        let begun = self.mark;
        if !has_gone {
            self.wire.security.write(request)?;
        }
        self.wire.collect()?;
        if let Err(failure) = self.wire.flush().await {
            return Err(self.wire.alert().unwrap_or(failure));
        }
        let mut response = ResponseReader::new();
        let mut first = None;
        let mut plain = 0;
        loop {
            let reading =
                self.wire
                    .plaintext(&mut response, &mut buffer.borrow_mut(), &mut plain)?;
            if response.has_begun() {
                first.get_or_insert(self.wire.last_read);
            }
            let ended = match reading {
                Plaintext::Whole => break,
                Plaintext::Ended => true,
                Plaintext::More => self.wire.read().await? == 0,
            };
            if ended {
                if response.may_end_here() {
                    break;
                }
                return Err(Fault::ClosedInAnswer.into());
            }
        }
        let done = self.wire.mark(Instant::now());
        // What came with the handshake's end was there before the request was to be sent.
        let first = first.filter(|first| first.at >= begun.at).unwrap_or(begun);
        self.mark = done;
        Ok(Answer {
            status: response.status(),
            body: response.body_len(),
            plain,
            steps: [
                first.step_since(&begun, u32::from(!has_gone)),
                done.step_since(&first, 0),
            ],
            done: done.at,
            closes: response.closes(),
        })
    }

    /// The next request begins now.
    pub(crate) fn rest(&mut self) -> Instant {
        self.mark.at = Instant::now();
        self.mark.at
    }

    /// What the server has shown of itself.
    pub(crate) fn facts(&self, target: &Target) -> ServerFacts {
        let tls = self.wire.security.tls();
        let version = tls.and_then(|tls| tls.protocol_version());
        let version = version.map(|version| match version {
            ProtocolVersion::TLSv1_2 => "1.2".to_owned(),
            ProtocolVersion::TLSv1_3 => "1.3".to_owned(),
            other => format!("{other:?}"),
        });
        let suite = tls.and_then(|tls| tls.negotiated_cipher_suite());
        let group = tls.and_then(|tls| tls.negotiated_key_exchange_group());
        ServerFacts {
            address: target.address.to_string(),
            tls: version,
            cipher_suite: suite.map(|suite| format!("{:?}", suite.suite())),
            group: group.map(|group| format!("{:?}", group.name())),
            chain: chain::facts(&self.chain()),
            staple_bytes: 0,
            asked_for_certificate: false,
        }
    }

    /// The server's certificates, DER, leaf first; of a resumed session those of its beginning.
    fn chain(&self) -> Vec<Vec<u8>> {
        let tls = self.wire.security.tls();
        let certificates = tls.and_then(|tls| tls.peer_certificates());
        let certificates = certificates.unwrap_or_default();
        certificates.iter().map(|one| one.to_vec()).collect()
    }

    /// Lets the server close first, so that no port of this side has to rest (RFC 9293, section
    /// 3.6.1), and takes tickets that come late.
    pub(crate) async fn close(mut self) {
        let ended = async {
            loop {
                match self.wire.read().await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {
                        let mut rest = [0; 1_024];
                        while self.wire.security.read(&mut rest).is_ok_and(|n| n > 0) {}
                    }
                }
            }
        };
        // A server that stays open is left.
        let _ = tokio::time::timeout(LINGER, ended).await;
        self.wire.security.end();
        if self.wire.collect().is_ok() {
            let _ = self.wire.tcp.try_write(&self.wire.pending);
        }
    }
}

/// What became of the plaintext that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plaintext {
    /// The answer is whole.
    Whole,
    /// The server ends its side.
    Ended,
    /// More has to come.
    More,
}

impl Wire {
    fn mark(&self, at: Instant) -> Mark {
        Mark {
            at,
            sent: self.sent,
            received: self.received,
        }
    }

    /// Reads and writes until the handshake is done. Where the client has to write a flight before
    /// that: the moment when it could, and how many there were.
    async fn shake_hands(&mut self) -> Result<(Option<Mark>, u32), Failure> {
        let mut flight = None;
        let mut flights = 0;
        self.flush().await?;
        loop {
            if self.read().await? == 0 {
                return Err(Fault::ClosedInHandshake.into());
            }
            if !self.security.is_handshaking() {
                return Ok((flight, flights));
            }
            if self.security.wants_write() {
                flight.get_or_insert(self.last_read);
                flights += 1;
                self.collect()?;
                self.flush().await?;
            }
        }
    }

    /// Takes what is to be sent. It counts as sent from here on.
    fn collect(&mut self) -> Result<(), Failure> {
        while self.security.wants_write() {
            self.sent += self.security.collect(&mut self.pending)? as u64;
        }
        Ok(())
    }

    /// Sends all of that.
    async fn flush(&mut self) -> Result<(), Failure> {
        let mut from = 0;
        while from < self.pending.len() {
            match self.tcp.try_write(&self.pending[from..]) {
                Ok(written) => from += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.tcp.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.pending.clear();
        Ok(())
    }

    /// Waits for bytes and hands them to TLS. 0: the other side has closed.
    async fn read(&mut self) -> Result<usize, Failure> {
        let bytes = loop {
            match self.security.read_from(&mut Incoming(&self.tcp)) {
                Ok(bytes) => break bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.tcp.readable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        self.received += bytes as u64;
        self.last_read = self.mark(Instant::now());
        if let Err(error) = self.security.process() {
            // The server hears why, if there is room.
            if self.collect().is_ok() {
                let _ = self.tcp.try_write(&self.pending);
            }
            return Err(error.into());
        }
        Ok(bytes)
    }

    /// What the other side has said before it stopped listening: in TLS 1.3 it hears the client's
    /// last flight after the client has begun to send.
    fn alert(&mut self) -> Option<Failure> {
        while let Ok(1..) = self.security.read_from(&mut Incoming(&self.tcp)) {
            if let Err(error) = self.security.process() {
                return Some(error.into());
            }
        }
        None
    }

    /// Hands plaintext that is there to the reader of the answer.
    fn plaintext(
        &mut self,
        response: &mut ResponseReader,
        buffer: &mut Vec<u8>,
        plain: &mut u64,
    ) -> Result<Plaintext, Failure> {
        buffer.resize(PIECE, 0);
        loop {
            let length = match self.security.read(buffer) {
                Ok(0) => return Ok(Plaintext::Ended),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Plaintext::More);
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Plaintext::Ended);
                }
                Err(error) => return Err(error.into()),
            };
            *plain += length as u64;
            match response.read(&buffer[..length]) {
                Ok(Reading::Open) => {}
                Ok(Reading::Whole(_)) => return Ok(Plaintext::Whole),
                Err(error) => {
                    return Err(Failure {
                        fault: Fault::NotHttp,
                        detail: error.to_string(),
                    });
                }
            }
        }
    }
}

/// The stream as it is read.
struct Incoming<'a>(&'a TcpStream);

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}
