//! What leaves the origin for one client: content as records, records as stubs, stubs on the channel.
//!
//! Is not: which content, and when.
//!
//! Invariants: what the TLS library counts as a record is what is sealed; a payload is published before its name leaves.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tandem_split::message::{Encodings, KeyExpose, Message};
use tandem_split::object::CHUNK_LEN;
use tandem_split::stub::StubWriter;
use tandem_split::{List, Payload, RecordType, Sealer, Suite};
use tokio::io::AsyncWriteExt as _;
use tokio::time::sleep;

use super::super::Failed;
use super::super::answer::Framing;
use super::Session;
use crate::tls::parts::{Record, ServerKeys};
use crate::tls::server::Endpoint;

/// How long nothing may be taken of what is written: longer than a volunteer waits for a client that reads nothing.
const STALL: Duration = Duration::from_secs(120);

impl Session {
    /// Some bytes of a body, at most a piece of an answer: by reference, in full where that is not longer or nothing more can be published.
    pub(super) async fn send_piece(
        &mut self,
        piece: &[u8],
        framing: Framing,
    ) -> Result<(), Failed> {
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
                run.record(&one_record(&mut self.inward.endpoint, chunk)?)?;
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
                one_record(&mut self.inward.endpoint, payload.bytes())?;
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

    /// Content in full.
    pub(super) fn literal(&mut self, content: &[u8]) -> Result<(), Failed> {
        self.inward.endpoint.send(content)?;
        self.write_records()
    }

    /// Whatever the TLS library has written, as messages.
    fn write_records(&mut self) -> Result<(), Failed> {
        while let Some(record) = self.inward.endpoint.poll_record() {
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
            .inward
            .endpoint
            .suite()
            .and_then(Suite::from_u16)
            .ok_or(Failed::NoKeys)?;
        Message::KeyExpose(KeyExpose::new(suite, &keys.cipher)?).write(&mut self.out);
        let sealer = Sealer::tls12(suite, &keys.mac, 0)?;
        self.stubs = Some(StubWriter::new(sealer, self.encodings));
        Ok(())
    }

    /// Sends what has been written, and hears the client meanwhile: one that sends much before it reads is not waited for in vain.
    pub(super) async fn flush(&mut self) -> Result<(), Failed> {
        self.write_records()?;
        loop {
            let hears = self.inward.has_more();
            let rest = &self.out[self.written..];
            let leaves = async {
                match rest {
                    [] => self.to_volunteer.flush().await.map(|()| 0),
                    rest => self.to_volunteer.write(rest).await,
                }
            };
            tokio::select! {
                biased;
                len = leaves => match (len?, rest.is_empty()) {
                    (_, true) => break,
                    (0, false) => return Err(Failed::Io(io::ErrorKind::WriteZero.into())),
                    (len, false) => self.written += len,
                },
                stepped = self.inward.step(), if hears => stepped?,
                () = sleep(STALL) => return Err(Failed::Stalled),
            }
        }
        self.sent_bytes += self.out.len() as u64;
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// The same when the client is heard no more.
    pub(super) async fn push_out(&mut self) -> Result<(), Failed> {
        self.write_records()?;
        self.to_volunteer
            .write_all(&self.out[self.written..])
            .await?;
        self.to_volunteer.flush().await?;
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
