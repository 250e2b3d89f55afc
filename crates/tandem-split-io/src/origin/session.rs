//! One client at the origin: its TLS, its requests one after the other, and the answers as stubs.
//!
//! Is not: the client's connection, which ends at the volunteer. Here its records come in as messages of a channel.
//!
//! Invariants: every record of the server after ChangeCipherSpec is a stub; a payload that a stub names is published first, and stays so until the channel
//! is closed; when the client or somebody on the way breaks the protocol, there is one alert and then the end.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use rustls::AlertDescription;
use tandem_split::clear::ClearWriter;
use tandem_split::message::{Encodings, KeyExpose, Message};
use tandem_split::object::CHUNK_LEN;
use tandem_split::stub::StubWriter;
use tandem_split::{List, Payload, RecordType, Sealer, Suite};
use tokio::io::{AsyncWriteExt as _, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::answer::{self, Framing};
use super::http::{self, Refusal, Request};
use super::served::Served;
use super::spool::Pins;
use super::{Failed, Shared};
use crate::channel::{KeyName, ToVolunteer};
use crate::tls::parts::{Record, ServerKeys};
use crate::tls::server::{Endpoint, Site};

/// How long a handshake may take, and a request that has begun.
const REQUEST: Duration = Duration::from_secs(30);
/// How long a connection is kept for another request.
const IDLE: Duration = Duration::from_secs(75);
/// How long the server behind may fall silent within an answer.
const SILENCE: Duration = Duration::from_secs(120);
/// After this long without a byte, what there is of an answer goes out.
const LULL: Duration = Duration::from_secs(1);
/// How long a client that was sent something bad may take to say so.
const LAST_WORD: Duration = Duration::from_secs(2);
/// An answer goes out in pieces of this many bytes: each is an object, and takes one message of its own.
const PIECE: usize = 64 * CHUNK_LEN;

/// See above.
pub(super) struct Session {
    shared: Arc<Shared>,
    volunteer: Option<KeyName>,
    site: Site,
    endpoint: Endpoint,
    encodings: Encodings,
    clear: ClearWriter,
    stubs: Option<StubWriter>,
    out: Vec<u8>,
    to_volunteer: WriteHalf<ToVolunteer>,
    from_client: mpsc::Receiver<Vec<u8>>,
    pins: Pins,
    /// Bytes of bodies, and of messages, so far.
    body_bytes: u64,
    sent_bytes: u64,
}

/// Whether anything may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    ToItsEnd,
}

impl Session {
    pub(super) fn new(
        shared: &Arc<Shared>,
        volunteer: Option<KeyName>,
        encodings: Encodings,
        to_volunteer: WriteHalf<ToVolunteer>,
        from_client: mpsc::Receiver<Vec<u8>>,
    ) -> Result<Self, Failed> {
        let site = shared.site();
        Ok(Self {
            shared: Arc::clone(shared),
            volunteer,
            endpoint: Endpoint::new(&site)?,
            site,
            encodings,
            clear: ClearWriter::new(encodings),
            stubs: None,
            out: Vec::new(),
            to_volunteer,
            from_client,
            pins: Pins::new(&shared.spool),
            body_bytes: 0,
            sent_bytes: 0,
        })
    }

    /// Serves until either side has had enough.
    pub(super) async fn run(mut self) -> Result<(), Failed> {
        let served = self.serve().await;
        if served.is_err() {
            // The client may have something to say about what it got: an alert tells that somebody on the way changed it.
            while let Ok(Some(bytes)) = timeout(LAST_WORD, self.from_client.recv()).await {
                if self.take_in(&bytes).is_err() {
                    break;
                }
            }
        }
        served
    }

    async fn serve(&mut self) -> Result<(), Failed> {
        loop {
            let parsed = http::parse(self.endpoint.received(), self.site.host());
            let goes = match parsed {
                Ok(Some((request, len))) => {
                    self.endpoint.received().drain(..len);
                    self.shared.numbers.requests.add(1);
                    self.answer_watched(request).await?
                }
                Ok(None) => {
                    let is_idle =
                        self.endpoint.is_established() && self.endpoint.received().is_empty();
                    self.receive(if is_idle { IDLE } else { REQUEST }).await?
                }
                Err(refusal) => self.refuse(refusal).await?,
            };
            if goes == Goes::ToItsEnd {
                self.endpoint.close();
                self.flush().await?;
                self.to_volunteer.shutdown().await?;
                // What the client still says is an alert, or nothing.
                while let Ok(Some(bytes)) = timeout(LAST_WORD, self.from_client.recv()).await {
                    self.take_in(&bytes)?;
                }
                return Ok(());
            }
        }
    }

