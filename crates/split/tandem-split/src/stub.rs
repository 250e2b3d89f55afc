//! The origin's record writer: plaintexts in, stubs out.
//!
//! Is: what the origin writes for each record of the server once there are keys, in whichever
//! encoding it chooses: from plaintexts ([`StubWriter`]), or from plaintexts and the MACs that its
//! TLS library has made of them ([`literal`], [`named`], [`RunBuilder`]). Is not: the choice, nor
//! the records before there are keys ([`crate::clear`]).
//!
//! Invariants: stubs go out in the order in which their MACs were made; an encoding that the
//! volunteer does not follow is not written by a writer (a literal stands in, or it is refused); a
//! call that fails appends nothing.
//!
//! Specification: the thesis, section 3.1.

use crate::error::{Breach, Error, Misuse};
use crate::message::{Encodings, MAX_MACS_LEN, Message, Run, Stub};
use crate::name::{ObjectName, PayloadName};
use crate::payload::{MAX_PAYLOAD_LEN, Payload};
use crate::seal::{Mac, Sealer};
use crate::suite::RecordType;

/// Appends a record in full, with a MAC made elsewhere.
///
/// # Errors
/// [`Misuse::PlaintextLength`] over 2^14 bytes.
pub fn literal(
    out: &mut Vec<u8>,
    record_type: RecordType,
    plaintext: &[u8],
    mac: &Mac,
) -> Result<(), Error> {
    if plaintext.len() > MAX_PAYLOAD_LEN {
        return Err(Misuse::PlaintextLength(plaintext.len()).into());
    }
    Message::Stub(Stub::literal(record_type, plaintext, mac)).write(out);
    Ok(())
}

/// Appends a record by the name of its plaintext, with a MAC made elsewhere; in full, where the
/// volunteer does not follow such names or the name is not shorter.
///
/// # Errors
/// As [`literal`].
pub fn named(
    out: &mut Vec<u8>,
    encodings: Encodings,
    record_type: RecordType,
    name: PayloadName,
    plaintext: &[u8],
    mac: &Mac,
) -> Result<(), Error> {
    let needed = match name {
        PayloadName::Sha1(_) => Encodings::SHA1,
        PayloadName::Sha256(_) => Encodings::SHA256,
    };
    let longer = name.as_bytes().len() >= plaintext.len();
    if longer || !encodings.contains(needed) {
        return literal(out, record_type, plaintext, mac);
    }
    Message::Stub(Stub::named(record_type, name, mac)).write(out);
    Ok(())
}

/// A run that is being made of MACs that were made elsewhere.
#[derive(Debug)]
#[must_use = "the records of a run that is not finished are lost"]
pub struct RunBuilder {
    run: Run,
    macs: Vec<u8>,
    mac_len: usize,
}

impl RunBuilder {
    /// A run over `object` from `offset` on, in records of `record_len` bytes.
    ///
    /// # Errors
    /// [`Misuse::RunLength`] where no record has that length.
    pub fn new(object: ObjectName, offset: u64, record_len: usize) -> Result<Self, Error> {
        if record_len == 0 || record_len > MAX_PAYLOAD_LEN {
            return Err(Misuse::RunLength(record_len).into());
        }
        let record_len = u16::try_from(record_len).map_err(|_| Misuse::RunLength(record_len))?;
        let run = Run {
            object,
            offset,
            record_len,
            last_len: record_len,
            count: 0,
        };
        Ok(Self {
            run,
            macs: Vec::new(),
            mac_len: 0,
        })
    }

    /// Takes the next record by the length of its plaintext, `record_len` or in the last fewer, and
    /// its MAC.
    ///
    /// # Errors
    /// [`Misuse::RunOver`] if [`Self::is_full`]; [`Misuse::PlaintextLength`] for an empty or too
    /// long record; [`Misuse::MacLength`] for a MAC of another length than the first's, or for
    /// none.
    pub fn record(&mut self, len: usize, mac: &Mac) -> Result<(), Error> {
        self.check(len)?;
        let last_len = u16::try_from(len).map_err(|_| Misuse::PlaintextLength(len))?;
        let mac = mac.as_ref();
        if mac.is_empty() || (self.run.count > 0 && mac.len() != self.mac_len) {
            return Err(Misuse::MacLength(mac.len()).into());
        }
        self.mac_len = mac.len();
        self.macs.extend_from_slice(mac);
        self.run.last_len = last_len;
        self.run.count += 1;
        Ok(())
    }

    fn check(&self, len: usize) -> Result<(), Misuse> {
        if self.is_full() {
            return Err(Misuse::RunOver);
        }
        if len == 0 || len > self.run.record_len.into() {
            return Err(Misuse::PlaintextLength(len));
        }
        Ok(())
    }

    /// Whether no further record can come: the last was a short one, or the message holds no more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.run.last_len < self.run.record_len || self.macs.len() + self.mac_len > MAX_MACS_LEN
    }

    /// Appends the run, and says where in the object the next one begins. A run without records
    /// appends nothing.
    pub fn finish(self, out: &mut Vec<u8>) -> u64 {
        if self.run.count == 0 {
            return self.run.offset;
        }
        Message::Stub(Stub::run(self.run, &self.macs)).write(out);
        self.run.end().unwrap_or(u64::MAX)
    }
}

