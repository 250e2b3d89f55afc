//! One client at the origin: its TLS, its requests one after the other, and the responses as stubs.
//!
//! Is not: the client's connection, which ends at the volunteer. Here its records come in as
//! messages of a channel.
//!
//! Invariants: every record of the server after ChangeCipherSpec is a stub; a payload that a stub
//! names is published first, and stays so until many others have followed on the channel, or it is
//! closed (`spool`); nothing is read or sealed further ahead of what the client has taken than the
//! credit says (`credit`), and not before its turn has come; when the client or somebody on the way
//! breaks the protocol, there is one alert and then the end.

mod ask;
mod credit;
mod outward;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;
use tandem_split::clear::ClearWriter;
use tandem_split::cut::{Cut, Cutter, Extent, PIECE_LEN};
use tandem_split::message::{Encodings, Greeting};
use tandem_split::object::CHUNK_LEN;
use tokio::io::{AsyncWriteExt as _, WriteHalf};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::content_range;
use super::hearing::Records;
use super::http::{self, Refusal, Request};
use super::inward::Inward;
use super::kept::{Content, Held, Recording};
use super::locations::{self, Own};
use super::response::{self, Framing};
use super::served::Served;
use super::silence::{REQUEST, Silence};
use super::spool::Pins;
use super::upstream::Fault;
use super::work::Account;
use super::{Failed, Shared};
use crate::places::Place;
use crate::tls::server::{Endpoint, Site};
use tandem_channel::ServerChannel;

pub(super) use credit::Credit;
pub(super) use outward::STALL;

/// How long the server behind may take to begin its response, once it has the request.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// How long the server behind may fall silent within a response.
const SILENCE: Duration = Duration::from_secs(120);
/// After this long without a byte, what there is of a response goes out.
const LULL: Duration = Duration::from_secs(1);
/// How long a client that was sent something bad may take to say so.
const LAST_WORD: Duration = Duration::from_secs(2);
/// Records that are heard at most after the last response.
const LAST_RECORDS: usize = 4096;
/// How long a client may go on sending a request that is answered already.
const LINGER: Duration = Duration::from_secs(30);
/// Records of a head that are read over at most once it was refused: a megabyte of full ones.
const HEAD_RECORDS: usize = 64;

/// See above.
pub(super) struct Session {
    shared: Arc<Shared>,
    site: Site,
    inward: Inward,
    encodings: Encodings,
    clear: ClearWriter,
    /// Whether the volunteer has the key that hides: before, nothing of a response leaves.
    is_exposed: bool,
    out: Vec<u8>,
    /// Bytes at the front of `out` that are written.
    written: usize,
    to_volunteer: WriteHalf<ServerChannel>,
    credit: Credit,
    account: Account,
    pins: Pins,
    /// Bytes of bodies, and of messages, so far.
    body_bytes: u64,
    sent_bytes: u64,
    place: Arc<Place>,
    /// Whether the volunteer knows how to go on with another client.
    may_go_on: bool,
}

