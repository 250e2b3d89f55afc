//! From a query's bytes to an answer's bytes, out of one state of the zone.
//!
//! Is: what of a query is understood and what is said to it. Is not: sockets, or how often somebody
//! may ask ([`crate::limit`]).
//!
//! Invariants: any bytes are safe; nothing is said to an answer (or two servers would talk for
//! ever); an answer over UDP has at most [`UDP_MOST`] bytes and at most what was asked for; what
//! does not fit is not sent in part, the client asks over TCP (RFC 2181, section 9).

use hickory_proto::op::{Edns, Message, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};

use crate::zone::{Found, Node, Shown, Signed, Zone};

/// Longest answer over UDP in bytes: what crosses every path unfragmented (RFC 9715, section 3.2
/// and appendix A).
pub(crate) const UDP_MOST: u16 = 1232;

/// What a client without EDNS takes (RFC 1035, section 4.2.1).
const UDP_PLAIN: u16 = 512;

const HEADER_LEN: usize = 12;

/// How a query came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// Whether a client wants signatures (RFC 3225).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signatures {
    Wanted,
    Left,
}

/// The answer to a query; none where nothing may be said.
pub(crate) fn reply(zone: &Zone, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
    let request = match read(query)? {
        Ok(request) => request,
        Err(refusal) => return Some(refusal),
    };
    let mut response = begin(&request);
    let signatures = match &request.edns {
        Some(edns) if edns.version() > 0 => {
            response.metadata.response_code = ResponseCode::BADVERS;
            return response.to_vec().ok();
        }
        Some(edns) if edns.flags().dnssec_ok => Signatures::Wanted,
        Some(_) | None => Signatures::Left,
    };
    let question = request.queries.first()?;
    let (name, kind) = (question.name(), question.query_type());
    let transfer = matches!(kind, RecordType::AXFR | RecordType::IXFR);
    if question.query_class() != DNSClass::IN || transfer || !zone.apex.zone_of(name) {
        response.metadata.response_code = ResponseCode::Refused;
        return response.to_vec().ok();
    }
    response.metadata.authoritative = true;
    let mut writing = Writing {
        zone,
        response,
        signatures,
    };
    writing.answer(&name.to_lowercase(), kind);
    let most = match (transport, &request.edns) {
        (Transport::Tcp, _) => u16::MAX,
        (Transport::Udp, None) => UDP_PLAIN,
        (Transport::Udp, Some(edns)) => edns.max_payload().clamp(UDP_PLAIN, UDP_MOST),
    };
    writing.within(usize::from(most))
}

/// An answer that only sends the client to TCP, no longer than its question.
pub(crate) fn cut(query: &[u8]) -> Option<Vec<u8>> {
    match read(query)? {
        Ok(request) => {
            let mut response = begin(&request);
            response.metadata.truncation = true;
            response.to_vec().ok()
        }
        Err(refusal) => Some(refusal),
    }
}

/// A query that can be answered, or what is to be said instead; nothing to what is no query.
fn read(query: &[u8]) -> Option<Result<Message, Vec<u8>>> {
    let header: &[u8; HEADER_LEN] = query.first_chunk()?;
    if header[2] & 0x80 != 0 {
        return None;
    }
    // Before anything is read by counts that it names itself.
    let questions = u16::from_be_bytes([header[4], header[5]]);
    Some(if header[2] & 0x78 != 0 {
        Err(bare(header, ResponseCode::NotImp))
    } else if questions != 1 {
        Err(bare(header, ResponseCode::FormErr))
    } else {
        Message::from_vec(query).map_err(|_| bare(header, ResponseCode::FormErr))
    })
}

/// A header alone: identifier, operation and the wish for recursion as they were, and why not.
fn bare(header: &[u8; HEADER_LEN], code: ResponseCode) -> Vec<u8> {
    let mut answer = vec![0; HEADER_LEN];
    answer[..2].copy_from_slice(&header[..2]);
    answer[2] = 0x80 | header[2] & 0x79;
    answer[3] = code.low();
    answer
}

