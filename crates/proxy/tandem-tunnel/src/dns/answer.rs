//! A resolver's answer: from its message to what crosses, and from there to what is kept.
//!
//! Is: where records begin and end, their times to live, how long all of it may be kept. Is not:
//! what a record says; of none but the SOA record is anything read.
//!
//! Invariants: records cross as the resolver wrote them, and are read at the near side in the place
//! in which they were, so that compressed names in them stay right; EDNS, which belongs to one hop
//! (RFC 6891, section 6.2.1), does not cross.

use std::ops::Range;

use hickory_proto::op::{Header, HeaderCounts, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::{Name, RecordType};
use hickory_proto::serialize::binary::{
    BinDecodable as _, BinDecoder, BinEncodable as _, BinEncoder, DecodeError,
};
use tandem_link::tunnel::{DnsAnswer, DnsCounts, DnsState, Malformed};

use super::question::Question;

/// Longest that an answer is kept, in seconds: a day, as resolvers do. A TTL may be 68 years.
const MAX_TTL: u32 = 86_400;
/// The same of an answer that there is nothing (RFC 2308, section 5: one to three hours).
const MAX_NEGATIVE_TTL: u32 = 3 * 3600;
/// How long a failure is kept, so that those who ask again at once do not cost the link anything
/// (RFC 9520, section 3.2: a second at least; RFC 2308, section 7.1: five minutes at most).
const FAILURE_TTL: u32 = 5;

/// An answer at the near side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(super) state: DnsState,
    pub(super) counts: HeaderCounts,
    pub(super) records: Vec<u8>,
    pub(super) ttls: Vec<Ttl>,
    lifetime: u32,
}

/// A record's time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ttl {
    /// Where it stands in the records: four bytes.
    pub(super) at: usize,
    pub(super) seconds: u32,
}

/// What a message from where the resolver is turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// No answer to this question.
    Other,
    /// The answer is too long for UDP.
    Cut,
    /// The answer, as it crosses.
    Answer(DnsAnswer),
}

/// What crosses where the resolver gave no answer: SERVFAIL.
pub fn failure() -> DnsAnswer {
    without_records(ResponseCode::ServFail)
}

/// What crosses where nobody is to be asked: REFUSED.
pub fn refusal() -> DnsAnswer {
    without_records(ResponseCode::Refused)
}

fn without_records(code: ResponseCode) -> DnsAnswer {
    let state = DnsState {
        recursion_available: true,
        code: code.low(),
        ..DnsState::default()
    };
    DnsAnswer {
        state,
        ..DnsAnswer::default()
    }
}

/// Reads what came from where the resolver is, after `question` was asked under `id`.
pub fn hear(question: &Question, id: u16, message: &[u8]) -> Heard {
    heard(question, id, message).unwrap_or(Heard::Other)
}

fn heard(question: &Question, id: u16, message: &[u8]) -> Result<Heard, DecodeError> {
    let mut decoder = BinDecoder::new(message);
    let Header { metadata, counts } = Header::read(&mut decoder)?;
    let is_answer = metadata.id == id
        && metadata.message_type == MessageType::Response
        && metadata.op_code == OpCode::Query;
    let mut state = DnsState {
        authoritative: metadata.authoritative,
        recursion_available: metadata.recursion_available,
        authentic: metadata.authentic_data,
        code: metadata.response_code.low(),
    };
    let bare = |state| {
        Ok(Heard::Answer(DnsAnswer {
            state,
            ..DnsAnswer::default()
        }))
    };
    match counts.queries {
        _ if !is_answer => return Ok(Heard::Other),
        // Some servers say no more where they fail.
        0 if is_failure(state) => return bare(state),
        1 => {}
        _ => return Ok(Heard::Other),
    }
    // Names are the same whatever their case: some resolvers do not keep it.
    if Query::read(&mut decoder)? != question.query {
        return Ok(Heard::Other);
    }
    if metadata.truncation {
        return Ok(Heard::Cut);
    }
    let start = decoder.index();
    let rows = rows(&mut decoder, counts)?;
    let kept = rows.iter().position(|row| row.kind == RecordType::OPT);
    if let Some(edns) = kept.and_then(|index| rows.get(index)) {
        // An error that has no code without EDNS is a failure without it.
        if edns.ttl.seconds >> 24 != 0 {
            state.code = ResponseCode::ServFail.low();
            return bare(state);
        }
    }
    // EDNS is last, but for a message's own signature. What follows it is left out: names in it
    // could point behind what is taken out here.
    let kept = &rows[..kept.unwrap_or(rows.len())];
    let end = kept.last().map_or(start, |row| row.range.end);
    let count = |section| {
        let in_section = kept.iter().filter(|row| row.section == section);
        u16::try_from(in_section.count()).unwrap_or(u16::MAX)
    };
    Ok(Heard::Answer(DnsAnswer {
        state,
        counts: DnsCounts {
            answers: count(Section::Answer),
            authorities: count(Section::Authority),
            additionals: count(Section::Additional),
        },
        records: message[start..end].to_vec(),
    }))
}

