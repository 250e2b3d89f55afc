//! What a client sends, at the origin: its records opened, its alerts counted, by volunteer too,
//! the body of its request handed on.
//!
//! Is not: the response. It can be heard while one is being written: an alert ends that response at
//! once.
//!
//! Invariants: no more is taken in than one request's head, one record and the pieces that wait
//! for the server; a body that does not come to its end, or is not in chunks where it should be,
//! reaches the server as one that was cut off.

use std::collections::VecDeque;
use std::sync::Arc;

use rustls::AlertDescription;
use tandem_barnraising::refusals::Event;
use tokio::sync::mpsc;

use super::body::{Piece, RequestBody};
use super::chunks::{Chunks, Malformed};
use super::hearing::Records;
use super::http::{self, Coding, MAX_HEAD};
use super::witness::Witness;
use super::{Failed, Numbers};
use crate::tls::server::Endpoint;

/// See above.
pub(super) struct Inward {
    pub(super) endpoint: Endpoint,
    host: Arc<str>,
    numbers: Numbers,
    from_client: Records,
    witness: Witness,
    upload: Option<Upload>,
    is_ended: bool,
    is_cut_off: bool,
    is_malformed: bool,
    /// Whether the name in the hello, and what kind of handshake it was, are known and counted.
    is_named: bool,
    is_established: bool,
}

/// A body on its way.
struct Upload {
    left: Left,
    /// At most a piece of data and the end.
    waiting: VecDeque<Piece>,
    /// Nowhere, once the server behind wants no more of it.
    to_server: Option<mpsc::Sender<Piece>>,
}

enum Left {
    Length(u64),
    Chunks(Chunks),
}

impl Inward {
    pub(super) fn new(
        endpoint: Endpoint,
        host: &str,
        numbers: &Numbers,
        from_client: Records,
        witness: Witness,
    ) -> Self {
        Self {
            endpoint,
            host: host.into(),
            numbers: numbers.clone(),
            from_client,
            witness,
            upload: None,
            is_ended: false,
            is_cut_off: false,
            is_malformed: false,
            is_named: false,
            is_established: false,
        }
    }

    /// What the client asks for now.
    pub(super) fn note_asked(&mut self, method: &str, target: &str) {
        self.witness.asked(method, target);
    }

    /// Whether the volunteer is to be told how much of what it sent has been taken.
    pub(super) fn owes_receipt(&self) -> bool {
        self.from_client.owe_receipt()
    }

    /// What it is to be told, once.
    pub(super) fn poll_receipt(&mut self) -> Option<u64> {
        self.from_client.poll_receipt()
    }

    /// The body that follows a head, for the server behind.
    pub(super) fn begin(&mut self, coding: Coding) -> RequestBody {
        let (left, len) = match coding {
            Coding::None | Coding::Length(0) => return RequestBody::none(),
            Coding::Length(len) => (Left::Length(len), Some(len)),
            Coding::Chunks => (Left::Chunks(Chunks::default()), None),
        };
        let (body, to_server) = RequestBody::with_len(len);
        self.upload = Some(Upload {
            left,
            waiting: VecDeque::new(),
            to_server: Some(to_server),
        });
        self.decode();
        body
    }

    /// Whether the client has still to send some of its request's body.
    pub(super) fn is_uploading(&self) -> bool {
        self.upload.is_some()
    }

    /// Whether it is the client's turn: there is more of the body to come, and nothing that the
    /// server has still to take.
    pub(super) fn awaits_client(&self) -> bool {
        self.upload
            .as_ref()
            .is_some_and(|upload| upload.waiting.is_empty())
    }

