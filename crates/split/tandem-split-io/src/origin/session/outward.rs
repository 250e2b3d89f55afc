//! What leaves the origin for one client: content as records, records as stubs, stubs on the
//! channel.
//!
//! Is not: which content, and when.
//!
//! Invariants: what the TLS library counts as a record is what is sealed; a payload is published
//! before its name leaves, and what cannot be published crosses in full.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tandem_split::cut::NamedBy;
use tandem_split::message::{Encodings, Greeting, Id, KeyExpose, Message, Progress, Read};
use tandem_split::object::CHUNK_LEN;
use tandem_split::seal::Mac;
use tandem_split::stub::{self, RunBuilder};
use tandem_split::{List, Payload, PayloadName, RecordType, Suite};
use tokio::io::AsyncWriteExt as _;
use tokio::time::sleep;

use super::super::Failed;
use super::super::kept::Held;
use super::super::response::Framing;
use super::Session;
use crate::tls::parts::Record;

const DATA: RecordType = RecordType::ApplicationData;
/// How long nothing may be taken of what is written: longer than a volunteer waits for a client
/// that reads nothing.
pub(in crate::origin) const STALL: Duration = Duration::from_secs(120);

impl Session {
    /// Some bytes of a body, at most a piece of its file: by reference, in full where that is not
    /// longer or nothing more can be published. `names` are theirs, where they are known. Says
    /// which are.
    pub(super) async fn send_piece(
        &mut self,
        piece: &[u8],
        names: Option<Arc<List>>,
        named_by: NamedBy,
        framing: Framing,
    ) -> Result<Arc<List>, Failed> {
        self.await_credit(piece.len()).await?;
        if framing == Framing::Chunks {
            self.literal(format!("{:x}\r\n", piece.len()).as_bytes())?;
        }
        let turn = self.await_turn(piece.len()).await?;
        let list = self.seal_piece(piece, names, named_by)?;
        drop(turn);
        if framing == Framing::Chunks {
            self.literal(b"\r\n")?;
        }
        self.flush().await?;
        Ok(list)
    }

    /// The same with a piece of a body that is kept, of this number and length, if it still is: a
    /// client that is waited for holds none in memory.
    pub(super) async fn send_kept_piece(
        &mut self,
        held: &Held,
        number: usize,
        len: usize,
    ) -> Result<bool, Failed> {
        self.await_credit(len).await?;
        let turn = self.await_turn(len).await?;
        let Some(piece) = held.piece(number) else {
            return Ok(false);
        };
        let names = Some(Arc::clone(&piece.list));
        self.seal_piece(&piece.bytes, names, NamedBy::Object)?;
        drop((piece, turn));
        self.flush().await?;
        Ok(true)
    }

    /// Writes a piece's records as stubs, once it is its turn.
    fn seal_piece(
        &mut self,
        piece: &[u8],
        names: Option<Arc<List>>,
        named_by: NamedBy,
    ) -> Result<Arc<List>, Failed> {
        let list = match names {
            Some(list) => {
                let named = &self.shared.kept.numbers().named;
                named.add(piece.len() as u64);
                list
            }
            None => Arc::new(List::of(piece)?),
        };
        let chunks: Vec<(PayloadName, &[u8])> =
            list.chunks().zip(piece.chunks(CHUNK_LEN)).collect();
        let published: Vec<bool> = chunks
            .iter()
            .map(|(name, chunk)| self.pins.payload(*name, chunk))
            .collect();
        let records: Vec<&[u8]> = chunks.iter().map(|(_, chunk)| *chunk).collect();
        let macs = self.seal(&records)?;
        let may_run = named_by == NamedBy::Object
            && chunks.len() > 1
            && self.encodings.contains(Encodings::RUN);
        if may_run && published.iter().all(|is| *is) && self.pins.list(&list) {
            let mut run = RunBuilder::new(list.name(), 0, CHUNK_LEN)?;
            for (chunk, mac) in records.iter().zip(&macs) {
                run.record(chunk.len(), mac)?;
            }
            run.finish(&mut self.out);
        } else {
            for (((name, chunk), is_published), mac) in chunks.into_iter().zip(published).zip(&macs)
            {
                if is_published {
                    stub::named(&mut self.out, self.encodings, DATA, name, chunk, mac)?;
                } else {
                    self.shared.numbers.unpublished.add(1);
                    stub::literal(&mut self.out, DATA, chunk, mac)?;
                }
            }
        }
        self.body_bytes += piece.len() as u64;
        self.shared.numbers.body_bytes.add(piece.len() as u64);
        Ok(list)
    }

    /// Content in full.
    pub(super) fn literal(&mut self, content: &[u8]) -> Result<(), Failed> {
        let parts: Vec<&[u8]> = content.chunks(CHUNK_LEN).collect();
        let macs = self.seal(&parts)?;
        for (part, mac) in parts.iter().zip(&macs) {
            stub::literal(&mut self.out, DATA, part, mac)?;
        }
        Ok(())
    }