    /// Takes in one record of the client.
    async fn receive(&mut self, patience: Duration) -> Result<Goes, Failed> {
        let Ok(Some(bytes)) = timeout(patience, self.from_client.recv()).await else {
            return Ok(Goes::ToItsEnd);
        };
        let taken = self.take_in(&bytes);
        // An alert leaves whatever became of it.
        self.flush().await?;
        taken?;
        Ok(if self.endpoint.is_closed() {
            Goes::ToItsEnd
        } else {
            Goes::On
        })
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let numbers = &self.shared.numbers;
        self.endpoint
            .receive(bytes)
            .inspect_err(|error| match error {
                // What a client says when a record is not what the server vouched for, or not in its place.
                rustls::Error::AlertReceived(
                    AlertDescription::BadRecordMac
                    | AlertDescription::DecryptError
                    | AlertDescription::RecordOverflow
                    | AlertDescription::DecodeError
                    | AlertDescription::UnexpectedMessage,
                ) => numbers.refused_by_clients.add(1),
                rustls::Error::DecryptError => numbers.forged_by_clients.add(1),
                _ => {}
            })?;
        Ok(())
    }

    async fn answer_watched(&mut self, request: Request) -> Result<Goes, Failed> {
        let target = request.target.clone();
        let (body_before, sent_before) = (self.body_bytes, self.sent_bytes);
        let goes = self.answer(request).await?;
        self.shared.watched.tell(|| Served {
            volunteer: self.volunteer,
            target,
            body_bytes: self.body_bytes - body_before,
            sent_bytes: self.sent_bytes - sent_before,
        });
        Ok(goes)
    }

