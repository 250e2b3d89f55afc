//! A record without its payload: what it holds by reference, and the MAC that vouches for it.
//!
//! ```text
//!  | encoding (2) | id length (2) | id | MAC length (2) | MAC |
//!
//!  1 literal   id: the plaintext
//!  2 SHA-1     id: digest (20)
//!  3 SHA-256   id: digest (32)
//!  4 run       id: object (32) | offset (8) | record length (2) | last length (2) | number of records (2);  MAC: all of them, in order
//! ```
//!
//! Is: figure 3-2 of the thesis, with encodings 3 and 4. Is not: the check of a MAC, which the
//! client alone can make.
//!
//! Invariants: a MAC has a length that some suite has, or none where the record goes out in clear;
//! a run has at least one record, its MACs are of one length, and it is application data.
//!
//! Specification: the thesis, section 3.3.

use tandem_wire::tls::record::{MAX_FRAGMENT_LEN, MAX_PLAINTEXT_LEN};

use super::{STUB, frame, put_vec16};
use crate::error::Malformed;
use crate::name::{ObjectName, PayloadName};
use crate::read::Reader;
use crate::seal::Mac;
use crate::suite::RecordType;

/// Most bytes of MACs in a run (figure 3-2): 921 records with HMAC-SHA-1, 15 MB of an object.
pub const MAX_MACS_LEN: usize = MAX_FRAGMENT_LEN;

/// Longest body: that of a run.
pub(super) const MAX_BODY_LEN: usize = 2 + 2 + RUN_LEN + 2 + MAX_MACS_LEN;

const RUN_LEN: usize = 32 + 8 + 2 + 2 + 2;

const LITERAL: u16 = 1;
const SHA1: u16 = 2;
const SHA256: u16 = 3;
const RUN: u16 = 4;

/// A stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub<'a> {
    record_type: RecordType,
    id: Id<'a>,
    mac: &'a [u8],
}

/// What a stub's record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id<'a> {
    /// These bytes.
    Literal(&'a [u8]),
    /// The payload of this name.
    Named(PayloadName),
    /// Not one record: several, of a piece of an object.
    Run(Run),
}

/// A piece of an object, as records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The object.
    pub object: ObjectName,
    /// Where in it the first record begins, in bytes.
    pub offset: u64,
    /// Length of every record's plaintext but the last, in bytes: 1 to 2^14.
    pub record_len: u16,
    /// Length of the last record's plaintext: 1 to `record_len`.
    pub last_len: u16,
    /// Number of records, at least 1.
    pub count: u16,
}

impl Run {
    /// Length of the piece in bytes.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        u64::from(self.count - 1) * u64::from(self.record_len) + u64::from(self.last_len)
    }

    /// Where the piece ends in the object. `None` beyond what an offset can say.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.total_len())
    }

    fn parse(id: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(id);
        let run = Self {
            object: ObjectName(reader.array()?),
            offset: reader.u64()?,
            record_len: reader.u16()?,
            last_len: reader.u16()?,
            count: reader.u16()?,
        };
        reader.finish().map_err(|_| Malformed::IdLength(id.len()))?;
        let possible = run.count > 0
            && run.last_len > 0
            && run.last_len <= run.record_len
            && usize::from(run.record_len) <= MAX_PLAINTEXT_LEN;
        possible.then_some(run).ok_or(Malformed::Run)
    }

    fn to_bytes(self) -> [u8; RUN_LEN] {
        let mut id = [0; RUN_LEN];
        id[..32].copy_from_slice(&self.object.0);
        id[32..40].copy_from_slice(&self.offset.to_be_bytes());
        id[40..42].copy_from_slice(&self.record_len.to_be_bytes());
        id[42..44].copy_from_slice(&self.last_len.to_be_bytes());
        id[44..].copy_from_slice(&self.count.to_be_bytes());
        id
    }
}

impl<'a> Stub<'a> {
    /// A record in full. `plaintext` has at most 2^14 bytes.
    pub(crate) fn literal(record_type: RecordType, plaintext: &'a [u8], mac: &'a Mac) -> Self {
        debug_assert!(plaintext.len() <= MAX_PLAINTEXT_LEN);
        Self {
            record_type,
            id: Id::Literal(plaintext),
            mac: mac.as_ref(),
        }
    }