/// Writes the server's records under keys as stubs, with the MACs of a sealer.
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

    /// Goes on under new keys: those of the application behind those of the handshake, or of a key
    /// update, in TLS 1.3.
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
        literal(out, record_type, plaintext, &mac)
    }

    /// Appends a record by its payload's name; in full, where the volunteer does not follow such
    /// names or the name is not shorter.
    ///
    /// # Errors
    /// As [`Sealer::seal`].
    pub fn named(
        &mut self,
        out: &mut Vec<u8>,
        record_type: RecordType,
        payload: &Payload,
    ) -> Result<(), Error> {
        let mac = self.sealer.seal(record_type, payload.bytes())?;
        let (name, bytes) = (payload.name(), payload.bytes());
        named(out, self.encodings, record_type, name, bytes, &mac)
    }

    /// Begins a run over `object` from `offset` on, in records of `record_len` bytes. Nothing is
    /// written before [`RunWriter::finish`].
    ///
    /// # Errors
    /// [`Misuse::RunLength`] where no record has that length; [`Breach::Encoding`] where the
    /// volunteer does not follow runs.
    pub fn run(
        &mut self,
        object: ObjectName,
        offset: u64,
        record_len: usize,
    ) -> Result<RunWriter<'_>, Error> {
        if !self.encodings.contains(Encodings::RUN) {
            return Err(Breach::Encoding(4).into());
        }
        let builder = RunBuilder::new(object, offset, record_len)?;
        Ok(RunWriter {
            sealer: &mut self.sealer,
            builder,
        })
    }
}

/// A run that is being made. Its records' numbers are spent as they come: one that is dropped
/// unfinished ends the connection, since the client waits for records that nobody sends.
#[derive(Debug)]
#[must_use = "the records of a run that is not finished are lost"]
pub struct RunWriter<'a> {
    sealer: &'a mut Sealer,
    builder: RunBuilder,
}