    /// The proofs of these records of content, of at most [`CHUNK_LEN`] bytes each. What the TLS
    /// library has to say stands before them.
    fn seal(&mut self, records: &[&[u8]]) -> Result<Vec<Mac>, Failed> {
        self.write_records()?;
        if !self.is_exposed {
            return Err(Failed::NoKeys);
        }
        let macs = self.inward.endpoint.seal(records)?;
        if macs.len() != records.len() {
            return Err(Failed::NoKeys);
        }
        let len = records.iter().map(|record| record.len()).sum();
        self.credit.note_sealed(len);
        Ok(macs)
    }

    /// Whatever the TLS library has written, as messages.
    fn write_records(&mut self) -> Result<(), Failed> {
        while let Some(record) = self.inward.endpoint.poll_record() {
            match record {
                Record::Clear(bytes) => {
                    let mut messages = Vec::new();
                    let written = self.clear.push(&mut messages, &bytes)?;
                    let unpublished: Vec<&Payload> = written
                        .published
                        .iter()
                        .filter(|payload| !self.pins.payload(payload.name(), payload.bytes()))
                        .collect();
                    self.shared
                        .numbers
                        .unpublished
                        .add(unpublished.len() as u64);
                    in_full(&mut self.out, &messages, &unpublished)?;
                }
                Record::Protected {
                    key,
                    content_type,
                    content,
                    mac,
                } => {
                    if let Some(key) = key {
                        self.expose(&key)?;
                    }
                    let record_type = RecordType::from_u8(content_type).ok_or(Failed::NoKeys)?;
                    stub::literal(&mut self.out, record_type, &content, &mac)?;
                }
            }
        }
        Ok(())
    }

    /// The volunteer gets the key that hides, and never the one that vouches.
    fn expose(&mut self, key: &[u8]) -> Result<(), Failed> {
        let suite = self
            .inward
            .endpoint
            .suite()
            .and_then(Suite::from_u16)
            .ok_or(Failed::NoKeys)?;
        Message::KeyExpose(KeyExpose::new(suite, key)?).write(&mut self.out);
        self.is_exposed = true;
        Ok(())
    }

    /// Sends what has been written, and hears the client meanwhile: one that sends much before it
    /// reads is not waited for in vain.
    pub(super) async fn flush(&mut self) -> Result<(), Failed> {
        self.write_records()?;
        loop {
            if let Some(bytes) = self.inward.poll_receipt() {
                Message::Progress(Progress::Taken(bytes)).write(&mut self.out);
            }
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
        self.account.note_sent(self.out.len() as u64);
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

    /// Says, before anything else, what was agreed with the volunteer.
    pub(in crate::origin) fn answer(&mut self, greeting: Greeting) {
        Message::Greeting(greeting).write(&mut self.out);
    }

    /// Says the last word about this client: another may follow.
    pub(super) fn say_over(&mut self) -> Result<(), Failed> {
        self.write_records()?;
        Message::Progress(Progress::Over).write(&mut self.out);
        Ok(())
    }
}

/// Appends messages from before there are keys. Those that name one of the `unpublished` become the
/// records that they stand for.
fn in_full(out: &mut Vec<u8>, messages: &[u8], unpublished: &[&Payload]) -> Result<(), Failed> {
    let mut rest = messages;
    while !unpublished.is_empty()
        && let Read::Whole(message, len) = Message::read(rest)?
    {
        let is_named = |payload: &&&Payload| {
            let id = Id::Named(payload.name());
            matches!(message, Message::Stub(stub) if stub.id() == id)
        };
        match unpublished.iter().find(is_named) {
            Some(payload) => {
                let [high, low] = (payload.bytes().len() as u16).to_be_bytes();
                out.extend_from_slice(&[RecordType::Handshake.as_u8(), 3, 3, high, low]);
                out.extend_from_slice(payload.bytes());
            }
            None => out.extend_from_slice(&rest[..len]),
        }
        rest = &rest[len..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tandem_split::clear::ClearWriter;

    use super::*;

    #[test]
    fn a_certificate_that_cannot_be_published_crosses_in_full_wherever_records_are_cut() {
        let message = |kind: u8, len: usize| {
            let [_, _, high, low] = (len as u32).to_be_bytes();
            [vec![kind, 0, high, low], vec![kind; len]].concat()
        };
        let flight = [message(2, 70), message(11, 3000), message(12, 300)].concat();
        for len in [100, 1000, 3500] {
            let mut writer = ClearWriter::new(Encodings::DEFAULT);
            let (mut out, mut named) = (Vec::new(), 0);
            for fragment in flight.chunks(len) {
                let [high, low] = (fragment.len() as u16).to_be_bytes();
                let bytes = [&[22, 3, 3, high, low], fragment].concat();
                let mut messages = Vec::new();
                let written = writer.push(&mut messages, &bytes).expect("TLS");
                let unpublished: Vec<&Payload> = written.published.iter().collect();
                named += unpublished.len();
                in_full(&mut out, &messages, &unpublished).expect("messages");
            }
            let (mut rest, mut content) = (&out[..], Vec::new());
            while let Ok(Read::Whole(Message::Verbatim(record), len)) = Message::read(rest) {
                content.extend_from_slice(&record.bytes()[5..]);
                rest = &rest[len..];
            }
            assert!(rest.is_empty() && content == flight && named == 1, "{len}");
        }
    }
}
