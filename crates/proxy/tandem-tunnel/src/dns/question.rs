//! What is asked: a name, a type and the client's wishes, at both sides.
//!
//! Is not: the client's message, of which it is a part (`request`).
//!
//! Invariants: the class is IN; the type is one that records can have; the name is whole, in the
//! client's case, so that a resolver's reply can be held against it.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use hickory_proto::serialize::binary::{BinDecodable as _, BinDecoder, BinEncodable, BinEncoder};
use tandem_link::tunnel::{DnsQuery, DnsWishes, Malformed};

/// Longest answer over UDP, of this side's resolver and to a client: what crosses every path
/// unfragmented (RFC 9715, section 3.2 and appendix A).
pub(super) const MAX_UDP: u16 = 1232;

/// Types from here to 255 are of questions and of messages, not of records (RFC 6895, section 3.1).
const META: u16 = 128;
const ANY: u16 = 255;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub(super) query: Query,
    /// The name as in a message.
    name: Vec<u8>,
    wishes: DnsWishes,
}

/// Questions of the same key have the same answer: the name without its case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    name: Vec<u8>,
    kind: u16,
    wishes: DnsWishes,
}

impl Key {
    /// Bytes that it takes.
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
}

/// Why a question is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotPassed {
    /// Everything of a name: an answer that says nothing reliable (RFC 8482).
    Any,
    /// A transfer of a zone, another class, or no type of records.
    Kind,
}

/// Whether a question of this class and type is passed on.
pub(super) fn passes(class: DNSClass, kind: RecordType) -> Result<(), NotPassed> {
    match (class, u16::from(kind)) {
        (DNSClass::IN, ANY) => Err(NotPassed::Any),
        // OPT is a part of messages.
        (DNSClass::IN, 0 | 41 | META..ANY) => Err(NotPassed::Kind),
        (DNSClass::IN, _) => Ok(()),
        (
            DNSClass::CH
            | DNSClass::HS
            | DNSClass::NONE
            | DNSClass::ANY
            | DNSClass::OPT(_)
            | DNSClass::Unknown(_),
            _,
        ) => Err(NotPassed::Kind),
    }
}

impl Question {
    /// The question of a message; `None` for a name that cannot be written again.
    pub(super) fn new(query: Query, wishes: DnsWishes) -> Option<Self> {
        let name = written(query.name())?;
        Some(Self {
            query,
            name,
            wishes,
        })
    }

    /// The question that has crossed.
    ///
    /// # Errors
    /// [`Malformed`] for what no client side asks.
    pub fn of_link(crossed: &DnsQuery) -> Result<Self, Malformed> {
        let name = [&crossed.name[..], &[0]].concat();
        let mut decoder = BinDecoder::new(&name);
        let name = Name::read(&mut decoder).map_err(|_| Malformed)?;
        if !decoder.is_empty() {
            return Err(Malformed);
        }
        let query = Query::query(name, crossed.kind.into());
        passes(query.query_class(), query.query_type()).map_err(|_| Malformed)?;
        Self::new(query, crossed.wishes).ok_or(Malformed)
    }

    /// As it crosses.
    pub fn to_link(&self) -> DnsQuery {
        DnsQuery {
            wishes: self.wishes,
            kind: self.query.query_type().into(),
            // The zero at its end goes without saying.
            name: self.name[..self.name.len().saturating_sub(1)].to_vec(),
        }
    }

    /// Under what its answer is kept.
    pub fn key(&self) -> Key {
        Key {
            name: self.name.to_ascii_lowercase(),
            kind: self.query.query_type().into(),
            wishes: self.wishes,
        }
    }

    /// What the client wants beside the records.
    pub fn wishes(&self) -> DnsWishes {
        self.wishes
    }

    /// The message that asks a resolver, under this identifier. `None` where it cannot be written,
    /// which no question is known to cause.
    pub fn message(&self, id: u16) -> Option<Vec<u8>> {
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = self.wishes.recursion;
        message.metadata.checking_disabled = self.wishes.no_checks;
        // RFC 6840, section 5.7: the answer then says whether it was checked, signatures or not.
        message.metadata.authentic_data = true;
        message.add_query(self.query.clone());
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP);
        edns.set_dnssec_ok(self.wishes.signatures);
        message.set_edns(edns);
        message.to_vec().ok()
    }
}

/// A name, or what else the library writes, alone.
pub(super) fn written(part: &impl BinEncodable) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    part.emit(&mut BinEncoder::new(&mut bytes)).ok()?;
    Some(bytes)
}