/// What every answer has in common (RFC 6891, section 7: EDNS where the question had it).
fn begin(request: &Message) -> Message {
    let mut response = Message::response(request.metadata.id, OpCode::Query);
    response.metadata.recursion_desired = request.metadata.recursion_desired;
    response.metadata.checking_disabled = request.metadata.checking_disabled;
    response.add_queries(request.queries.iter().cloned());
    if let Some(asked) = &request.edns {
        let mut edns = Edns::new();
        edns.set_max_payload(UDP_MOST);
        edns.set_dnssec_ok(asked.flags().dnssec_ok);
        response.set_edns(edns);
    }
    response
}

/// An answer in the making.
struct Writing<'a> {
    zone: &'a Zone,
    response: Message,
    signatures: Signatures,
}

impl Writing<'_> {
    fn answer(&mut self, name: &Name, kind: RecordType) {
        match self.zone.find(name) {
            Found::Node(node) => self.of_node(name, node, kind),
            Found::Between => self.deny([Some(name.clone()), None]),
            Found::Nothing => {
                self.response.metadata.response_code = ResponseCode::NXDomain;
                let wildcard = self.zone.wildcard(name);
                self.deny([Some(name.clone()), wildcard]);
            }
        }
    }

    fn of_node(&mut self, name: &Name, node: &Node, kind: RecordType) {
        match kind {
            // One set stands for all (RFC 8482, section 4.1), or a short question would be a long
            // lever.
            RecordType::ANY => {
                if let Some(shown) = node.sets(|_| true).next() {
                    self.add_answer(shown);
                }
            }
            RecordType::RRSIG => {
                if let Some(shown) = node.sets(|_| true).next() {
                    let signatures = shown.set.signatures.iter().cloned();
                    self.response.add_answers(signatures);
                }
            }
            kind => match node.set(kind) {
                Some(shown) => {
                    self.add_answer(shown);
                    if kind == RecordType::HTTPS {
                        self.add_addresses(node);
                    }
                }
                None => self.deny([Some(name.clone()), None]),
            },
        }
    }

    fn add_answer(&mut self, shown: Shown<'_>) {
        let Shown { set, round } = shown;
        let mut records = set.records.clone();
        // Who takes the first of a set, and many do, is sent elsewhere each time.
        let first = round.checked_rem(records.len() as u64).unwrap_or(0);
        records.rotate_left(first as usize);
        self.response.add_answers(records);
        if self.signatures == Signatures::Wanted {
            self.response.add_answers(set.signatures.iter().cloned());
        }
    }

    /// RFC 9460, section 4.1: the addresses of an HTTPS record's target beside it.
    fn add_addresses(&mut self, node: &Node) {
        for kind in [RecordType::A, RecordType::AAAA] {
            let Some(Shown { set, .. }) = node.set(kind) else {
                continue;
            };
            self.response.add_additionals(set.records.iter().cloned());
            if self.signatures == Signatures::Wanted {
                let signatures = set.signatures.iter().cloned();
                self.response.add_additionals(signatures);
            }
        }
    }

    /// The SOA record, and what denies these names or types (RFC 2308, section 3; RFC 4035, section
    /// 3.1.3).
    fn deny(&mut self, names: [Option<Name>; 2]) {
        let soa = self.zone.top().and_then(|top| top.set(RecordType::SOA));
        let mut sets: Vec<&Signed> = soa.map(|shown| shown.set).into_iter().collect();
        if self.signatures == Signatures::Wanted {
            for set in names
                .iter()
                .flatten()
                .filter_map(|name| self.zone.denial(name))
            {
                if !sets.iter().any(|other| std::ptr::eq(*other, set)) {
                    sets.push(set);
                }
            }
        }
        for set in sets {
            self.response.add_authorities(set.records.iter().cloned());
            if self.signatures == Signatures::Wanted {
                let signatures = set.signatures.iter().cloned();
                self.response.add_authorities(signatures);
            }
        }
    }

    /// The bytes, shortened to a length: first without what nobody asked for, then to nothing but
    /// the news that TCP is needed.
    fn within(self, most: usize) -> Option<Vec<u8>> {
        let mut response = self.response;
        let whole = response.to_vec().ok()?;
        if whole.len() <= most {
            return Some(whole);
        }
        response.additionals.clear();
        let asked = response.to_vec().ok()?;
        if asked.len() <= most {
            return Some(asked);
        }
        response.answers.clear();
        response.authorities.clear();
        response.metadata.truncation = true;
        response.to_vec().ok()
    }
}

#[cfg(test)]
mod tests;