    /// Whether the request's body has ended before its end.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Whether what came of the request's body is not in chunks. Where another request would begin
    /// is not known then, and whatever comes is read over.
    pub(super) fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    /// Whether the client said, or showed, that nothing more comes.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended || self.endpoint.is_closed()
    }

    /// What comes of the body from here on is read over.
    pub(super) fn discard(&mut self) {
        if let Some(upload) = &mut self.upload {
            upload.to_server = None;
        }
        self.decode();
    }

    /// Reads over what has come of a head that is too long: whether its end was there.
    pub(super) fn discard_head(&mut self) -> bool {
        let received = self.endpoint.received();
        let is_whole = http::ends_head(received);
        // The end, of three bytes at most, may come in parts.
        let read = received.len().saturating_sub(2);
        received.drain(..read);
        is_whole
    }

    /// Whether [`Self::step`] has anything to do or to wait for. Where there is as much as a head
    /// may have, one more record shows whether it is too long.
    pub(super) fn has_more(&mut self) -> bool {
        let waits = self
            .upload
            .as_ref()
            .is_some_and(|upload| !upload.waiting.is_empty());
        waits || (!self.is_ended() && self.endpoint.received().len() <= MAX_HEAD)
    }

    /// Hands on one piece, or takes in one record. May be dropped at any time, and nothing is lost
    /// by it.
    pub(super) async fn step(&mut self) -> Result<(), Failed> {
        if let Some(upload) = &mut self.upload
            && !upload.waiting.is_empty()
        {
            let mut is_wanted = true;
            if let Some(to_server) = &upload.to_server {
                match to_server.reserve().await {
                    Ok(place) => {
                        if let Some(piece) = upload.waiting.pop_front() {
                            place.send(piece);
                        }
                    }
                    Err(_) => is_wanted = false,
                };
            }
            if !is_wanted {
                upload.to_server = None;
            }
            self.decode();
            return Ok(());
        }
        match self.from_client.recv().await {
            Some(bytes) => {
                self.take_in(&bytes)?;
                self.decode();
            }
            None => self.end(),
        }
        if self.is_ended() {
            // What was not whole by now will not be. The server sees it by the sender that is gone.
            self.is_cut_off |= self.upload.as_ref().is_some_and(|upload| !upload.is_over());
            self.upload = self.upload.take().filter(Upload::is_over);
        }
        Ok(())
    }

    /// Says that nothing more comes. Who is silent from here on has not gone without a word.
    pub(super) fn close(&mut self) {
        self.endpoint.close();
        self.is_ended = true;
    }

    /// What a client says last, when nothing more is said to it: an alert, or nothing. Its content
    /// is of no interest any more.
    pub(super) async fn last_word(&mut self) -> Option<Result<(), Failed>> {
        let Some(bytes) = self.from_client.recv().await else {
            self.end();
            return None;
        };
        let taken = self.take_in(&bytes);
        self.endpoint.received().clear();
        Some(taken)
    }

    /// The client is gone. Without a word it may also have been cut off.
    fn end(&mut self) {
        if !self.is_ended && self.is_established && !self.endpoint.is_closed() {
            self.numbers.vanished.add(1);
        }
        self.is_ended = true;
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let received = self.endpoint.receive(bytes);
        if let Err(error) = &received {
            self.count(error);
            // It has said what there is to say.
            self.is_ended = true;
        }
        let numbers = &self.numbers;
        if !self.is_named
            && let Some(name) = self.endpoint.server_name()
        {
            self.is_named = true;
            if !name.eq_ignore_ascii_case(&self.host) {
                numbers.misdirected.add(1);
            }
        }
        if !self.is_established && self.endpoint.is_established() {
            self.is_established = true;
            if self.endpoint.is_resumed() {
                numbers.resumed.add(1);
            }
        }
        Ok(received?)
    }

    fn count(&self, error: &rustls::Error) {
        let numbers = &self.numbers;
        match error {
            // What a client says when a record is not what the server vouched for, or not in its
            // place.
            rustls::Error::AlertReceived(
                AlertDescription::BadRecordMac
                | AlertDescription::DecryptError
                | AlertDescription::RecordOverflow
                | AlertDescription::DecodeError
                | AlertDescription::UnexpectedMessage,
            ) => {
                numbers.refused_by_clients.add(1);
                // Before, anybody on the way can say it in the client's name.
                if self.endpoint.is_established() {
                    self.witness.note(Event::Refused);
                }
            }
            // What it says of a certificate that is not the one it looks for. Nobody has
            // authenticated it: it is counted, and makes no report.
            rustls::Error::AlertReceived(
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA,
            ) => {
                numbers.distrusted.add(1);
                self.witness.note(Event::Distrusted);
            }
            rustls::Error::DecryptError => {
                numbers.forged_by_clients.add(1);
                if self.endpoint.is_established() {
                    self.witness.note(Event::Forged);
                }
            }
            _ => {}
        }
    }

    /// Makes a piece of what has come of the body.
    fn decode(&mut self) {
        if self.is_malformed {
            self.endpoint.received().clear();
        }
        let Some(upload) = &mut self.upload else {
            return;
        };
        if upload.waiting.is_empty() && !upload.is_over() {
            let Ok(content) = upload.left.take(self.endpoint.received()) else {
                self.is_malformed = true;
                self.endpoint.received().clear();
                // The server sees it by the sender that is gone.
                self.upload = None;
                return;
            };
            if !content.is_empty() {
                upload.waiting.push_back(Piece::Data(content.into()));
            }
            if upload.is_over() {
                upload.waiting.push_back(Piece::End);
            }
        }
        if upload.to_server.is_none() {
            upload.waiting.clear();
        }
        if upload.waiting.is_empty() && upload.is_over() {
            self.upload = None;
        }
    }
}

impl Upload {
    /// Whether all of the body has come.
    fn is_over(&self) -> bool {
        match &self.left {
            Left::Length(left) => *left == 0,
            Left::Chunks(chunks) => chunks.is_over(),
        }
    }
}

impl Left {
    /// What there is of the body at the front of `received`.
    fn take(&mut self, received: &mut Vec<u8>) -> Result<Vec<u8>, Malformed> {
        match self {
            Self::Length(left) => {
                let all = usize::try_from(*left).unwrap_or(usize::MAX);
                let len = received.len().min(all);
                *left -= len as u64;
                Ok(received.drain(..len).collect())
            }
            Self::Chunks(chunks) => chunks.take(received),
        }
    }
}