impl RunWriter<'_> {
    /// Takes the next record's plaintext: `record_len` bytes of the object, or fewer in the last.
    ///
    /// # Errors
    /// As [`RunBuilder::record`] and [`Sealer::seal`]; no number is spent by what is refused.
    pub fn record(&mut self, plaintext: &[u8]) -> Result<(), Error> {
        self.builder.check(plaintext.len())?;
        let mac = self.sealer.seal(RecordType::ApplicationData, plaintext)?;
        self.builder.record(plaintext.len(), &mac)
    }

    /// Whether no further record can come: the last was a short one, or the message holds no more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.builder.is_full()
    }

    /// Appends the run, and says where in the object the next one begins. A run without records
    /// appends nothing.
    pub fn finish(self, out: &mut Vec<u8>) -> u64 {
        self.builder.finish(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    const DATA: RecordType = RecordType::ApplicationData;

    fn writer(encodings: Encodings) -> StubWriter {
        let sealer = Sealer::tls12(Suite::EcdheRsaAes128CbcSha, &[1; 20], 0);
        StubWriter::new(sealer.expect("a key"), encodings)
    }

    #[test]
    fn what_a_volunteer_does_not_follow_is_not_written() {
        let payload = Payload::new([7; 1_000]).expect("short");
        let sha1 = Payload::new_sha1([7; 1_000]).expect("short");
        let lengths = |encodings| {
            let mut writer = writer(encodings);
            [&payload, &sha1].map(|payload| {
                let mut out = Vec::new();
                writer.named(&mut out, DATA, payload).expect("short");
                out.len()
            })
        };
        let (literal, sha256, sha1) = (1_031, 63, 51);
        assert_eq!(lengths(Encodings::DEFAULT), [sha256, literal]);
        assert_eq!(lengths(Encodings::SHA1), [literal, sha1]);
        assert_eq!(lengths(Encodings::RUN), [literal, literal]);
        let object = ObjectName([0; 32]);
        let refused = writer(Encodings::SHA256).run(object, 0, 1).map(drop);
        assert_eq!(refused, Err(Breach::Encoding(4).into()));
    }

    #[test]
    fn a_name_that_is_not_shorter_is_not_written() {
        let payload = Payload::new([7; 32]).expect("short");
        let mut out = Vec::new();
        let mut writer = writer(Encodings::DEFAULT);
        writer.named(&mut out, DATA, &payload).expect("short");
        assert!(out.windows(32).any(|window| window == payload.bytes()));
    }

    #[test]
    fn a_run_ends_with_its_short_record_or_with_its_room() {
        let mut writer = writer(Encodings::DEFAULT);
        let mut out = Vec::new();
        let object = ObjectName([0; 32]);
        let mut run = writer.run(object, 100, 10).expect("a length");
        run.record(&[0; 10]).expect("there is room");
        assert_eq!(
            run.record(&[0; 11]),
            Err(Misuse::PlaintextLength(11).into())
        );
        assert_eq!(run.record(&[]), Err(Misuse::PlaintextLength(0).into()));
        run.record(&[0; 9]).expect("there is room");
        assert!(run.is_full());
        assert_eq!(run.record(&[0; 9]), Err(Misuse::RunOver.into()));
        assert_eq!(run.finish(&mut out), 119);
        assert_eq!(out.len(), 57 + 2 * 20);
        // What was refused has spent no number.
        assert_eq!(writer.sealer().next_sequence(), Some(2));

        let mut run = writer.run(object, 0, 1).expect("a length");
        let mut count = 0;
        while !run.is_full() {
            run.record(&[0]).expect("there is room");
            count += 1;
        }
        assert_eq!(count, MAX_MACS_LEN / 20);
        out.clear();
        assert_eq!(run.finish(&mut out), count as u64);
        assert!(Message::read(&out).is_ok());
        assert_eq!(
            writer.run(object, 0, 0).map(drop),
            Err(Misuse::RunLength(0).into())
        );
        assert!(writer.run(object, 0, MAX_PAYLOAD_LEN + 1).is_err());
        let nothing = writer.run(object, 5, 1).expect("a length");
        out.clear();
        assert_eq!((nothing.finish(&mut out), out.len()), (5, 0));
    }

    #[test]
    fn a_record_made_elsewhere_is_no_longer_than_a_record() {
        let mac = Mac::new(&[7; 20]);
        let mut out = Vec::new();
        let too_long = literal(&mut out, DATA, &[0; MAX_PAYLOAD_LEN + 1], &mac);
        assert_eq!(
            too_long,
            Err(Misuse::PlaintextLength(MAX_PAYLOAD_LEN + 1).into())
        );
        assert!(out.is_empty());
        literal(&mut out, DATA, &[0; MAX_PAYLOAD_LEN], &mac).expect("as long as it can be");
        assert!(Message::read(&out).is_ok());
    }

    #[test]
    fn all_macs_of_a_run_have_one_length_and_fill_its_room() {
        let run = || RunBuilder::new(ObjectName([3; 32]), 0, 100).expect("a length");
        let refused = run().record(100, &Mac::NONE);
        assert_eq!(refused, Err(Misuse::MacLength(0).into()));
        let mut run = run();
        let count = MAX_MACS_LEN / 32;
        assert_eq!(count * 32, MAX_MACS_LEN);
        for _ in 0..count {
            run.record(100, &Mac::new(&[7; 32])).expect("there is room");
            let other = run.record(100, &Mac::new(&[7; 20]));
            assert!(other.is_err(), "of another length");
        }
        assert!(run.is_full());
        assert_eq!(
            run.record(100, &Mac::new(&[7; 32])),
            Err(Misuse::RunOver.into())
        );
    }

    #[test]
    fn under_new_keys_the_macs_are_others() {
        let mut writer = writer(Encodings::DEFAULT);
        let (mut before, mut same, mut after) = (Vec::new(), Vec::new(), Vec::new());
        let sealer =
            |key| Sealer::tls12(Suite::EcdheRsaAes128CbcSha, &[key; 20], 0).expect("a key");
        writer.literal(&mut before, DATA, b"data").expect("short");
        writer.rekey(sealer(1));
        writer.literal(&mut same, DATA, b"data").expect("short");
        writer.rekey(sealer(2));
        writer.literal(&mut after, DATA, b"data").expect("short");
        assert_eq!(before, same);
        assert_ne!(before, after);
    }

    #[test]
    fn macs_made_elsewhere_give_the_same_stubs() {
        let mut out = Vec::new();
        let mut writer = writer(Encodings::DEFAULT);
        let payload = Payload::new([7; 100]).expect("short");
        writer.literal(&mut out, DATA, b"head").expect("short");
        writer.named(&mut out, DATA, &payload).expect("short");
        let mut run = writer.run(ObjectName([3; 32]), 0, 100).expect("a length");
        run.record(payload.bytes()).expect("there is room");
        run.finish(&mut out);

        let mut elsewhere = Vec::new();
        let sealer = Sealer::tls12(Suite::EcdheRsaAes128CbcSha, &[1; 20], 0);
        let mut sealer = sealer.expect("a key");
        let mut mac = |plaintext| {
            let mac = sealer.seal(DATA, plaintext).expect("short");
            Mac::from_slice(mac.as_ref()).expect("a MAC's length")
        };
        literal(&mut elsewhere, DATA, b"head", &mac(b"head")).expect("short");
        let payload_mac = mac(payload.bytes());
        let (name, bytes) = (payload.name(), payload.bytes());
        let known = Encodings::DEFAULT;
        named(&mut elsewhere, known, DATA, name, bytes, &payload_mac).expect("short");
        let mut run = RunBuilder::new(ObjectName([3; 32]), 0, 100).expect("a length");
        run.record(100, &mac(payload.bytes())).expect("room");
        assert_eq!(
            run.record(100, &Mac::NONE),
            Err(Misuse::MacLength(0).into())
        );
        run.finish(&mut elsewhere);
        assert_eq!(elsewhere, out);
    }
}