impl Answer {
    /// The answer to `question` that has crossed.
    ///
    /// # Errors
    /// [`Malformed`] where it is no answer.
    pub fn of_link(question: &Question, crossed: DnsAnswer) -> Result<Self, Malformed> {
        let DnsAnswer {
            state,
            counts,
            records,
        } = crossed;
        let header = HeaderCounts {
            queries: 1,
            answers: counts.answers,
            authorities: counts.authorities,
            additionals: counts.additionals,
        };
        let front = front(question, header).ok_or(Malformed)?;
        let start = front.len();
        let message = [front, records].concat();
        if message.len() > usize::from(u16::MAX) {
            return Err(Malformed);
        }
        let mut decoder = BinDecoder::new(&message);
        decoder.read_slice(start).map_err(|_| Malformed)?;
        let rows = rows(&mut decoder, header).map_err(|_| Malformed)?;
        if !decoder.is_empty() || rows.iter().any(|row| row.kind == RecordType::OPT) {
            return Err(Malformed);
        }
        let lifetime = lifetime(state, counts, &rows);
        let ttls = rows.into_iter().map(|row| Ttl {
            at: row.ttl.at - start,
            seconds: row.ttl.seconds.min(MAX_TTL),
        });
        Ok(Self {
            state,
            counts: header,
            ttls: ttls.collect(),
            records: message[start..].to_vec(),
            lifetime,
        })
    }

    /// How long it may be kept, in seconds; 0: not at all.
    pub(super) fn lifetime(&self) -> u32 {
        self.lifetime
    }

    /// Whether the resolver has found out nothing.
    pub fn is_failure(&self) -> bool {
        is_failure(self.state)
    }

    /// Bytes that it takes.
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>() + self.records.len() + size_of::<Ttl>() * self.ttls.len()
    }
}

fn is_failure(state: DnsState) -> bool {
    state.code != ResponseCode::NoError.low() && state.code != ResponseCode::NXDomain.low()
}

/// What stands before the records: a header, and the question. What else the header says has no
/// influence on where records are.
fn front(question: &Question, counts: HeaderCounts) -> Option<Vec<u8>> {
    let metadata = Metadata::new(0, MessageType::Response, OpCode::Query);
    let mut bytes = Vec::new();
    let mut encoder = BinEncoder::new(&mut bytes);
    Header { metadata, counts }.emit(&mut encoder).ok()?;
    question.query.emit(&mut encoder).ok()?;
    Some(bytes)
}

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Answer,
    Authority,
    Additional,
}

/// A record, unread.
struct Row {
    section: Section,
    kind: RecordType,
    ttl: Ttl,
    range: Range<usize>,
}

fn rows(decoder: &mut BinDecoder<'_>, counts: HeaderCounts) -> Result<Vec<Row>, DecodeError> {
    let mut rows = Vec::new();
    for (section, count) in [
        (Section::Answer, counts.answers),
        (Section::Authority, counts.authorities),
        (Section::Additional, counts.additionals),
    ] {
        for _ in 0..count {
            rows.push(row(decoder, section)?);
        }
    }
    Ok(rows)
}

fn row(decoder: &mut BinDecoder<'_>, section: Section) -> Result<Row, DecodeError> {
    let start = decoder.index();
    Name::read(decoder)?;
    let kind = RecordType::read(decoder)?;
    decoder.read_u16()?;
    let at = decoder.index();
    let written = decoder.read_u32()?.unverified(/* each value has a meaning */);
    let length = decoder.read_u16()?.unverified(/* the next read checks it */);
    let data = decoder.index();
    decoder.read_slice(length.into())?;
    let seconds = match kind {
        // Here these are no time but a part of EDNS.
        RecordType::OPT => written,
        // RFC 2308, section 5: that there is nothing is known for as long as both permit.
        RecordType::SOA if section == Section::Authority => {
            let data = u16::try_from(data).map_err(|_| DecodeError::InsufficientBytes)?;
            let soa = SOA::read(&mut decoder.clone(data))?;
            seconds(written).min(seconds(soa.minimum))
        }
        _ => seconds(written),
    };
    Ok(Row {
        section,
        kind,
        ttl: Ttl { at, seconds },
        range: start..decoder.index(),
    })
}

/// RFC 2181, section 8: with the highest bit set it is 0.
fn seconds(written: u32) -> u32 {
    i32::try_from(written).map_or(0, i32::unsigned_abs)
}

/// How long an answer with these records may be kept.
fn lifetime(state: DnsState, counts: DnsCounts, rows: &[Row]) -> u32 {
    if is_failure(state) {
        return FAILURE_TTL;
    }
    let says_nothing = counts.answers == 0 || state.code == ResponseCode::NXDomain.low();
    let has_soa = rows
        .iter()
        .any(|row| row.section == Section::Authority && row.kind == RecordType::SOA);
    let max = match (says_nothing, has_soa) {
        // RFC 2308, section 5: without an SOA record it should not be kept.
        (true, false) => 0,
        (true, true) => MAX_NEGATIVE_TTL,
        (false, _) => MAX_TTL,
    };
    let shortest = rows.iter().map(|row| row.ttl.seconds).min();
    shortest.unwrap_or(0).min(max)
}