    /// A record by its payload's name.
    pub(crate) fn named(record_type: RecordType, name: PayloadName, mac: &'a Mac) -> Self {
        Self {
            record_type,
            id: Id::Named(name),
            mac: mac.as_ref(),
        }
    }

    /// Records of a piece of an object, with their MACs one behind the other.
    pub(crate) fn run(run: Run, macs: &'a [u8]) -> Self {
        debug_assert!(macs.len() <= MAX_MACS_LEN && macs.len().is_multiple_of(run.count.into()));
        Self {
            record_type: RecordType::ApplicationData,
            id: Id::Run(run),
            mac: macs,
        }
    }

    /// What the record, or each of them, holds.
    #[must_use]
    pub const fn record_type(&self) -> RecordType {
        self.record_type
    }

    /// The payload.
    #[must_use]
    pub const fn id(&self) -> Id<'a> {
        self.id
    }

    /// The MACs: one for each record; empty MACs before there are keys.
    pub fn macs(&self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let (mac, len, count) = (self.mac, self.mac_len(), self.count());
        (0..count).map(move |number| &mac[number * len..][..len])
    }

    /// All MACs, one behind the other.
    #[must_use]
    pub const fn macs_bytes(&self) -> &'a [u8] {
        self.mac
    }

    /// Number of records.
    #[must_use]
    pub fn count(&self) -> usize {
        match self.id {
            Id::Literal(_) | Id::Named(_) => 1,
            Id::Run(run) => run.count.into(),
        }
    }

    /// Length of one MAC in bytes; 0 before there are keys.
    #[must_use]
    pub fn mac_len(&self) -> usize {
        self.mac.len() / self.count()
    }

    pub(super) fn parse(record_type: RecordType, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let encoding = reader.u16()?;
        let id = reader.vec16()?;
        let mac = reader.vec16()?;
        reader.finish()?;
        let named = |error: Malformed| match error {
            Malformed::Truncated => Malformed::IdLength(id.len()),
            other => other,
        };
        let digest = |len: usize| (id.len() == len).then_some(id).ok_or(Malformed::Truncated);
        let id = match encoding {
            LITERAL if id.len() > MAX_PLAINTEXT_LEN => {
                return Err(Malformed::PlaintextLength(id.len()));
            }
            LITERAL => Id::Literal(id),
            SHA1 => Id::Named(PayloadName::Sha1(
                Reader::new(digest(20).map_err(named)?).array()?,
            )),
            SHA256 => Id::Named(PayloadName::Sha256(
                Reader::new(digest(32).map_err(named)?).array()?,
            )),
            RUN if record_type != RecordType::ApplicationData => return Err(Malformed::Run),
            RUN => Id::Run(Run::parse(id).map_err(named)?),
            other => return Err(Malformed::Encoding(other)),
        };
        let stub = Self {
            record_type,
            id,
            mac,
        };
        let is_run = matches!(id, Id::Run(_));
        let whole = mac.len().is_multiple_of(stub.count()) && mac.len() <= MAX_MACS_LEN;
        match stub.mac_len() {
            0 if !is_run && whole => Ok(stub),
            20 | 32 | 48 if whole => Ok(stub),
            _ => Err(Malformed::MacLength(mac.len())),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        frame(out, self.record_type.as_u8() | STUB, |out| {
            let mut put = |encoding: u16, id: &[u8]| {
                out.extend_from_slice(&encoding.to_be_bytes());
                put_vec16(out, id);
            };
            match &self.id {
                Id::Literal(plaintext) => put(LITERAL, plaintext),
                Id::Named(name @ PayloadName::Sha1(_)) => put(SHA1, name.as_bytes()),
                Id::Named(name @ PayloadName::Sha256(_)) => put(SHA256, name.as_bytes()),
                Id::Run(run) => put(RUN, &run.to_bytes()),
            }
            put_vec16(out, self.mac);
        });
    }
}
