//! The origin's record writer: plaintexts in, stubs out.
//!
//! Is: what the origin writes for each record of the server once there are keys, in whichever encoding it chooses. Is not: the choice,
//! nor the records before there are keys ([`crate::clear`]).
//!
//! Invariants: stubs go out in the order in which their MACs were made; an encoding that the volunteer does not follow is not written
//! (a literal stands in, or it is refused); what was appended when a call fails is nothing.
//!
//! Specification: the thesis, section 3.1.

use crate::error::{Breach, Error, Misuse};
use crate::message::{Encodings, MAX_MACS_LEN, Message, Run, Stub};
use crate::name::{MAX_PAYLOAD_LEN, Payload, PayloadName};
use crate::object::ObjectName;
use crate::seal::Sealer;
use crate::suite::RecordType;

/// Writes the server's records under keys as stubs.
#[derive(Debug)]
pub struct StubWriter {
    sealer: Sealer,
    encodings: Encodings,
}

impl StubWriter {
    /// One for a volunteer that follows `encodings`, as agreed in the greetings.
    #[must_use]
    pub const fn new(sealer: Sealer, encodings: Encodings) -> Self {
        Self { sealer, encodings }
    }

    /// The sealer, for its suite and sequence number.
    #[must_use]
    pub const fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Goes on under new keys, after a key update of TLS 1.3.
    pub fn rekey(&mut self, sealer: Sealer) {
        self.sealer = sealer;
    }

    /// Appends a record in full: for what is never the same twice, as headers and Finished are.
    ///
    /// # Errors
    /// As [`Sealer::seal`].
    pub fn literal(
        &mut self,
        out: &mut Vec<u8>,
        record_type: RecordType,
        plaintext: &[u8],
    ) -> Result<(), Error> {
        let mac = self.sealer.seal(record_type, plaintext)?;
        Message::Stub(Stub::literal(record_type, plaintext, &mac)).write(out);
        Ok(())
    }

    /// Appends a record by its payload's name; in full, where the volunteer does not follow such names or the name is not shorter.
    ///
    /// # Errors
    /// As [`Sealer::seal`].
    pub fn named(
        &mut self,
        out: &mut Vec<u8>,
        record_type: RecordType,
        payload: &Payload,
    ) -> Result<(), Error> {
        let needed = match payload.name() {
            PayloadName::Sha1(_) => Encodings::SHA1,
            PayloadName::Sha256(_) => Encodings::SHA256,
        };
        let longer = payload.name().as_bytes().len() >= payload.bytes().len();
        if longer || !self.encodings.contains(needed) {
            return self.literal(out, record_type, payload.bytes());
        }
        let mac = self.sealer.seal(record_type, payload.bytes())?;
        Message::Stub(Stub::named(record_type, payload.name(), &mac)).write(out);
        Ok(())
    }

    /// Begins a run over `object` from `offset` on, in records of `record_len` bytes. Nothing is written before [`RunWriter::finish`].
    ///
    /// # Errors
    /// [`Misuse::RunLength`] where no record has that length; [`Breach::Encoding`] where the volunteer does not follow runs.
    pub fn run(
        &mut self,
        object: ObjectName,
        offset: u64,
        record_len: usize,
    ) -> Result<RunWriter<'_>, Error> {
        if !self.encodings.contains(Encodings::RUN) {
            return Err(Breach::Encoding(4).into());
        }
        if record_len == 0 || record_len > MAX_PAYLOAD_LEN {
            return Err(Misuse::RunLength(record_len).into());
        }
        Ok(RunWriter {
            writer: self,
            run: Run {
                object,
                offset,
                record_len: record_len as u16,
                last_len: record_len as u16,
                count: 0,
            },
            macs: Vec::new(),
        })
    }
}

/// A run that is being made. Its records' numbers are spent as they come: one that is dropped unfinished ends the connection, since
/// the client waits for records that nobody sends.
#[derive(Debug)]
#[must_use = "the records of a run that is not finished are lost"]
pub struct RunWriter<'a> {
    writer: &'a mut StubWriter,
    run: Run,
    macs: Vec<u8>,
}

impl RunWriter<'_> {
    /// Takes the next record's plaintext: `record_len` bytes of the object, or fewer in the last.
    ///
    /// # Errors
    /// [`Misuse::RunOver`] if [`Self::is_full`]; [`Misuse::PlaintextLength`] for an empty or too long one; as [`Sealer::seal`].
    pub fn record(&mut self, plaintext: &[u8]) -> Result<(), Error> {
        if self.is_full() {
            return Err(Misuse::RunOver.into());
        }
        if plaintext.is_empty() || plaintext.len() > self.run.record_len.into() {
            return Err(Misuse::PlaintextLength(plaintext.len()).into());
        }
        let mac = self
            .writer
            .sealer
            .seal(RecordType::ApplicationData, plaintext)?;
        self.macs.extend_from_slice(mac.as_ref());
        self.run.last_len = plaintext.len() as u16;
        self.run.count += 1;
        Ok(())
    }

    /// Whether no further record can come: the last was a short one, or the message holds no more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.run.last_len < self.run.record_len
            || self.macs.len() + self.writer.sealer.suite().mac_len() > MAX_MACS_LEN
    }

    /// Appends the run, and says where in the object the next one begins. A run without records appends nothing.
    pub fn finish(self, out: &mut Vec<u8>) -> u64 {
        if self.run.count == 0 {
            return self.run.offset;
        }
        Message::Stub(Stub::run(self.run, &self.macs)).write(out);
        self.run.end().unwrap_or(u64::MAX)
    }
}