    async fn answer(&mut self, request: Request) -> Result<Goes, Failed> {
        let is_other_site = |name: &str| !name.eq_ignore_ascii_case(self.site.host());
        if self.endpoint.server_name().is_some_and(is_other_site) {
            return self.refuse(Refusal::HOST).await;
        }
        if request.awaits_continue && request.body_len > 0 {
            self.literal(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            self.flush().await?;
        }
        while self.endpoint.received().len() < request.body_len {
            if self.receive(REQUEST).await? == Goes::ToItsEnd {
                return Ok(Goes::ToItsEnd);
            }
        }
        let body = self.endpoint.received().drain(..request.body_len).collect();
        let response = match self.shared.upstream.ask(&request, body).await {
            Ok(response) => response,
            Err(refusal) => return self.refuse(refusal).await,
        };
        if !answer::is_public(response.headers()) {
            self.shared.numbers.not_public.add(1);
            return self.refuse(Refusal::PRIVATE).await;
        }
        let len = hyper::body::Body::size_hint(response.body()).exact();
        let framing = match answer::framing(&request, response.status().as_u16(), len) {
            Ok(framing) => framing,
            Err(refusal) => return self.refuse(refusal).await,
        };
        let (parts, body) = response.into_parts();
        self.literal(&answer::head(
            parts.status,
            &parts.headers,
            framing,
            request.keeps,
        ))?;
        self.flush().await?;
        self.pass_on(body, framing).await?;
        Ok(if request.keeps {
            Goes::On
        } else {
            Goes::ToItsEnd
        })
    }

    /// The body, piece by piece. An error in its middle ends the connection without a close, which no client takes for an end.
    async fn pass_on(
        &mut self,
        mut body: hyper::body::Incoming,
        framing: Framing,
    ) -> Result<(), Failed> {
        if framing == Framing::NoBody {
            return Ok(());
        }
        let mut piece: Vec<u8> = Vec::new();
        loop {
            let patience = if piece.is_empty() { SILENCE } else { LULL };
            match timeout(patience, body.frame()).await {
                Ok(Some(frame)) => {
                    if let Ok(data) = frame?.into_data() {
                        piece.extend_from_slice(&data);
                    }
                    while piece.len() >= PIECE {
                        let rest = piece.split_off(PIECE);
                        self.send_piece(&piece, framing).await?;
                        piece = rest;
                    }
                }
                Ok(None) => break,
                Err(_) if piece.is_empty() => return Err(Failed::Silence),
                // The server behind is slow: nobody waits for the rest of a piece.
                Err(_) => {
                    // Whole chunks first: where they are cut decides whether a volunteer has them.
                    let whole = piece.len() - piece.len() % CHUNK_LEN;
                    let rest = piece.split_off(if whole > 0 { whole } else { piece.len() });
                    self.send_piece(&piece, framing).await?;
                    piece = rest;
                }
            }
        }
        if !piece.is_empty() {
            self.send_piece(&piece, framing).await?;
        }
        if framing == Framing::Chunks {
            self.literal(b"0\r\n\r\n")?;
        }
        self.flush().await
    }

    /// Some bytes of a body, at most [`PIECE`]: by reference, in full where that is not longer or nothing more can be published.
    async fn send_piece(&mut self, piece: &[u8], framing: Framing) -> Result<(), Failed> {
        if framing == Framing::Chunks {
            self.literal(format!("{:x}\r\n", piece.len()).as_bytes())?;
        }
        let payloads: Vec<Payload> = piece
            .chunks(CHUNK_LEN)
            .map(Payload::new)
            .collect::<Result<_, _>>()?;
        let may_run = payloads.len() > 1 && self.encodings.contains(Encodings::RUN);
        let published: Vec<bool> = payloads
            .iter()
            .map(|payload| self.pins.payload(payload))
            .collect();
        if may_run && published.iter().all(|is| *is) {
            let list = Arc::new(List::of(piece)?);
            self.pins.list(&list);
            let stubs = self.stubs.as_mut().ok_or(Failed::NoKeys)?;
            let mut run = stubs.run(list.name(), 0, CHUNK_LEN)?;
            for chunk in piece.chunks(CHUNK_LEN) {
                run.record(&one_record(&mut self.endpoint, chunk)?)?;
            }
            run.finish(&mut self.out);
        } else {
            for (payload, is_published) in payloads.iter().zip(published) {
                if !is_published {
                    self.shared.numbers.unpublished.add(1);
                    self.literal(payload.bytes())?;
                    continue;
                }
                let stubs = self.stubs.as_mut().ok_or(Failed::NoKeys)?;
                one_record(&mut self.endpoint, payload.bytes())?;
                stubs.named(&mut self.out, RecordType::ApplicationData, payload)?;
            }
        }
        self.body_bytes += piece.len() as u64;
        self.shared.numbers.body_bytes.add(piece.len() as u64);
        if framing == Framing::Chunks {
            self.literal(b"\r\n")?;
        }
        self.flush().await
    }

    /// Answers a request that is not passed on, after which the connection ends.
    async fn refuse(&mut self, refusal: Refusal) -> Result<Goes, Failed> {
        self.shared.numbers.refused_requests.add(1);
        if self.endpoint.is_established() {
            self.literal(&refusal.answer())?;
            self.flush().await?;
        }
        Ok(Goes::ToItsEnd)
    }

    /// Content in full.
    fn literal(&mut self, content: &[u8]) -> Result<(), Failed> {
        self.endpoint.send(content)?;
        self.write_records()
    }

    /// Whatever the TLS library has written, as messages.
    fn write_records(&mut self) -> Result<(), Failed> {
        while let Some(record) = self.endpoint.poll_record() {
            match record {
                Record::Clear(bytes) => {
                    let written = self.clear.push(&mut self.out, &bytes)?;
                    for payload in &written.published {
                        if !self.pins.payload(payload) {
                            return Err(Failed::Full);
                        }
                    }
                }
                Record::Protected {
                    keys,
                    content_type,
                    content,
                } => {
                    if let Some(keys) = keys {
                        self.expose(&keys)?;
                    }
                    let stubs = self.stubs.as_mut().ok_or(Failed::NoKeys)?;
                    let record_type = RecordType::from_u8(content_type).ok_or(Failed::NoKeys)?;
                    stubs.literal(&mut self.out, record_type, &content)?;
                }
            }
        }
        Ok(())
    }

    /// The volunteer gets the key that hides, and never the one that vouches.
    fn expose(&mut self, keys: &ServerKeys) -> Result<(), Failed> {
        let suite = self
            .endpoint
            .suite()
            .and_then(Suite::from_u16)
            .ok_or(Failed::NoKeys)?;
        Message::KeyExpose(KeyExpose::new(suite, &keys.cipher)?).write(&mut self.out);
        let sealer = Sealer::tls12(suite, &keys.mac, 0)?;
        self.stubs = Some(StubWriter::new(sealer, self.encodings));
        Ok(())
    }

    /// Sends what has been written.
    async fn flush(&mut self) -> Result<(), Failed> {
        self.write_records()?;
        if !self.out.is_empty() {
            self.to_volunteer.write_all(&self.out).await?;
            self.to_volunteer.flush().await?;
            self.sent_bytes += self.out.len() as u64;
            self.out.clear();
        }
        Ok(())
    }
}

/// Passes content through the TLS library, which must make one record of it: what it counts must be what is sealed.
fn one_record(endpoint: &mut Endpoint, content: &[u8]) -> Result<Vec<u8>, Failed> {
    endpoint.send(content)?;
    match endpoint.poll_record() {
        Some(Record::Protected {
            keys: None,
            content_type: 23,
            content: sent,
        }) if sent == content => Ok(sent),
        Some(_) | None => Err(Failed::NoKeys),
    }
}