/// What is left when a client is done with.
pub(super) struct Ended {
    /// How it ended.
    pub(super) served: Result<(), Failed>,
    /// This side of the channel, where the last word about the client was said on it.
    pub(super) to_volunteer: Option<WriteHalf<ServerChannel>>,
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
        greeting: Greeting,
        to_volunteer: WriteHalf<ServerChannel>,
        from_client: Records,
        credit: Credit,
        account: Account,
        place: &Arc<Place>,
    ) -> Result<Self, Failed> {
        let encodings = greeting.encodings;
        let site = shared.site();
        let endpoint = Endpoint::new(&site)?;
        Ok(Self {
            shared: Arc::clone(shared),
            inward: Inward::new(
                endpoint,
                site.host(),
                &shared.numbers,
                from_client,
                shared.witnesses.of(account.asker()),
            ),
            site,
            encodings,
            clear: ClearWriter::new(encodings),
            is_exposed: false,
            out: Vec::new(),
            written: 0,
            to_volunteer,
            credit,
            account,
            pins: Pins::new(&shared.spool),
            body_bytes: 0,
            sent_bytes: 0,
            place: Arc::clone(place),
            may_go_on: greeting.goes_on(),
        })
    }

    /// Serves until either side has had enough.
    pub(super) async fn run(mut self) -> Ended {
        let mut served = self.serve().await;
        let has_left = self.inward.is_ended();
        if served.is_ok() {
            self.inward.close();
        }
        // Where the client broke off, too, the channel ends in good order: it is no failure between
        // volunteer and origin. The client's TLS has not been closed then, and what it has
        // is not taken for the whole.
        let in_order = matches!(served, Ok(()) | Err(Failed::Tls(_)));
        // Strangers' handshakes are rationed by their channels (`places`), so that each of theirs
        // carries one client.
        let may_go_on = in_order && self.may_go_on && self.place.is_known();
        let goes_on = may_go_on && self.say_over().is_ok();
        // After an error, an alert leaves.
        match timeout(LAST_WORD, self.push_out()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => served = served.and(Err(error)),
            Err(_) => served = served.and(Err(Failed::Stalled)),
        }
        let in_order = matches!(served, Ok(()) | Err(Failed::Tls(_)));
        if in_order && !goes_on {
            let shut = match timeout(LAST_WORD, self.to_volunteer.shutdown()).await {
                Ok(shut) => shut.map_err(Failed::Io),
                Err(_) => Err(Failed::Stalled),
            };
            served = served.and(shut);
        }
        // The client may have something to say about what it got: an alert tells that somebody on
        // the way changed it. Where the channel goes on, one that has said its last word is not
        // waited for: the volunteer's own comes with its next client.
        let deadline = Instant::now() + LAST_WORD;
        let is_done = has_left && in_order && goes_on;
        let records = if is_done { 0 } else { LAST_RECORDS };
        for _ in 0..records {
            match timeout_at(deadline, self.inward.last_word()).await {
                Ok(Some(Ok(()))) => {}
                Ok(Some(Err(error))) => {
                    served = served.and(Err(error));
                    break;
                }
                Ok(None) | Err(_) => break,
            }
        }
        Ended {
            served,
            to_volunteer: (in_order && goes_on).then_some(self.to_volunteer),
        }
    }

    async fn serve(&mut self) -> Result<(), Failed> {
        let mut silence = Silence::from(Instant::now());
        let mut head = http::Awaited::default();
        loop {
            let parsed = head.parse(self.inward.endpoint.received(), self.site.host());
            let goes = match parsed {
                Ok(Some((request, len))) => {
                    silence.ends();
                    self.place.keep();
                    self.inward.endpoint.received().drain(..len);
                    self.shared.numbers.requests.add(1);
                    self.respond_watched(request).await?
                }
                Ok(None) => {
                    let endpoint = &mut self.inward.endpoint;
                    let is_idle = endpoint.is_established() && endpoint.received().is_empty();
                    self.receive(silence.until(is_idle, Instant::now())).await?
                }
                Err(refusal) => {
                    let is_head = self.inward.endpoint.received().starts_with(b"HEAD ");
                    self.refuse(refusal, if is_head { "HEAD" } else { "" })
                        .await?
                }
            };
            if goes == Goes::ToItsEnd {
                return Ok(());
            }
        }
    }

    /// Takes in one record of the client.
    async fn receive(&mut self, deadline: Instant) -> Result<Goes, Failed> {
        if !self.inward.has_more() {
            return Ok(Goes::ToItsEnd);
        }
        match timeout_at(deadline, self.inward.step()).await {
            Ok(stepped) => stepped?,
            Err(_) => return Ok(Goes::ToItsEnd),
        }
        self.flush().await?;
        Ok(Goes::On)
    }

    async fn respond_watched(&mut self, request: Request) -> Result<Goes, Failed> {
        let target = request.target.clone();
        self.inward.note_asked(&request.method, &target);
        let (body_before, sent_before) = (self.body_bytes, self.sent_bytes);
        let goes = self.respond(request).await?;
        self.shared.watched.tell(|| Served {
            volunteer: self.account.volunteer(),
            target,
            body_bytes: self.body_bytes - body_before,
            sent_bytes: self.sent_bytes - sent_before,
        });
        Ok(goes)
    }

    async fn respond(&mut self, request: Request) -> Result<Goes, Failed> {
        let port = request.port;
        let method = request.method.clone();
        if self.is_misdirected() {
            return self.refuse(Refusal::HOST, &method).await;
        }
        // Answers that follow on each other run ahead together.
        self.await_credit(CHUNK_LEN).await?;
        // A head takes no turn.
        self.await_limit(self.account.delay()).await?;
        let (keeps, knows_chunks) = (request.keeps, request.knows_chunks);
        let body = self.inward.begin(request.body);
        if request.awaits_continue && self.inward.is_uploading() {
            self.literal(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            self.flush().await?;
        }
        let mut answer = match self.ask(request, body).await {
            Ok(Some(Ok(answer))) => answer,
            Ok(Some(Err(refusal))) => return self.refuse(refusal, &method).await,
            Ok(None) => return Ok(Goes::ToItsEnd),
            Err(error) => return Err(error),
        };
        if !response::is_public(&answer.headers) {
            self.shared.numbers.not_public.add(1);
            // Nobody waits for this, nor for the client to take the refusal.
            drop(answer.first.take());
            return self.refuse(Refusal::PRIVATE, &method).await;
        }
        let (status, len) = (answer.status, answer.len);
        let framing = match response::framing(&method, knows_chunks, status, len) {
            Ok(framing) => framing,
            Err(refusal) => {
                drop(answer.first.take());
                return self.refuse(refusal, &method).await;
            }
        };
        // A response that comes before its request is whole is the last.
        let keeps = keeps && !self.inward.is_uploading();
        let extent = content_range::extent(status, &answer.headers, len);
        let recording = self.shared.kept.record(&mut answer, Instant::now());
        let host = self.site.host();
        let secured = locations::secure(&mut answer.headers, Own { host, port });
        self.shared.count_secured(secured);
        let head = response::head(status, &answer.headers, framing, keeps);
        self.literal(&head)?;
        // Nobody waits for what is not kept, or has to wait for this client.
        let len = len.and_then(|len| usize::try_from(len).ok());
        let is_soon = len.map_or(Ok(false), |len| self.credit.covers(len))?;
        let first = answer.first.take().filter(|_| is_soon);
        let recording = recording.map(|recording| recording.awaited(first));
        let passed = match answer.content {
            Content::Kept(held) => self.pass_on_kept(held).await,
            Content::Coming(body) => self.pass_on(body, framing, extent, recording).await,
        };
        if let Err(error) = passed {
            if matches!(error, Failed::Io(_) | Failed::Stalled) {
                self.shared.numbers.cut_answers.add(1);
            }
            return Err(error);
        }
        self.place.note_served();
        self.read_over_upload().await?;
        Ok(if keeps { Goes::On } else { Goes::ToItsEnd })
    }

    /// Waits for the server's response, and hands on the request's body meanwhile. Nothing if the
    /// client has gone before its end.
    async fn hear_while<T>(
        &mut self,
        asked: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<Option<Result<T, Refusal>>, Failed> {
        let mut asked = pin!(asked);
        loop {
            if self.inward.is_malformed() {
                return Ok(Some(Err(Refusal::MALFORMED)));
            }
            let awaits_client = self.inward.awaits_client();
            let patience = if awaits_client { REQUEST } else { FIRST_BYTE };
            let hears = self.inward.has_more();
            tokio::select! {
                biased;
                response = &mut asked => return Ok(Some(response)),
                stepped = self.inward.step(), if hears => stepped?,
                () = sleep(patience) => {
                    let refusal = if awaits_client { Refusal::SLOW } else { Refusal::LATE };
                    return Ok(Some(Err(refusal)));
                }
            }
            if self.inward.is_cut_off() {
                return Ok(None);
            }
            self.tell().await?;
        }
    }

    /// What is still to come of a request that was answered early: a client that sends it all first
    /// reads the response only then.
    async fn read_over_upload(&mut self) -> Result<(), Failed> {
        self.inward.discard();
        let deadline = Instant::now() + LINGER;
        while self.inward.is_uploading() && self.inward.has_more() {
            match timeout_at(deadline, self.inward.step()).await {
                Ok(stepped) => stepped?,
                Err(_) => break,
            }
            self.tell().await?;
        }
        Ok(())
    }

    /// The same of a head that was refused for its length.
    async fn read_over_head(&mut self) -> Result<(), Failed> {
        let deadline = Instant::now() + LINGER;
        for _ in 0..HEAD_RECORDS {
            if self.inward.discard_head() || !self.inward.has_more() {
                break;
            }
            match timeout_at(deadline, self.inward.step()).await {
                Ok(stepped) => stepped?,
                Err(_) => break,
            }
            self.tell().await?;
        }
        Ok(())
    }

    /// The body, piece by piece. An error in its middle ends the connection without a close, which
    /// no client takes for an end.
    async fn pass_on(
        &mut self,
        mut body: UnsyncBoxBody<Bytes, Fault>,
        framing: Framing,
        extent: Extent,
        mut recording: Option<Recording>,
    ) -> Result<(), Failed> {
        self.flush().await?;
        if matches!(framing, Framing::NoBody(_)) {
            return Ok(());
        }
        let mut cutter = Cutter::new(extent);
        let mut waiting: Vec<u8> = Vec::new();
        let mut deadline = Instant::now() + SILENCE;
        loop {
            // What is read ahead is work, too.
            if !self.credit.covers(waiting.len() + 1)? {
                self.await_credit(waiting.len() + 1).await?;
                deadline = Instant::now() + patience(&waiting);
            }
            let hears = self.inward.has_more();
            let frame = tokio::select! {
                biased;
                frame = body.frame() => Some(frame),
                stepped = self.inward.step(), if hears => {
                    stepped?;
                    self.tell().await?;
                    continue;
                }
                () = sleep_until(deadline) => None,
            };
            match frame {
                Some(Some(frame)) => {
                    let frame = frame.map_err(Failed::Upstream)?;
                    let mut data = frame.into_data().unwrap_or_default();
                    // What waits is never more than the next cut, so that it leaves as it is.
                    while !data.is_empty() {
                        let room = cutter.wanted() - waiting.len();
                        waiting.extend_from_slice(&data.split_to(room.min(data.len())));
                        if let Some(cut) = cutter.cut(waiting.len()) {
                            let piece = std::mem::take(&mut waiting);
                            recording = self.pass_piece(piece, cut, framing, recording).await?;
                        }
                    }
                }
                Some(None) => break,
                // The server behind is slow: nobody waits for the rest of a piece. Such a body is
                // not kept, since another time it may come in one piece.
                None => {
                    drop(recording.take());
                    let cut = cutter.cut_early(waiting.len()).ok_or(Failed::Silence)?;
                    let rest = waiting.split_off(cut.len);
                    let piece = std::mem::replace(&mut waiting, rest);
                    recording = self.pass_piece(piece, cut, framing, None).await?;
                }
            }
            deadline = Instant::now() + patience(&waiting);
        }
        if let Some(cut) = cutter.cut_rest(waiting.len()) {
            recording = self.pass_piece(waiting, cut, framing, recording).await?;
        }
        if framing == Framing::Chunks {
            self.literal(b"0\r\n\r\n")?;
        }
        if let Some(recording) = recording {
            self.shared.kept.keep(recording);
        }
        self.flush().await
    }

    /// One piece of a body that comes from the server, and of what is kept of it.
    async fn pass_piece(
        &mut self,
        piece: Vec<u8>,
        cut: Cut,
        framing: Framing,
        recording: Option<Recording>,
    ) -> Result<Option<Recording>, Failed> {
        let names = recording
            .as_ref()
            .and_then(|recording| recording.names_of(&piece));
        let list = self
            .send_piece(&piece, names, cut.named_by, framing)
            .await?;
        Ok(recording.and_then(|recording| recording.with(piece, list, Instant::now())))
    }

    /// A body that is here, piece by piece. Once it has made room for others, the server has the
    /// rest.
    async fn pass_on_kept(&mut self, held: Held) -> Result<(), Failed> {
        let mut from = 0;
        for number in 0.. {
            let len = held.len.saturating_sub(from).min(PIECE_LEN as u64);
            if len == 0 {
                break;
            }
            if !self.send_kept_piece(&held, number, len as usize).await? {
                let rest = self.ask_for_rest(&held, from).await?;
                let framing = Framing::Length(held.len);
                return self.pass_on(rest.body, framing, rest.extent, None).await;
            }
            from += len;
        }
        self.flush().await
    }

    /// Whether the client's hello names another site.
    fn is_misdirected(&self) -> bool {
        let name = self.inward.endpoint.server_name();
        name.is_some_and(|name| !name.eq_ignore_ascii_case(self.site.host()))
    }

    /// Answers a request that is not passed on, after which the connection ends.
    async fn refuse(&mut self, refusal: Refusal, method: &str) -> Result<Goes, Failed> {
        let numbers = &self.shared.numbers;
        numbers.refused_requests.add(1);
        // Another name in the hello is counted already.
        if refusal == Refusal::HOST && !self.is_misdirected() {
            numbers.misdirected.add(1);
        }
        if self.inward.endpoint.is_established() {
            self.literal(&refusal.response(method))?;
            self.flush().await?;
            if refusal == Refusal::HEAD {
                self.read_over_head().await?;
            }
            self.read_over_upload().await?;
        }
        Ok(Goes::ToItsEnd)
    }
}

/// How long the server behind may say nothing while this much waits.
fn patience(waiting: &[u8]) -> Duration {
    if waiting.is_empty() { SILENCE } else { LULL }
}
