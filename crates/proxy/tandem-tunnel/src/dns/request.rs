//! A client's message, and the replies to it.
//!
//! Is: what is understood of it, what is refused and how, what a reply looks like. Is not: where an
//! answer comes from.
//!
//! Invariants: a reply repeats the client's identifier and question, in the client's case; it has
//! EDNS where the message had it (RFC 6891, section 7); over UDP it has at most what the client
//! takes, and what does not fit is not sent in part (RFC 2181, section 9).

use std::time::Duration;

use hickory_proto::op::{
    Edns, Header, HeaderCounts, Message, MessageType, Metadata, OpCode, ResponseCode,
};
use hickory_proto::serialize::binary::{
    BinDecodable as _, BinDecoder, BinEncodable as _, BinEncoder,
};
use tandem_link::tunnel::DnsWishes;

use super::answer::Answer;
use super::question::{MAX_UDP, NotPassed, Question, passes};

/// What a client without EDNS takes over UDP (RFC 1035, section 4.2.1).
const PLAIN_UDP: u16 = 512;

/// Of a reply that has nothing but the question.
const NO_RECORDS: HeaderCounts = HeaderCounts {
    queries: 1,
    answers: 0,
    authorities: 0,
    additionals: 0,
};

/// What a stale record says that it lives, in seconds (RFC 8767, section 4).
const STALE_TTL: u32 = 30;

/// How a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram.
    Udp,
    /// On a connection.
    Tcp,
}

/// How old an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It came for this very question.
    New,
    /// It was kept for so long.
    Kept(Duration),
    /// It is past its time, and there is no other.
    Stale,
}

/// What a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Nothing that may be answered.
    Nothing,
    /// Something that is not passed on; this is the answer.
    Refused(Vec<u8>),
    /// A question.
    Question(Request),
}

/// A message with a question that is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    id: u16,
    question: Question,
    transport: Transport,
    edns: Option<u16>,
    /// RFC 6840, section 5.7: the client wants to know whether the answer was checked.
    wants_verdict: bool,
}

/// Reads what a client sent.
pub fn read(bytes: &[u8], transport: Transport) -> Asked {
    let Ok(header) = Header::read(&mut BinDecoder::new(bytes)) else {
        return Asked::Nothing;
    };
    if header.message_type != MessageType::Query {
        return Asked::Nothing;
    }
    let refused = |message: &Message| message.to_vec().map_or(Asked::Nothing, Asked::Refused);
    let mut failed = Message::response(header.id, header.op_code);
    failed.metadata.recursion_desired = header.recursion_desired;
    failed.metadata.response_code = match header.op_code {
        OpCode::Query => ResponseCode::FormErr,
        OpCode::Status | OpCode::Notify | OpCode::Update | OpCode::Unknown(_) => {
            ResponseCode::NotImp
        }
    };
    if header.op_code != OpCode::Query || header.counts.queries != 1 {
        return refused(&failed);
    }
    let Ok(message) = Message::from_vec(bytes) else {
        return refused(&failed);
    };
    let Some(query) = message.queries.first().cloned() else {
        return refused(&failed);
    };
    let edns = message.edns.as_ref();
    let wishes = DnsWishes {
        recursion: header.recursion_desired,
        no_checks: header.checking_disabled,
        signatures: edns.is_some_and(|edns| edns.flags().dnssec_ok),
    };
    let code = match (passes(query.query_class(), query.query_type()), edns) {
        (_, Some(edns)) if edns.version() > 0 => Some(ResponseCode::BADVERS),
        (Err(NotPassed::Any), _) => Some(ResponseCode::NotImp),
        (Err(NotPassed::Kind), _) => Some(ResponseCode::Refused),
        // Nothing signed for one hop is signed for the next.
        (Ok(()), _) if message.signature.is_some() => Some(ResponseCode::Refused),
        (Ok(()), _) => None,
    };
    if let Some(code) = code {
        failed.metadata.response_code = code;
        failed.add_query(query);
        if edns.is_some() {
            failed.set_edns(edns_for(wishes));
        }
        return refused(&failed);
    }
    match Question::new(query, wishes) {
        Some(question) => Asked::Question(Request {
            id: header.id,
            question,
            transport,
            edns: edns.map(Edns::max_payload),
            wants_verdict: header.authentic_data || wishes.signatures,
        }),
        None => refused(&failed),
    }
}

impl Request {
    /// What is asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// The reply with an answer to this question. `None` where it cannot be written, which no
    /// answer is known to cause.
    pub fn reply(&self, answer: &Answer, age: Age) -> Option<Vec<u8>> {
        let mut metadata = self.metadata(ResponseCode::from_low(answer.state.code));
        // What was kept is not said by whom the name belongs to.
        metadata.authoritative = answer.state.authoritative && age == Age::New;
        metadata.recursion_available = answer.state.recursion_available;
        // Signatures have an end too.
        metadata.authentic_data = answer.state.authentic && self.wants_verdict && age != Age::Stale;
        let mut records = answer.records.clone();
        for ttl in &answer.ttls {
            let seconds = match age {
                Age::New => ttl.seconds,
                Age::Kept(since) => {
                    let since = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
                    ttl.seconds.saturating_sub(since)
                }
                Age::Stale => STALE_TTL,
            };
            if let Some(place) = records.get_mut(ttl.at..ttl.at + size_of::<u32>()) {
                place.copy_from_slice(&seconds.to_be_bytes());
            }
        }
        let whole = self.message(metadata, answer.counts, &records)?;
        let max = match (self.transport, self.edns) {
            (Transport::Tcp, _) => u16::MAX,
            (Transport::Udp, None) => PLAIN_UDP,
            (Transport::Udp, Some(takes)) => takes.clamp(PLAIN_UDP, MAX_UDP),
        };
        if whole.len() <= usize::from(max) {
            return Some(whole);
        }
        metadata.truncation = true;
        self.message(metadata, NO_RECORDS, &[])
    }

    /// The reply that there is no answer: SERVFAIL.
    pub fn failure(&self) -> Option<Vec<u8>> {
        let mut metadata = self.metadata(ResponseCode::ServFail);
        metadata.recursion_available = true;
        self.message(metadata, NO_RECORDS, &[])
    }

    fn metadata(&self, code: ResponseCode) -> Metadata {
        let mut metadata = Metadata::new(self.id, MessageType::Response, OpCode::Query);
        metadata.recursion_desired = self.question.wishes().recursion;
        metadata.checking_disabled = self.question.wishes().no_checks;
        metadata.response_code = code;
        metadata
    }

    fn message(
        &self,
        metadata: Metadata,
        mut counts: HeaderCounts,
        records: &[u8],
    ) -> Option<Vec<u8>> {
        let edns = self.edns.map(|_| edns_for(self.question.wishes()));
        if edns.is_some() {
            counts.additionals = counts.additionals.checked_add(1)?;
        }
        let mut bytes = Vec::new();
        let mut encoder = BinEncoder::new(&mut bytes);
        Header { metadata, counts }.emit(&mut encoder).ok()?;
        self.question.query.emit(&mut encoder).ok()?;
        encoder.emit_vec(records).ok()?;
        if let Some(edns) = &edns {
            edns.emit(&mut encoder).ok()?;
        }
        Some(bytes)
    }
}

/// EDNS of a reply (RFC 3225, section 3: DO is repeated).
fn edns_for(wishes: DnsWishes) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(MAX_UDP);
    edns.set_dnssec_ok(wishes.signatures);
    edns
}
